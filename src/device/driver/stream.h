// Streams and events.
//
// A StreamRef is a stream that somebody else owns, the caller's for instance; a Stream owns one.
// The enqueueing functions expect the stream's context to be current (see context.h).
#pragma once

#include "device/driver/context.h"

namespace cugrt::driver {

/// A copyable reference. The legacy default stream is the null handle.
class StreamRef {
public:
  StreamRef() = default;
  StreamRef(const DriverApi *api, CUstream stream) : api_(api), stream_(stream) {}

  CUstream get() const { return stream_; }
  const DriverApi &api() const { return *api_; }
  Status synchronize() const;
  /// True when all work of the stream is done.
  Result<bool> query() const;
  /// True while the stream is being captured; a run on it must be refused.
  Result<bool> is_capturing() const;
  /// The stream's context; for the default stream, the current one.
  Result<CUcontext> context() const;
  /// The stream's priority as the driver counts, within the driver's range.
  Result<int> priority() const;
  /// Later work of this stream waits for `event`.
  Status wait(CUevent event) const;

  /// Whether work of one stream follows work of the other by itself. CU_STREAM_PER_THREAD names
  /// another stream on each thread, so it counts as different even from itself.
  bool is_same_queue(const StreamRef &other) const {
    return stream_ == other.stream_ && stream_ != CU_STREAM_PER_THREAD;
  }

private:
  const DriverApi *api_ = nullptr;
  CUstream stream_ = nullptr;
};

class Stream {
public:
  using Handle = UniqueHandle<CUstream, &DriverApi::StreamDestroy, kInContext>;

  Stream() = default;
  /// Does not synchronise with the legacy default stream. `priority` as the driver counts: lower
  /// values run first, 0 is the default.
  static Result<Stream> create(const Context &context, int priority = 0);

  StreamRef ref() const { return {&handle_.api(), handle_.get()}; }
  CUstream get() const { return handle_.get(); }

private:
  explicit Stream(Handle handle) : handle_(std::move(handle)) {}
  Handle handle_;
};

class Event {
public:
  using Handle = UniqueHandle<CUevent, &DriverApi::EventDestroy, kInContext>;
  enum class Timing { off, on };
  enum class Waiting { as_context, blocking }; // of synchronize()

  Event() = default;
  static Result<Event> create(const Context &context, Timing timing = Timing::off,
                              Waiting waiting = Waiting::as_context);

  CUevent get() const { return handle_.get(); }
  const DriverApi &api() const { return handle_.api(); }
  explicit operator bool() const { return static_cast<bool>(handle_); }
  Status record(StreamRef stream) const;
  Status synchronize() const;
  /// True when the recorded work is done.
  Result<bool> query() const;
  /// Both events were created with Timing::on and are done.
  Result<float> milliseconds_since(const Event &start) const;

private:
  explicit Event(Handle handle) : handle_(std::move(handle)) {}
  Handle handle_;
};

} // namespace cugrt::driver
