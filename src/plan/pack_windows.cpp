// Packing with windows: items that occupy only a part of their bytes at some steps.
//
//   offset   ┌────────────┐
//            │     b      │        a is whole at first and then keeps its lower bytes; b is whole
//            ├───────┐    │        when a has become small, and before has its upper bytes only: it
//            │       │    │        rests in a's hollow. Neither is a rectangle, so a packing has
//            │   a   ├────┤        no skyline, and first fit in the order of offsets is no longer
//            │       │ a  │        enough to produce every packing that matters.
//            └───────┴────┘─▸ steps
//
// What is exact is how two items may lie to each other: their difference of offsets is in one of a
// few options (pack_window_problem.h). On these work
//
// 1. greedy placement, in the orders of the portfolio with first and best fit: the ranges of
//    offsets that the items already placed forbid are taken out, and the item gets the lowest of
//    what is left, or the lowest of the smallest range that is;
// 2. the planner's search with windows widened to whole items, where the bound of that leaves it
//    anything to win: it is the better one for rectangles, and whatever it finds is legal;
// 3. the search over options (pack_window_search.h), complete for as many items as the nodes last.
//
// Every packing that is taken is first lowered: each item as far as it can fall without passing
// another one. Too many items, or too many that meet, are packed with windows widened alone.
//
// Peaks count whole items: an item that is ever alive lies below the peak with all its bytes, also
// with those that its windows never show. So a peak is a capacity in the sense of MiniMalloc's
// format, whoever holds a pointer to an item may form one to its end, and where an item is whole at
// some step, as most are, nothing else would come out.
#include "plan/pack_windows.h"

#include "plan/pack_greedy.h"
#include "plan/pack_window_search.h"
#include "support/checked_math.h"

#include <algorithm>
#include <utility>

namespace cugrt::plan {
namespace {

/// Places items one by one, in the order of the calls. What has a fixed place lies there from the
/// start.
class WindowPlacer {
public:
  explicit WindowPlacer(const WindowProblem &problem)
      : problem_(problem), offsets_(problem.items.fixed) {}

  void place(uint32_t item, Fit fit) {
    if (offsets_[item] < 0)
      offsets_[item] = find_offset(item, fit);
  }
  std::vector<int64_t> finish() { return std::move(offsets_); }

private:
  int64_t find_offset(uint32_t item, Fit fit) {
    list_forbidden(item);
    const int64_t alignment = problem_.items.items[item].alignment;
    int64_t top = 0, best = -1, best_room = INT64_MAX; // below the top nothing is left
    for (const auto &[begin, end] : forbidden_) {
      const int64_t room = begin - top;
      if (room > 0 && room < best_room) {
        best = top;
        best_room = room;
        if (fit == Fit::first)
          return best;
      }
      if (end > top)
        top = *checked_align(end, alignment);
    }
    return best >= 0 ? best : top;
  }

  /// Half-open ranges of offsets at which the item would clash with one that is placed, ascending.
  void list_forbidden(uint32_t item) {
    forbidden_.clear();
    for (uint32_t p : problem_.pairs_of[item]) {
      const auto &pair = problem_.pairs[p];
      const int64_t other = offsets_[pair.a == item ? pair.b : pair.a];
      if (other < 0)
        continue;
      const auto options = problem_.options_of(pair);
      for (size_t o = 1; o < options.size(); ++o) { // what lies between two options
        const int64_t low = options[o - 1].most, high = options[o].least;
        forbidden_.push_back(pair.a == item ? std::pair(other - high + 1, other - low)
                                            : std::pair(other + low + 1, other + high));
      }
    }
    std::sort(forbidden_.begin(), forbidden_.end());
  }

  const WindowProblem &problem_;
  std::vector<int64_t> offsets_; // -1: not placed yet
  std::vector<std::pair<int64_t, int64_t>> forbidden_;
};

/// The best packing so far, and the ways to a better one.
class WindowPacker {
public:
  WindowPacker(const WindowItems &items, const WindowProblem &problem, int64_t goal_bytes)
      : items_(items), problem_(problem), search_(problem), goal_bytes_(goal_bytes) {}

  bool open() const { return best_.offsets.empty() || best_.peak_bytes > goal_bytes_; }
  int64_t peak_bytes() const { return best_.peak_bytes; }
  Packing finish() { return std::move(best_); }

  void offer(const std::vector<int64_t> &offsets) {
    std::vector<int64_t> lowered = problem_.lowered(offsets);
    const int64_t peak = peak_of(lowered);
    if (best_.offsets.empty() || peak < best_.peak_bytes)
      best_ = {std::move(lowered), peak};
  }

  /// The first `orders` of the portfolio.
  void place_greedily(int orders, std::initializer_list<Fit> fits) {
    std::vector<int64_t> lifetimes;
    for (uint32_t i = 0; i < items_.items.size(); ++i)
      lifetimes.push_back(items_.steps(i));
    for (int order = 0; order < orders; ++order) {
      const auto permutation = greedy_order(order, items_.items, lifetimes, problem_.loads);
      for (Fit fit : fits) {
        if (!open())
          return;
        WindowPlacer placer(problem_);
        for (uint32_t i : permutation)
          placer.place(i, fit);
        offer(placer.finish());
      }
    }
  }

