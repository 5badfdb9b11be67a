// InlineFunctions: a call becomes its callee's bindings, callees first, so that PlanMemory packs
// the callee's tensors with the caller's, each with a life of its own:
//
//   %b = call @layer(%a)               %t = alloc : tensor<[n, 64], f32>
//                                      launch @k(%a, %t)
//                                      %b = alloc : tensor<[n, 64], f32>
//                                      launch @k(%t, %b)
//
// Before that, tuples that are handed over are taken apart, also where calls are to stay, and
// lifted regions are put back where they are run. What stays a call, and why, stands in
// compiler/planner/rewrite/inline_calls.h; the planner's report gives the reason. Functions stay
// too: EliminateDeadFunctions takes away the private ones that nothing calls now.
#include "compiler/passes/all_passes.h"
#include "compiler/planner/rewrite/inline_calls.h"
#include "compiler/planner/rewrite/inline_graphs.h"
#include "ir/module/function_cloner.h"

namespace cugrt::passes {

Result<ir::Module> inline_functions(const ir::Module &module, const PassContext &context) {
  std::optional<ir::Module> flat = plan::flatten_tuples(module);
  const ir::Module &given = flat ? *flat : module;
  if (!context.flag("inline.functions"))
    return given;
  // Calls of lifted functions are numbered, and would be repeated with the calls around them.
  CUGRT_ASSIGN(const std::optional<plan::InlinedGraphs> graphs, plan::inline_graphs(given));
  const ir::Module &whole = graphs ? graphs->module : given;
  CUGRT_ASSIGN(std::optional<ir::Module> inlined,
               plan::inline_calls(whole, context.flag("inline.strict")));
  return inlined ? std::move(*inlined) : whole;
}

Result<ir::Module> eliminate_dead_functions(const ir::Module &module, const PassContext &) {
  ir::Module target = module;
  ir::remove_dead_functions(target);
  return target;
}

} // namespace cugrt::passes
