// PlanMemory: allocations get places in planned storage. Policy `packed`: one storage for each
// scope of a function.
//
//   %a = alloc : tensor<[n, 64], f32>    %storage = alloc_storage "global", 32768
//   launch @k(%x, %a)                    %a = alloc_tensor %storage, 0 : tensor<[n, 64], f32>
//   %b = alloc : tensor<[n, 64], f32>    launch @k(%x, %a)
//   launch @k(%a, %b)                    %b = alloc_tensor %storage, 16384 : tensor<[n, 64], f32>
//                                        launch @k(%a, %b)
//
// Tensors that are not alive at the same time share bytes; sizes are those at the symbols' upper
// bounds. An offset is an expression where each bucket of a symbol has its own (memory.offsets).
// compiler/planner/storage/memory_plan.h decides, and says what stays unplanned: the function's
// results, what host builtins may keep, and what no upper bound sizes.
//
// Policy `slots` pairs tensors with storages of their own as published
// (compiler/planner/published/chunks.h): each storage stands before its first tensor, and tensors
// begin at its first byte.
#include "compiler/passes/all_passes.h"
#include "compiler/planner/published/chunks.h"
#include "compiler/planner/storage/memory_plan.h"
#include "ir/module/function_cloner.h"
#include "ir/module/graph_builtins.h"

#include "base/check.h"

#include <algorithm>

namespace cugrt::passes {

namespace {

/// A storage of the target, and how deep in nested blocks it is allocated.
struct StorageValue {
  ir::ValueId value;
  size_t depth = 0;
};

/// Part that both policies share: tensors in storages, which nested blocks capture.
class PlannedCloner : public ir::FunctionCloner {
public:
  PlannedCloner(const ir::Function &source, ir::Module &target) : FunctionCloner(source, target) {
    // About half as many storages, kills and offsets come in as there are allocations.
    const size_t values = source.values.size(), bindings = source.body().bindings.size();
    builder().reserve(values + values / 4, source.operands.size() + bindings,
                      bindings + bindings / 2);
  }

protected:
  Status visit(const ir::Binding &binding) override {
    if (binding.blocks.count == 0)
      return copy(binding);
    captures_.emplace_back();
    Status status = copy(binding);
    captures_.pop_back();
    return status;
  }

  void add_captures(std::vector<ir::Operand> &operands) override {
    for (const ir::Operand &storage : captures_.back())
      operands.push_back(storage);
  }

  StorageValue bind_storage(uint32_t scope, ir::ExprId bytes, SourceLocation location) {
    const bool is_global = scope == 0;
    const ir::ValueId value =
        bind_value(ir::BindingKind::alloc_storage,
                   is_global ? "storage" : module().types.scope_name(scope) + "_storage", {},
                   std::span(&bytes, 1), module().types.storage(scope, bytes), location);
    return {value, captures_.size()};
  }

  void bind_tensor(const ir::Binding &alloc, const StorageValue &storage, ir::ExprId offset) {
    const ir::Operand operand = ir::Operand::of(storage.value);
    for (size_t depth = storage.depth; depth < captures_.size(); ++depth)
      if (std::find(captures_[depth].begin(), captures_[depth].end(), operand) ==
          captures_[depth].end())
        captures_[depth].push_back(operand);
    const ir::Value &value = source().value(alloc.result());
    map(alloc.result(), bind_value(ir::BindingKind::alloc_tensor, value.name, storage.value,
                                   std::span(&offset, 1), value.type, alloc.location));
  }

private:
  std::vector<std::vector<ir::Operand>> captures_; // storages used in the blocks that are open
};

class PackedPlanner : public PlannedCloner {
public:
  PackedPlanner(const ir::Function &source, ir::Module &target, const plan::MemoryPlan &plan)
      : PlannedCloner(source, target), plan_(plan), storages_(target.types.scope_count()),
        tensor_of_(source.values.size()) {
    for (const plan::TensorPlan &tensor : plan.tensors)
      tensor_of_[tensor.tensor.index] = &tensor;
  }

protected:
  Status enter_block(uint32_t block) override {
    if (block == 0)
      for (const plan::ScopePlan &scope : plan_.scopes)
        storages_[scope.scope] =
            bind_storage(scope.scope, module().exprs.constant(scope.peak_bytes), source().location);
    return {};
  }

