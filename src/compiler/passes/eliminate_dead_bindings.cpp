// EliminateDeadBindings: removes pure bindings whose results nothing uses: ops, allocations, views,
// constants, shapes and their like. Launches, calls, constructs and ops that write stay, with the
// values that they use; a kill goes with its value. Matches and reads stay: they check, and define
// symbols.
#include "compiler/passes/all_passes.h"
#include "ir/module/function_cloner.h"

namespace cugrt::passes {

namespace {

bool is_pure(const ir::Binding &binding) {
  return binding.work() == ir::BindingWork::names ||
         (binding.kind == ir::BindingKind::op && !ir::writes_operand(binding));
}

// Which values are used, by a walk from the last binding to the first.
class Liveness {
public:
  explicit Liveness(const ir::Function &function)
      : function_(function), live_(function.values.size()) {
    walk(0);
  }

  bool is_live(ir::ValueId value) const { return live_[value.index]; }
  bool is_dead(const ir::Binding &binding) const {
    if (binding.kind == ir::BindingKind::kill)
      return !is_live(function_.operands_of(binding)[0].value());
    return is_pure(binding) && !any_result(binding);
  }

private:
  bool any_result(const ir::Binding &binding) const {
    for (uint32_t i = 0; i < binding.result_count; ++i)
      if (is_live(binding.result(i)))
        return true;
    return false;
  }

  void use(std::span<const ir::Operand> operands) {
    for (const ir::Operand &operand : operands)
      if (operand.kind == ir::Operand::Kind::value)
        live_[operand.index] = true;
  }

  void walk(uint32_t block_number) {
    const ir::Block &block = function_.blocks[block_number];
    use(function_.results_of(block));
    for (size_t i = block.bindings.size(); i-- > 0;) {
      const ir::Binding &binding = block.bindings[i];
      if (binding.kind == ir::BindingKind::kill || (is_pure(binding) && !any_result(binding)))
        continue;
      use(function_.operands_of(binding));
      for (uint32_t b = binding.blocks.begin; b < binding.blocks.end(); ++b)
        walk(b);
    }
  }

  const ir::Function &function_;
  std::vector<bool> live_;
};

class Eliminator : public ir::FunctionCloner {
public:
  Eliminator(const ir::Function &source, ir::Module &target)
      : FunctionCloner(source, target), liveness_(source) {}

protected:
  Status visit(const ir::Binding &binding) override {
    return liveness_.is_dead(binding) ? Status() : copy(binding);
  }

private:
  Liveness liveness_;
};

} // namespace

Result<ir::Module> eliminate_dead_bindings(const ir::Module &module, const PassContext &) {
  ir::Module target = ir::without_functions(module);
  for (const ir::Function &function : module.functions)
    CUGRT_TRY(Eliminator(function, target).add_function());
  return target;
}

} // namespace cugrt::passes
