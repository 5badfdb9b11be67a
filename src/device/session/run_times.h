// How long runs take: for the host until they are queued, and on the device. Kept as histograms, so
// that a run allocates nothing.
#pragma once

#include "device/driver/stream.h"

#include <array>
#include <memory>

namespace cugrt::runtime {

/// Counts of durations in nanoseconds. A bucket is at most a 32nd of its values wide, so quantiles
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

/// Of one session, whose use the caller has.
class RunTimes {
public:
  static Result<std::unique_ptr<RunTimes>> make(const driver::Context &context);

  /// Around the launches of a run. A run without a free pair of events, as where more are on their
  /// way than there are pairs, is not among the device's times. Context current.
  void begin(driver::StreamRef stream);
  void end(driver::StreamRef stream);
  void queued(uint64_t ns) { host_.add(ns); }
  /// Takes in the runs that have ended. Context current.
  void collect();

  const DurationHistogram &host() const { return host_; }
  const DurationHistogram &device() const { return device_; }

private:
  static constexpr size_t kPairs = 64;
  struct Pair {
    driver::Event begin, end;
  };
  std::array<Pair, kPairs> pairs_;
  size_t first_ = 0, waiting_ = 0; // pairs whose run may not have ended
  bool begun_ = false;             // the one behind those
  DurationHistogram host_, device_;
};

} // namespace cugrt::runtime
