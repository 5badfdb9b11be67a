// Packing, from the greedy portfolio to the search: see greedy.cpp and search.cpp.
//
// Items are put into a canonical order first (items.h), so that the packing does not depend on
// how they were numbered, up to items that are equal in everything.
#include "compiler/planner/packing/packing.h"

#include "base/checked_math.h"
#include "compiler/planner/packing/problem.h"

#include <algorithm>

namespace cugrt::plan {
// More items are searched only where the greedy packing is highest.
constexpr size_t kSearchedWhole = 5000;
// Greedy placement is quadratic where many are alive: tens of milliseconds, and seconds.
constexpr size_t kGreedyAtLoad = 4096, kGreedyAtBuild = 32768;

/// The largest sum of bytes alive at a time: by step where steps are about as many as items, else
/// by event.
static int64_t largest_load(const PackingInput &input) {
  const std::span<const PackingItem> items = input.items;
  uint32_t end = 0;
  for (const PackingItem &item : items)
    end = std::max(end, item.end);
  int64_t load = 0, largest = 0;
  if (end / 8 <= items.size()) {
    std::vector<int64_t> changes(size_t(end) + 1, 0);
    for_each_life(input, [&](uint32_t i, uint32_t from, uint32_t to) {
      changes[from] += items[i].bytes;
      changes[to] -= items[i].bytes;
    });
    for (int64_t change : changes)
      largest = std::max(largest, load += change);
    return largest;
  }
  std::vector<std::pair<uint32_t, int64_t>> events;
  events.reserve((items.size() + input.gaps.size()) * 2);
  for_each_life(input, [&](uint32_t i, uint32_t from, uint32_t to) {
    events.push_back({from, items[i].bytes});
    events.push_back({to, -items[i].bytes});
  });
  std::sort(events.begin(), events.end()); // of one time, ends come first
  for (auto [time, bytes] : events)
    largest = std::max(largest, load += bytes);
  return largest;
}

static int64_t bound_of(const PackingInput &input) {
  int64_t bound = largest_load(input);
  if (input.fixed.empty())
    return bound;
  size_t f = 0;
  for_each_life(input, [&](uint32_t i, uint32_t, uint32_t) {
    while (f < input.fixed.size() && input.fixed[f].item < i)
      ++f;
    const bool fixed = f < input.fixed.size() && input.fixed[f].item == i;
    if (fixed && input.items[i].bytes > 0)
      bound = std::max(bound, input.fixed[f].offset_bytes + input.items[i].bytes);
  });
  return bound;
}

/// The rest of the granule that the bound ends in costs nothing.
static int64_t goal_of(int64_t bound, int64_t granule_bytes) {
  auto end = checked_add(bound, granule_bytes - 1);
  return end ? *end - *end % granule_bytes : bound;
}

static int64_t node_budget(const PackingOptions &options, size_t item_count) {
  if (options.node_budget > 0)
    return options.node_budget;
  return options.effort == Effort::build ? kBuildNodes : kLoadNodes + 4 * int64_t(item_count);
}

/// Replaces the packing by the search's result, if that is smaller.
static void search(const CanonicalItems &canonical, const PackingOptions &options,
                   int64_t goal_bytes, Packing &packing) {
  const std::vector<PackingItem> &items = canonical.items;
  auto problem = PackingProblem::make(canonical);
  if (!problem)
    return;
  int64_t rounded_peak = 0; // with sizes rounded up as the search sees them
  for (size_t i = 0; i < items.size(); ++i)
    rounded_peak = std::max(rounded_peak, packing.offsets[i] + problem->items[i].bytes);
  std::vector<int64_t> offsets =
      race(*problem, rounded_peak, goal_bytes, node_budget(options, items.size()));
  if (offsets.empty())
    return;
  Packing found{std::move(offsets), 0};
  for (size_t i = 0; i < items.size(); ++i)
    found.peak_bytes = std::max(found.peak_bytes, found.offsets[i] + items[i].bytes);
  if (found.peak_bytes < packing.peak_bytes)
    packing = std::move(found);
}

static Packing canonical_packing(const CanonicalItems &items, const PackingOptions &options,
                                 int64_t goal) {
  switch (options.policy) {
  case PackingPolicy::greedy:
    return greedy_packing(items);
  case PackingPolicy::portfolio:
    return portfolio_packing(items, goal, kGreedyAtLoad);
  case PackingPolicy::search:
    break;
  }
  Packing packing = portfolio_packing(
      items, goal, options.effort == Effort::build ? kGreedyAtBuild : kGreedyAtLoad);
  if (packing.peak_bytes > goal && items.items.size() <= kSearchedWhole)
    search(items, options, goal, packing);
  else if (packing.peak_bytes > goal)
    lower_peaks(items, goal, node_budget(options, items.items.size()), packing);
  return packing;
}

PackingOptions planner_packing_options(size_t item_count, Effort effort) {
  constexpr size_t kToTheByte = 1024;
  const bool to_the_byte = effort == Effort::build || item_count <= kToTheByte;
  return {.effort = effort, .granule_bytes = to_the_byte ? 1 : kPageBytes};
}

Result<int64_t> lower_bound_bytes(const PackingInput &input) {
  CUGRT_TRY(check_input(input));
  return bound_of(input);
}

Result<Packing> find_packing(const PackingInput &input, const PackingOptions &options) {
  CUGRT_TRY(check_input(input));
  if (options.granule_bytes <= 0 || options.granule_bytes > kLargestGranule)
    return Status::error(Code::invalid_argument,
                         "a packing's granule must be from 1 byte to 2^40 bytes");
  const int64_t goal = goal_of(bound_of(input), options.granule_bytes);
  const CanonicalItems canonical = CanonicalItems::make(input);
  Packing packing;
  packing.offsets.assign(input.items.size(), 0);
  for (const PackingPlace &place : input.fixed)
    packing.offsets[place.item] = place.offset_bytes;
  if (canonical.items.empty())
    return packing;
  const Packing found = canonical_packing(canonical, options, goal);
  packing.peak_bytes = found.peak_bytes;
  for (size_t i = 0; i < canonical.given.size(); ++i)
    packing.offsets[canonical.given[i]] = found.offsets[i];
  return packing;
}

} // namespace cugrt::plan
