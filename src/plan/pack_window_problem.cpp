// From items with windows to sections, pairs and their options, see pack_window_problem.h.
#include "plan/pack_window_problem.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace cugrt::plan {
namespace {

constexpr size_t kItemLimit = 8192;
constexpr size_t kEntryLimit = size_t(1) << 22; // of members, and of options

/// Parts by the caller's numbers; those that touch and occupy the same bytes are one.
struct InputParts {
  std::vector<uint32_t> starts;
  std::vector<PackPart> parts;

  explicit InputParts(const PackInput &input) : starts(input.items.size() + 1, 0) {
    for_each_part(input, [&](uint32_t i, uint32_t begin, uint32_t end, int64_t low, int64_t high) {
      if (low == high)
        return;
      if (starts[i + 1] == 0)
        starts[i] = uint32_t(parts.size());
      const bool joins = parts.size() > starts[i] && parts.back().end == begin &&
                         parts.back().low == low && parts.back().high == high;
      if (joins)
        parts.back().end = end;
      else
        parts.push_back({begin, end, low, high});
      starts[i + 1] = uint32_t(parts.size());
    });
    for (size_t i = 0; i + 1 < starts.size(); ++i) // those that are never alive
      starts[i + 1] = std::max(starts[i], starts[i + 1]);
  }
  std::span<const PackPart> operator[](uint32_t i) const {
    return {parts.data() + starts[i], parts.data() + starts[i + 1]};
  }
};

/// Whether every part of `inner` lies within one of the same item in `outer`; both ascend by item.
bool within(std::span<const WindowProblem::Member> inner,
            std::span<const WindowProblem::Member> outer) {
  size_t o = 0;
  for (const auto &member : inner) {
    while (o < outer.size() && outer[o].item < member.item)
      ++o;
    if (o == outer.size() || outer[o].item != member.item || member.low < outer[o].low ||
        outer[o].high < member.high)
      return false;
  }
  return true;
}

/// A section for every time at which something changes, but for those in which nothing is occupied
/// that is not in the section before or after.
bool list_sections(WindowProblem &problem) {
  const WindowItems &items = problem.items;
  std::vector<uint32_t> times;
  for (const PackPart &part : items.parts)
    times.insert(times.end(), {part.begin, part.end});
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  std::vector<std::pair<uint32_t, uint32_t>> begins; // (time, part)
  std::vector<uint32_t> owner(items.parts.size());
  for (uint32_t i = 0; i < items.items.size(); ++i)
    for (uint32_t p = items.part_starts[i]; p < items.part_starts[i + 1]; ++p) {
      owner[p] = i;
      begins.push_back({items.parts[p].begin, p});
    }
  std::sort(begins.begin(), begins.end());
  std::vector<uint32_t> alive; // parts; in their order items ascend
  auto &starts = problem.section_starts;
  starts = {0};
  size_t next = 0;
  for (uint32_t time : times) {
    std::erase_if(alive, [&](uint32_t p) { return items.parts[p].end <= time; });
    for (; next < begins.size() && begins[next].first == time; ++next)
      alive.insert(std::lower_bound(alive.begin(), alive.end(), begins[next].second),
                   begins[next].second);
    for (uint32_t p : alive)
      problem.members.push_back({owner[p], items.parts[p].low, items.parts[p].high});
    if (problem.members.size() > kEntryLimit)
      return false;
    starts.push_back(uint32_t(problem.members.size()));
    for (size_t last = starts.size() - 1; last >= 2; last = starts.size() - 1) {
      const auto before = problem.members_of(uint32_t(last - 2)),
                 now = problem.members_of(uint32_t(last - 1));
      if (within(now, before)) {
        problem.members.resize(starts[last - 1]);
        starts.pop_back();
        break;
      }
      if (!within(before, now))
        break;
      problem.members.erase(problem.members.begin() + starts[last - 2],
                            problem.members.begin() + starts[last - 1]);
      starts[last - 1] = uint32_t(problem.members.size());
      starts.pop_back();
    }
  }
  return true;
}

/// The differences of two items' offsets that are forbidden, as half-open ranges that ascend and do
/// not touch.
void list_forbidden(const WindowItems &items, uint32_t a, uint32_t b,
                    std::vector<std::pair<int64_t, int64_t>> &ranges) {
  ranges.clear();
  const auto x = items.parts_of(a), y = items.parts_of(b);
  for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    if (x[i].begin < y[j].end && y[j].begin < x[i].end)
      ranges.push_back({x[i].low - y[j].high + 1, x[i].high - y[j].low});
    x[i].end <= y[j].end ? ++i : ++j;
  }
  std::sort(ranges.begin(), ranges.end());
  size_t count = 0;
  for (const auto &range : ranges)
    if (count > 0 && range.first <= ranges[count - 1].second)
      ranges[count - 1].second = std::max(ranges[count - 1].second, range.second);
    else
      ranges[count++] = range;
  ranges.resize(count);
}

