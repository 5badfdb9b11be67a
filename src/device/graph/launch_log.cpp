// The ring of launch records; see launch_log.h.
#include "device/graph/launch_log.h"

#include "device/program/run_binding.h"

#include <algorithm>

namespace cugrt::runtime {

const char *reason_text(EagerReason reason) {
  switch (reason) {
#define CUGRT_EAGER_REASON(name, enumerator, text)                                                 \
  case EagerReason::name:                                                                          \
    return text;
#include "device/graph/eager_reasons.def"
#undef CUGRT_EAGER_REASON
  case EagerReason::none:
  case EagerReason::count_:
    break;
  }
  return "";
}

Status LaunchLog::allocate() {
  if (options_.capacity > kMaxCapacity)
    return Status::error(Code::out_of_range, "a launch log of " +
                                                 std::to_string(options_.capacity) +
                                                 " records is asked for; at most " +
                                                 std::to_string(kMaxCapacity) + " are possible");
  if (options_.time_steps && options_.capacity == 0)
    return Status::error(Code::invalid_argument, "steps are to be timed, but no records are kept: "
                                                 "set record_capacity");
  ring_.resize(options_.capacity);
  return {};
}

LaunchRecord LaunchLog::begin(const RunBinding &run, uint32_t region,
                              const std::string &name) const {
  LaunchRecord record;
  record.run = this->run;
  record.region = region;
  record.function = &run.function;
  record.name = &name;
  record.begin_ns = steady_ns();
  if (region != plan::kNone) {
    const std::vector<ir::SymbolId> &key = run.function.regions[region].key;
    for (size_t i = 0; i < std::min(key.size(), record.key.size()); ++i)
      record.key[i] = record.padded_from[i] = run.symbols[key[i].index];
    for (const plan::Bucket &bucket : run.function.buckets)
      for (size_t i = 0; i < std::min(key.size(), record.key.size()); ++i)
        if (key[i] == bucket.symbol)
          record.padded_from[i] = run.symbols[bucket.of.index];
  }
  return record;
}

void LaunchLog::end(LaunchRecord record) {
  if (ring_.empty())
    return;
  record.host_ns = steady_ns() - record.begin_ns;
  record.sequence = next_;
  Entry &entry = ring_[next_ % ring_.size()];
  entry.record = record;
  entry.timed = record.kind == CUGRT_LAUNCH_STEP && std::exchange(timing_, false);
  if (entry.timed) {
    std::swap(entry.begin, begin_);
    std::swap(entry.end, end_);
  }
  ++next_;
  first_ = std::max(first_, next_ > ring_.size() ? next_ - ring_.size() : 0);
}

Status LaunchLog::step_begins(driver::StreamRef stream) {
  timing_ = false;
  if (!options_.time_steps)
    return {};
  if (!begin_) {
    CUGRT_ASSIGN(begin_, driver::Event::create(context_, driver::Event::Timing::on));
  }
  if (!end_) {
    CUGRT_ASSIGN(end_, driver::Event::create(context_, driver::Event::Timing::on));
  }
  CUGRT_TRY(begin_.record(stream));
  timing_ = true;
  return {};
}

Status LaunchLog::step_ends(driver::StreamRef stream) {
  return timing_ ? end_.record(stream) : Status();
}

size_t LaunchLog::read(std::span<LaunchRecord> records) {
  size_t count = 0;
  for (; count < records.size() && first_ < next_; ++count, ++first_) {
    Entry &entry = ring_[first_ % ring_.size()];
    records[count] = entry.record;
    if (!entry.timed)
      continue;
    auto done = entry.end.query();
    if (!done.ok() || !*done)
      continue; // its time stays unknown
    if (auto time = entry.end.milliseconds_since(entry.begin); time.ok())
      records[count].device_us = double(*time) * 1000;
  }
  return count;
}

} // namespace cugrt::runtime
