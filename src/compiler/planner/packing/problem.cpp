// Makes sections and conflicts of items; see problem.h.
#include "compiler/planner/packing/problem.h"

#include <algorithm>
#include <numeric>

namespace cugrt::plan {
namespace {

constexpr size_t kItemLimit = 8192;
constexpr size_t kEntryLimit = size_t(1) << 22; // of members, and of conflicts

/// For each time, the sections before it. The set alive from times[t] to times[t + 1] is one when
/// something begins at its start and something ends at its end.
std::vector<uint32_t> sections_before(const CanonicalItems &items,
                                      const std::vector<uint32_t> &times, auto &&index) {
  std::vector<uint8_t> begins(times.size(), 0), ends(times.size(), 0);
  for (uint32_t i = 0; i < items.items.size(); ++i)
    items.for_each_life_of(
        i, [&](uint32_t begin, uint32_t end) { begins[index(begin)] = ends[index(end)] = 1; });
  std::vector<uint32_t> before(times.size(), 0);
  for (size_t t = 0; t + 1 < times.size(); ++t)
    before[t + 1] = before[t] + uint32_t(begins[t] && ends[t + 1]);
  return before;
}

/// Items with their spans. Two lives with no section between them are one span: nothing else is
/// alive in the gap alone.
void list_items(PackingProblem &problem, const CanonicalItems &items,
                const std::vector<uint32_t> &before, auto &&index) {
  problem.items.reserve(items.items.size());
  for (uint32_t i = 0; i < items.items.size(); ++i) {
    const PackingItem &given = items.items[i];
    PackingProblem::Item item{.bytes = given.bytes, .alignment = given.alignment};
    item.fixed_bytes = items.fixed_at(i);
    item.first_span = uint32_t(problem.spans.size());
    items.for_each_life_of(i, [&](uint32_t begin, uint32_t end) {
      const uint32_t from = index(begin), to = index(end);
      item.steps += end - begin;
      item.changes += to - from;
      if (problem.spans.size() > item.first_span && problem.spans.back().end == before[from])
        problem.spans.back().end = before[to];
      else
        problem.spans.push_back({before[from], before[to]});
    });
    item.span_count = uint32_t(problem.spans.size()) - item.first_span;
    item.begin = problem.spans[item.first_span].begin;
    item.end = problem.spans.back().end;
    problem.gapped |= item.span_count > 1;
    problem.has_fixed |= item.fixed();
    problem.items.push_back(item);
  }
}

/// Numbers the lists of several spans, equal ones alike.
void number_shapes(PackingProblem &problem) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < problem.items.size(); ++i)
    if (problem.items[i].span_count > 1)
      order.push_back(i);
  auto spans = [&](uint32_t i) { return problem.spans_of(problem.items[i]); };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::ranges::lexicographical_compare(spans(a), spans(b));
  });
  uint32_t shape = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !std::ranges::equal(spans(order[i - 1]), spans(order[i])))
      ++shape;
    problem.items[order[i]].shape = shape;
  }
}

/// Alignment that every item has, and the unit that then divides all offsets.
void round_sizes(PackingProblem &problem) {
  int64_t shared = problem.items[0].alignment, unit = 0;
  for (const auto &item : problem.items)
    shared = std::min(shared, item.alignment);
  for (auto &item : problem.items) {
    item.bytes = (item.bytes + shared - 1) & ~(shared - 1);
    unit = std::gcd(unit, item.bytes);
  }
  for (const auto &item : problem.items) {
    if (unit % item.alignment != 0) // sums of sizes are then rounded to that alignment
      unit = std::gcd(unit, item.alignment);
    if (item.fixed())
      unit = std::gcd(unit, item.fixed_bytes);
  }
  problem.unit_bytes = unit;
}

bool list_members(PackingProblem &problem, size_t section_count) {
  size_t total = 0;
  for (const auto &span : problem.spans)
    total += span.end - span.begin;
  if (total > kEntryLimit)
    return false;
  auto &[starts, values] = problem.members;
  starts.assign(section_count + 1, 0);
  problem.load_bytes.assign(section_count, 0);
  for (const auto &item : problem.items)
    for (const auto &span : problem.spans_of(item))
      for (uint32_t s = span.begin; s < span.end; ++s) {
        ++starts[s + 1];
        problem.load_bytes[s] += item.bytes;
      }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  values.resize(total);
  std::vector<uint32_t> next(starts.begin(), starts.end() - 1);
  for (uint32_t i = 0; i < problem.items.size(); ++i)
    for (const auto &span : problem.spans_of(problem.items[i]))
      for (uint32_t s = span.begin; s < span.end; ++s)
        values[next[s]++] = i;
  return true;
}

bool share_a_section(const PackingProblem &problem, const PackingProblem::Item &a,
                     const PackingProblem::Item &b) {
  const auto x = problem.spans_of(a), y = problem.spans_of(b);
  for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    if (x[i].begin < y[j].end && y[j].begin < x[i].end)
      return true;
    x[i].end <= y[j].end ? ++i : ++j;
  }
  return false;
}

bool list_conflicts(PackingProblem &problem) {
  const auto &items = problem.items;
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t i = 0; i < items.size(); ++i)
    for (uint32_t j = i + 1; j < items.size() && items[j].begin < items[i].end; ++j) {
      if (problem.gapped && !share_a_section(problem, items[i], items[j]))
        continue;
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

std::optional<PackingProblem> PackingProblem::make(const CanonicalItems &items) {
  if (items.items.empty() || items.items.size() > kItemLimit)
    return std::nullopt;
  std::vector<uint32_t> times = items.change_times();
  auto index = [&](uint32_t time) {
    return uint32_t(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  std::vector<uint32_t> before = sections_before(items, times, index);
  PackingProblem problem;
  list_items(problem, items, before, index);
  if (problem.gapped)
    number_shapes(problem);
  round_sizes(problem);
  if (!list_members(problem, before.back()) || !list_conflicts(problem))
    return std::nullopt;
  problem.bound_bytes = *std::max_element(problem.load_bytes.begin(), problem.load_bytes.end());
  for (const Item &item : problem.items)
    if (item.fixed())
      problem.bound_bytes = std::max(problem.bound_bytes, item.fixed_bytes + item.bytes);
  return problem;
}

} // namespace cugrt::plan