  Status visit(const ir::Binding &binding) override {
    if (binding.kind != ir::BindingKind::alloc)
      return PlannedCloner::visit(binding);
    const plan::TensorPlan *tensor = tensor_of_[binding.first_result];
    CUGRT_CHECK(tensor);
    if (!tensor->planned)
      return copy(binding);
    ir::ExprPool &exprs = module().exprs;
    bind_tensor(binding, storages_[tensor->scope],
                tensor->table == plan::kNone
                    ? exprs.constant(tensor->offset_bytes)
                    : plan_.boxes.table(exprs, std::span(plan_.table_offsets)
                                                   .subspan(tensor->table, plan_.boxes.count())));
    return {};
  }

private:
  const plan::MemoryPlan &plan_;
  std::vector<StorageValue> storages_;              // by scope
  std::vector<const plan::TensorPlan *> tensor_of_; // by value
};

class ChunksPlanner : public PlannedCloner {
public:
  ChunksPlanner(const ir::Function &source, ir::Module &target, const plan::ChunkPlan &plan)
      : PlannedCloner(source, target), plan_(plan), storages_(plan.chunks.size()) {}

protected:
  Status visit(const ir::Binding &binding) override {
    if (binding.kind != ir::BindingKind::alloc)
      return PlannedCloner::visit(binding);
    const plan::ChunkTensor *tensor = plan_.find(binding.result());
    CUGRT_CHECK(tensor);
    if (tensor->chunk == plan::kNoChunk)
      return copy(binding);
    const plan::StorageChunk &chunk = plan_.chunks[tensor->chunk];
    if (chunk.first_tensor == tensor->tensor)
      storages_[tensor->chunk] = bind_storage(chunk.scope, chunk.bytes, binding.location);
    bind_tensor(binding, storages_[tensor->chunk], module().exprs.constant(0));
    return {};
  }

private:
  const plan::ChunkPlan &plan_;
  std::vector<StorageValue> storages_; // by chunk
};

Result<ir::Function> plan_packed(const ir::Module &module, const ir::Function &function,
                                 std::span<const plan::FunctionSummary> summaries,
                                 const plan::MemoryOptions &options, ir::Module &target) {
  CUGRT_ASSIGN(const plan::MemoryPlan plan,
               plan::plan_memory(module, function, summaries, options));
  return PackedPlanner(plan.interleaved ? *plan.interleaved : function, target, plan).run();
}

Result<ir::Function> plan_chunks(const ir::Function &function, ir::Module &target) {
  CUGRT_ASSIGN(const plan::ChunkPlan plan, plan::plan_chunks(target, function));
  CUGRT_ASSIGN(ir::Function planned, ChunksPlanner(function, target, plan).run());
  std::erase_if(planned.extra_attributes, [](const ir::Attribute &attribute) {
    return attribute.name == plan::kPlanDynamicResults;
  });
  return planned;
}

} // namespace

Result<ir::Module> plan_memory(const ir::Module &module, const PassContext &context) {
  if (!context.flag("memory.plan"))
    return module;
  const std::string_view words = context.choice("memory.reuse");
  plan::MemoryOptions options;
  options.reuse = words == "smallest"   ? plan::Reuse::smallest
                  : words == "parallel" ? plan::Reuse::parallel
                                        : plan::Reuse::balanced;
  options.tables = context.choice("memory.offsets") == "buckets";
  if (context.choice("memory.effort") == "build")
    options.effort = plan::Effort::build;
  const bool by_chunks = context.choice("memory.storage_policy") == "slots";
  std::vector<plan::FunctionSummary> summaries;
  if (!by_chunks) {
    CUGRT_ASSIGN(summaries, plan::summarize_called(module));
  }
  ir::Module target = ir::without_functions(module);
  const std::vector<bool> run_as_graphs = ir::functions_run_as_graphs(module);
  for (size_t f = 0; f < module.functions.size(); ++f) {
    const ir::Function &function = module.functions[f];
    plan::MemoryOptions own = options;
    if (run_as_graphs[f])
      own.reuse = plan::Reuse::smallest; // in program order: only callers know what shares bytes
    CUGRT_ASSIGN(ir::Function planned, by_chunks
                                           ? plan_chunks(function, target)
                                           : plan_packed(module, function, summaries, own, target));
    target.functions.push_back(std::move(planned));
  }
  return target;
}

} // namespace cugrt::passes
