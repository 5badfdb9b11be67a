// The published analysis: regions function by function, callees first; then merged storages and
// names.
#include "compiler/planner/published/analysis.h"

#include "base/check.h"
#include "compiler/planner/analysis/liveness.h"
#include "compiler/planner/published/parts.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/graph_builtins.h"

namespace cugrt::plan {

PublishedAnalysis analyze_published_regions(const ir::Module &module) {
  Result<std::vector<uint32_t>> order = callees_first(module);
  CUGRT_CHECK(order.ok()); // the verifier refuses recursion
  PublishedAnalysis analysis;
  analysis.functions.resize(module.functions.size());
  std::vector<ResultParameters> parameters(module.functions.size());
  const std::vector<bool> captured = ir::functions_run_as_graphs(module);
  for (uint32_t f : *order) {
    const ir::Function &function = module.functions[f];
    if (captured[f]) {
      analysis.functions[f].bindings.assign(bindings_in_order(function).size(),
                                            {Verdict::stays, PublishedRule::captured});
      parameters[f].assign(function.result_types.size(), UINT32_MAX);
      continue;
    }
    std::vector<bool> result_storages =
        find_result_storages(module, function, parameters, parameters[f]);
    analysis.functions[f] = find_published_regions(module, function, result_storages);
  }
  return analysis;
}

PublishedAnalysis analyze_published(const ir::Module &module) {
  PublishedAnalysis analysis = analyze_published_regions(module);
  merge_published_storages(module, analysis);
  name_published_functions(module, analysis);
  return analysis;
}

std::string published_reason(const ir::Module &module, const ir::Function &function,
                             const ir::Binding &b, const PublishedBinding &decision) {
  auto value = [&](ir::ValueId id) { return "%" + function.value(id).name; };
  switch (decision.rule) {
  case PublishedRule::launch:
    return "a launch whose operands are all static";
  case PublishedRule::extern_call:
    return "extern \"" + module.callee_names[b.callee] +
           "\" is taken for a launch, its operands are all static; it splits the graph where it is "
           "a host function";
  case PublishedRule::names_static:
    return decision.region == UINT32_MAX
               ? "its operands are static, but only launches open regions, and none is open"
               : "its operands are static: part of the region that is open";
  case PublishedRule::constant:
    return "a constant is static";
  case PublishedRule::lifted_storage:
    return value(b.result()) + " has a constant size: lifted";
  case PublishedRule::symbolic_storage:
    return value(b.result()) + " has a symbolic size, so it cannot be lifted";
  case PublishedRule::result_storage:
    return value(b.result()) + " holds a result: the next run would overwrite it";
  case PublishedRule::unplanned:
    return "an unplanned allocation is fresh in each run" +
           unbounded_reason(module, function, b.result(), function.symbol_bounds());
  case PublishedRule::host_value:
    return "a host value: no rule";
  case PublishedRule::operand_not_static:
    return value({decision.subject}) + " is not static";
  case PublishedRule::shape_not_known:
    return "the shape of " + value({decision.subject}) + " is not known";
  case PublishedRule::symbol_not_captured:
    return "symbol " + function.symbols[decision.subject].name + " may not be captured";
  case PublishedRule::call:
    return "calls of other functions are never lifted";
  case PublishedRule::host_builtin:
    return "host builtins are never lifted";
  case PublishedRule::builtin_extern:
    return "extern \"" + module.callee_names[b.callee] +
           "\" is a builtin of the host, never lifted";
  case PublishedRule::match:
    return "a match may fail, so nothing moves across it";
  case PublishedRule::device_read:
    return "a value read from device memory is not static";
  case PublishedRule::control:
    return "nothing moves across control flow";
  case PublishedRule::captured:
    return "in a function that is run as one graph already";
  }
  return "";
}

} // namespace cugrt::plan
