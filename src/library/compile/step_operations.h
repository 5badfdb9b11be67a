// How many operations each step of a plan is, by the ops that it was made of.
#pragma once

#include "base/status.h"
#include "library/compile/step_names.h"
#include "ops/table/operations.h"
#include "plan/format/plan.h"

#include <array>
#include <map>
#include <span>

namespace cugrt::runtime {

struct StepOperations {
  bool known = false;
  std::array<double, ir::kOperationKinds> counts{}; // by ir::OperationKind
};

/// Of a function, over its symbols: what a pack keeps of the ops.
struct FunctionOperations {
  struct Term {
    ir::OperationKind kind;
    double factor;
    std::vector<ir::ExprId> sizes; // of `exprs`; none is a constant
  };
  struct Step {
    /// Some op became this step, or it copies or fills; else a kernel of the module's own.
    bool known = false;
    std::vector<Term> terms{};
  };
  ir::ExprPool exprs;
  std::vector<std::string> symbols; // by number
  std::vector<Step> steps;

  /// `values` by symbols' names; a step that needs another one is not known.
  std::vector<StepOperations> at(const std::map<std::string, int64_t> &values) const;
};

/// Of each step of `function`. `ops`: the function as the planner's, calls inlined, while its ops
/// were still ops; steps go by their places in the text. An op that became several steps counts for
/// the first of them that its name is in, or else for the first; one that became part of another's
/// step counts there.
FunctionOperations count_step_operations(const ir::Module &module, const ir::Function &ops,
                                         const plan::Function &function);
/// Of each function of the plan; where it is not among the module's, no step is known.
std::vector<FunctionOperations> count_operations(const ir::Module &ops, const plan::Plan &plan);

/// What a pack keeps for reports.
struct PackNotes {
  std::vector<int64_t> multiprocessors; // for which each target's kernels were chosen
  std::vector<std::vector<FunctionOperations>> operations; // of each plan's functions
  std::vector<PlanNames> names{};                          // of each plan, or none
};
/// As JSON: {"multiprocessors": [..], "operations": [..]}, of operations for each plan a list of
/// functions, for each its symbols and steps. A step is null or a list of terms, [kind, factor,
/// size, ...]; a size is a symbol's number or [operator, operands]. With names, "names": as
/// step_names.h has them.
std::string notes_text(const PackNotes &notes);
/// Trusts nothing. parse_error for a text that is not of these plans and so many targets.
Result<PackNotes> read_notes(std::string_view text, std::span<const plan::Plan> plans,
                             size_t targets);

} // namespace cugrt::runtime
