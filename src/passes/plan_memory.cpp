// PlanMemory: allocations get planned storage, one each, sized at the symbols' upper bounds.
//
//   %y = alloc : tensor<[n, 64], f32>       %y_storage = alloc_storage "global", 16384
//                                           %y = alloc_tensor %y_storage, 0 : tensor<[n, 64], f32>
//
// The planner packs storages into the arena by their lifetimes: what is not alive at the same time
// shares bytes there, across functions too, so that no sharing need be written here. Not planned,
// and left as they are: allocations that are returned whole, which lie in the caller's result
// buffer, and those whose size has no upper bound.
#include "passes/all_passes.h"
#include "passes/function_cloner.h"
#include "plan/liveness.h"
#include "plan/sizes.h"

namespace cugrt::passes {

namespace {

class MemoryPlanner : public FunctionCloner {
public:
  MemoryPlanner(const ir::Function &source, ir::Module &target, const plan::Liveness &liveness)
      : FunctionCloner(source, target), bounds_(source.symbol_bounds()),
        returned_(source.values.size()) {
    for (const ir::Operand &result : source.results_of(source.body())) {
      if (result.kind != ir::Operand::Kind::value || !liveness.whole[result.index])
        continue;
      const uint32_t origin = liveness.origin(result.value());
      if (origin != plan::kNoOrigin)
        returned_[liveness.origins[origin].value.index] = true;
    }
  }

protected:
  Status visit(const ir::Binding &binding) override {
    if (binding.kind != ir::BindingKind::alloc || returned_[binding.result().index])
      return copy(binding);
    const ir::Value &value = source().value(binding.result());
    const std::optional<int64_t> bytes =
        plan::max_tensor_bytes(module().exprs, module().types[value.type], bounds_);
    return bytes ? plan(binding, value, *bytes) : copy(binding);
  }

private:
  Status plan(const ir::Binding &binding, const ir::Value &value, int64_t bytes) {
    const ir::ExprId size = module().exprs.constant(bytes), zero = module().exprs.constant(0);
    const ir::TypeId storage_type = module().types.storage(module().types[value.type].scope, size);
    const ir::ValueId storage = bind_value(ir::BindingKind::alloc_storage, value.name + "_storage",
                                           {}, std::span(&size, 1), storage_type, binding.location);
    map(binding.result(), bind_value(ir::BindingKind::alloc_tensor, value.name, storage,
                                     std::span(&zero, 1), value.type, binding.location));
    return {};
  }

  std::vector<ir::Interval> bounds_;
  std::vector<bool> returned_; // by value: allocations that are a result
};

} // namespace

Result<ir::Module> plan_memory(const ir::Module &module, const PassContext &context) {
  if (!context.flag("memory.plan"))
    return module;
  CUGRT_ASSIGN(const std::vector<plan::FunctionSummary> summaries, plan::summarize_all(module));
  ir::Module target = without_functions(module);
  for (const ir::Function &function : module.functions) {
    CUGRT_ASSIGN(const plan::Liveness liveness,
                 plan::analyze_liveness(module, function, summaries));
    CUGRT_ASSIGN(ir::Function planned, MemoryPlanner(function, target, liveness).run());
    target.functions.push_back(std::move(planned));
  }
  return target;
}

} // namespace cugrt::passes
