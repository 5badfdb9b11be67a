// The table of host builtins, and the library's own; see host_functions.h.
#include "device/context/host_functions.h"

#include "device/context/abi_types.h"
#include "device/context/device.h"
#include "device/driver/driver_error.h"
#include "plan/format/host_builtins.h"

namespace cugrt::runtime {

/// host "cugrt.count": reads one number from the device.
static Status count(const Device &device, std::span<const cugrt_value> arguments,
                    std::span<cugrt_value> results, CUstream stream) {
  if (arguments.size() != 1 || results.size() != 1 || arguments[0].kind != CUGRT_VALUE_TENSOR ||
      results[0].kind != CUGRT_VALUE_TENSOR || arguments[0].as.tensor.dtype != CUGRT_I64)
    return Status::error(Code::invalid_argument, "it takes a tensor of i64 and gives one of u8");
  int64_t value = 0;
  const driver::DriverApi &api = device.api();
  CUGRT_DRIVER(api, MemcpyDtoHAsync, (&value, arguments[0].as.tensor.address, sizeof value, stream),
               "a count");
  CUGRT_TRY(driver::StreamRef(&api, stream).synchronize());
  if (value < 0)
    return Status::error(Code::out_of_range, "the count is " + std::to_string(value));
  cugrt_tensor &told = results[0].as.tensor;
  told.dtype = CUGRT_U8, told.rank = 2;
  told.dims[0] = value, told.dims[1] = 0;
  return {};
}

static cugrt_status *count_entry(void *user, const cugrt_value *arguments, size_t argument_count,
                                 cugrt_value *results, size_t result_count, void *stream) {
  return give_status(count(*static_cast<const Device *>(user), {arguments, argument_count},
                           {results, result_count}, static_cast<CUstream>(stream)));
}

void HostFunctions::add_builtins(Device &device) {
  add(std::string(ir::kCountBuiltin), {count_entry, &device});
}

void HostFunctions::add(const std::string &name, HostFunction function) {
  std::unique_lock lock(mutex_);
  functions_[name] = function;
}

Result<HostFunction> HostFunctions::find(const std::string &name) const {
  std::shared_lock lock(mutex_);
  auto it = functions_.find(name);
  if (it == functions_.end())
    return Status::error(Code::not_found, "host function \"" + name +
                                              "\" is not registered; register it with the runtime "
                                              "before the module is run");
  return it->second;
}

} // namespace cugrt::runtime
