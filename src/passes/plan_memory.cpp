// PlanMemory: allocations get places in planned storage, one storage for each scope of a function.
//
//   %a = alloc : tensor<[n, 64], f32>    %storage = alloc_storage "global", 32768
//   launch @k(%x, %a)                    %a = alloc_tensor %storage, 0 : tensor<[n, 64], f32>
//   %b = alloc : tensor<[n, 64], f32>    launch @k(%x, %a)
//   launch @k(%a, %b)                    %b = alloc_tensor %storage, 16384 : tensor<[n, 64], f32>
//                                        launch @k(%a, %b)
//
// Tensors that are not alive at the same time share bytes; sizes are those at the symbols' upper
// bounds. plan/memory_plan.h decides, and says what stays unplanned: the function's results, what
// host builtins may keep, and what no upper bound sizes.
#include "ir/function_cloner.h"
#include "passes/all_passes.h"
#include "plan/memory_plan.h"

#include "support/check.h"

namespace cugrt::passes {

namespace {

class MemoryPlanner : public ir::FunctionCloner {
public:
  MemoryPlanner(const ir::Function &source, ir::Module &target, const plan::MemoryPlan &plan)
      : FunctionCloner(source, target), plan_(plan), storages_(target.types.scope_count()) {}

protected:
  Status enter_block(uint32_t block) override {
    if (block != 0)
      return {};
    for (const plan::ScopePlan &scope : plan_.scopes) {
      const ir::ExprId bytes = module().exprs.constant(scope.peak_bytes);
      const bool is_global = scope.scope == 0;
      storages_[scope.scope] = bind_value(
          ir::BindingKind::alloc_storage,
          is_global ? "storage" : module().types.scope_name(scope.scope) + "_storage", {},
          std::span(&bytes, 1), module().types.storage(scope.scope, bytes), source().location);
    }
    return {};
  }

  Status visit(const ir::Binding &binding) override {
    if (binding.kind != ir::BindingKind::alloc)
      return copy(binding);
    const plan::TensorPlan *tensor = plan_.find(binding.result());
    CUGRT_CHECK(tensor);
    if (!tensor->planned)
      return copy(binding);
    const ir::Value &value = source().value(binding.result());
    const ir::ExprId offset = module().exprs.constant(tensor->offset_bytes);
    map(binding.result(),
        bind_value(ir::BindingKind::alloc_tensor, value.name, storages_[tensor->scope],
                   std::span(&offset, 1), value.type, binding.location));
    return {};
  }

private:
  const plan::MemoryPlan &plan_;
  std::vector<ir::ValueId> storages_; // by scope
};

} // namespace

Result<ir::Module> plan_memory(const ir::Module &module, const PassContext &context) {
  if (!context.flag("memory.plan"))
    return module;
  CUGRT_ASSIGN(const std::vector<plan::FunctionSummary> summaries, plan::summarize_all(module));
  ir::Module target = ir::without_functions(module);
  for (const ir::Function &function : module.functions) {
    CUGRT_ASSIGN(const plan::MemoryPlan plan, plan::plan_memory(module, function, summaries));
    CUGRT_ASSIGN(ir::Function planned, MemoryPlanner(function, target, plan).run());
    target.functions.push_back(std::move(planned));
  }
  return target;
}

} // namespace cugrt::passes
