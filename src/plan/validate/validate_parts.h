// The parts of validate(): each looks at the plan alone and shares no code with what made it, but
// for expressions and their bounds, and for what a plan's levels, boxes and conditions are. Each
// may rely on those before it having succeeded.
#pragma once

#include "plan/format/plan.h"

namespace cugrt::plan {

/// Nested blocks and lists are walked by recursion; plans that nest deeper are refused.
inline constexpr uint32_t kMaxPlanNesting = 200;

/// Every index names a row, every expression's symbols are the function's, ranges lie within their
/// tables, each step and block is run from exactly one place, calls are not recursive and match.
Status validate_structure(const Plan &plan);
/// Buffers: bytes as their dimensions ask for, within their slot, weight, constant or allocation.
Status validate_buffers(const Plan &plan);
/// Regions: accesses agree with arguments, keys and slots are complete, every hazard has a path.
Status validate_regions(const Plan &plan);
/// Arenas: ranges within them, tensors that are live together disjoint, callees above their
/// callers.
Status validate_storage(const Plan &plan);

// What symbols must keep, since sizes rely on them: of validate_structure().

/// The expressions of the constraints must exist and have the function's symbols only.
Status validate_symbols(const Plan &plan, const Function &function);
/// An argument of kind checked_symbol, whose buffer exists: kernels read one element there, and
/// take one of the symbol's bounds for what is out of them.
Status validate_checked_symbol(const Plan &plan, const Function &function,
                               const Argument &argument);

inline Status plan_error(const Function &function, const std::string &what) {
  return Status::error(cugrt::Code::parse_error, "plan of @" + function.name + ": " + what);
}

} // namespace cugrt::plan
