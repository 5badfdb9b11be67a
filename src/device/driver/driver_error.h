// Converts CUresult to Status, here only.
#pragma once

#include "device/driver/driver_api.h"

#include <string_view>

namespace cugrt::driver {

enum class ErrorClass {
  none,
  not_ready,     // cuEventQuery and cuStreamQuery: not an error
  out_of_memory, // device memory: Code::out_of_device_memory
  sticky,        // ends CUDA for the process: Code::device_lost
  unsupported,   // this driver or device cannot: Code::unsupported
  other,         // Code::driver_error
};

ErrorClass classify(CUresult result);
inline bool is_sticky(CUresult result) { return classify(result) == ErrorClass::sticky; }

/// "CUDA_ERROR_INVALID_VALUE"; a number where the driver has no name for it.
std::string error_name(const DriverApi &api, CUresult result);

/// Makes the status of a failed call: "cuGraphLaunch of region 'main.0': an illegal memory access
/// was encountered; REMEDY", with the CUDA error's name. `object` names the object of the call and
/// may be empty. `result` may not be CUDA_SUCCESS.
Status driver_error(const DriverApi &api, CUresult result, std::string_view call,
                    std::string_view object);

/// Error for an optional entry point that this driver lacks: `what` needs CUDA `version`.
Status driver_lacks(std::string_view what, int version);

} // namespace cugrt::driver

/// Calls api.CALL ARGS and returns its error from the enclosing function. OBJECT (anything that
/// converts to std::string_view) is evaluated only on failure.
///   CUGRT_DRIVER(api, StreamSynchronize, (stream), "the session's stream");
#define CUGRT_DRIVER(api_, call_, args_, object_)                                                  \
  do {                                                                                             \
    if (CUresult driver_result_ = (api_).call_ args_; driver_result_ != CUDA_SUCCESS)              \
      return ::cugrt::driver::driver_error((api_), driver_result_, "cu" #call_, (object_));        \
  } while (false)
