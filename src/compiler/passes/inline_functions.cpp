// InlineFunctions: a call becomes its callee's bindings, callees first, so that PlanMemory packs
// the callee's tensors with the caller's, each with a life of its own:
//
//   %b = call @layer(%a)               %t = alloc : tensor<[n, 64], f32>
//                                      launch @k(%a, %t)
//                                      %b = alloc : tensor<[n, 64], f32>
//                                      launch @k(%t, %b)
//
// Before that, tuples that are handed over are taken apart
// (compiler/planner/rewrite/inline_calls.h). What stays a call, and why, stands in
// compiler/planner/rewrite/inline_calls.h; the planner's report gives the reason. Functions stay
// too: EliminateDeadFunctions takes away the private ones that nothing calls now.
#include "compiler/passes/all_passes.h"
#include "compiler/planner/rewrite/inline_calls.h"
#include "ir/module/function_cloner.h"
#include "ir/module/graph_builtins.h"

#include <algorithm>

namespace cugrt::passes {

/// Calls of lifted functions are numbered, and would be repeated.
static bool has_lifted_regions(const ir::Module &module) {
  const std::vector<bool> lifted = ir::functions_run_as_graphs(module);
  return std::find(lifted.begin(), lifted.end(), true) != lifted.end();
}

Result<ir::Module> inline_functions(const ir::Module &module, const PassContext &context) {
  if (!context.flag("inline.functions") || has_lifted_regions(module))
    return module;
  const std::optional<ir::Module> flat = plan::flatten_tuples(module);
  const ir::Module &given = flat ? *flat : module;
  CUGRT_ASSIGN(
      std::optional<plan::InlinedCalls> inlined,
      plan::inline_calls(given, {.strict = context.flag("inline.strict"), .plan_results = false}));
  return inlined ? std::move(inlined->module) : given;
}

Result<ir::Module> eliminate_dead_functions(const ir::Module &module, const PassContext &) {
  ir::Module target = module;
  ir::remove_dead_functions(target);
  return target;
}

} // namespace cugrt::passes
