// cuGetProcAddress in both its ABIs, and the answer of entry points that are not implemented.
#include "emulator/driver/driver.h"
#include "emulator/entry/proc_address.h"

namespace cugrt::emulator::api {

int unsupported_call(const char *symbol) {
  return call([&](Driver &driver) -> CUresult {
    std::string message =
        std::string(symbol) + " is not implemented by the emulated driver: see docs/emulator.md";
    // NVIDIA's libraries ask for private tables and do without: nothing to tell the user.
    if (std::string_view(symbol) == "cuGetExportTable")
      driver.set_message(std::move(message));
    else
      driver.report(Check::refused, message);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}

constexpr cuuint64_t kFlags =
    CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

static CUresult look_up(Driver &driver, const char *symbol, void **out, int version,
                        cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
  if (!symbol || !out || (flags & ~kFlags) || flags == kFlags)
    return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  // "If the specified CUDA version is greater than the driver version, the API will return
  // CUDA_ERROR_INVALID_VALUE."
  if (version > driver.config.driver_version)
    return CUDA_ERROR_INVALID_VALUE;
  Lookup found =
      find_entry_point(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  // A driver of the chosen version does not know what came after it.
  bool newer = found.known && !found.entry &&
               !find_entry_point(symbol, driver.config.driver_version, true).entry;
  if (found.entry)
    *out = found.entry->address;
  if (status)
    *status = found.entry             ? CU_GET_PROC_ADDRESS_SUCCESS
              : found.known && !newer ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

ENTRY(cuGetProcAddress_v2, symbol, out, version, flags, status) {
  return call([&](Driver &driver) { return look_up(driver, symbol, out, version, flags, status); },
              false);
}

// The CUDA 11.3 form: without a status, CUDA_ERROR_NOT_FOUND says that a name is missing.
ENTRY(cuGetProcAddress, symbol, out, version, flags) {
  return call(
      [&](Driver &driver) -> CUresult {
        CUGRT_EMU_TRY(look_up(driver, symbol, out, version, flags, nullptr));
        return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
      },
      false);
}

} // namespace cugrt::emulator::api
