// Contexts: the device's primary one, retained, one that the caller owns, or a green context.
//
// A green context has some of a device's multiprocessors, and all else is that of the primary one:
// memory of either is memory of both. Its code is loaded as a library, which belongs to no context,
// and its kernel nodes name it, since a function would bring the primary context along.
//
// Rule of the layer: functions that create or load something make its context current by
// themselves; functions that enqueue work (launches, asynchronous copies, event records) expect the
// caller to hold a ContextGuard, so that a run pays for it once.
#pragma once

#include "device/driver/unique_handle.h"

#include <cstdint>

namespace cugrt::driver {

/// Makes a context current in a scope outside of runs, whatever other threads capture meanwhile.
/// Stays on the thread that made it.
class ContextGuard {
public:
  static Result<ContextGuard> enter(const DriverApi &api, CUcontext context);
  ContextGuard(ContextGuard &&other) noexcept
      : relaxed_(std::move(other.relaxed_)), api_(std::exchange(other.api_, nullptr)) {}
  ContextGuard &operator=(ContextGuard &&) = delete;
  ~ContextGuard();

private:
  ContextGuard(RelaxedCapture relaxed, const DriverApi *api)
      : relaxed_(std::move(relaxed)), api_(api) {}
  RelaxedCapture relaxed_;
  const DriverApi *api_; // null: nothing to pop
};

/// A device whose primary context is retained.
struct RetainedDevice {
  CUdevice plus_one = 0; // device 0 is a device
  bool operator==(const RetainedDevice &) const = default;
  static CUresult release(const DriverApi &api, RetainedDevice device) {
    return api.DevicePrimaryCtxRelease(device.plus_one - 1);
  }
};

/// Outlives everything made in it. Immutable: may be used by several threads.
class Context {
public:
  /// Retains the primary context of device `ordinal`.
  static Result<Context> retain_primary(const DriverApi &api, int ordinal);
  /// Makes a green context with at least so many multiprocessors, which the driver gives out in
  /// groups. Two green contexts may share some.
  static Result<Context> make_green(const DriverLibrary &library, int ordinal,
                                    uint32_t multiprocessors);
  /// Uses a context that the caller owns and keeps alive.
  static Result<Context> borrow(const DriverApi &api, CUcontext context);

  const DriverApi &api() const { return *api_; }
  CUcontext get() const { return context_; }
  CUdevice device() const { return device_; }
  /// Whether this is the device's primary context, which ends with its last user, or green.
  bool is_primary() const { return static_cast<bool>(retained_); }
  bool is_green() const { return static_cast<bool>(green_); }
  /// Whether both can use the same memory.
  bool shares_memory_with(const Context &other) const { return memory_of_ == other.memory_of_; }
  /// "sm_90", from the device's compute capability.
  const std::string &architecture() const { return architecture_; }
  /// 90 for 9.0.
  int capability() const { return capability_; }

  /// The stream for copies between host and device that are waited for; does not synchronise with
  /// the legacy stream. Any thread.
  CUstream copy_stream() const { return copies_.get(); }

  Result<ContextGuard> enter() const { return ContextGuard::enter(*api_, context_); }
  /// Asks the device; the number of multiprocessors is the context's.
  Result<int> attribute(CUdevice_attribute attribute) const;
  /// Waits for all work of the context.
  Status synchronize() const;

  struct Memory {
    uint64_t free_bytes = 0, total_bytes = 0;
  };
  Result<Memory> memory() const;

private:
  using RetainedHandle = UniqueHandle<RetainedDevice, &RetainedDevice::release, kAnywhere>;
  using GreenHandle = UniqueHandle<CUgreenCtx, &DriverApi::GreenCtxDestroy, kAnywhere>;
  using CopyStreamHandle = UniqueHandle<CUstream, &DriverApi::StreamDestroy, kInContext>;
  Status describe();

  const DriverApi *api_ = nullptr;
  RetainedHandle retained_; // empty for a borrowed context
  GreenHandle green_;       // ends before what it shares memory with
  CUcontext context_ = nullptr, memory_of_ = nullptr;
  int multiprocessors_ = 0; // of a green context
  CopyStreamHandle copies_; // ends before the context
  CUdevice device_ = 0;
  int capability_ = 0;
  std::string architecture_;
};

} // namespace cugrt::driver
