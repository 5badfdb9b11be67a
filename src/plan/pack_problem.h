// A packing problem made ready for search: items in canonical order, the sections of their time,
// who conflicts with whom. Flat arrays; items and sections are numbers.
//
// A *section* is a maximal set of items alive at once, so no section is part of another, and every
// item covers a range of sections. Two items conflict exactly when their ranges overlap. Bytes are
// rounded up to the alignment that all items share: offsets are multiples of it, so nothing fits
// into the rest.
#pragma once

#include "plan/pack.h"

#include <optional>

namespace cugrt::plan {

/// Lists of numbers, one after the other: list i is values[starts[i] .. starts[i + 1]).
struct PackLists {
  std::vector<uint32_t> starts, values;
  std::span<const uint32_t> operator[](size_t i) const {
    return {values.data() + starts[i], values.data() + starts[i + 1]};
  }
};

struct PackProblem {
  struct Item {
    int64_t bytes = 0, alignment = 1;
    uint32_t begin = 0, end = 0; // sections
    uint32_t steps = 0;          // lifetime in the caller's steps
    uint32_t changes = 0;        // steps of its lifetime at which some item begins or ends
    bool same_place(const Item &other) const { return begin == other.begin && end == other.end; }
    bool twin(const Item &other) const {
      return same_place(other) && bytes == other.bytes && alignment == other.alignment;
    }
  };
  std::vector<Item> items;         // ascending by begin
  std::vector<int64_t> load_bytes; // of each section
  PackLists members;               // of each section, ascending
  PackLists conflicts;             // of each item, ascending
  int64_t bound_bytes = 0;         // the largest load
  int64_t unit_bytes = 1;          // divides every size and every offset that a search can produce

  /// Items must be in canonical order, without empty ones. Nothing when there are too many of them,
  /// or of their conflicts, for a search to be worth its memory.
  static std::optional<PackProblem> make(std::span<const PackItem> items);
};

} // namespace cugrt::plan
