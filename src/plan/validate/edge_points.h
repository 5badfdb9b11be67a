// Values at the edge of what a function's constraints allow: the validator evaluates places and
// sizes there one by one, and so has a second opinion on bounds that were found by algebra.
#pragma once

#include "plan/format/plan.h"

#include <vector>

namespace cugrt::plan {

/// Points, by symbol, that keep all bounds and constraints and of which no constrained symbol can
/// be raised by itself, as found by trying values; none where the function has no constraints.
/// Symbols that constraints do not name are at their upper bounds, those without one at the lower.
std::vector<std::vector<int64_t>> edge_points(const ir::ExprPool &exprs, const Function &function);

} // namespace cugrt::plan
