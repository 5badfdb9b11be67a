// The parts of validate(). Each looks at the plan alone and shares no code with the planner, but
// for expressions and their bounds, and for the definitions of a plan's levels, boxes and
// conditions. Each may rely on the success of those before it.
#pragma once

#include "plan/format/plan.h"

#include <vector>

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

// Promises about symbols that sizes rely on: parts of validate_structure().

/// The expressions of the constraints must exist and have the function's symbols only.
Status validate_symbols(const Plan &plan, const Function &function);
/// Checks an argument of kind checked_symbol, whose buffer exists: kernels read one element there,
/// and replace a value outside the symbol's bounds by one of them.
Status validate_checked_symbol(const Plan &plan, const Function &function,
                               const Argument &argument);

inline Status plan_error(const Function &function, const std::string &what) {
  return Status::error(cugrt::Code::parse_error, "plan of @" + function.name + ": " + what);
}

// Values at the edge of a function's constraints: the validator evaluates places and sizes there
// one by one, a second opinion on bounds that were found by algebra.

/// Points, by symbol, that keep all bounds and constraints and of which no constrained symbol can
/// be raised by itself, as found by trying values; none where the function has no constraints.
/// Symbols that constraints do not name are at their upper bounds, those without one at the lower.
std::vector<std::vector<int64_t>> edge_points(const ir::ExprPool &exprs, const Function &function);

/// The graphs of a plan's regions: that bodies nest, and that edges, conditionals and conditions
/// stand where they may. A part of validate_structure(): indices are known to name rows.
class RegionLevelCheck {
public:
  RegionLevelCheck(const Plan &plan, const Function &function)
      : plan_(plan), f_(function), conditional_uses_(function.conditionals.size()),
        condition_sets_(function.conditionals.size()) {}

  Status region(const Region &region);
  /// Call after all regions.
  Status conditionals() const;

private:
  Status fail(const std::string &what) const;
  bool runs_only_where(ExprId when, ExprId outer) const;
  Status levels(const Region &region);
  Status programmatic(const Region &region) const;

  const Plan &plan_;
  const Function &f_;
  std::vector<uint8_t> conditional_uses_, condition_sets_; // by conditional
};

} // namespace cugrt::plan
