// Storage policy `slots` with defects of the published pass turned back on, for tests that compare
// with it: they are done to the function that is planned, or read from it.
#pragma once

#include "compiler/planner/published/chunks.h"
#include "ops/table/ops.h"

namespace cugrt::test {

/// Each member turns one defect on.
struct ChunkFlaws {
  /// A block freed in one branch is handed on outside of it.
  bool pool_outlives_branch = false;
  /// A tuple that names one tensor twice, used in another block than the one that allocates the
  /// tensor, ends the pass with an error.
  bool repeated_part_breaks = false;
};

/// Finds a launch or an extern that is the first to use a tensor outside of the block that
/// allocates it, by an operand that names the tensor twice.
class RepeatedParts {
public:
  /// `plan` is the function's, with no block for what escapes.
  RepeatedParts(const ir::Module &module, const ir::Function &function, const plan::ChunkPlan &plan)
      : module_(module), function_(function), plan_(plan), named_(function.values.size()),
        block_of_(function.values.size()), lost_(function.values.size()) {
    block(0);
  }
  bool found() const { return found_; }

private:
  struct Named {
    ir::ValueId tensor; // an alloc; invalid: no tensor
    std::vector<ir::ValueId> fields;
  };

  void share(ir::ValueId value, const ir::Operand &operand) {
    if (operand.kind == ir::Operand::Kind::value)
      named_[value.index] = named_[operand.index];
  }

  bool gives_operand_back(const ir::Binding &b) const {
    return b.kind == ir::BindingKind::alias || b.kind == ir::BindingKind::view ||
           b.kind == ir::BindingKind::match_shape ||
           (b.kind == ir::BindingKind::op && ir::op_of(b) == ir::Op::reshape) ||
           (b.kind == ir::BindingKind::extern_call && b.operands.count > 0 && b.result_count == 1 &&
            module_.callee_names[b.callee] == "vm.builtin.reshape");
  }

  void block(uint32_t number) {
    for (const ir::Binding &b : function_.blocks[number].bindings) {
      binding(b, number);
      for (uint32_t nested = b.blocks.begin; nested < b.blocks.end(); ++nested)
        block(nested);
    }
  }

  void binding(const ir::Binding &b, uint32_t number) {
    const std::span<const ir::Operand> operands = function_.operands_of(b);
    if (b.kind == ir::BindingKind::alloc) {
      named_[b.result().index].tensor = b.result();
      block_of_[b.result().index] = number;
    } else if (gives_operand_back(b)) {
      share(b.result(), operands[0]);
    } else if (b.kind == ir::BindingKind::tuple) {
      for (const ir::Operand &operand : operands)
        named_[b.result().index].fields.push_back(
            operand.kind == ir::Operand::Kind::value ? operand.value() : ir::ValueId{});
    } else if (b.kind == ir::BindingKind::tuple_element) {
      const std::vector<ir::ValueId> &fields = named_[operands[0].index].fields;
      const int64_t index = *module_.exprs.as_constant(function_.exprs_of(b)[0]);
      if (index < int64_t(fields.size()) && fields[size_t(index)].valid())
        share(b.result(), ir::Operand::of(fields[size_t(index)]));
    } else if (b.kind == ir::BindingKind::launch || b.kind == ir::BindingKind::extern_call) {
      for (const ir::Operand &operand : operands)
        if (operand.kind == ir::Operand::Kind::value) {
          std::vector<ir::ValueId> first; // used here before anywhere else
          use(operand.value(), number, first);
          for (ir::ValueId tensor : first)
            lost_[tensor.index] = true;
        }
    }
  }

  void use(ir::ValueId value, uint32_t number, std::vector<ir::ValueId> &first) {
    const ir::ValueId tensor = named_[value.index].tensor;
    if (tensor.valid() && block_of_[tensor.index] != number && !lost_[tensor.index] &&
        plan_.find(tensor)->reason.starts_with("it is used in another block")) {
      found_ = found_ || std::find(first.begin(), first.end(), tensor) != first.end();
      first.push_back(tensor);
    }
    for (ir::ValueId field : named_[value.index].fields)
      if (field.valid())
        use(field, number, first);
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const plan::ChunkPlan &plan_;
  std::vector<Named> named_;       // by value
  std::vector<uint32_t> block_of_; // by value, of allocs
  std::vector<bool> lost_;         // by value: used in another block before
  bool found_ = false;
};

/// The function with all bindings in one block: nothing is withdrawn from the pool. What is not
/// planned is killed at the end, which keeps it so.
inline ir::Function in_one_block(ir::Function function, const plan::ChunkPlan &plan) {
  std::vector<ir::Binding> bindings;
  auto append = [&](auto &self, uint32_t block) -> void {
    for (const ir::Binding &b : function.blocks[block].bindings) {
      bindings.push_back(b);
      bindings.back().blocks = {};
      for (uint32_t nested = b.blocks.begin; nested < b.blocks.end(); ++nested)
        self(self, nested);
    }
  };
  append(append, 0);
  for (const plan::ChunkTensor &tensor : plan.tensors)
    if (tensor.chunk == plan::kNoChunk) {
      ir::Binding kill{};
      kill.kind = ir::BindingKind::kill;
      kill.operands = {uint32_t(function.operands.size()), 1};
      function.operands.push_back(ir::Operand::of(tensor.tensor));
      bindings.push_back(kill);
    }
  function.blocks[0].bindings = std::move(bindings);
  return function;
}

/// The plan, or nothing where the published pass ends with an error.
inline Result<std::optional<plan::ChunkPlan>>
plan_chunks(ir::Module &pools, const ir::Function &function, ChunkFlaws flaws) {
  ir::Function without_own = function; // blocks for what escapes
  without_own.extra_attributes.clear();
  CUGRT_ASSIGN(const plan::ChunkPlan mended, plan::plan_chunks(pools, without_own));
  if (flaws.repeated_part_breaks && RepeatedParts(pools, function, mended).found())
    return std::optional<plan::ChunkPlan>();
  CUGRT_ASSIGN(plan::ChunkPlan plan,
               plan::plan_chunks(pools, flaws.pool_outlives_branch ? in_one_block(function, mended)
                                                                   : function));
  for (uint32_t number = 0; number < function.blocks.size(); ++number)
    for (const ir::Binding &b : function.blocks[number].bindings)
      for (plan::StorageChunk &chunk : plan.chunks)
        if (b.kind == ir::BindingKind::alloc && b.result() == chunk.first_tensor)
          chunk.block = number;
  return std::optional(std::move(plan));
}

} // namespace cugrt::test
