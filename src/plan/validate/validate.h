// The validator of plans: it stands between whatever made a plan, or a file, and the runtime.
#pragma once

#include "plan/format/plan.h"

namespace cugrt::plan {

/// Checks a plan independently of the planner: indices, steps within limits, arena offsets within
/// the arena, live tensors disjoint, every hazard of a region covered by a path of its edges, edges
/// acyclic. `ok` when all holds.
Status validate(const Plan &plan);

} // namespace cugrt::plan
