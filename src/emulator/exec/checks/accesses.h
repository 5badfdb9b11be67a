// Which bytes of global memory a launch touched, for checks of the order between launches.
//
// Recording is a loop of its own (scheduler.cpp) that looks at each memory operation before it is
// executed: a launch that is not recorded pays nothing. Every worker fills a set of its own.
#pragma once

#include "base/whole_number.h"
#include "emulator/exec/warps/warp.h"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace cugrt::emulator {

/// Strong accesses (atomic, volatile, relaxed, acquire, release) may meet one another unordered.
enum class AccessKind : uint8_t { read, write, strong_read, strong_write, count };

/// Byte ranges by kind. Not thread-safe.
class AccessSet {
public:
  struct Range {
    uint64_t begin = 0, end = 0;
  };
  /// Bytes that two sets share in a way that needs an order between them.
  struct Conflict {
    Range bytes;
    AccessKind first, second; // of this set and of the other
  };

  void add(AccessKind kind, uint64_t begin, uint64_t bytes);
  void add(const AccessSet &other);
  void remove(uint64_t begin, uint64_t end);
  /// visit(kind, range) of each, in no order; some may overlap.
  template <class Visit> void for_each(Visit visit) const {
    for (size_t kind = 0; kind < lists_.size(); ++kind)
      for (const Range &range : lists_[kind].ranges)
        visit(AccessKind(kind), range);
  }
  bool empty() const;
  /// Whether a write touches these bytes; sealed first.
  bool writes(uint64_t begin, uint64_t end);
  /// Sorted and joined. The one with the lowest address, if there is any; both are sealed first.
  std::optional<Conflict> conflict(AccessSet &other);

private:
  struct List {
    std::vector<Range> ranges;
    size_t sealed = 0; // ranges before it are sorted, disjoint and not adjacent
  };
  static void seal(List &list);
  std::array<List, size_t(AccessKind::count)> lists_;
};

/// Bytes that were loaded, as often as they were, by granule of AddressSpace::kAlignment bytes.
class LoadedBytes {
public:
  void add(uint64_t begin, uint64_t bytes);
  void add(const LoadedBytes &other) {
    for (const auto &[granule, bytes] : other.granules_)
      granules_[granule] += bytes;
  }
  const std::unordered_map<uint64_t, uint64_t> &granules() const { return granules_; }

private:
  std::unordered_map<uint64_t, uint64_t> granules_;
};

/// Accesses of one launch: before and after a thread's griddepcontrol.wait, or a barrier behind it.
struct LaunchAccesses {
  AccessSet before_wait, after_wait;
  bool counts = false; // loads, too: what a warp's neighbouring lanes share counts once
  LoadedBytes loaded;

  void add(const LaunchAccesses &other) {
    before_wait.add(other.before_wait);
    after_wait.add(other.after_wait);
    loaded.add(other.loaded);
  }
};

/// Loads of launches, from when it is asked for. Thread-safe.
class LoadCount {
public:
  struct Totals {
    uint64_t loaded = 0;                        // bytes, by all launches
    uint64_t constant_loaded = 0, constant = 0; // of granules that no launch wrote
  };
  /// Begins to count from nothing, or ends counting.
  void count(bool on);
  bool counts() const { return counts_.load(std::memory_order_relaxed); }
  void add(const LaunchAccesses &launch);
  Totals totals();

private:
  std::atomic<bool> counts_ = false;
  std::mutex mutex_;
  LoadedBytes loaded_;
  AccessSet touched_;
};

/// Records the bytes that the active lanes are about to touch, if the operation is on memory.
void record_access(const Op *op, Warp &w, LaunchAccesses &out);

inline bool is_write(AccessKind kind) {
  return kind == AccessKind::write || kind == AccessKind::strong_write;
}

// How findings speak of accesses.
inline const char *verb(AccessKind kind) { return is_write(kind) ? "writes" : "reads"; }

/// "16 bytes at 0x7f0000000200"
inline std::string bytes_at(const AccessSet::Range &range) {
  return std::to_string(range.end - range.begin) + " bytes at " + hex_text(range.begin);
}

} // namespace cugrt::emulator
