// From items to sections and conflicts, see pack_problem.h.
#include "plan/pack_problem.h"

#include <algorithm>
#include <numeric>

namespace cugrt::plan {
namespace {

constexpr size_t kItemLimit = 8192;
constexpr size_t kEntryLimit = size_t(1) << 22; // of members, and of conflicts

std::vector<uint32_t> change_times(std::span<const PackItem> items) {
  std::vector<uint32_t> times;
  times.reserve(items.size() * 2);
  for (const PackItem &item : items) {
    times.push_back(item.begin);
    times.push_back(item.end);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

/// For each time, the sections before it. The set alive from times[t] to times[t + 1] is maximal
/// when something begins at its start and something ends at its end.
std::vector<uint32_t> sections_before(std::span<const PackItem> items,
                                      const std::vector<uint32_t> &times, auto &&index) {
  std::vector<uint8_t> begins(times.size(), 0), ends(times.size(), 0);
  for (const PackItem &item : items)
    begins[index(item.begin)] = ends[index(item.end)] = 1;
  std::vector<uint32_t> before(times.size(), 0);
  for (size_t t = 0; t + 1 < times.size(); ++t)
    before[t + 1] = before[t] + uint32_t(begins[t] && ends[t + 1]);
  return before;
}

/// Alignment that every item has, and the unit that then divides all offsets.
void round_sizes(PackProblem &problem) {
  int64_t shared = problem.items[0].alignment, unit = 0;
  for (const auto &item : problem.items)
    shared = std::min(shared, item.alignment);
  for (auto &item : problem.items) {
    item.bytes = (item.bytes + shared - 1) & ~(shared - 1);
    unit = std::gcd(unit, item.bytes);
  }
  for (const auto &item : problem.items)
    if (unit % item.alignment != 0) // sums of sizes are then rounded to that alignment
      unit = std::gcd(unit, item.alignment);
  problem.unit_bytes = unit;
}

bool list_members(PackProblem &problem, size_t section_count) {
  size_t total = 0;
  for (const auto &item : problem.items)
    total += item.end - item.begin;
  if (total > kEntryLimit)
    return false;
  auto &[starts, values] = problem.members;
  starts.assign(section_count + 1, 0);
  problem.load_bytes.assign(section_count, 0);
  for (const auto &item : problem.items)
    for (uint32_t s = item.begin; s < item.end; ++s) {
      ++starts[s + 1];
      problem.load_bytes[s] += item.bytes;
    }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  values.resize(total);
  std::vector<uint32_t> next(starts.begin(), starts.end() - 1);
  for (uint32_t i = 0; i < problem.items.size(); ++i)
    for (uint32_t s = problem.items[i].begin; s < problem.items[i].end; ++s)
      values[next[s]++] = i;
  return true;
}

bool list_conflicts(PackProblem &problem) {
  const auto &items = problem.items;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t i = 0; i < items.size(); ++i)
    for (uint32_t j = i + 1; j < items.size() && items[j].begin < items[i].end; ++j) {
      if (pairs.size() * 2 >= kEntryLimit)
        return false;
      pairs.push_back({i, j});
    }
  auto &[starts, values] = problem.conflicts;
  starts.assign(items.size() + 1, 0);
  for (auto [i, j] : pairs) {
    ++starts[i + 1];
    ++starts[j + 1];
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  values.resize(pairs.size() * 2);
  std::vector<uint32_t> next(starts.begin(), starts.end() - 1);
  for (auto [i, j] : pairs) { // ascending by i, then j: every list comes out ascending
    values[next[j]++] = i;
    values[next[i]++] = j;
  }
  return true;
}

} // namespace

std::optional<PackProblem> PackProblem::make(std::span<const PackItem> items) {
  if (items.empty() || items.size() > kItemLimit)
    return std::nullopt;
  std::vector<uint32_t> times = change_times(items);
  auto index = [&](uint32_t time) {
    return uint32_t(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  std::vector<uint32_t> before = sections_before(items, times, index);
  PackProblem problem;
  problem.items.reserve(items.size());
  for (const PackItem &item : items) {
    uint32_t begin = index(item.begin), end = index(item.end);
    problem.items.push_back({item.bytes, item.alignment, before[begin], before[end],
                             item.end - item.begin, end - begin});
  }
  round_sizes(problem);
  if (!list_members(problem, before.back()) || !list_conflicts(problem))
    return std::nullopt;
  problem.bound_bytes = *std::max_element(problem.load_bytes.begin(), problem.load_bytes.end());
  return problem;
}

} // namespace cugrt::plan
