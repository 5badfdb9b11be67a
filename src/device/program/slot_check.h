// Finds bound byte ranges that overlap and may not.
//
// A run's graph is ordered by the plan, which knows each slot as memory of its own. Every range
// that the function writes must be disjoint from every other bound range, from the weights, the
// constants and the arenas; ranges that are only read may overlap each other freely.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cugrt::runtime {

/// Whether [a, a + a_bytes) and [b, b + b_bytes) have a byte in common.
inline bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a_bytes != 0 && b_bytes != 0 && a < b + b_bytes && b < a + a_bytes;
}

/// [begin, begin + bytes); empty ranges overlap nothing.
struct BoundRange {
  uint64_t begin = 0, bytes = 0;
  bool written = false;
  uint32_t name = 0; // for the caller, who makes the message
};

struct Overlap {
  uint32_t first, second; // indices of ranges, in address order
};

/// Sorts `ranges` by address and finds an overlapping pair of which one is written. The caller has
/// checked that no range wraps around the end of the address space.
bool find_overlap(std::span<BoundRange> ranges, Overlap &overlap);

} // namespace cugrt::runtime
