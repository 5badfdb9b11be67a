// Deadlines of runs: from the call that begins one until the device has ended what it put on a
// stream.
//
//   stream of the run   ... launches | event
//   stream beside                            wait for it | call of the host
//
// So nothing that follows the run waits for the host. The call comes from a thread of the driver.
#pragma once

#include "device/driver/stream.h"
#include "device/session/duration_histogram.h"

#include "cugrt/cugrt.h"

#include <array>
#include <atomic>
#include <memory>

namespace cugrt::runtime {

class DeadlineWatch {
public:
  struct Options {
    uint64_t deadline_ns = 0; // 0: none
    cugrt_missed_callback missed = nullptr;
    void *user = nullptr;
  };
  static Result<std::unique_ptr<DeadlineWatch>> make(const driver::Context &context,
                                                     const Options &options);
  /// Waits until every run has been checked. No callback may call it.
  ~DeadlineWatch();
  DeadlineWatch(const DeadlineWatch &) = delete;

  /// Behind a run that was begun at `begin_ns` of the steady clock and is on `stream`. Allocates
  /// nothing; waits where more runs are on their way than it has places. Context current.
  Status watch(driver::StreamRef stream, int64_t begin_ns);
  /// Until all runs so far have been looked at. Context current.
  Status settle() const { return stream_.ref().synchronize(); }

  // Settled.
  const DurationHistogram &times() const { return times_; }
  uint64_t missed() const { return missed_; }

private:
  explicit DeadlineWatch(const Options &options) : options_(options) {}
  void look();

  static constexpr size_t kPlaces = 1024;
  const Options options_;
  driver::Stream stream_;
  driver::Event end_;
  /// Of runs that have not been looked at, in their order, which is that of the calls.
  std::array<int64_t, kPlaces> begins_{};
  uint64_t watched_ = 0;
  std::atomic<uint64_t> looked_ = 0;
  // Of the calls, one at a time.
  DurationHistogram times_;
  uint64_t missed_ = 0;
};

} // namespace cugrt::runtime
