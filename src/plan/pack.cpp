// Packing, from the greedy portfolio to the search: see pack_greedy.cpp and pack_search.cpp.
//
// Items are put into a canonical order first (begin, end, bytes, alignment), so that the packing
// does not depend on how they were numbered, up to items that are equal in everything.
#include "plan/pack.h"

#include "plan/pack_greedy.h"
#include "plan/pack_race.h"
#include "support/checked_math.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>

namespace cugrt::plan {
namespace {

// Greedy placement is quadratic where many are alive: tens of milliseconds, and seconds.
constexpr size_t kGreedyAtLoad = 4096, kGreedyAtBuild = 32768;

Status check(std::span<const PackItem> items) {
  int64_t total = 0, largest_alignment = 1;
  for (const PackItem &item : items)
    largest_alignment = std::max(largest_alignment, item.alignment);
  for (size_t i = 0; i < items.size(); ++i) {
    const PackItem &item = items[i];
    if (item.begin >= item.end || item.bytes < 0 || item.alignment <= 0 ||
        (item.alignment & (item.alignment - 1)) != 0)
      return Status::error(Code::invalid_argument,
                           "packing item " + std::to_string(i) +
                               " needs begin < end, bytes that are not negative and an alignment "
                               "that is a power of two");
    auto padded = checked_add(item.bytes, largest_alignment);
    auto sum = padded ? checked_add(total, *padded) : std::nullopt;
    if (!sum)
      return Status::error(Code::out_of_range, "the tensors' sizes add up to more than 2^63 bytes; "
                                               "lower the upper bounds of their symbols");
    total = *sum; // no placement below exceeds this, so plain arithmetic is safe from here on
  }
  return {};
}

/// Bytes alive, summed over time: by step where steps are about as many as items, else by event.
int64_t largest_load(std::span<const PackItem> items) {
  uint32_t end = 0;
  for (const PackItem &item : items)
    end = std::max(end, item.end);
  int64_t load = 0, largest = 0;
  if (end / 8 <= items.size()) {
    std::vector<int64_t> changes(size_t(end) + 1, 0);
    for (const PackItem &item : items) {
      changes[item.begin] += item.bytes;
      changes[item.end] -= item.bytes;
    }
    for (int64_t change : changes)
      largest = std::max(largest, load += change);
    return largest;
  }
  std::vector<std::pair<uint32_t, int64_t>> events;
  events.reserve(items.size() * 2);
  for (const PackItem &item : items) {
    events.push_back({item.begin, item.bytes});
    events.push_back({item.end, -item.bytes});
  }
  std::sort(events.begin(), events.end()); // of one time, ends come first
  for (auto [time, bytes] : events)
    largest = std::max(largest, load += bytes);
  return largest;
}

std::vector<uint32_t> canonical_order(std::span<const PackItem> items) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < items.size(); ++i)
    if (items[i].bytes > 0)
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const PackItem &x = items[a], &y = items[b];
    return std::tie(x.begin, x.end, x.bytes, x.alignment, a) <
           std::tie(y.begin, y.end, y.bytes, y.alignment, b);
  });
  return order;
}

int64_t node_budget(const PackOptions &options, size_t item_count) {
  if (options.node_budget > 0)
    return options.node_budget;
  return options.effort == Effort::build ? kBuildNodes : kLoadNodes + 4 * int64_t(item_count);
}

/// Replaces the packing by what the search finds, if it is smaller.
void search(std::span<const PackItem> items, const PackOptions &options, int64_t goal_bytes,
            Packing &packing) {
  auto problem = PackProblem::make(items);
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

Packing pack_canonical(std::span<const PackItem> items, const PackOptions &options) {
  int64_t bound = largest_load(items);
  int64_t goal = bound; // the rest of the granule that it ends in costs nothing
  if (auto end = checked_add(bound, options.granule_bytes - 1))
    goal = *end - *end % options.granule_bytes;
  switch (options.policy) {
  case PackPolicy::greedy:
    return pack_greedy(items);
  case PackPolicy::slots:
    return pack_slots(items);
  case PackPolicy::portfolio:
    return pack_portfolio(items, goal, kGreedyAtLoad);
  case PackPolicy::search:
    break;
  }
  Packing packing =
      pack_portfolio(items, goal, options.effort == Effort::build ? kGreedyAtBuild : kGreedyAtLoad);
  if (packing.peak_bytes > goal)
    search(items, options, goal, packing);
  return packing;
}

} // namespace

PackOptions planner_pack_options(size_t item_count) {
  constexpr size_t kToTheByte = 1024;
  return {.granule_bytes = item_count > kToTheByte ? kPageBytes : 1};
}

Result<int64_t> lower_bound_bytes(std::span<const PackItem> items) {
  CUGRT_TRY(check(items));
  return largest_load(items);
}

Result<Packing> pack(std::span<const PackItem> items, const PackOptions &options) {
  CUGRT_TRY(check(items));
  if (options.granule_bytes <= 0 || options.granule_bytes > kLargestGranule)
    return Status::error(Code::invalid_argument,
                         "a packing's granule must be from 1 byte to 2^40 bytes");
  std::vector<uint32_t> order = canonical_order(items);
  std::vector<PackItem> sorted;
  sorted.reserve(order.size());
  for (uint32_t i : order)
    sorted.push_back(items[i]);
  Packing packing;
  packing.offsets.assign(items.size(), 0);
  if (sorted.empty())
    return packing;
  Packing found = pack_canonical(sorted, options);
  packing.peak_bytes = found.peak_bytes;
  for (size_t i = 0; i < order.size(); ++i)
    packing.offsets[order[i]] = found.offsets[i];
  return packing;
}

Status validate_packing(std::span<const PackItem> items, const Packing &packing) {
  auto fail = [](size_t i, const std::string &what) {
    return Status::error(Code::internal, "packing item " + std::to_string(i) + " " + what);
  };
  if (packing.offsets.size() != items.size())
    return Status::error(Code::internal, "packing has another number of offsets than items");
  int64_t peak = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    int64_t offset = packing.offsets[i];
    auto end = checked_add(offset, items[i].bytes);
    if (offset < 0 || !end || offset % items[i].alignment != 0)
      return fail(i, "has an offset that is negative, too large or not aligned");
    if (items[i].bytes == 0)
      continue;
    peak = std::max(peak, *end);
    for (size_t j = 0; j < i; ++j) {
      bool in_time = items[i].begin < items[j].end && items[j].begin < items[i].end;
      bool in_space = offset < packing.offsets[j] + items[j].bytes && packing.offsets[j] < *end;
      if (in_time && in_space && items[j].bytes > 0)
        return fail(i, "overlaps item " + std::to_string(j) + " while both are alive");
    }
  }
  if (peak != packing.peak_bytes)
    return Status::error(Code::internal, "packing states another peak than its offsets have");
  return {};
}

} // namespace cugrt::plan
