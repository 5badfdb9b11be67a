// The order of work in different streams: which may run at the same time, and whether it touches
// the same bytes.
//
// Each call that puts work into a stream (a launch, a copy, a fill, a whole graph launch) is a
// point with a vector clock: for every stream the number of its latest point that has ended before.
// What a point waits for hands its clock on: the point before it in its stream, what its stream
// waited for by event, the legacy stream and the blocking streams, the launch before of one graph
// instance. What the program has seen the end of (a synchronising call, a query that said yes, a
// callback that began) precedes all that is submitted later, whatever thread submits it:
//
//     stream 1   ── A ──●─────────────        A precedes B (event) and D (the host waited for A);
//     stream 2          ╰─▶ B ─────────        A and C are not ordered: if they touch the same
//     stream 3   ── C ─────────────────        bytes and one writes, that is a finding
//     host              wait(1) ──▶ D
//
// A launch with programmatic stream serialisation begins with the kernel before it in its stream,
// so that what it does before its griddepcontrol.wait follows only what that kernel began after.
//
// Points are kept with what they touched for as long as work may come, or is under way, that they
// do not precede. Where too many are kept, the oldest go: a finding may be missed, none is made up.
#pragma once

#include "emulator/driver/findings.h"
#include "emulator/exec/checks/accesses.h"

#include <deque>
#include <memory>
#include <set>
#include <vector>

namespace cugrt::emulator::api {

struct StreamPoint;

/// For each stream, the number of the latest point that has ended.
class StreamClock {
public:
  bool holds(const StreamPoint &point) const;
  void add(const StreamPoint &point);
  void join(const StreamClock &other);
  size_t size() const { return latest_.size(); } // streams
  void clear() { latest_.clear(); }
  void keep(const std::set<uint64_t> &streams); // and no others

private:
  struct Entry {
    uint64_t stream, number;
  };
  std::vector<Entry> latest_; // by stream, rising
};

/// Does not change once its work has been submitted.
struct StreamPoint {
  uint64_t stream = 0, number = 0;
  std::string stream_name; // "stream 7", for people
  /// Points that have ended when it begins, and when its griddepcontrol.wait returns. Both are the
  /// same unless it was launched with programmatic stream serialisation.
  StreamClock at_start, at_wait;
  bool is_early = false; // the two differ
};

class StreamOrder;

/// One point's work on its way; its tasks hold it until they have run.
class StreamWork {
public:
  StreamWork(StreamOrder &order, std::shared_ptr<const StreamPoint> point)
      : order_(order), point_(std::move(point)) {}
  /// `name` says what touched, to people. Thread-safe.
  void touched(const std::string &name, const LaunchAccesses &accesses);
  const StreamPoint &point() const { return *point_; }

private:
  StreamOrder &order_;
  const std::shared_ptr<const StreamPoint> point_;
};

/// Thread-safe; calls nothing but Findings.
class StreamOrder {
public:
  explicit StreamOrder(Findings &findings) : findings_(findings) {}

  bool enabled() const {
    return findings_.enabled(Check::streams) || findings_.enabled(Check::programmatic);
  }
  /// Numbers the point and adds the points that the program has seen to its clocks.
  void submit(StreamPoint &point, const std::shared_ptr<StreamWork> &work);
  /// The program has seen that the point has ended, or only that it has begun. Where the host has
  /// no memory to note it, all that was submitted so far is forgotten.
  void seen(const StreamPoint &point, bool ended) noexcept;
  /// Memory that is given back in the order of a stream may be given out in another's.
  void forget(uint64_t begin, uint64_t bytes);
  /// Call for a new driver.
  void clear();

private:
  friend class StreamWork;
  static constexpr size_t kMaxKept = 4096;
  struct Part {
    std::shared_ptr<const StreamPoint> point;
    std::string name;
    LaunchAccesses accesses;
  };
  void touched(const std::shared_ptr<const StreamPoint> &point, const std::string &name,
               const LaunchAccesses &accesses);
  void compare(Part &before, Part &later);
  void report(const Part &first, const Part &second, const AccessSet::Conflict &found);
  void prune();
  std::set<uint64_t> needed() const;

  Findings &findings_;
  std::mutex mutex_;
  uint64_t next_ = 1, forgotten_ = 0; // points up to there are not compared
  StreamClock seen_;
  size_t prune_at_ = 64;   // points of under_way_
  size_t shorten_at_ = 64; // streams of a clock
  std::deque<Part> parts_; // of work that has been done
  std::deque<std::weak_ptr<StreamWork>> under_way_;
  std::set<std::pair<std::string, std::string>> reported_;
};

/// Adds the points that have ended once this one has.
void add_ended(StreamClock &clock, const StreamPoint &point);

} // namespace cugrt::emulator::api
