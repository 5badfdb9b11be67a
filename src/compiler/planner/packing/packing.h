// Storage packing: offsets for intervals of bytes over time, in one arena.
//
// A pure function from problem to packing. Deterministic: total orders,
// no clocks, no randomness. Lifetimes are half-open step ranges, from which gaps are taken out; two
// items conflict when there is a step at which both are alive:
//
//   offset   ┌───┐     ┌────┐     a keeps its place from its first step to its last, but between
//            │ a │┌───┐│ a  │     its two parts its bytes are free, and b has them
//            └───┘│ b │└────┘
//                 └───┘────────▸ steps
#pragma once

#include "base/status.h"

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

namespace cugrt::plan {

struct PackingItem {
  uint32_t begin = 0, end = 0; // alive in steps [begin, end); begin < end
  int64_t bytes = 0;           // 0 is legal: such an item conflicts with nothing
  int64_t alignment = 1;       // a power of two
};

/// The item's bytes are free in steps [begin, end), which lie within its life.
struct PackingGap {
  uint32_t item = 0;
  uint32_t begin = 0, end = 0;
};

/// The place that an item must have.
struct PackingPlace {
  uint32_t item = 0;
  int64_t offset_bytes = 0;
};

/// Items to pack; owns nothing.
struct PackingInput {
  std::span<const PackingItem> items;
  std::span<const PackingGap> gaps; // ascending by item, then begin; those of one item are disjoint
  std::span<const PackingPlace> fixed; // ascending by item

  PackingInput() = default;
  template <class Items>
  requires std::convertible_to<const Items &, std::span<const PackingItem>>
  PackingInput(const Items &items, std::span<const PackingGap> gaps = {},
               std::span<const PackingPlace> fixed = {})
      : items(items), gaps(gaps), fixed(fixed) {}
};

struct Packing {
  std::vector<int64_t> offsets; // one for each item
  int64_t peak_bytes = 0;
};

/// How much to look for beyond the greedy portfolio; either ends at the lower bound. A node is a
/// decision of the search, about a microsecond or two for some hundreds of items.
enum class Effort : uint8_t {
  load,  // kLoadNodes + 4 n nodes
  build, // kBuildNodes: seconds
};
inline constexpr int64_t kLoadNodes = 4096, kBuildNodes = 1'500'000;

/// `search` is the planner's; the others are there to compare with (see packing/problem.h).
enum class PackingPolicy : uint8_t { search, portfolio, greedy };

struct PackingOptions {
  Effort effort = Effort::load;
  PackingPolicy policy = PackingPolicy::search;
  int64_t node_budget = 0;   // instead of the effort's, when positive
  int64_t granule_bytes = 1; // memory is had in multiples of it: no search for less than one
};
inline constexpr int64_t kPageBytes = 2 << 20; // in which device memory is had
inline constexpr int64_t kLargestGranule = int64_t(1) << 40;

/// The planner's options: packs some hundreds of tensors to the byte; for more, where the search
/// would cost more than all the rest, only to pages of 2 MiB, in which memory is allocated. With
/// effort `build`, packs any number to the byte.
PackingOptions planner_packing_options(size_t item_count, Effort effort = Effort::load);

/// The largest sum of bytes alive at one step, or the highest end of a fixed item that is ever
/// alive: no packing is smaller.
Result<int64_t> lower_bound_bytes(const PackingInput &input);
/// Code::out_of_range when sizes overflow, Code::invalid_argument when two items are fixed in each
/// other's bytes. The same items in another order get the same offsets, up to items that are equal
/// in everything. An item that is never alive lies at 0, or at its fixed place.
Result<Packing> find_packing(const PackingInput &input, const PackingOptions &options = {});

} // namespace cugrt::plan
