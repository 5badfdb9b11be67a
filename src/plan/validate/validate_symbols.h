// Symbols of plans: what bounds, buckets and constraints must keep, since sizes rely on them.
#pragma once

#include "plan/format/plan.h"

namespace cugrt::plan {

/// The expressions of the constraints must exist and have the function's symbols only.
Status validate_symbols(const Plan &plan, const Function &function);

/// An argument of kind checked_symbol, whose buffer exists: kernels read one element there, and
/// take one of the symbol's bounds for what is out of them.
Status validate_checked_symbol(const Plan &plan, const Function &function,
                               const Argument &argument);

} // namespace cugrt::plan
