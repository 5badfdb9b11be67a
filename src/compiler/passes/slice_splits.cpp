// A split gives several results, a fused group one: so FuseOps sees a split as slices, each of
// which joins its readers. Slices that stay alone cost as much as the split.
#include "compiler/passes/all_passes.h"

#include "compiler/ir_names.h"
#include "ir/module/function_cloner.h"
#include "ops/table/ops.h"

namespace cugrt::passes {

namespace {

bool is_split(const Binding &binding) { return is_op(binding, ir::Op::split); }

/// A split as one slice a section, each of which joins what reads it.
class SplitSlicer : public ir::FunctionCloner {
public:
  using FunctionCloner::FunctionCloner;

protected:
  Status visit(const Binding &binding) override {
    if (!is_split(binding))
      return copy(binding);
    const ir::Type &whole = type_of(source().operands_of(binding)[0].value());
    if (!whole.known_shape || ir::info(whole.dtype).elements_per_block != 1)
      return copy(binding); // what slice does not take
    const Operand x = source().operands_of(binding)[0];
    const std::span<const ir::Attribute> attributes = source().attributes_of(binding);
    const int64_t axis = ir::op_integer(ir::Op::split, attributes, "axis");
    const std::vector<int64_t> sections = ir::op_integers(ir::Op::split, attributes, "sections");
    using Integers = std::vector<int64_t>;
    int64_t begin = 0;
    for (uint32_t i = 0; i < sections.size(); ++i) {
      const ir::Value &section = source().value(binding.result(i));
      const ir::Attribute slice[] = {{"starts", Integers{begin}},
                                     {"ends", Integers{begin + sections[i]}},
                                     {"axes", Integers{axis}}};
      begin += sections[i];
      Binding made{};
      made.kind = BindingKind::op;
      made.callee = uint32_t(ir::Op::slice);
      made.location = binding.location;
      const Operand operand = Operand::of(mapped(x.value()));
      map(binding.result(i),
          builder().bind(made, std::span(&operand, 1), {}, slice, std::span(&section.name, 1),
                         std::span(&section.type, 1)));
    }
    return {};
  }
};

bool has_splits(const ir::Function &function) {
  for (const ir::Block &block : function.blocks)
    for (const Binding &binding : block.bindings)
      if (is_split(binding))
        return true;
  return false;
}

} // namespace

Result<ir::Module> slice_splits(const ir::Module &module) {
  ir::Module target = ir::without_functions(module);
  for (const ir::Function &function : module.functions)
    if (has_splits(function))
      CUGRT_TRY(SplitSlicer(function, target).add_function());
    else
      target.functions.push_back(function);
  return target;
}

} // namespace cugrt::passes
