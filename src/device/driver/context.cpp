// Contexts and the guard that makes one current.
#include "device/driver/context.h"

#include "device/driver/driver_error.h"

namespace cugrt::driver {

Result<ContextGuard> ContextGuard::enter(const DriverApi &api, CUcontext context) {
  RelaxedCapture relaxed(api);
  CUcontext current = nullptr;
  CUGRT_DRIVER(api, CtxGetCurrent, (&current), "");
  if (current == context)
    return ContextGuard(std::move(relaxed), nullptr);
  CUGRT_DRIVER(api, CtxPushCurrent, (context), "");
  return ContextGuard(std::move(relaxed), &api);
}

ContextGuard::~ContextGuard() {
  CUcontext popped;
  if (api_)
    (void)api_->CtxPopCurrent(&popped);
}

Result<Context> Context::retain_primary(const DriverApi &api, int ordinal) {
  int count = 0;
  CUGRT_DRIVER(api, DeviceGetCount, (&count), "");
  if (ordinal < 0 || ordinal >= count)
    return Status::error(Code::not_found, "there is no device " + std::to_string(ordinal) +
                                              ": the driver has " + std::to_string(count));
  Context context;
  context.api_ = &api;
  std::string object = "device " + std::to_string(ordinal);
  CUGRT_DRIVER(api, DeviceGet, (&context.device_, ordinal), object);
  RelaxedCapture relaxed(api); // the first one makes the context
  CUGRT_DRIVER(api, DevicePrimaryCtxRetain, (&context.context_, context.device_), object);
  context.retained_ = RetainedHandle(&api, nullptr, {context.device_ + 1});
  CUGRT_TRY(context.describe());
  return context;
}

Result<Context> Context::make_green(const DriverLibrary &library, int ordinal,
                                    uint32_t multiprocessors) {
  if (!library.capabilities().green_contexts)
    return driver_lacks("multiprocessors, a part of a device's,", 12040);
  const DriverApi &api = library.api;
  CUGRT_ASSIGN(Context context, retain_primary(api, ordinal));
  const std::string object = "multiprocessors " + std::to_string(multiprocessors);
  CUdevResource all{}, part{};
  CUGRT_DRIVER(api, DeviceGetDevResource, (context.device_, &all, CU_DEV_RESOURCE_TYPE_SM), object);
  unsigned parts = 1;
  CUresult result = CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  if (multiprocessors <= all.sm.smCount)
    result = api.DevSmResourceSplitByCount(&part, &parts, &all, nullptr, 0, multiprocessors);
  if (result == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION || parts == 0)
    return Status::error(Code::invalid_argument,
                         object + ": the device has " + std::to_string(all.sm.smCount) +
                             ", which the driver divides into groups of several; without the "
                             "option there are all of them");
  if (result != CUDA_SUCCESS)
    return driver_error(api, result, "cuDevSmResourceSplitByCount", object);
  CUdevResourceDesc description = nullptr;
  CUGRT_DRIVER(api, DevResourceGenerateDesc, (&description, &part, 1), object);
  CUgreenCtx green = nullptr;
  CUGRT_DRIVER(api, GreenCtxCreate,
               (&green, description, context.device_, CU_GREEN_CTX_DEFAULT_STREAM), object);
  context.green_ = GreenHandle(&api, nullptr, green);
  CUGRT_DRIVER(api, CtxFromGreenCtx, (&context.context_, green), object);
  CUGRT_DRIVER(api, GreenCtxGetDevResource, (green, &part, CU_DEV_RESOURCE_TYPE_SM), object);
  context.multiprocessors_ = static_cast<int>(part.sm.smCount);
  return context;
}

Result<Context> Context::borrow(const DriverApi &api, CUcontext handle) {
  if (!handle)
    return Status::error(Code::invalid_argument, "the context is null");
  Context context;
  context.api_ = &api;
  context.context_ = handle;
  CUGRT_ASSIGN(ContextGuard guard, ContextGuard::enter(api, handle));
  CUGRT_DRIVER(api, CtxGetDevice, (&context.device_), "");
  CUGRT_TRY(context.describe());
  return context;
}

Status Context::describe() {
  CUGRT_ASSIGN(int major, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  CUGRT_ASSIGN(int minor, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  capability_ = major * 10 + minor;
  memory_of_ = context_;
  architecture_ = "sm_" + std::to_string(capability_);
  CUGRT_ASSIGN(ContextGuard guard, enter());
  CUstream copies = nullptr;
  CUGRT_DRIVER(*api_, StreamCreate, (&copies, CU_STREAM_NON_BLOCKING), "copies");
  copies_ = CopyStreamHandle(api_, context_, copies);
  return {};
}

Result<int> Context::attribute(CUdevice_attribute attribute) const {
  if (is_green() && attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    return multiprocessors_;
  int value = 0;
  CUGRT_DRIVER(*api_, DeviceGetAttribute, (&value, attribute, device_),
               "attribute " + std::to_string(static_cast<int>(attribute)));
  return value;
}

Status Context::synchronize() const {
  CUGRT_ASSIGN(ContextGuard guard, enter());
  CUGRT_DRIVER(*api_, CtxSynchronize, (), "");
  return {};
}

Result<Context::Memory> Context::memory() const {
  CUGRT_ASSIGN(ContextGuard guard, enter());
  size_t free_bytes = 0, total_bytes = 0;
  CUGRT_DRIVER(*api_, MemGetInfo, (&free_bytes, &total_bytes), "");
  return Memory{free_bytes, total_bytes};
}

} // namespace cugrt::driver
