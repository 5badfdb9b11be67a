// A module as passes hand it to the planner, for tests that write kernel-level modules.
#pragma once

#include "compiler/passes/pass.h"
#include "support/must.h"

namespace cugrt::test {

/// Calls inlined, and what nothing calls any more away.
inline ir::Module inlined(ir::Module module) {
  const passes::Pass *pipeline[] = {passes::find_pass("InlineFunctions"),
                                    passes::find_pass("EliminateDeadFunctions")};
  return must(passes::run_passes(std::move(module), pipeline, {}));
}

/// Storage planned too, callees' tensors with their callers'.
inline ir::Module inlined_and_stored(ir::Module module) {
  return must(passes::find_pass("PlanMemory")->run(inlined(std::move(module)), {}));
}

} // namespace cugrt::test
