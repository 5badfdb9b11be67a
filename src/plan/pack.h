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

/// The largest sum of bytes alive at one step: no packing is smaller.
Result<int64_t> lower_bound_bytes(std::span<const PackItem> items);
/// The best of a portfolio of greedy orders. Code::out_of_range when sizes overflow.
Result<Packing> pack(std::span<const PackItem> items);
/// Quadratic: offsets aligned and not negative, conflicting items disjoint, peak as stated.
Status validate_packing(std::span<const PackItem> items, const Packing &packing);

} // namespace cugrt::plan
