// Times of runs; see run_times.h.
#include "device/session/run_times.h"

#include <algorithm>
#include <bit>

namespace cugrt::runtime {

size_t DurationHistogram::bucket_of(uint64_t ns) {
  const unsigned bits = static_cast<unsigned>(std::bit_width(ns));
  const unsigned shift = bits > kExactBits ? bits - kExactBits : 0;
  return (size_t(shift) << (kExactBits - 1)) + static_cast<size_t>(ns >> shift);
}

uint64_t DurationHistogram::last_of(size_t bucket) {
  constexpr size_t kHalf = size_t(1) << (kExactBits - 1);
  if (bucket < 2 * kHalf)
    return bucket;
  const size_t shift = bucket / kHalf - 1;
  return ((uint64_t(bucket - shift * kHalf) + 1) << shift) - 1;
}

void DurationHistogram::add(const DurationHistogram &other) {
  for (size_t i = 0; i < kBuckets; ++i)
    counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

uint64_t DurationHistogram::quantile(uint32_t thousandths) const {
  const uint64_t wanted = count_ / 1000 * thousandths + (count_ % 1000 * thousandths + 999) / 1000;
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i)
    if ((seen += counts_[i]) >= wanted && seen != 0)
      return std::min(last_of(i), max_);
  return 0;
}

Result<std::unique_ptr<RunTimes>> RunTimes::make(const driver::Context &context,
                                                 const DeadlineWatch::Options &deadline) {
  auto times = std::make_unique<RunTimes>();
  if (deadline.deadline_ns != 0) {
    CUGRT_ASSIGN(times->deadline_, DeadlineWatch::make(context, deadline));
  }
  for (Pair &pair : times->pairs_) {
    CUGRT_ASSIGN(pair.begin, driver::Event::create(context, driver::Event::Timing::on));
    CUGRT_ASSIGN(pair.end, driver::Event::create(context, driver::Event::Timing::on));
  }
  return times;
}

void RunTimes::begin(driver::StreamRef stream) {
  if (waiting_ == kPairs)
    collect();
  begun_ = waiting_ < kPairs && pairs_[(first_ + waiting_) % kPairs].begin.record(stream).ok();
}

Status RunTimes::end(driver::StreamRef stream, Status launched) {
  if (begun_ && pairs_[(first_ + waiting_) % kPairs].end.record(stream).ok())
    ++waiting_;
  begun_ = false;
  if (!launched.ok())
    return launched;
  host_.add(static_cast<uint64_t>(steady_ns() - begin_ns_));
  return deadline_ ? deadline_->watch(stream, begin_ns_) : Status();
}

void RunTimes::collect() {
  while (waiting_ != 0) {
    const Pair &pair = pairs_[first_];
    const auto ended = pair.end.query();
    if (ended.ok() && !*ended)
      return;
    if (const auto took = pair.end.milliseconds_since(pair.begin); ended.ok() && took.ok())
      device_.add(static_cast<uint64_t>(std::max(0.0f, *took) * 1e6));
    first_ = (first_ + 1) % kPairs; // what failed tells the next run
    --waiting_;
  }
}

} // namespace cugrt::runtime
