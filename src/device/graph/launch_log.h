// Launch log: records each launch of a region, and of each step that was launched alone.
//
// A ring of bounded size that the session's user sizes and reads; the oldest records make way. A
// session without one bypasses the log, so a repeated run asks nothing. Host times are of the
// steady clock. Steps can also be timed on the device, by a pair of events each.
//
// Used by the session's thread only.
#pragma once

#include "cugrt/cugrt.h"
#include "device/context/clock.h"
#include "device/context/profiler_ranges.h"
#include "device/driver/stream.h"
#include "plan/format/plan.h"

#include <array>
#include <chrono>
#include <optional>
#include <vector>

namespace cugrt::runtime {

struct RunBinding;

enum class EagerReason : uint8_t {
  none = CUGRT_EAGER_NOT,
#define CUGRT_EAGER_REASON(name, enumerator, text) name = enumerator,
#include "device/graph/eager_reasons.def"
#undef CUGRT_EAGER_REASON
  count_,
};
inline constexpr size_t kEagerReasons = static_cast<size_t>(EagerReason::count_);

/// The text that follows "because".
const char *reason_text(EagerReason reason);

/// One launch. Names are the plan's.
struct LaunchRecord {
  uint64_t sequence = 0, run = 0;
  cugrt_launch_kind kind = CUGRT_LAUNCH_HIT;
  EagerReason reason = EagerReason::none;
  uint32_t region = plan::kNone; // of regions: Function::regions
  const plan::Function *function = nullptr;
  const std::string *name = nullptr;
  std::array<int64_t, CUGRT_MAX_KEY> key{};         // of the region's key, as many as fit
  std::array<int64_t, CUGRT_MAX_KEY> padded_from{}; // likewise; before buckets
  uint64_t nodes = 0, edges = 0, fields_patched = 0;
  int64_t begin_ns = 0, host_ns = 0, build_ns = 0, patch_ns = 0, launch_ns = 0;
  double device_us = -1; // -1: not known
};

class LaunchLog {
public:
  struct Options {
    size_t capacity = 0;     // records; 0: off
    bool time_steps = false; // on the device, too
    bool ranges = false;     // for a profiler, whether records are kept or not
  };
  static constexpr size_t kMaxCapacity = size_t(1) << 20;

  /// `context` outlives the log.
  LaunchLog(Options options, const driver::Context &context)
      : options_(options), context_(context) {}
  /// Allocates all memory for records; out_of_range for more than kMaxCapacity.
  Status allocate();

  /// Whether the log records launches or profiler ranges.
  bool on() const { return options_.capacity != 0 || options_.ranges; }
  bool ranges() const { return options_.ranges; }

  /// Begins a record now; hand it to end().
  LaunchRecord begin(const RunBinding &run, uint32_t region, const std::string &name) const;
  /// Keeps the record of a launch that succeeded; for a step, with its time.
  void end(LaunchRecord record);

  /// Call before and after a step is launched on the stream. If the launch fails in between, the
  /// next begin forgets it. Context current.
  Status step_begins(driver::StreamRef stream);
  Status step_ends(driver::StreamRef stream);

  /// Moves out as many of the oldest records as fit. Fills in device times of steps that have
  /// ended. Returns the number of records.
  size_t read(std::span<LaunchRecord> records);

  uint64_t run = 0; // of later records

private:
  struct Entry {
    LaunchRecord record;
    driver::Event begin, end; // of a timed step; made when first needed, then kept
    bool timed = false;
  };

  Options options_;
  const driver::Context &context_;
  std::vector<Entry> ring_; // the record `sequence` is at sequence % capacity
  uint64_t first_ = 0, next_ = 0;
  driver::Event begin_, end_; // of the step that is on its way, as in Entry
  bool timing_ = false;       // it has begun
};

} // namespace cugrt::runtime
