// The part of a packing that is searched again, see problem.h.
//
//   goal ┄┄┄┄┄┄┌──┐┄┄┄┄┄┄┄
//        ┌───┬─┤h ├─┐
//        │ c │ ├──┤ │d
//        ├───┴─┴─┬┴─┴──┐
//        │   a   │  b  │
//        └───────┴─────┘
//
// While h is alive something lies above the goal: h, a and b are placed anew. c and d stay, since
// they do not meet h, but hold their bytes against a and b, which meet them. Where that does not
// help, those that meet them are placed anew too.
#include "compiler/planner/packing/problem.h"

#include <algorithm>

namespace cugrt::plan {
namespace {

using Steps = CanonicalItems::Steps;

/// The steps at which some chosen item is alive, as ascending runs that do not touch.
template <class Chosen> std::vector<Steps> steps_of(const CanonicalItems &items, Chosen chosen) {
  std::vector<Steps> runs, merged;
  for (uint32_t i = 0; i < items.items.size(); ++i)
    if (chosen(i))
      items.for_each_life_of(i, [&](uint32_t begin, uint32_t end) {
        runs.push_back({begin, end});
      });
  std::sort(runs.begin(), runs.end());
  for (const Steps &run : runs)
    if (!merged.empty() && run.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, run.end);
    else
      merged.push_back(run);
  return merged;
}

bool alive_in(const CanonicalItems &items, uint32_t i, const std::vector<Steps> &runs) {
  bool alive = false;
  items.for_each_life_of(i, [&](uint32_t begin, uint32_t end) {
    auto run = std::upper_bound(runs.begin(), runs.end(), begin,
                                [](uint32_t step, const Steps &r) { return step < r.end; });
    alive |= run != runs.end() && run->begin < end;
  });
  return alive;
}

/// Some of the items, those not to be placed anew fixed where they lie.
class Part {
public:
  /// `rings`: how often what meets an item that is placed anew is so too.
  Part(const CanonicalItems &all, const Packing &packing, int64_t goal_bytes, int rings) {
    std::vector<Steps> around = steps_of(
        all, [&](uint32_t i) { return packing.offsets[i] + all.items[i].bytes > goal_bytes; });
    std::vector<bool> anew(all.items.size());
    for (int ring = 0; ring < rings; ++ring) {
      for (uint32_t i = 0; i < anew.size(); ++i)
        anew[i] = all.fixed_at(i) < 0 && alive_in(all, i, around);
      around = steps_of(all, [&](uint32_t i) { return anew[i]; });
    }
    for (uint32_t i = 0; i < anew.size(); ++i)
      if (anew[i] || alive_in(all, i, around))
        add(all, i, anew[i] ? -1 : packing.offsets[i]);
  }

  CanonicalItems canonical() const { return CanonicalItems::make({items_, gaps_, fixed_}); }
  uint32_t number(uint32_t given) const { return numbers_[given]; } // in all

private:
  void add(const CanonicalItems &all, uint32_t i, int64_t fixed_bytes) {
    const auto number = uint32_t(items_.size());
    uint32_t end = all.items[i].begin;
    all.for_each_life_of(i, [&](uint32_t from, uint32_t to) {
      if (end < from)
        gaps_.push_back({number, end, from});
      end = to;
    });
    if (fixed_bytes >= 0)
      fixed_.push_back({number, fixed_bytes});
    items_.push_back(all.items[i]);
    numbers_.push_back(i);
  }

  std::vector<PackingItem> items_;
  std::vector<PackingGap> gaps_;
  std::vector<PackingPlace> fixed_;
  std::vector<uint32_t> numbers_;
};

} // namespace

/// Makes one attempt; false if the part has become too large for a search.
static bool place_anew(const CanonicalItems &items, int64_t goal_bytes, int rings,
                       int64_t node_budget, Packing &packing) {
  const Part part(items, packing, goal_bytes, rings);
  const CanonicalItems some = part.canonical();
  const auto problem = PackingProblem::make(some);
  if (!problem)
    return false;
  int64_t peak = 0; // with sizes rounded up as the search sees them
  for (size_t i = 0; i < some.items.size(); ++i)
    peak = std::max(peak, packing.offsets[part.number(some.given[i])] + problem->items[i].bytes);
  const std::vector<int64_t> offsets = race(*problem, peak, goal_bytes, node_budget);
  if (offsets.empty())
    return true;
  Packing found = packing;
  for (size_t i = 0; i < offsets.size(); ++i)
    found.offsets[part.number(some.given[i])] = offsets[i];
  found.peak_bytes = 0;
  for (size_t i = 0; i < items.items.size(); ++i)
    found.peak_bytes = std::max(found.peak_bytes, found.offsets[i] + items.items[i].bytes);
  if (found.peak_bytes < packing.peak_bytes)
    packing = std::move(found);
  return true;
}

void lower_peaks(const CanonicalItems &items, int64_t goal_bytes, int64_t node_budget,
                 Packing &packing) {
  constexpr int kRings = 4;
  for (int rings = 1; rings <= kRings && packing.peak_bytes > goal_bytes; ++rings)
    if (!place_anew(items, goal_bytes, rings, node_budget / kRings, packing))
      return;
}

} // namespace cugrt::plan
