// The owner of one driver object: the only place in this layer where moves and destruction are
// written.
//
// A handle is null-like when value-initialised. `Destroy`: the driver's function, or one that takes
// the DriverApi as well; its errors are ignored. The DriverApi and the context must outlive the
// handle.
#pragma once

#include "device/driver/relaxed_capture.h"

namespace cugrt::driver {

/// Whether an object is destroyed with its context current.
inline constexpr bool kInContext = true, kAnywhere = false;

template <class Handle, auto Destroy, bool NeedsContext> class UniqueHandle {
public:
  UniqueHandle() = default;
  UniqueHandle(const DriverApi *api, CUcontext context, Handle handle)
      : api_(api), context_(context), handle_(handle) {}
  UniqueHandle(UniqueHandle &&other) noexcept
      : api_(other.api_), context_(other.context_), handle_(other.release()) {}
  UniqueHandle &operator=(UniqueHandle &&other) noexcept {
    UniqueHandle moved(std::move(other));
    std::swap(api_, moved.api_);
    std::swap(context_, moved.context_);
    std::swap(handle_, moved.handle_);
    return *this;
  }
  ~UniqueHandle() { reset(); }

  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Handle{}; }
  const DriverApi &api() const { return *api_; }
  CUcontext context() const { return context_; }

  /// Gives up ownership.
  Handle release() { return std::exchange(handle_, Handle{}); }

  void reset() noexcept {
    if (handle_ == Handle{})
      return;
    Handle handle = release();
    RelaxedCapture relaxed(*api_);
    const bool pushed = NeedsContext && context_ && api_->CtxPushCurrent(context_) == CUDA_SUCCESS;
    if constexpr (std::is_member_pointer_v<decltype(Destroy)>)
      (void)(api_->*Destroy)(handle);
    else
      (void)Destroy(*api_, handle);
    CUcontext popped;
    if (pushed)
      (void)api_->CtxPopCurrent(&popped);
  }

private:
  const DriverApi *api_ = nullptr;
  CUcontext context_ = nullptr;
  Handle handle_{};
};

} // namespace cugrt::driver
