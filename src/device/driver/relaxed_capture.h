// Relaxed capture: keeps calls outside of runs apart from captures of other threads.
//
// While any thread captures a stream in the global mode, which frameworks use by default, calls
// that allocate, free, load code or ask about events fail on every other thread, and end the
// capture. The mode of the calling thread decides (CUDA driver API,
// cuThreadExchangeStreamCaptureMode): relaxed, it may call anything. Nothing here captures; a
// stream that is captured is still refused.
#pragma once

#include "device/driver/driver_api.h"

#include <utility>

namespace cugrt::driver {

/// Relaxes a scope, on the thread that made it.
class RelaxedCapture {
public:
  explicit RelaxedCapture(const DriverApi &api) : api_(&api) { exchange(); }
  RelaxedCapture(RelaxedCapture &&other) noexcept
      : api_(std::exchange(other.api_, nullptr)), mode_(other.mode_) {}
  RelaxedCapture &operator=(RelaxedCapture &&) = delete;
  ~RelaxedCapture() {
    if (api_)
      exchange();
  }

private:
  /// A driver that is broken says so at the next call.
  void exchange() {
    if (api_->ThreadExchangeStreamCaptureMode(&mode_) != CUDA_SUCCESS)
      api_ = nullptr;
  }
  const DriverApi *api_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; // then the one to come back to
};

} // namespace cugrt::driver
