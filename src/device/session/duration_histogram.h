// Counts of durations, in buckets that are fixed, so that counting allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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

} // namespace cugrt::runtime
