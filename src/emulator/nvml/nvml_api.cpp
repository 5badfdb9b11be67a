// NVML of the emulated device: answers of libnvidia-ml.so.1 to programs that then use a device. It
// agrees with what the driver says of the same process. No call of it counts as the driver's, or
// fails by CUGRT_EMU_FAIL_CALL. Answers follow NVML's reference manual ("nvmlReturn_t", the
// functions by name).
#include "emulator/nvml/nvml_types.h"

#include "emulator/driver/device_limits.h"
#include "emulator/driver/driver.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator::api {

namespace {

std::atomic<unsigned> initializations{0};

nvmlDevice_t the_device() {
  static char device;
  return reinterpret_cast<nvmlDevice_t>(&device);
}

/// Body gets the driver; before nvmlInit nothing is answered.
template <class Body> nvmlReturn_t nvml_call(Body &&body) {
  if (!initializations)
    return NVML_ERROR_UNINITIALIZED;
  try {
    return body(Driver::instance());
  } catch (const std::bad_alloc &) {
    return NVML_ERROR_MEMORY;
  } catch (...) { // a broken invariant in the emulator
    return NVML_ERROR_UNKNOWN;
  }
}

template <class Body> nvmlReturn_t nvml_device_call(nvmlDevice_t device, Body &&body) {
  return nvml_call([&](Driver &driver) -> nvmlReturn_t {
    return device == the_device() ? body(driver) : NVML_ERROR_INVALID_ARGUMENT;
  });
}

template <class T> nvmlReturn_t answer(T *out, const std::type_identity_t<T> &value) {
  if (!out)
    return NVML_ERROR_INVALID_ARGUMENT;
  *out = value;
  return NVML_SUCCESS;
}

nvmlReturn_t give_text(char *out, unsigned bytes, const std::string &text) {
  if (!out)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (bytes <= text.size())
    return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

/// The driver that brought the version of CUDA, by the branch of NVIDIA's releases.
struct Release {
  int cuda;
  const char *driver;
};
constexpr Release kReleases[] = {{12020, "535.54.03"}, {12030, "545.23.06"}, {12040, "550.54.14"},
                                 {12060, "560.28.03"}, {12080, "570.26"},    {13000, "580.65.06"},
                                 {13010, "590.44.01"}, {13020, "595.45"},    {13030, "610.43"},
                                 {13040, "610.43"},    {13050, "615.71"}};

std::string driver_release(const Driver &driver) {
  const auto *found =
      std::find_if(std::begin(kReleases), std::end(kReleases),
                   [&](const Release &row) { return row.cuda == driver.config.driver_version; });
  return found == std::end(kReleases) ? "0" : found->driver;
}

/// "GPU-" and the bytes that cuDeviceGetUuid gives, as NVML writes them.
std::string uuid_text(const Driver &driver) {
  const CUuuid uuid = device_uuid(*driver.config.profile);
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    char byte[3];
    snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(byte);
  }
  return text;
}

struct MemoryUse {
  uint64_t total = 0, used = 0;
};

MemoryUse memory_use(Driver &driver) {
  Lock lock(driver.mutex);
  if (!driver.allocations) // before cuInit
    return {driver.config.memory_bytes, 0};
  return {driver.allocations->total_bytes(), driver.allocations->used_bytes()};
}

std::string nvml_release(const Driver &driver) {
  return std::to_string(driver.config.driver_version / 1000) + "." + driver_release(driver);
}

constexpr char kBusId[] = "00000000:00:01.0", kShortBusId[] = "0000:00:01.0";
constexpr unsigned kPciDevice = 1;

nvmlReturn_t find_by_uuid(const Driver &driver, const char *uuid, nvmlDevice_t *device) {
  if (!uuid)
    return NVML_ERROR_INVALID_ARGUMENT;
  return uuid == uuid_text(driver) ? answer(device, the_device()) : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t find_by_bus_id(const char *bus_id, nvmlDevice_t *device) {
  if (!bus_id)
    return NVML_ERROR_INVALID_ARGUMENT;
  const bool ours = !std::strcmp(bus_id, kBusId) || !std::strcmp(bus_id, kShortBusId);
  return ours ? answer(device, the_device()) : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t tell_memory(Driver &driver, nvmlMemory_t *memory) {
  const MemoryUse use = memory_use(driver);
  return answer(memory, {use.total, use.total - use.used, use.used});
}

nvmlReturn_t tell_memory(Driver &driver, nvmlMemory_v2_t *memory) {
  constexpr unsigned kVersion = sizeof(nvmlMemory_v2_t) | 2u << 24;
  if (!memory)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != kVersion)
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const MemoryUse use = memory_use(driver);
  return answer(memory, {kVersion, use.total, 0, use.total - use.used, use.used});
}

nvmlReturn_t give_capability(const DeviceProfile &profile, int *major, int *minor) {
  if (!major || !minor)
    return NVML_ERROR_INVALID_ARGUMENT;
  *major = profile.major, *minor = profile.minor;
  return NVML_SUCCESS;
}

unsigned architecture_of(int capability) {
  enum : unsigned { kTuring = 6, kAmpere = 7, kAda = 8, kHopper = 9, kBlackwell = 10 };
  return capability < 80    ? kTuring
         : capability < 89  ? kAmpere
         : capability < 90  ? kAda
         : capability < 100 ? kHopper
                            : kBlackwell;
}

nvmlPciInfo_t pci_info() {
  nvmlPciInfo_t info{};
  std::strcpy(info.bus_id_legacy, kShortBusId);
  std::strcpy(info.bus_id, kBusId);
  info.device = kPciDevice;
  return info;
}

nvmlPciInfo_v2_t pci_info_v2() {
  nvmlPciInfo_v2_t info{};
  std::strcpy(info.bus_id, kShortBusId);
  info.device = kPciDevice;
  return info;
}

} // namespace

} // namespace cugrt::emulator::api

using namespace cugrt::emulator;
using namespace cugrt::emulator::api;

#pragma GCC visibility push(default)
extern "C" {

nvmlReturn_t nvmlInitWithFlags(unsigned) { // without a device there is nothing to be lenient about
  if (!Driver::instance().config.problem.empty())
    return NVML_ERROR_DRIVER_NOT_LOADED;
  ++initializations;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlInit() { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlInit_v2() { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown() {
  for (unsigned now = initializations; now;)
    if (initializations.compare_exchange_weak(now, now - 1))
      return NVML_SUCCESS;
  return NVML_ERROR_UNINITIALIZED;
}

const char *nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
#define NVML_ERROR_ROW(name, value, text)                                                          \
  case name:                                                                                       \
    return text;
#include "emulator/nvml/nvml_errors.def"
#undef NVML_ERROR_ROW
  }
  return "Unknown Error";
}

#define NVML_CALL(function, parameters, ...)                                                       \
  nvmlReturn_t function parameters {                                                               \
    return nvml_call([&](Driver &driver) -> nvmlReturn_t { return __VA_ARGS__; });                 \
  }
#define NVML_DEVICE_CALL(function, parameters, ...)                                                \
  nvmlReturn_t function parameters {                                                               \
    return nvml_device_call(device, [&](Driver &driver) -> nvmlReturn_t { return __VA_ARGS__; });  \
  }
#include "emulator/nvml/answers.def"

#define NVML_NOT_SUPPORTED(function)                                                               \
  nvmlReturn_t function() {                                                                        \
    return nvml_call([](Driver &) { return NVML_ERROR_NOT_SUPPORTED; });                           \
  }
#include "emulator/nvml/not_supported.def"

} // extern "C"
#pragma GCC visibility pop
