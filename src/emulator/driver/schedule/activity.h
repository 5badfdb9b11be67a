// Activities for a profiler: kernels, copies and fills that the device has run (CUPTI's
// activities).
#pragma once

#include "emulator/driver/schedule/work.h"

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace cugrt::emulator::api {

/// Numbered as in CUPTI.
enum class ActivityKind : uint32_t { none = 0, copy = 1, fill = 2, kernel = 10 };

/// A node of a graph, as tools call it: the instance's, the graph's that it was made of, and the
/// graph's launch. All 0: in a stream.
struct NodeName {
  uint64_t id = 0, source_id = 0;
  uint32_t launch = 0;
};

struct Activity {
  ActivityKind kind = ActivityKind::none;
  uint64_t begin_ns = 0, end_ns = 0; // of activity_ns
  NodeName node;
  std::string kernel; // its name
};

ActivityKind activity_of(const Work &work);
uint64_t activity_ns();

/// Activities since a profiler asked, until it takes them. Thread-safe.
class ActivityLog {
public:
  /// Keeps at most this many; only counts later ones.
  static constexpr size_t kMost = size_t(1) << 20;

  bool wants(ActivityKind kind) const { return kinds_.load(std::memory_order_relaxed) & bit(kind); }
  void want(ActivityKind kind, bool wanted);
  void add(Activity activity);
  /// Numbers a launch of a graph, from 1.
  uint32_t next_launch() { return ++launches_; }
  std::vector<Activity> take();
  /// Nobody asks, and nothing is kept.
  void clear();
  /// How many were dropped since this was asked last.
  size_t take_dropped();
  /// The same text for as long as the driver is there.
  const char *name(const std::string &text);

private:
  static uint32_t bit(ActivityKind kind) {
    return kind == ActivityKind::none ? 0 : uint32_t(1) << uint32_t(kind);
  }

  std::atomic<uint32_t> kinds_{0}, launches_{0};
  std::mutex mutex_;
  std::vector<Activity> activities_;
  size_t dropped_ = 0;
  std::set<std::string> names_;
};

} // namespace cugrt::emulator::api
