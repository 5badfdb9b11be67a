// Deadlines of runs: from the call that begins one until the device has ended what it put on a
// stream.
//
//   stream of the run   ... launches | event
//   stream beside                            wait for it | call of the host
//
// So nothing that follows the run waits for the host. The call comes from a thread of the driver.
#pragma once

#include "device/driver/stream.h"

#include "cugrt/cugrt.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cugrt::runtime {

/// Counts of durations in nanoseconds, in buckets that are fixed, so that counting allocates
/// nothing. A bucket is at most a 32nd of its values wide, so quantiles
/// are at most that much above the exact ones, and never above the maximum.
class DurationHistogram {
public:
  void add(uint64_t ns) {
    ++counts_[bucket_of(ns)];
    ++count_;
    max_ = ns > max_ ? ns : max_;
  }
  void add(const DurationHistogram &other);
  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }
  /// The least bound that so many thousandths of the durations, rounded up, do not exceed; 0 of
  /// none.
  uint64_t quantile(uint32_t thousandths) const;

private:
  static constexpr unsigned kExactBits = 6; // durations below 2^6 have buckets of their own
  static constexpr size_t kBuckets =
      ((65 - kExactBits) << (kExactBits - 1)) + (1 << (kExactBits - 1));
  static size_t bucket_of(uint64_t ns);
  static uint64_t last_of(size_t bucket);
  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0, max_ = 0;
};

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