  /// All strategies with the same small limit, then with half as much again, and so on; every other
  /// one looks at the goal itself, the others at a step of a half, a quarter, ... of the way to it.
  void search(int64_t budget) {
    int64_t limit = 64 + 2 * int64_t(problem_.pairs.size());
    int shift = 1;
    for (int round = 0; open() && budget > 0; ++round, limit += limit / 2)
      for (int s = 0; s < 2 * kGreedyOrders && open() && budget > 0; ++s) {
        const WindowStrategy strategy{.order = s / 2, .least_first = s % 2 != 0};
        if ((round + s) % 2 == 0)
          attempt(strategy, goal_bytes_, limit, budget);
        else if (!attempt(strategy, capacity_at(shift), limit, budget))
          shift = shift == kSmallestStep ? 1 : shift + 1;
      }
  }

private:
  static constexpr int kSmallestStep = 8;

  bool attempt(const WindowStrategy &strategy, int64_t capacity_bytes, int64_t limit,
               int64_t &budget) {
    const auto outcome = search_.run(strategy, capacity_bytes, std::min(limit, budget));
    budget -= search_.nodes() + 1; // an attempt that fails at once must not be free
    if (outcome == WindowSearch::Outcome::exhausted) // nothing that small
      goal_bytes_ = std::max(goal_bytes_, capacity_bytes + problem_.unit_bytes);
    if (outcome != WindowSearch::Outcome::solved)
      return false;
    best_ = {search_.offsets(), peak_of(search_.offsets())};
    return true;
  }

  /// A step towards the goal, of the distance divided by 2^shift.
  int64_t capacity_at(int shift) const {
    const int64_t step = (best_.peak_bytes - goal_bytes_) >> shift;
    return std::max(best_.peak_bytes -
                        std::max(step - step % problem_.unit_bytes, problem_.unit_bytes),
                    goal_bytes_);
  }

  int64_t peak_of(std::span<const int64_t> offsets) const {
    int64_t peak = 0;
    for (size_t i = 0; i < offsets.size(); ++i)
      peak = std::max(peak, offsets[i] + items_.items[i].bytes);
    return peak;
  }

  const WindowItems &items_;
  const WindowProblem &problem_;
  WindowSearch search_;
  Packing best_;
  int64_t goal_bytes_;
};

/// The items in their order with windows widened to all their bytes; gaps without windows stay.
struct Widened {
  std::vector<PackGap> gaps;
  std::vector<PackPlace> fixed;

  explicit Widened(const WindowItems &items) {
    for (uint32_t i = 0; i < items.items.size(); ++i) {
      uint32_t end = items.items[i].begin;
      for (const PackPart &part : items.parts_of(i)) {
        if (end < part.begin)
          gaps.push_back({.item = i, .begin = end, .end = part.begin});
        end = part.end;
      }
      if (items.fixed[i] >= 0)
        fixed.push_back({i, items.fixed[i]});
    }
  }
};

Result<Packing> pack_items(const WindowItems &items, const PackOptions &options, int64_t goal_bytes,
                           int64_t node_budget) {
  const Widened widened(items);
  const PackInput rectangles(items.items, widened.gaps, widened.fixed);
  const bool exact = items.windowed && options.policy != PackPolicy::slots;
  const auto problem = exact ? WindowProblem::make(items) : std::nullopt;
  if (!problem) {
    auto packing = pack(rectangles, options);
    if (!packing.ok() && packing.status().code() == Code::invalid_argument)
      return Status::error(Code::unsupported,
                           "so many tensors are packed as if their windows were whole, which needs "
                           "fixed places outside of each other's windows");
    return packing;
  }
  WindowPacker packer(items, *problem, goal_bytes);
  // Of more pairs, a placement takes tens of milliseconds.
  constexpr size_t kPairsAtLoad = size_t(1) << 18;
  const bool all = options.effort == Effort::build || problem->pairs.size() <= kPairsAtLoad;
  if (options.policy == PackPolicy::greedy)
    packer.place_greedily(1, {Fit::best});
  else
    packer.place_greedily(all ? kGreedyOrders : 1, {Fit::best, Fit::first});
  if (options.policy != PackPolicy::search || !packer.open())
    return packer.finish();
  // What is fixed in another's window cannot be widened.
  if (const auto bound = lower_bound_bytes(rectangles);
      bound.ok() && *bound < packer.peak_bytes()) {
    PackOptions half = options;
    half.node_budget = std::max<int64_t>(node_budget / 2, 1);
    CUGRT_ASSIGN(const Packing packing, pack(rectangles, half));
    packer.offer(packing.offsets);
    node_budget -= half.node_budget;
  }
  packer.search(node_budget);
  return packer.finish();
}

} // namespace

bool has_windows(const PackInput &input) {
  return std::any_of(input.gaps.begin(), input.gaps.end(),
                     [](const PackGap &gap) { return gap.low_bytes < gap.high_bytes; });
}

Result<Packing> pack_windows(const PackInput &input, const PackOptions &options, int64_t goal_bytes,
                             int64_t node_budget) {
  Packing packing;
  packing.offsets.assign(input.items.size(), 0);
  for (const PackPlace &place : input.fixed)
    packing.offsets[place.item] = place.offset_bytes;
  const WindowItems items = WindowItems::make(input);
  CUGRT_ASSIGN(const Packing found, pack_items(items, options, goal_bytes, node_budget));
  packing.peak_bytes = found.peak_bytes;
  for (size_t i = 0; i < items.given.size(); ++i)
    packing.offsets[items.given[i]] = found.offsets[i];
  return packing;
}

} // namespace cugrt::plan
