// The ways to pack, one source file each: greedily, by a race of searches with many strategies and
// capacities under a node budget, and, of many items, by a search only where a packing is highest.
// find_packing() is the entry point.
#pragma once

#include "compiler/planner/packing/problem.h"

namespace cugrt::plan {

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

/// Looks for a packing of a smaller peak, at best `goal_bytes`, which at least is the bound, with
/// at most `node_budget` decisions. What is alive while something lies above the goal is placed
/// anew, then what meets that, and so on, with all the rest where it is.
void lower_peaks(const CanonicalItems &items, int64_t goal_bytes, int64_t node_budget,
                 Packing &packing);

} // namespace cugrt::plan
