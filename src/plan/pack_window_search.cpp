// A search over how items with windows lie to each other, within a given capacity.
//
// State. Of each item the lowest and highest offset that it can have, and of each two items that
// meet a range of options, of which one will hold (pack_window_problem.h). An option says that
// offset(b) - offset(a) is in [least, most]. So all open ones together give
//
//   offset(b) >= offset(a) + least of the first,   offset(a) >= offset(b) - most of the last
//
// and the limits of every item follow from those of the others: lowest offsets are the least
// solution of this system. Where a limit moves, options that it rules out are dropped, and so on
// until nothing changes; where a pair has no option left the branch has failed. It has also failed
// where the parts of a section that begin at some offset or above do not fit below the highest end
// that any of them can have, or the other way round.
//
// Decisions. If no two items clash at their lowest offsets, these are a packing, and no packing of
// the branch has any item lower: the branch is done. Else the difference of a pair lies between two
// of its options, and either one below it will hold or one above: two branches that share nothing.
// Hence the search is complete, whatever the alignments, and each way for the items to lie to each
// other is met once.
//
//      │▒▒▒▒▒▒▒│ c    c clashes with a and b, which are apart. It rises onto a, then onto b: first
//      ├───────┤      fit. When that fails at the capacity, b rises onto c, with all that lies on b:
//      │ b ┌───┤      c has been put in between.
//      ├───┘ a │
//      └───────┘
//
// Which clash: items are taken in an order, and the first that clashes with one before it is
// chosen. Left branches alone are then greedy placement by first fit. Items that have made searches
// fail more often come first in the next run.
#include "plan/pack_window_search.h"

