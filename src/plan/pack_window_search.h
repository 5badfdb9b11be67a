// Search for a packing with windows below a given capacity: depth first over the options of pairs,
// see the essay in pack_window_search.cpp. Deterministic: it stops by counted nodes, never by a
// clock.
#pragma once

#include "plan/pack_window_problem.h"

namespace cugrt::plan {

/// Which clash a search removes first, and how it tries to.
struct WindowStrategy {
  int order = 0;            // items in the order greedy_order(order, ...) are kept apart one by one
  bool least_first = false; // first the side that lifts to the lower end; else the later item rises
};

/// One engine for one problem; keeps its memory, and how often each item made it fail, from run to
/// run.
class WindowSearch {
public:
  enum class Outcome : uint8_t { solved, exhausted, limit };

  /// The problem must outlive the search.
  explicit WindowSearch(const WindowProblem &problem);

  /// Looks for a packing of at most `capacity_bytes`. `exhausted`: there is none; `limit`: nothing
  /// is known.
  Outcome run(const WindowStrategy &strategy, int64_t capacity_bytes, int64_t node_limit);
  /// Of the last run that was solved; one for each item.
  const std::vector<int64_t> &offsets() const { return offsets_; }
  /// Decisions of the last run, and what they led to where that was more work than usual.
  int64_t nodes() const { return decisions_ + work_ / kWorkOfNode; }

private:
  static constexpr int64_t kWorkOfNode = 256; // pairs and parts looked at
  struct Range {                              // of a pair's options, those still open
    uint32_t first = 0, last = 0;
  };
  /// A clash: the pair's difference lies between two options; one side of them is tried, then the
  /// other.
  struct Frame {
    uint32_t pair, option; // the one below the difference
    bool above;            // which side was tried last
    bool both;
    size_t trail_mark;
  };
  struct Undo {
    enum Kind : uint8_t { low, high, first, last, clash } kind;
    uint32_t index;
    int64_t old;
  };

  bool reset(int64_t capacity_bytes);
  void order_pairs(const WindowStrategy &strategy);
  bool choose(const WindowStrategy &strategy, Frame &frame) const;
  bool take(const Frame &frame);
  bool propagate();
  bool settle();
  bool narrow_around(uint32_t item);
  bool narrow(uint32_t pair);
  bool raise(uint32_t item, int64_t low);
  bool lower(uint32_t item, int64_t high);
  bool has_room(uint32_t item);
  void set_range(uint32_t pair, Range range);
  void set_clash(uint32_t pair, bool clash);
  void touch(uint32_t item);
  void undo_to(size_t trail_mark);

  const WindowProblem &problem_;
  std::vector<std::vector<uint32_t>> orders_; // of items, one for each greedy order
  std::vector<int64_t> failures_;             // of each item
  size_t pass_limit_ = 0;
  bool alike_ = true; // all alignments: offsets are then never rounded up
  int64_t limit_ = 0, decisions_ = 0, work_ = 0;
  bool out_of_nodes_ = false;
  bool doubtful_ =
      false; // a branch was cut that might, with alignments that differ, hold something
  std::vector<int64_t> low_, high_;    // where an item's offset can be, of each item
  std::vector<Range> ranges_;          // of each pair
  std::vector<uint32_t> rank_;         // of each item in the order of the run
  std::vector<uint32_t> position_;     // of each pair in that order
  std::vector<uint32_t> at_;           // the reverse
  std::vector<uint64_t> clashes_;      // by position: lowest offsets clash
  std::vector<uint32_t> queue_, pass_; // items whose limits have changed
  std::vector<uint8_t> queued_;
  std::vector<uint32_t> changed_; // the same, not taken out while propagating
  std::vector<uint8_t> is_changed_;
  uint64_t level_ = 0, narrowed_ = 0; // counts of propagations, and of what they narrowed
  std::vector<uint64_t> low_saved_, high_saved_; // the propagation for which it is in the trail
  std::vector<Undo> trail_;
  std::vector<Frame> frames_;
  std::vector<int64_t> offsets_;
};

} // namespace cugrt::plan
