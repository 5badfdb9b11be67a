// See capture.h.
#include "bench/support/capture.h"

#include "device/driver/driver_error.h"

#include <dlfcn.h>

namespace cugrt::bench {

Result<CaptureApi> CaptureApi::of(const driver::DriverLibrary &library) {
  CaptureApi capture;
  capture.api_ = &library.api;
  void *handle = dlopen(library.path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  auto get =
      handle ? reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(handle, "cuGetProcAddress_v2"))
             : nullptr;
  if (!get)
    return Status::error(Code::not_found, "cannot ask " + library.path + " for stream capture");
  auto resolve = [&](const char *name, int version) {
    void *pointer = nullptr;
    CUdriverProcAddressQueryResult found{};
    return get(name, &pointer, version, CU_GET_PROC_ADDRESS_DEFAULT, &found) == CUDA_SUCCESS
               ? pointer
               : nullptr;
  };
  capture.begin_ =
      reinterpret_cast<PFN_cuStreamBeginCapture_v10010>(resolve("cuStreamBeginCapture", 10010));
  capture.end_ =
      reinterpret_cast<PFN_cuStreamEndCapture_v10000>(resolve("cuStreamEndCapture", 10000));
  dlclose(handle); // the driver library keeps it open
  if (!capture.begin_ || !capture.end_)
    return Status::error(Code::unsupported, library.path + " has no stream capture");
  return capture;
}

Status CaptureApi::begin(driver::StreamRef stream) const {
  CUresult result = begin_(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  return result == CUDA_SUCCESS ? Status()
                                : driver::driver_error(*api_, result, "cuStreamBeginCapture", "");
}

Result<CUgraph> CaptureApi::end(driver::StreamRef stream) const {
  CUgraph graph = nullptr;
  CUresult result = end_(stream.get(), &graph);
  if (result != CUDA_SUCCESS || !graph)
    return driver::driver_error(*api_, result == CUDA_SUCCESS ? CUDA_ERROR_UNKNOWN : result,
                                "cuStreamEndCapture", "");
  return graph;
}

} // namespace cugrt::bench