#include "plan/pack_greedy.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace cugrt::plan {
namespace {

constexpr int64_t kUnbounded = WindowProblem::kUnbounded;

int64_t align_up(int64_t value, int64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

} // namespace

WindowSearch::WindowSearch(const WindowProblem &problem)
    : problem_(problem), failures_(problem.items.items.size(), 0) {
  std::vector<int64_t> lifetimes;
  for (uint32_t i = 0; i < failures_.size(); ++i)
    lifetimes.push_back(problem.items.steps(i));
  for (int order = 0; order < kGreedyOrders; ++order)
    orders_.push_back(greedy_order(order, problem.items.items, lifetimes, problem.loads));
  pass_limit_ = failures_.size() + 1;
  for (const PackItem &item : problem.items.items)
    alike_ &= item.alignment == problem.items.items[0].alignment;
  position_.resize(problem.pairs.size());
  at_.resize(problem.pairs.size());
  for (uint32_t p = 0; p < at_.size(); ++p)
    position_[p] = at_[p] = p;
}

/// False where some item does not fit at all.
bool WindowSearch::reset(int64_t capacity_bytes) {
  const WindowItems &items = problem_.items;
  const size_t count = items.items.size();
  decisions_ = 0;
  work_ = int64_t(problem_.pairs.size()); // what follows
  out_of_nodes_ = doubtful_ = false;
  low_.assign(count, 0);
  high_.assign(count, 0);
  ranges_.resize(problem_.pairs.size());
  for (size_t p = 0; p < ranges_.size(); ++p)
    ranges_[p] = {0, problem_.pairs[p].option_count - 1};
  clashes_.assign((ranges_.size() + 63) / 64, 0);
  queued_.assign(count, 0);
  low_saved_.assign(count, level_);
  high_saved_.assign(count, level_);
  is_changed_.assign(count, 0);
  queue_.clear();
  changed_.clear();
  trail_.clear();
  frames_.clear();
  for (uint32_t i = 0; i < count; ++i) {
    const PackItem &item = items.items[i];
    high_[i] = (capacity_bytes - item.bytes) & ~(item.alignment - 1);
    if (items.fixed[i] >= 0) {
      if (items.fixed[i] > high_[i])
        return false;
      low_[i] = high_[i] = items.fixed[i];
    }
    if (high_[i] < 0)
      return false;
    touch(i);
  }
  return true;
}

WindowSearch::Outcome WindowSearch::run(const WindowStrategy &strategy, int64_t capacity_bytes,
                                        int64_t node_limit) {
  order_pairs(strategy);
  if (!reset(capacity_bytes))
    return Outcome::exhausted;
  limit_ = node_limit;
  for (uint32_t p = 0; p < ranges_.size(); ++p) { // twins lie in the order of their numbers
    const auto &pair = problem_.pairs[p];
    const auto options = problem_.options_of(pair);
    if (problem_.items.twins(pair.a, pair.b))
      while (options[ranges_[p].first].most < 0)
        ++ranges_[p].first;
  }
  bool standing = propagate();
  for (Frame frame{};;) {
    if (out_of_nodes_)
      return Outcome::limit;
    if (standing) {
      if (!choose(strategy, frame)) {
        offsets_ = low_;
        return Outcome::solved;
      }
      frames_.push_back(frame);
    } else {
      while (!frames_.empty() && frames_.back().both) {
        undo_to(frames_.back().trail_mark);
        frames_.pop_back();
      }
      if (frames_.empty())
        return doubtful_ ? Outcome::limit : Outcome::exhausted;
      undo_to(frames_.back().trail_mark);
      frames_.back().both = true;
      frames_.back().above ^= true;
    }
    if (++decisions_; nodes() > limit_)
      return Outcome::limit;
    standing = take(frames_.back());
  }
}

/// Pairs by the later of their items, then the earlier.
void WindowSearch::order_pairs(const WindowStrategy &strategy) {
  std::vector<uint32_t> items = orders_[size_t(strategy.order)];
  std::stable_sort(items.begin(), items.end(), [&](uint32_t a, uint32_t b) {
    return std::bit_width(uint64_t(failures_[a])) > std::bit_width(uint64_t(failures_[b]));
  });
  rank_.resize(items.size());
  for (uint32_t rank = 0; rank < items.size(); ++rank)
    rank_[items[rank]] = rank;
  uint32_t next = 0;
  for (uint32_t item : items) {
    const uint32_t begin = next;
    for (uint32_t p : problem_.pairs_of[item]) {
      const auto &pair = problem_.pairs[p];
      if (rank_[pair.a] <= rank_[item] && rank_[pair.b] <= rank_[item])
        at_[next++] = p;
    }
    auto earlier = [&](uint32_t p) {
      return std::min(rank_[problem_.pairs[p].a], rank_[problem_.pairs[p].b]);
    };
    std::sort(at_.begin() + begin, at_.begin() + next,
              [&](uint32_t p, uint32_t q) { return earlier(p) < earlier(q); });
  }
  for (uint32_t position = 0; position < at_.size(); ++position)
    position_[at_[position]] = position;
}

/// The first clash; false where there is none.
bool WindowSearch::choose(const WindowStrategy &strategy, Frame &frame) const {
  size_t word = 0;
  while (word < clashes_.size() && clashes_[word] == 0)
    ++word;
  if (word == clashes_.size())
    return false;
  const size_t position = word * 64 + size_t(std::countr_zero(clashes_[word]));
  frame = {at_[position], 0, false, false, trail_.size()};
  const auto &pair = problem_.pairs[frame.pair];
  const auto options = problem_.options_of(pair);
  frame.option = ranges_[frame.pair].first;
  while (options[frame.option + 1].least <= low_[pair.b] - low_[pair.a])
    ++frame.option;
  const auto &items = problem_.items.items;
  const int64_t end_of_a = low_[pair.b] - options[frame.option].most + items[pair.a].bytes;
  const int64_t end_of_b = low_[pair.a] + options[frame.option + 1].least + items[pair.b].bytes;
  frame.above = strategy.least_first && end_of_a != end_of_b ? end_of_b < end_of_a
                                                             : rank_[pair.a] < rank_[pair.b];
  return true;
}

/// Leaves the options on one side of the clash.
bool WindowSearch::take(const Frame &frame) {
  Range range = ranges_[frame.pair];
  (frame.above ? range.first : range.last) = frame.option + (frame.above ? 1 : 0);
  set_range(frame.pair, range);
  touch(problem_.pairs[frame.pair].a);
  touch(problem_.pairs[frame.pair].b);
  return propagate();
}

bool WindowSearch::propagate() {
  bool stands = settle();
  for (size_t c = 0; stands && c < changed_.size(); ++c) {
    if (!(stands = has_room(changed_[c])))
      ++failures_[changed_[c]];
    else if (nodes() > limit_)
      stands = !(out_of_nodes_ = true);
  }
  for (uint32_t item : changed_)
    is_changed_[item] = 0;
  changed_.clear();
  return stands;
}

/// Moves limits until nothing changes, or something has failed, or the nodes have run out.
bool WindowSearch::settle() {
  ++level_;
  bool stands = true;
  // Limits that still move after as many passes as there are items run round a circle for ever.
  for (size_t passes = 0; stands && !queue_.empty(); ++passes) {
    pass_.clear();
    std::swap(pass_, queue_);
    const size_t narrowed = narrowed_;
    for (uint32_t item : pass_)
      queued_[item] = 0;
    for (size_t next = 0; stands && next < pass_.size(); ++next)
      stands = narrow_around(pass_[next]);
    if (narrowed_ != narrowed)
      passes = 0;
    if (passes > pass_limit_) {
      doubtful_ |= !alike_;
      stands = false;
    }
    if (nodes() > limit_) {
      out_of_nodes_ = true;
      stands = false;
    }
  }
  for (uint32_t item : queue_)
    queued_[item] = 0;
  queue_.clear();
  return stands;
}

bool WindowSearch::narrow_around(uint32_t item) {
  for (uint32_t p : problem_.pairs_of[item]) {
    ++work_;
    if (!narrow(p)) {
      ++failures_[problem_.pairs[p].a];
      ++failures_[problem_.pairs[p].b];
      return false;
    }
  }
  return true;
}

/// Drops options that the limits of the pair's items rule out, and moves the limits to what is
/// left.
bool WindowSearch::narrow(uint32_t p) {
  const auto &[a, b, first_option, option_count] = problem_.pairs[p];
  const auto *options = problem_.options.data() + first_option;
  const int64_t least = low_[b] - high_[a], most = high_[b] - low_[a];
  Range range = ranges_[p];
  while (range.first <= range.last && options[range.first].most < least)
    ++range.first;
  while (range.first <= range.last && options[range.last].least > most) {
    if (range.last == range.first)
      return false;
    --range.last;
  }
  if (range.first > range.last)
    return false;
  set_range(p, range);
  if (const int64_t above = options[range.first].least; above != -kUnbounded)
    if (!raise(b, low_[a] + above) || !lower(a, high_[b] - above))
      return false;
  if (const int64_t below = options[range.last].most; below != kUnbounded)
    if (!raise(a, low_[b] - below) || !lower(b, high_[a] + below))
      return false;
  const int64_t difference = low_[b] - low_[a];
  uint32_t option = range.first;
  while (option < range.last && options[option].most < difference)
    ++option;
  set_clash(p, difference < options[option].least);
  return true;
}

bool WindowSearch::raise(uint32_t item, int64_t low) {
  if (low <= low_[item])
    return true;
  low = align_up(low, problem_.items.items[item].alignment);
  if (std::exchange(low_saved_[item], level_) != level_)
    trail_.push_back({Undo::low, item, low_[item]});
  low_[item] = low;
  touch(item);
  return low <= high_[item];
}

bool WindowSearch::lower(uint32_t item, int64_t high) {
  if (high >= high_[item])
    return true;
  high &= ~(problem_.items.items[item].alignment - 1);
  if (std::exchange(high_saved_[item], level_) != level_)
    trail_.push_back({Undo::high, item, high_[item]});
  high_[item] = high;
  touch(item);
  return low_[item] <= high;
}

/// Whether in the item's fullest sections the parts that begin where it can begin first, or above,
/// fit below the highest end of any of them, and those that end where it can end last, or below,
/// above the lowest begin.
bool WindowSearch::has_room(uint32_t item) {
  for (uint32_t place : problem_.places_of[item]) {
    const auto &own = problem_.members[place];
    const int64_t begin = low_[item] + own.low, end = high_[item] + own.high;
    int64_t above = 0, highest = end, below = 0, lowest = begin;
    const auto members = problem_.members_of(problem_.homes[place]);
    for (const auto &[other, low, high] : members) {
      if (low_[other] + low >= begin) {
        above += high - low;
        highest = std::max(highest, high_[other] + high);
      }
      if (high_[other] + high <= end) {
        below += high - low;
        lowest = std::min(lowest, low_[other] + low);
      }
    }
    work_ += int64_t(members.size());
    if (above > highest - begin || below > end - lowest)
      return false;
  }
  return true;
}

void WindowSearch::set_range(uint32_t pair, Range range) {
  Range &now = ranges_[pair];
  narrowed_ += now.first != range.first || now.last != range.last;
  if (now.first != range.first)
    trail_.push_back({Undo::first, pair, now.first});
  if (now.last != range.last)
    trail_.push_back({Undo::last, pair, now.last});
  now = range;
}

void WindowSearch::set_clash(uint32_t pair, bool clash) {
  uint64_t &word = clashes_[position_[pair] / 64];
  const uint64_t bit = uint64_t(1) << position_[pair] % 64;
  if (((word & bit) != 0) == clash)
    return;
  trail_.push_back({Undo::clash, pair, !clash});
  word ^= bit;
}

/// The item's limits or options have changed.
void WindowSearch::touch(uint32_t item) {
  if (!std::exchange(queued_[item], 1))
    queue_.push_back(item);
  if (!std::exchange(is_changed_[item], 1))
    changed_.push_back(item);
}

void WindowSearch::undo_to(size_t trail_mark) {
  for (; trail_.size() > trail_mark; trail_.pop_back()) {
    const Undo &undo = trail_.back();
    switch (undo.kind) {
    case Undo::low:
      low_[undo.index] = undo.old;
      break;
    case Undo::high:
      high_[undo.index] = undo.old;
      break;
    case Undo::first:
      ranges_[undo.index].first = uint32_t(undo.old);
      break;
    case Undo::last:
      ranges_[undo.index].last = uint32_t(undo.old);
      break;
    case Undo::clash:
      clashes_[position_[undo.index] / 64] ^= uint64_t(1) << position_[undo.index] % 64;
      break;
    }
  }
}

} // namespace cugrt::plan