/// What is left between them, of multiples of `step`: all that aligned offsets can differ by.
void add_options(WindowProblem &problem, uint32_t a, uint32_t b, int64_t step,
                 const std::vector<std::pair<int64_t, int64_t>> &forbidden) {
  constexpr int64_t kUnbounded = WindowProblem::kUnbounded;
  WindowProblem::Pair pair{a, b, uint32_t(problem.options.size()), 0};
  int64_t least = -kUnbounded;
  for (size_t r = 0; r <= forbidden.size(); ++r) {
    const int64_t most = r < forbidden.size() ? (forbidden[r].first - 1) & ~(step - 1) : kUnbounded;
    if (least <= most)
      problem.options.push_back({least, most});
    if (r < forbidden.size())
      least = (forbidden[r].second + step - 1) & ~(step - 1);
  }
  pair.option_count = uint32_t(problem.options.size()) - pair.first_option;
  problem.pairs.push_back(pair);
}

bool list_pairs(WindowProblem &problem) {
  const auto &items = problem.items.items;
  std::vector<std::pair<int64_t, int64_t>> forbidden;
  for (uint32_t a = 0; a < items.size(); ++a)
    for (uint32_t b = a + 1; b < items.size() && items[b].begin < items[a].end; ++b) {
      list_forbidden(problem.items, a, b, forbidden);
      if (forbidden.empty())
        continue;
      add_options(problem, a, b, std::min(items[a].alignment, items[b].alignment), forbidden);
      if (problem.options.size() > kEntryLimit)
        return false;
    }
  auto &[starts, values] = problem.pairs_of;
  starts.assign(items.size() + 1, 0);
  for (const auto &pair : problem.pairs) {
    ++starts[pair.a + 1];
    ++starts[pair.b + 1];
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  values.resize(problem.pairs.size() * 2);
  std::vector<uint32_t> next(starts.begin(), starts.end() - 1);
  for (uint32_t p = 0; p < problem.pairs.size(); ++p) {
    values[next[problem.pairs[p].a]++] = p;
    values[next[problem.pairs[p].b]++] = p;
  }
  return true;
}

/// Of each item the fullest sections that it is in, as many as have kWatchedMembers in all: the
/// search looks for room there whenever the item's limits move.
void list_places(WindowProblem &problem) {
  constexpr size_t kWatchedMembers = 4096;
  const size_t count = problem.items.items.size(),
               section_count = problem.section_starts.size() - 1;
  std::vector<int64_t> loads(section_count, 0);
  std::vector<std::vector<uint32_t>> places(count); // of members
  problem.homes.resize(problem.members.size());
  for (uint32_t s = 0; s < section_count; ++s)
    for (uint32_t m = problem.section_starts[s]; m < problem.section_starts[s + 1]; ++m) {
      problem.homes[m] = s;
      loads[s] += problem.members[m].high - problem.members[m].low;
      places[problem.members[m].item].push_back(m);
    }
  auto &[starts, values] = problem.places_of;
  starts = {0};
  for (std::vector<uint32_t> &list : places) {
    std::stable_sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) {
      return loads[problem.homes[a]] > loads[problem.homes[b]];
    });
    problem.loads.push_back(list.empty() ? 0 : loads[problem.homes[list[0]]]);
    size_t watched = 0;
    for (uint32_t m : list) {
      watched += problem.members_of(problem.homes[m]).size();
      if (watched > kWatchedMembers && m != list[0])
        break;
      values.push_back(m);
    }
    starts.push_back(uint32_t(values.size()));
  }
}

