// Many items: a greedy packing made better only where it is highest.
#pragma once

#include "compiler/planner/packing/items.h"

namespace cugrt::plan {

/// Looks for a packing of a smaller peak, at best `goal_bytes`, which at least is the bound, with
/// at most `node_budget` decisions. What is alive while something lies above the goal is placed
/// anew, then what meets that, and so on, with all the rest where it is.
void lower_peaks(const CanonicalItems &items, int64_t goal_bytes, int64_t node_budget,
                 Packing &packing);

} // namespace cugrt::plan
