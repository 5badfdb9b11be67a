// Packings without search: greedy placement, and a portfolio of it. find_packing() is the entry
// point.
#pragma once

#include "compiler/planner/packing/items.h"

namespace cugrt::plan {

/// Descending size (ties: longer life, then number) into the smallest gap that is large enough.
Packing greedy_packing(const CanonicalItems &items);
/// The best of seven orders, each with first and best fit; stops at `bound_bytes`. Beyond
/// `greedy_limit` items only a free list in order of time, or, where some have
/// fixed places, greedy_packing().
Packing portfolio_packing(const CanonicalItems &items, int64_t bound_bytes, size_t greedy_limit);

} // namespace cugrt::plan
