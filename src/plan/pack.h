// Storage packing: offsets for intervals of bytes over time, in one arena.
//
// A pure function from problem to packing, and an independent check. Deterministic: total orders,
// no clocks, no randomness. Lifetimes are half-open step ranges; two items conflict when they
// overlap.
#pragma once

#include "support/status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace cugrt::plan {

struct PackItem {
  uint32_t begin = 0, end = 0; // alive in steps [begin, end); begin < end
  int64_t bytes = 0;           // 0 is legal: such an item conflicts with nothing
  int64_t alignment = 1;       // a power of two
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

/// `search` is the planner's; the others are there to compare with (see pack_greedy.h).
enum class PackPolicy : uint8_t { search, portfolio, greedy, slots };

struct PackOptions {
  Effort effort = Effort::load;
  PackPolicy policy = PackPolicy::search;
  int64_t node_budget = 0;   // instead of the effort's, when positive
  int64_t granule_bytes = 1; // memory is had in multiples of it: no search for less than one
};
inline constexpr int64_t kPageBytes = 2 << 20; // in which device memory is had
inline constexpr int64_t kLargestGranule = int64_t(1) << 40;

/// What a module is planned with: some hundreds of tensors are packed to the byte; for more, where
/// the search would cost more than all the rest, memory is had in pages of 2 MiB.
PackOptions planner_pack_options(size_t item_count);

/// The largest sum of bytes alive at one step: no packing is smaller.
Result<int64_t> lower_bound_bytes(std::span<const PackItem> items);
/// Code::out_of_range when sizes overflow. The same items in another order get the same offsets, up
/// to items that are equal in everything.
Result<Packing> pack(std::span<const PackItem> items, const PackOptions &options = {});
/// Quadratic: offsets aligned and not negative, conflicting items disjoint, peak as stated.
Status validate_packing(std::span<const PackItem> items, const Packing &packing);

} // namespace cugrt::plan
