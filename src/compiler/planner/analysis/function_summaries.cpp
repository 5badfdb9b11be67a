// Facts about functions that callers need, callees first.
#include "compiler/ir_names.h"
#include "compiler/planner/analysis/liveness.h"

#include "ir/module/module.h"

namespace cugrt::plan {

Result<std::vector<uint32_t>> callees_first(const ir::Module &module) {
  struct Visit {
    uint32_t function, block, binding;
  };
  enum class Mark : uint8_t { unseen, open, done };
  std::vector<Mark> marks(module.functions.size(), Mark::unseen);
  std::vector<uint32_t> order;
  std::vector<Visit> stack;
  for (uint32_t root = 0; root < module.functions.size(); ++root) {
    if (marks[root] != Mark::unseen)
      continue;
    marks[root] = Mark::open;
    stack.push_back({root, 0, 0});
    while (!stack.empty()) {
      Visit &visit = stack.back();
      const ir::Function &function = module.functions[visit.function];
      if (visit.block == function.blocks.size()) {
        marks[visit.function] = Mark::done;
        order.push_back(visit.function);
        stack.pop_back();
        continue;
      }
      const std::vector<Binding> &bindings = function.blocks[visit.block].bindings;
      while (visit.binding < bindings.size() && bindings[visit.binding].kind != BindingKind::call)
        ++visit.binding;
      if (visit.binding == bindings.size()) {
        ++visit.block;
        visit.binding = 0;
        continue;
      }
      const Binding &b = bindings[visit.binding++];
      if (marks[b.callee] == Mark::open)
        return located(Code::verify_error, function, b.location,
                       "the call of @" + module.functions[b.callee].name +
                           " makes the functions recursive, which cannot be planned");
      if (marks[b.callee] == Mark::unseen) {
        marks[b.callee] = Mark::open;
        stack.push_back({b.callee, 0, 0});
      }
    }
  }
  return order;
}

FunctionSummary summarize(const ir::Function &function, const Liveness &liveness) {
  using SourceKind = FunctionSummary::SourceKind;
  std::span<const Operand> results = function.results_of(function.body());
  FunctionSummary summary;
  summary.results.resize(results.size());
  std::vector<uint32_t> owner(liveness.origins.size(), UINT32_MAX);
  auto origin_of = [&](const Operand &result) {
    return result.kind == Operand::Kind::value ? liveness.origin(result.value()) : kNoOrigin;
  };
  for (uint32_t i = 0; i < results.size(); ++i)
    if (uint32_t origin = origin_of(results[i]);
        origin != kNoOrigin && owner[origin] == UINT32_MAX && liveness.whole[results[i].index])
      owner[origin] = i;
  for (uint32_t i = 0; i < results.size(); ++i) {
    uint32_t origin = origin_of(results[i]);
    if (origin == kNoOrigin)
      continue;
    const Origin &o = liveness.origins[origin];
    if (o.kind == OriginKind::parameter)
      summary.results[i] = {SourceKind::parameter, o.index};
    else if (o.kind == OriginKind::constant)
      summary.results[i] = {SourceKind::constant, o.index};
    else if (owner[origin] != UINT32_MAX && owner[origin] != i)
      summary.results[i] = {SourceKind::result, owner[origin]};
  }
  return summary;
}

Result<std::vector<FunctionSummary>> summarize_called(const ir::Module &module) {
  std::vector<bool> called(module.functions.size(), false);
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const Binding &b : block.bindings)
        if (b.kind == BindingKind::call)
          called[b.callee] = true;
  CUGRT_ASSIGN(std::vector<uint32_t> order, callees_first(module));
  std::vector<FunctionSummary> summaries(module.functions.size());
  for (uint32_t f : order)
    if (called[f]) {
      CUGRT_ASSIGN(Liveness liveness, analyze_liveness(module, module.functions[f], summaries));
      summaries[f] = summarize(module.functions[f], liveness);
    }
  return summaries;
}

} // namespace cugrt::plan
