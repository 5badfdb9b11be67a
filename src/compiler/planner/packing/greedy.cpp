// Storage packing by greedy placement: a portfolio of orders, each with first and best fit.
//
//   offset                      An item takes time [begin, end) and bytes [offset, offset + bytes).
//     │   ┌────┐ ┌───────┐      Placing one: of the items already placed that overlap it in time,
//     │   │ b  │ │   c   │      ascending by offset, look at the gaps between them (and above the
//     │ ┌─┴────┴─┴┐ ┌────┤      last); first fit takes the lowest gap that is large enough, best
//     │ │    a    │ │ d  │      fit the smallest.
//     └─┴─────────┴─┴────┴──▸ time
//
// No order is best everywhere, so the best of all of them is kept; the portfolio ends as soon as
// one meets the lower bound. What has a fixed place is placed first. Beyond some thousands of items
// the quadratic placement is too slow, and a free list in order of time is used instead. All
// comparisons end with the item's number: the result depends on nothing but the items.
#include "compiler/planner/packing/problem.h"

#include "base/checked_math.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace cugrt::plan {
namespace {

enum class Fit : uint8_t { first, best };

__extension__ typedef __int128 Wide; // areas do not fit into 64 bits

/// Elementary time intervals between the begins and ends of lives, with the bytes alive in each.
struct Sections {
  const CanonicalItems &items;
  std::vector<uint32_t> times; // ascending; section s is [times[s], times[s + 1])
  std::vector<int64_t> loads;

  explicit Sections(const CanonicalItems &canonical)
      : items(canonical), times(canonical.change_times()), loads(times.size(), 0) {
    for (uint32_t i = 0; i < items.items.size(); ++i)
      items.for_each_life_of(i, [&](uint32_t begin, uint32_t end) {
        loads[section(begin)] += items.items[i].bytes;
        loads[section(end)] -= items.items[i].bytes;
      });
    std::partial_sum(loads.begin(), loads.end(), loads.begin());
  }
  size_t section(uint32_t time) const {
    return size_t(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  }
  int64_t peak_over(uint32_t i) const {
    int64_t peak = 0;
    items.for_each_life_of(i, [&](uint32_t begin, uint32_t end) {
      peak = std::max(peak, *std::max_element(loads.begin() + ptrdiff_t(section(begin)),
                                              loads.begin() + ptrdiff_t(section(end))));
    });
    return peak;
  }
};

/// One order of the portfolio: items by descending keys, ties by ascending number.
struct Keys {
  Wide first;
  int64_t second;
};

std::vector<uint32_t> order_by(std::span<const Keys> keys) {
  std::vector<uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (keys[a].first != keys[b].first)
      return keys[a].first > keys[b].first;
    return keys[a].second > keys[b].second;
  });
  return order;
}

Keys keys_of(int order, const PackingItem &item, int64_t lifetime, int64_t section_load) {
  switch (order) {
  case 0:
    return {item.bytes, lifetime};
  case 1:
    return {item.bytes, 0};
  case 2:
    return {lifetime, item.bytes};
  case 3:
    return {Wide(item.bytes) * lifetime, item.bytes};
  case 4:
    return {Wide(section_load) + item.bytes, item.bytes};
  case 5:
    return {-Wide(item.begin), item.bytes};
  default:
    return {Wide(item.end), item.bytes};
  }
}

struct Placed {
  int64_t begin_bytes, end_bytes;
  uint32_t begin, end, item;
};

/// Places items one by one, in the order of the calls.
class Placer {
public:
  /// Items with a fixed place lie there from the start.
  explicit Placer(const CanonicalItems &items) : items_(items) {
    packing_.offsets.assign(items.items.size(), 0);
    placed_.reserve(items.items.size());
    for (uint32_t i = 0; i < items.fixed.size(); ++i)
      if (items.fixed[i] >= 0)
        put(i, items.fixed[i]);
  }
  void place(uint32_t i, Fit fit) {
    if (items_.fixed_at(i) < 0)
      put(i, find_offset(i, fit));
  }
  Packing finish() { return std::move(packing_); }

private:
  int64_t find_offset(uint32_t i, Fit fit) const {
    const PackingItem &item = items_.items[i];
    int64_t top = 0; // everything below is taken by items alive together with it, or was looked at
    int64_t best = -1, best_gap = INT64_MAX;
    const bool gapless = items_.gapless();
    for (const Placed &other : placed_) {
      if (other.end <= item.begin || item.end <= other.begin ||
          (!gapless && !items_.together(i, other.item)))
        continue;
      int64_t offset = *checked_align(top, item.alignment);
      int64_t gap = other.begin_bytes - offset;
      if (gap >= item.bytes && gap < best_gap) {
        best = offset;
        best_gap = gap;
        if (fit == Fit::first)
          return best;
      }
      top = std::max(top, other.end_bytes);
    }
    return best >= 0 ? best : *checked_align(top, item.alignment);
  }

  void put(uint32_t i, int64_t offset) {
    const PackingItem &item = items_.items[i];
    packing_.offsets[i] = offset;
    packing_.peak_bytes = std::max(packing_.peak_bytes, offset + item.bytes);
    Placed entry{offset, offset + item.bytes, item.begin, item.end, i};
    auto at = std::upper_bound(
        placed_.begin(), placed_.end(), entry,
        [](const Placed &a, const Placed &b) { return a.begin_bytes < b.begin_bytes; });
    placed_.insert(at, entry);
  }

  const CanonicalItems &items_;
  Packing packing_;
  std::vector<Placed> placed_; // ascending by begin_bytes
};

Packing place(const CanonicalItems &items, std::span<const uint32_t> order, Fit fit) {
  Placer placer(items);
  for (uint32_t i : order)
    placer.place(i, fit);
  return placer.finish();
}

