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
  context.retained_ = UniqueHandle<RetainedTraits>(&api, nullptr, {context.device_ + 1});
  CUGRT_TRY(context.describe());
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

Result<Context> Context::borrow_current(const DriverApi &api) {
  CUcontext current = nullptr;
  CUGRT_DRIVER(api, CtxGetCurrent, (&current), "");
  if (!current)
    return Status::error(Code::not_found, "the calling thread has no current CUDA context: make "
                                          "one current, or let cugrt use the device's primary one");
  return borrow(api, current);
}

Status Context::describe() {
  CUGRT_ASSIGN(int major, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  CUGRT_ASSIGN(int minor, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  capability_ = major * 10 + minor;
  architecture_ = "sm_" + std::to_string(capability_);
  CUGRT_ASSIGN(ContextGuard guard, enter());
  CUstream copies = nullptr;
  CUGRT_DRIVER(*api_, StreamCreate, (&copies, CU_STREAM_NON_BLOCKING), "copies");
  copies_ = UniqueHandle<CopyStreamTraits>(api_, context_, copies);
  return {};
}

Result<int> Context::attribute(CUdevice_attribute attribute) const {
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
