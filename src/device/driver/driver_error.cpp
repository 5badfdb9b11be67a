// CUresult to Status: classes, texts and remedies.
//
// The sticky class is what cuda.h documents with "leaves the process in an inconsistent state",
// plus three that end the device's use as surely: a destroyed context, uncorrectable memory and
// link errors, and a driver that is shutting down.
#include "device/driver/driver_error.h"

namespace cugrt::driver {

namespace {

struct ErrorRow {
  CUresult result;
  ErrorClass error_class;
  const char *remedy; // may be null
};

constexpr const char *kFaultRemedy =
    "CUDA has ended in this process: restart it, and run under compute-sanitizer or the emulated "
    "driver to find the access";
constexpr const char *kDeviceRemedy = "CUDA has ended in this process: restart it";
constexpr const char *kCaptureRemedy =
    "the stream is being captured, which cugrt does not take part in: run on another stream, or "
    "end the capture first";

constexpr ErrorRow kErrors[] = {
    {CUDA_SUCCESS, ErrorClass::none, nullptr},
    {CUDA_ERROR_NOT_READY, ErrorClass::not_ready, nullptr},
    {CUDA_ERROR_OUT_OF_MEMORY, ErrorClass::out_of_memory, nullptr},

    {CUDA_ERROR_ILLEGAL_ADDRESS, ErrorClass::sticky, kFaultRemedy},
    {CUDA_ERROR_MISALIGNED_ADDRESS, ErrorClass::sticky, kFaultRemedy},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE, ErrorClass::sticky, kFaultRemedy},
    {CUDA_ERROR_INVALID_PC, ErrorClass::sticky, kFaultRemedy},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, ErrorClass::sticky, kFaultRemedy},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, ErrorClass::sticky, kFaultRemedy},
    {CUDA_ERROR_LAUNCH_FAILED, ErrorClass::sticky, kFaultRemedy},
    {CUDA_ERROR_ASSERT, ErrorClass::sticky, "a device assertion failed; restart the process"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, ErrorClass::sticky,
     "a kernel ran into the display driver's time limit; restart the process"},
    {CUDA_ERROR_TENSOR_MEMORY_LEAK, ErrorClass::sticky, kFaultRemedy},
    {CUDA_ERROR_CONTAINED, ErrorClass::sticky, kDeviceRemedy},
    {CUDA_ERROR_EXTERNAL_DEVICE, ErrorClass::sticky, kDeviceRemedy},
    {CUDA_ERROR_ECC_UNCORRECTABLE, ErrorClass::sticky, kDeviceRemedy},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, ErrorClass::sticky, kDeviceRemedy},
    {CUDA_ERROR_MPS_CLIENT_TERMINATED, ErrorClass::sticky, kDeviceRemedy},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, ErrorClass::sticky,
     "the CUDA context was destroyed or reset while cugrt used it"},
    {CUDA_ERROR_DEINITIALIZED, ErrorClass::sticky,
     "the CUDA driver is shutting down: close sessions before the process exits"},

    {CUDA_ERROR_NOT_SUPPORTED, ErrorClass::unsupported, nullptr},
    {CUDA_ERROR_STUB_LIBRARY, ErrorClass::unsupported, "the library is the toolkit's stub"},
    {CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, ErrorClass::unsupported, "update the driver"},
    {CUDA_ERROR_NO_DEVICE, ErrorClass::unsupported, nullptr},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, ErrorClass::unsupported,
     "the code was compiled for another architecture"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, ErrorClass::unsupported,
     "the PTX is newer than the driver: use an NVRTC of the driver's version, or update the "
     "driver"},
    {CUDA_ERROR_JIT_COMPILER_NOT_FOUND, ErrorClass::unsupported,
     "the driver cannot compile PTX here: give it a cubin"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ErrorClass::unsupported,
     "the driver's library and kernel module differ: restart the machine"},

    {CUDA_ERROR_DEVICE_UNAVAILABLE, ErrorClass::other,
     "another process may hold the device exclusively"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, ErrorClass::other,
     "the launch asks for more threads, registers or shared memory than the kernel can have"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, ErrorClass::other, kCaptureRemedy},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, ErrorClass::other, kCaptureRemedy},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, ErrorClass::other, kCaptureRemedy},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, ErrorClass::other, kCaptureRemedy},
    {CUDA_ERROR_CAPTURED_EVENT, ErrorClass::other, kCaptureRemedy},
};

const ErrorRow *find_row(CUresult result) {
  for (const ErrorRow &row : kErrors)
    if (row.result == result)
      return &row;
  return nullptr;
}

Code code_of(ErrorClass error_class) {
  switch (error_class) {
  case ErrorClass::out_of_memory:
    return Code::out_of_device_memory;
  case ErrorClass::sticky:
    return Code::device_lost;
  case ErrorClass::unsupported:
    return Code::unsupported;
  case ErrorClass::none:
  case ErrorClass::not_ready:
  case ErrorClass::other:
    break;
  }
  return Code::driver_error;
}

} // namespace

ErrorClass classify(CUresult result) {
  const ErrorRow *row = find_row(result);
  return row ? row->error_class : ErrorClass::other;
}

std::string error_name(const DriverApi &api, CUresult result) {
  const char *name = nullptr;
  if (api.GetErrorName && api.GetErrorName(result, &name) == CUDA_SUCCESS && name)
    return name;
  return "CUDA error " + std::to_string(static_cast<int>(result));
}

Status driver_error(const DriverApi &api, CUresult result, std::string_view call,
                    std::string_view object) {
  std::string message(call);
  if (!object.empty())
    message.append(" (").append(object).append(")");
  const char *text = nullptr;
  if (api.GetErrorString && api.GetErrorString(result, &text) == CUDA_SUCCESS && text)
    message.append(": ").append(text);
  else
    message.append(" failed");
  const ErrorRow *row = find_row(result);
  if (row && row->remedy)
    message.append("; ").append(row->remedy);
  return Status::error(code_of(classify(result)), std::move(message))
      .with_cuda_error(error_name(api, result));
}

Status driver_lacks(std::string_view what, int version) {
  return Status::error(Code::unsupported, std::string(what) + " needs a driver of CUDA " +
                                              version_text(version) + " or newer");
}

} // namespace cugrt::driver
