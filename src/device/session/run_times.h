// Measures runs: the host's time until they are queued, the device's time, and deadlines.
#pragma once

#include "device/context/clock.h"
#include "device/session/deadline.h"

namespace cugrt::runtime {

/// Latencies of one session's runs; only the thread that uses the session may use this.
class RunTimes {
public:
  static Result<std::unique_ptr<RunTimes>> make(const driver::Context &context,
                                                const DeadlineWatch::Options &deadline);

  /// Call when a run begins.
  void arrive() { begin_ns_ = steady_ns(); }
  /// Call before and after a run's launches, whose status is `launched`. Leaves the run out of the
  /// device's times if all pairs of events are on their way. Context current.
  void begin(driver::StreamRef stream);
  Status end(driver::StreamRef stream, Status launched);
  /// Adds the runs that have ended. Context current.
  void collect();

  const DurationHistogram &host() const { return host_; }
  const DurationHistogram &device() const { return device_; }
  const DeadlineWatch *deadline() const { return deadline_.get(); } // null: none

private:
  static constexpr size_t kPairs = 64;
  struct Pair {
    driver::Event begin, end;
  };
  std::array<Pair, kPairs> pairs_;
  size_t first_ = 0, waiting_ = 0; // pairs whose run may not have ended
  bool begun_ = false;             // the one behind those
  int64_t begin_ns_ = 0;
  std::unique_ptr<DeadlineWatch> deadline_;
  DurationHistogram host_, device_;
};

} // namespace cugrt::runtime
