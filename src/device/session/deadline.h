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

/// A histogram of durations in nanoseconds. Its buckets are fixed, so that counting allocates
/// nothing. A bucket's width is at most a 32nd of its values, so quantiles exceed the exact ones by
/// at most that much, and never exceed the maximum.
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
  /// The least bound of `thousandths` of the durations, rounded up; 0 if there are
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
  /// Waits until every run has been checked. Callbacks may not call it.
  ~DeadlineWatch();
  DeadlineWatch(const DeadlineWatch &) = delete;

  /// Call after a run that began at `begin_ns` of the steady clock was queued on `stream`.
  /// Allocates nothing; waits if more runs are on their way than it has places. Context current.
  Status watch(driver::StreamRef stream, int64_t begin_ns);
  /// Waits until all runs so far have been checked. Context current.
  Status settle() const { return stream_.ref().synchronize(); }

  // Valid after settle().
  const DurationHistogram &times() const { return times_; }
  uint64_t missed() const { return missed_; }

private:
  explicit DeadlineWatch(const Options &options) : options_(options) {}
  void look();

  static constexpr size_t kPlaces = 1024;
  const Options options_;
  driver::Stream stream_;
  driver::Event end_;
  /// Begins of unchecked runs, in the order of their calls.
  std::array<int64_t, kPlaces> begins_{};
  uint64_t watched_ = 0;
  std::atomic<uint64_t> looked_ = 0;
  // Written by callbacks, one at a time.
  DurationHistogram times_;
  uint64_t missed_ = 0;
};

} // namespace cugrt::runtime
