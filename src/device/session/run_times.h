// How long runs take: for the host until they are queued, on the device, and against a deadline.
#pragma once

#include "device/context/clock.h"
#include "device/session/deadline.h"

namespace cugrt::runtime {

/// Of one session, whose use the caller has.
class RunTimes {
public:
  static Result<std::unique_ptr<RunTimes>> make(const driver::Context &context,
                                                const DeadlineWatch::Options &deadline);

  /// A run has been called.
  void arrive() { begin_ns_ = steady_ns(); }
  /// Around its launches, of which `launched` came. A run without a free pair of events, as where
  /// more are on their way than there are pairs, is not among the device's times. Context current.
  void begin(driver::StreamRef stream);
  Status end(driver::StreamRef stream, Status launched);
  /// Takes in the runs that have ended. Context current.
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