/// Of every offset that a least solution can have, and of the ends there.
int64_t unit_of(const WindowProblem &problem) {
  int64_t unit = 0;
  for (const auto &option : problem.options) {
    if (option.least != -WindowProblem::kUnbounded)
      unit = std::gcd(unit, option.least);
    if (option.most != WindowProblem::kUnbounded)
      unit = std::gcd(unit, option.most);
  }
  for (size_t i = 0; i < problem.items.items.size(); ++i) {
    unit = std::gcd(unit, problem.items.items[i].bytes);
    if (problem.items.fixed[i] >= 0)
      unit = std::gcd(unit, problem.items.fixed[i]);
  }
  for (const PackItem &item : problem.items.items)
    if (unit % item.alignment != 0) // sums are then rounded to that alignment
      unit = std::gcd(unit, item.alignment);
  return unit;
}

} // namespace

WindowItems WindowItems::make(const PackInput &input) {
  const InputParts parts(input);
  std::vector<int64_t> fixed(input.items.size(), -1);
  for (const PackPlace &place : input.fixed)
    fixed[place.item] = place.offset_bytes;
  auto trimmed = [&](uint32_t i) {
    PackItem item = input.items[i];
    item.begin = parts[i].front().begin;
    item.end = parts[i].back().end;
    return item;
  };
  WindowItems out;
  for (uint32_t i = 0; i < input.items.size(); ++i)
    if (!parts[i].empty())
      out.given.push_back(i);
  std::sort(out.given.begin(), out.given.end(), [&](uint32_t a, uint32_t b) {
    const PackItem x = trimmed(a), y = trimmed(b);
    const auto keys_x = std::tie(x.begin, x.end, x.bytes, x.alignment),
               keys_y = std::tie(y.begin, y.end, y.bytes, y.alignment);
    if (keys_x != keys_y)
      return keys_x < keys_y;
    if (!std::ranges::equal(parts[a], parts[b]))
      return std::ranges::lexicographical_compare(parts[a], parts[b]);
    return std::tie(fixed[a], a) < std::tie(fixed[b], b);
  });
  for (uint32_t i : out.given) {
    out.items.push_back(trimmed(i));
    out.fixed.push_back(fixed[i]);
    out.part_starts.push_back(uint32_t(out.parts.size()));
    for (const PackPart &part : parts[i]) {
      out.parts.push_back(part);
      out.windowed |= part.high - part.low < input.items[i].bytes;
    }
  }
  out.part_starts.push_back(uint32_t(out.parts.size()));
  return out;
}

int64_t WindowItems::steps(uint32_t i) const {
  int64_t steps = 0;
  for (const PackPart &part : parts_of(i))
    steps += part.end - part.begin;
  return steps;
}

bool WindowItems::twins(uint32_t i, uint32_t j) const {
  return items[i].bytes == items[j].bytes && items[i].alignment == items[j].alignment &&
         fixed[i] < 0 && fixed[j] < 0 && std::ranges::equal(parts_of(i), parts_of(j));
}

std::vector<int64_t> WindowProblem::lowered(std::span<const int64_t> offsets) const {
  constexpr int kSweeps = 16; // bottom up, one or two are enough for nearly all packings
  std::vector<Option> held;
  for (const Pair &pair : pairs) {
    const int64_t difference = offsets[pair.b] - offsets[pair.a];
    const auto list = options_of(pair);
    held.push_back(*std::find_if(list.begin(), list.end(),
                                 [&](const Option &option) { return difference <= option.most; }));
  }
  std::vector<uint32_t> order(offsets.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t i, uint32_t j) { return offsets[i] < offsets[j]; });
  std::vector<int64_t> low;
  for (int64_t place : items.fixed)
    low.push_back(std::max<int64_t>(place, 0));
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool moved = false;
    for (uint32_t i : order) {
      int64_t least = low[i];
      for (uint32_t p : pairs_of[i]) {
        const bool is_b = pairs[p].b == i;
        const int64_t limit = is_b ? held[p].least : held[p].most;
        if (limit != (is_b ? -kUnbounded : kUnbounded))
          least = std::max(least, is_b ? low[pairs[p].a] + limit : low[pairs[p].b] - limit);
      }
      const int64_t alignment = items.items[i].alignment;
      least = (least + alignment - 1) & ~(alignment - 1);
      moved |= least > low[i];
      low[i] = least;
    }
    if (!moved)
      return low;
  }
  return {offsets.begin(), offsets.end()};
}

std::optional<WindowProblem> WindowProblem::make(const WindowItems &items) {
  WindowProblem problem(items);
  if (items.items.empty() || items.items.size() > kItemLimit || !list_sections(problem) ||
      !list_pairs(problem))
    return std::nullopt;
  list_places(problem);
  problem.unit_bytes = unit_of(problem);
  return problem;
}

} // namespace cugrt::plan
