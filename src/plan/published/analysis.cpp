// The seed analysis: regions function by function, callees first; then slots and names.
#include "plan/published/analysis.h"

#include "ir/module/graph_builtins.h"
#include "plan/analysis/liveness.h"
#include "plan/published/parts.h"
#include "plan/symbols/sizes.h"
#include "support/check.h"

namespace cugrt::plan {

/// By function: whether a builtin of lifted regions names it.
static std::vector<bool> captured_functions(const ir::Module &module) {
  std::vector<bool> captured(module.functions.size());
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const ir::Binding &b : block.bindings)
        if (ir::graph_builtin(module, b) != ir::GraphBuiltin::none)
          captured[ir::graph_function(function, b)] = true;
  return captured;
}

SeedAnalysis analyze_seed_regions(const ir::Module &module, const PublishedFlaws &flaws) {
  Result<std::vector<uint32_t>> order = callees_first(module);
  CUGRT_CHECK(order.ok()); // the verifier refuses recursion
  SeedAnalysis analysis;
  analysis.functions.resize(module.functions.size());
  std::vector<ResultParameters> parameters(module.functions.size());
  const std::vector<bool> captured = captured_functions(module);
  for (uint32_t f : *order) {
    const ir::Function &function = module.functions[f];
    if (captured[f]) {
      analysis.functions[f].bindings.assign(bindings_in_order(function).size(),
                                            {Verdict::stays, SeedRule::captured});
      parameters[f].assign(function.result_types.size(), UINT32_MAX);
      continue;
    }
    std::vector<bool> result_storages =
        find_result_storages(module, function, parameters, flaws, parameters[f]);
    analysis.functions[f] = find_seed_regions(module, function, result_storages, flaws);
  }
  return analysis;
}

SeedAnalysis analyze_seed(const ir::Module &module, const PublishedFlaws &flaws) {
  SeedAnalysis analysis = analyze_seed_regions(module, flaws);
  merge_seed_storages(module, flaws, analysis);
  name_seed_functions(module, flaws, analysis);
  for (uint32_t f = 0; f < module.functions.size(); ++f)
    analysis.functions[f].undefined = find_undefined(module.functions[f], analysis.functions[f]);
  return analysis;
}

std::string seed_reason(const ir::Module &module, const ir::Function &function,
                        const ir::Binding &b, const SeedBinding &decision) {
  auto value = [&](ir::ValueId id) { return "%" + function.value(id).name; };
  switch (decision.rule) {
  case SeedRule::launch:
    return "a launch whose operands are all static";
  case SeedRule::extern_call:
    return "extern \"" + module.callee_names[b.callee] +
           "\" is taken for a launch, its operands are all static; it splits the graph where it is "
           "a host function";
  case SeedRule::names_static:
    return decision.region == UINT32_MAX
               ? "its operands are static, but only launches open regions, and none is open"
               : "its operands are static: part of the region that is open";
  case SeedRule::constant:
    return "a constant is static";
  case SeedRule::lifted_storage:
    return value(b.result()) + " has a constant size: lifted";
  case SeedRule::symbolic_storage:
    return value(b.result()) + " has a symbolic size, so it cannot be lifted";
  case SeedRule::result_storage:
    return value(b.result()) + " holds a result: the next run would overwrite it";
  case SeedRule::unplanned:
    return "an unplanned allocation is fresh in each run" +
           unbounded_reason(module, function, b.result(), function.symbol_bounds());
  case SeedRule::host_value:
    return "a host value: no rule";
  case SeedRule::operand_not_static:
    return value({decision.subject}) + " is not static";
  case SeedRule::shape_not_known:
    return "the shape of " + value({decision.subject}) + " is not known";
  case SeedRule::symbol_not_captured:
    return "symbol " + function.symbols[decision.subject].name + " may not be captured";
  case SeedRule::call:
    return "calls of other functions are never lifted";
  case SeedRule::host_builtin:
    return "host builtins are never lifted";
  case SeedRule::builtin_extern:
    return "extern \"" + module.callee_names[b.callee] +
           "\" is a builtin of the host, never lifted";
  case SeedRule::match:
    return "a match may fail, so nothing moves across it";
  case SeedRule::device_read:
    return "a value read from device memory is not static";
  case SeedRule::control:
    return "nothing moves across control flow";
  case SeedRule::captured:
    return "in a function that is run as one graph already";
  }
  return "";
}

} // namespace cugrt::plan
