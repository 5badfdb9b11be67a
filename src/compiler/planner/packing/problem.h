// A packing problem made ready for search: items in canonical order, the sections of their time,
// who conflicts with whom. Flat arrays; items and sections are numbers.
//
// A *section* is a set of items alive at once to which neither the steps before nor those after add
// anything. Every item covers a range of sections, or several with gaps between them: its spans.
// Two items conflict exactly when they share a section. Bytes are rounded up to the alignment that
// all items share: offsets are multiples of it, so nothing fits into the rest.
#pragma once

#include "compiler/planner/packing/items.h"

#include <optional>

namespace cugrt::plan {

/// Lists of numbers, one after the other: list i is values[starts[i] .. starts[i + 1]).
struct PackingLists {
  std::vector<uint32_t> starts, values;
  std::span<const uint32_t> operator[](size_t i) const {
    return {values.data() + starts[i], values.data() + starts[i + 1]};
  }
};

struct PackingProblem {
  struct Span { // sections
    uint32_t begin = 0, end = 0;
    friend auto operator<=>(const Span &, const Span &) = default;
  };
  struct Item {
    int64_t bytes = 0, alignment = 1;
    int64_t fixed_bytes = -1;    // its offset, if it has a fixed place
    uint32_t begin = 0, end = 0; // sections, from the first span's to the last's
    uint32_t first_span = 0, span_count = 1;
    uint32_t shape = 0;   // items of equal spans have equal numbers; 0: one span
    uint32_t steps = 0;   // in which it is alive, of the caller's
    uint32_t changes = 0; // steps of its lives at which some item begins or ends
    bool fixed() const { return fixed_bytes >= 0; }
    bool same_place(const Item &other) const {
      return begin == other.begin && end == other.end && shape == other.shape;
    }
    /// Changing places with the other makes no difference.
    bool twin(const Item &other) const {
      return same_place(other) && bytes == other.bytes && alignment == other.alignment &&
             !fixed() && !other.fixed();
    }
  };
  std::vector<Item> items; // ascending by begin
  std::vector<Span> spans; // item by item
  bool gapped = false;     // some item has several spans
  bool has_fixed = false;
  std::vector<int64_t> load_bytes; // of each section
  PackingLists members;            // of each section, ascending
  PackingLists conflicts;          // of each item, ascending
  int64_t bound_bytes = 0;         // the largest load, or the highest end of a fixed item
  int64_t unit_bytes = 1;          // divides every size and every offset that a search can produce

  std::span<const Span> spans_of(const Item &item) const {
    return {spans.data() + item.first_span, item.span_count};
  }
  bool covers(const Item &item, uint32_t section) const;

  /// Nothing when there are too many of them, or of their conflicts, for a search to be worth its
  /// memory.
  static std::optional<PackingProblem> make(const CanonicalItems &items);
};

inline bool PackingProblem::covers(const Item &item, uint32_t section) const {
  if (section < item.begin || item.end <= section)
    return false;
  if (item.span_count == 1)
    return true;
  for (const Span &span : spans_of(item))
    if (section < span.end)
      return span.begin <= section;
  return false;
}

// The ways to pack, one source file each: greedily, by a race of searches with many strategies and
// capacities under a node budget, and, of many items, by a search only where a packing is highest.
// find_packing() is the entry point.

/// Descending size (ties: longer life, then number) into the smallest gap that is large enough.
Packing greedy_packing(const CanonicalItems &items);
/// The best of seven orders, each with first and best fit; stops at `bound_bytes`. Beyond
/// `greedy_limit` items only a free list in order of time, or, where some have
/// fixed places, greedy_packing().
Packing portfolio_packing(const CanonicalItems &items, int64_t bound_bytes, size_t greedy_limit);

/// Returns offsets of a smaller peak than `peak_bytes` for the items of `problem`, the best that
/// `node_budget` decisions find, or nothing. Ends early at `goal_bytes` (at least the bound), or
/// when no smaller packing exists.
std::vector<int64_t> race(const PackingProblem &problem, int64_t peak_bytes, int64_t goal_bytes,
                          int64_t node_budget);

/// Searches a packing with a smaller peak, at best `goal_bytes`, which is at least the bound, with
/// at most `node_budget` decisions. Places items anew that are alive while something lies above the
/// goal, then items that these meet, and so on, and leaves the rest.
void lower_peaks(const CanonicalItems &items, int64_t goal_bytes, int64_t node_budget,
                 Packing &packing);

} // namespace cugrt::plan
