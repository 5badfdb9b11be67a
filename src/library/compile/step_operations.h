// How many operations each step of a plan is, by the ops that it was made of.
#pragma once

#include "ops/table/operations.h"
#include "plan/format/plan.h"

#include <array>
#include <map>

namespace cugrt::runtime {

struct StepOperations {
  /// Some op became this step, or it copies or fills; else a kernel of the module's own.
  bool known = false;
  std::array<double, ir::kOperationKinds> counts{}; // by ir::OperationKind
};

/// Of each step of `function`. `ops`: the function as the planner's, calls inlined, while its ops
/// were still ops; steps go by their places in the text. An op that became several steps counts for
/// the first of them, one that became part of another's step counts there. `symbols`: values by
/// name; a step that needs another one is not known.
std::vector<StepOperations> count_step_operations(const ir::Module &module, const ir::Function &ops,
                                                  const plan::Function &function,
                                                  const std::map<std::string, int64_t> &symbols);

} // namespace cugrt::runtime
