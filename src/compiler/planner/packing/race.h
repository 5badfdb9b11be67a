// The race: improves a packing by searches with many strategies and capacities, under a node
// budget.
#pragma once

#include "compiler/planner/packing/problem.h"

namespace cugrt::plan {

/// Returns offsets of a smaller peak than `peak_bytes` for the items of `problem`, the best that
/// `node_budget` decisions find, or nothing. Ends early at `goal_bytes` (at least the bound), or
/// when no smaller packing exists.
std::vector<int64_t> race(const PackingProblem &problem, int64_t peak_bytes, int64_t goal_bytes,
                          int64_t node_budget);

} // namespace cugrt::plan