/// Free blocks below the top, by offset and by size; the top is never free.
class FreeList {
public:
  explicit FreeList(int64_t unit) : unit_(unit) {}

  int64_t allocate(int64_t bytes) {
    bytes = *checked_align(bytes, unit_);
    auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) {
      int64_t offset = top_;
      top_ += bytes;
      return offset;
    }
    auto [size, offset] = *fit;
    take(offset, size);
    if (size > bytes)
      give(offset + bytes, size - bytes);
    return offset;
  }

  void release(int64_t offset, int64_t bytes) {
    bytes = *checked_align(bytes, unit_);
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      take(next->first, next->second);
      next = by_offset_.lower_bound(offset);
    }
    if (next != by_offset_.begin()) {
      auto [begin, size] = *std::prev(next);
      if (begin + size == offset) {
        take(begin, size);
        offset = begin;
        bytes += size;
      }
    }
    if (offset + bytes == top_)
      top_ = offset;
    else
      give(offset, bytes);
  }

private:
  void take(int64_t offset, int64_t size) {
    spare_by_offset_ = by_offset_.extract(offset);
    spare_by_size_ = by_size_.extract({size, offset});
  }
  void give(int64_t offset, int64_t size) {
    if (!spare_by_offset_) {
      by_offset_.emplace(offset, size);
      by_size_.emplace(size, offset);
      return;
    }
    spare_by_offset_.key() = offset;
    spare_by_offset_.mapped() = size;
    by_offset_.insert(std::move(spare_by_offset_));
    spare_by_size_.value() = {size, offset};
    by_size_.insert(std::move(spare_by_size_));
  }
  using ByOffset = std::map<int64_t, int64_t>;
  using BySize = std::set<std::pair<int64_t, int64_t>>; // (size, offset)
  int64_t unit_, top_ = 0;
  ByOffset by_offset_;
  BySize by_size_;
  ByOffset::node_type spare_by_offset_; // of the block that was taken last, for the next
  BySize::node_type spare_by_size_;
};

/// Calls take(i) for every item, ascending by begin as they are, after give(j) for every item that
/// has ended.
void in_time(std::span<const PackingItem> items, auto &&take, auto &&give) {
  std::vector<uint32_t> ends(items.size());
  std::iota(ends.begin(), ends.end(), 0);
  std::stable_sort(ends.begin(), ends.end(),
                   [&](uint32_t a, uint32_t b) { return items[a].end < items[b].end; });
  size_t ended = 0;
  for (uint32_t i = 0; i < items.size(); ++i) {
    for (; items[ends[ended]].end <= items[i].begin; ++ended)
      if (items[ends[ended]].bytes > 0)
        give(ends[ended]);
    if (items[i].bytes > 0)
      take(i);
  }
}

constexpr int kGreedyOrders = 7;

/// Order `order` of the portfolio's, from the steps in which each item is alive and the largest sum
/// of bytes that it is alive with. Order 0 is descending size (ties: longer life, then number).
std::vector<uint32_t> greedy_order(int order, std::span<const PackingItem> items,
                                   std::span<const int64_t> lifetimes,
                                   std::span<const int64_t> loads) {
  std::vector<Keys> keys(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    keys[i] = keys_of(order, items[i], lifetimes[i], loads[i]);
  return order_by(keys);
}

/// Packs in order of time from a best-fit free list; n log n. Shares nothing in gaps.
Packing packing_in_time(std::span<const PackingItem> items) {
  int64_t unit = 1;
  for (const PackingItem &item : items)
    unit = std::max(unit, item.alignment);
  Packing packing;
  packing.offsets.assign(items.size(), 0);
  FreeList free_list(unit);
  in_time(
      items,
      [&](uint32_t i) {
        packing.offsets[i] = free_list.allocate(items[i].bytes);
        packing.peak_bytes = std::max(packing.peak_bytes, packing.offsets[i] + items[i].bytes);
      },
      [&](uint32_t i) { free_list.release(packing.offsets[i], items[i].bytes); });
  return packing;
}

} // namespace

Packing greedy_packing(const CanonicalItems &items) {
  std::vector<int64_t> lifetimes;
  for (uint32_t i = 0; i < items.items.size(); ++i)
    lifetimes.push_back(items.life_steps(i));
  const std::vector<int64_t> loads(items.items.size(), 0);
  return place(items, greedy_order(0, items.items, lifetimes, loads), Fit::best);
}

Packing portfolio_packing(const CanonicalItems &items, int64_t bound_bytes, size_t greedy_limit) {
  constexpr size_t kInTimeFirst = 512; // above, the cheap way is tried before the quadratic ones
  const size_t count = items.items.size();
  Packing best;
  if (count > kInTimeFirst && items.fixed.empty())
    best = packing_in_time(items.items);
  else if (count > greedy_limit)
    best = greedy_packing(items);
  if (count > greedy_limit || (!best.offsets.empty() && best.peak_bytes <= bound_bytes))
    return best;
  Sections sections(items);
  std::vector<int64_t> loads, lifetimes;
  for (uint32_t i = 0; i < count; ++i) {
    loads.push_back(sections.peak_over(i));
    lifetimes.push_back(items.life_steps(i));
  }
  for (int order = 0; order < kGreedyOrders; ++order) {
    const std::vector<uint32_t> permutation = greedy_order(order, items.items, lifetimes, loads);
    for (Fit fit : {Fit::best, Fit::first}) {
      Packing packing = place(items, permutation, fit);
      if (best.offsets.empty() || packing.peak_bytes < best.peak_bytes)
        best = std::move(packing);
      if (best.peak_bytes <= bound_bytes)
        return best;
    }
  }
  return best;
}

} // namespace cugrt::plan
