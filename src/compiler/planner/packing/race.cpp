// Races strategies and capacities. A search either succeeds within a few times as many decisions as
// there are items, or is likely to be lost in a bad corner for ever; which strategy succeeds cannot
// be told beforehand. So all of them run with the same small limit, then with a fifth more, and so
// on: restarts are cheap, since weights and failed states are kept from run to run (doubling the
// limit was measured to leave more instances unsolved).
//
// After each attempt at the goal itself, half as many nodes go to capacities between goal and
// incumbent: steps of a half, a quarter, ... of the distance, the largest that still succeeds
// first. Both are needed: a search at 1.00 of the bound may succeed at once where one at 1.02 does
// not (failures are not monotone), and where the goal cannot be met the steps are all there is.
// Their weights are kept apart: what is hard at another capacity misleads.
#include "compiler/planner/packing/problem.h"

#include "compiler/planner/packing/search.h"

#include <algorithm>

namespace cugrt::plan {
namespace {

// Measured over instances of the MiniMalloc kind, their mirror images, parts and random relatives:
// the members that solve some instance ten times sooner than all others do.
constexpr PackingStrategy kStrategies[] = {
    {"LT", true, false, true},  {"TWL", true, false, false}, {"LT", true, false, false},
    {"TCB", true, true, true},  {"TWL", true, true, true},   {"TBC", true, false, false},
    {"TBC", true, true, false}, {"OTA", true, false, false}, {"TBC", true, false, true},
    {"WAT", true, true, true},  {"OTA", true, true, true},   {"TWA", true, true, false},
    {"BT", true, false, true},  {"TWL", false, true, false},
};
constexpr size_t kStrategyCount = std::size(kStrategies);
constexpr int kSmallestStep = 8; // a 256th of the distance between goal and incumbent

class Race {
public:
  Race(const PackingProblem &problem, int64_t peak_bytes, int64_t goal_bytes, int64_t node_budget)
      : problem_(problem), search_(problem, strategies(), node_budget), peak_bytes_(peak_bytes),
        goal_bytes_(goal_bytes), budget_(node_budget) {}

  std::vector<int64_t> run() {
    int64_t limit = std::max<int64_t>(64, int64_t(problem_.items.size()));
    for (; open(); limit += limit / 5)
      for (size_t s = 0; s < kStrategyCount && open(); ++s) {
        int64_t left = budget_;
        if (!attempt(s, goal_bytes_, limit))
          approach(limit, (left - budget_) / 2);
      }
    return std::move(best_);
  }

private:
  /// Each of them twice: for the goal, and for the steps towards it.
  static std::vector<PackingStrategy> strategies() {
    std::vector<PackingStrategy> twice(std::begin(kStrategies), std::end(kStrategies));
    twice.insert(twice.end(), std::begin(kStrategies), std::end(kStrategies));
    return twice;
  }

  bool open() const { return budget_ > 0 && peak_bytes_ > goal_bytes_; }

  /// Steps towards the goal; goes on where it stopped the last time.
  void approach(int64_t limit, int64_t allowance) {
    int64_t end = budget_ - allowance;
    for (size_t failures = 0;
         open() && budget_ > end && failures < kStrategyCount * kSmallestStep;) {
      int64_t step = (peak_bytes_ - goal_bytes_) >> shift_;
      step = std::max(step - step % problem_.unit_bytes, problem_.unit_bytes);
      int64_t capacity = std::max(peak_bytes_ - step, goal_bytes_);
      if (attempt(kStrategyCount + strategy_, capacity, limit)) {
        failures = 0;
        continue;
      }
      ++failures;
      strategy_ = (strategy_ + 1) % kStrategyCount;
      if (strategy_ == 0)
        shift_ = shift_ == kSmallestStep ? 1 : shift_ + 1;
    }
  }

  bool attempt(size_t strategy, int64_t capacity_bytes, int64_t limit) {
    auto outcome = search_.run(strategy, capacity_bytes, std::min(limit, budget_));
    budget_ -= search_.nodes() + 1; // an attempt that fails at once must not be free
    if (outcome == PackingSearch::Outcome::exhausted) // nothing so small: no use in going on
      goal_bytes_ = std::max(goal_bytes_, capacity_bytes + problem_.unit_bytes);
    if (outcome != PackingSearch::Outcome::solved)
      return false;
    best_ = search_.offsets();
    peak_bytes_ = 0;
    for (size_t i = 0; i < best_.size(); ++i)
      peak_bytes_ = std::max(peak_bytes_, best_[i] + problem_.items[i].bytes);
    return true;
  }

  const PackingProblem &problem_;
  PackingSearch search_;
  std::vector<int64_t> best_;
  int64_t peak_bytes_, goal_bytes_, budget_;
  size_t strategy_ = 0;
  int shift_ = 1;
};

} // namespace

std::vector<int64_t> race(const PackingProblem &problem, int64_t peak_bytes, int64_t goal_bytes,
                          int64_t node_budget) {
  return Race(problem, peak_bytes, std::max(goal_bytes, problem.bound_bytes), node_budget).run();
}

} // namespace cugrt::plan
