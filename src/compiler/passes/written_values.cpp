// Which values' bytes may be written after they are defined: those that share bytes with what a
// launch, a call or host code is given to write. Names of the same bytes make a class.
#include "compiler/ir_names.h"
#include "compiler/passes/mixed_precision.h"
#include "ops/table/ops.h"

#include <numeric>

namespace cugrt::passes {

namespace {

class WrittenValues {
public:
  WrittenValues(const ir::Module &module, const ir::Function &function)
      : module_(module), function_(function), parent_(function.values.size()),
        written_(function.values.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (uint32_t block = 0; block < function.blocks.size(); ++block)
      for (const ir::Binding &binding : function.blocks[block].bindings)
        visit(binding);
  }

  std::vector<bool> take() {
    std::vector<bool> classes(written_.size());
    for (uint32_t v = 0; v < written_.size(); ++v)
      if (written_[v])
        classes[root(v)] = true;
    for (uint32_t v = 0; v < written_.size(); ++v)
      written_[v] = classes[root(v)];
    return std::move(written_);
  }

private:
  uint32_t root(uint32_t value) {
    while (parent_[value] != value)
      value = parent_[value] = parent_[parent_[value]];
    return value;
  }
  void join(uint32_t value, const Operand &operand) {
    if (operand.kind == Operand::Kind::value)
      parent_[root(value)] = root(operand.index);
  }
  void join_results(const ir::Binding &binding, const Operand &operand) {
    for (uint32_t i = 0; i < binding.result_count; ++i)
      join(binding.result(i).index, operand);
  }
  void write(const Operand &operand) {
    if (operand.kind == Operand::Kind::value)
      written_[operand.index] = true;
  }

  void visit(const ir::Binding &binding) {
    const auto operands = function_.operands_of(binding);
    switch (binding.work()) {
    case BindingWork::launches:
      for (size_t i = 0; i < operands.size(); ++i)
        if (ir::writes(module_.kernels[binding.callee].params[i].access))
          write(operands[i]);
      return;
    case BindingWork::calls:
      for (size_t i = 0; i < operands.size(); ++i) {
        if (ir::writes(module_.functions[binding.callee].params[i].access))
          write(operands[i]);
        join_results(binding, operands[i]); // it may return what it was given
      }
      return;
    case BindingWork::calls_host:
      for (const Operand &operand : operands) {
        write(operand);
        join_results(binding, operand);
      }
      return;
    case BindingWork::names:
    case BindingWork::matches:
      for (const Operand &operand : operands)
        join_results(binding, operand);
      return;
    case BindingWork::computes:
      if (ir::writes_operand(binding))
        write(operands[0]);
      if (ir::shares_bytes(ir::op_of(binding)))
        join_results(binding, operands[0]);
      return;
    case BindingWork::controls:
      flow(binding, operands);
      return;
    case BindingWork::kills:
    case BindingWork::reads:
      return;
    }
  }

  void flow(const ir::Binding &binding, std::span<const Operand> operands) {
    const bool loops = binding.kind == BindingKind::while_;
    for (uint32_t b = binding.blocks.begin; b < binding.blocks.end(); ++b) {
      const ir::Block &block = function_.blocks[b];
      for (uint32_t i = 0; i < block.param_count; ++i) {
        join(block.first_param + i, operands[i]);
        if (i < binding.result_count)
          join(binding.result(i).index, Operand::of(ir::ValueId{block.first_param + i}));
      }
      if (loops && b == binding.blocks.begin) // yields the condition
        continue;
      const auto results = function_.results_of(block);
      for (uint32_t i = 0; i < results.size() && i < binding.result_count; ++i)
        join(binding.result(i).index, results[i]);
    }
  }

  const ir::Module &module_;
  const ir::Function &function_;
  std::vector<uint32_t> parent_;
  std::vector<bool> written_;
};

} // namespace

std::vector<bool> find_written_values(const ir::Module &module, const ir::Function &function) {
  return WrittenValues(module, function).take();
}

} // namespace cugrt::passes
