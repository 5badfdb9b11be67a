// A split gives several results, a fused group one: so FuseOps sees a split as slices, each of
// which joins its readers. Slices that stay alone cost as much as the split. A slice of a slice is
// one of what that is a slice of: so a chain of them is as many slices, each one deep.
#include "compiler/passes/all_passes.h"

#include "compiler/ir_names.h"
#include "ir/module/function_cloner.h"
#include "ops/table/ops.h"

#include <algorithm>
#include <map>
#include <optional>

namespace cugrt::passes {

namespace {

bool is_split(const Binding &binding) { return is_op(binding, ir::Op::split); }

class SliceMaker : public ir::FunctionCloner {
public:
  using FunctionCloner::FunctionCloner;

  /// Whether there are slices that nothing may read any more.
  bool joined_any() const { return joined_any_; }

protected:
  Status visit(const Binding &binding) override {
    if (ir::may_write(binding))
      slices_.clear(); // what was sliced before may be another value now
    if (is_split(binding) && split(binding))
      return {};
    if (is_op(binding, ir::Op::slice) && source().operands_of(binding).size() == 1) {
      CUGRT_ASSIGN(const auto part,
                   ir::slice_dimensions(module().exprs, dims_of(operand_of(binding)),
                                        source().attributes_of(binding)));
      if (slice(binding, 0, part))
        return {};
    }
    return copy(binding);
  }
  Status enter_block(uint32_t) override { return slices_.clear(), Status(); }
  Status leave_block(uint32_t) override { return slices_.clear(), Status(); }

private:
  using Part = std::vector<ir::SliceDimension>;
  /// What a value is a slice of, in the source.
  struct Slice {
    ValueId whole;
    Part part;
  };

  ValueId operand_of(const Binding &binding) const {
    return source().operands_of(binding)[0].value();
  }
  std::vector<ir::ExprId> dims_of(ValueId value) const { return type_of(value).dims; }

  /// A split as one slice a section, each of which joins what reads it.
  bool split(const Binding &binding) {
    const ir::Type &whole = type_of(operand_of(binding));
    if (!whole.known_shape || ir::info(whole.dtype).elements_per_block != 1)
      return false; // what slice does not take
    ir::ExprPool &exprs = module().exprs;
    const std::span<const ir::Attribute> attributes = source().attributes_of(binding);
    const size_t axis =
        *ir::normalize_axis(ir::op_integer(ir::Op::split, attributes, "axis"), whole.dims.size());
    Part part;
    for (ir::ExprId dim : whole.dims)
      part.push_back({exprs.constant(0), dim, 1});
    for (uint32_t i = 0; i < binding.result_count; ++i) {
      part[axis].size = dims_of(binding.result(i))[axis];
      slice(binding, i, part);
      part[axis].begin = exprs.add(part[axis].begin, part[axis].size);
    }
    return true;
  }

  /// Makes the result of a slice or split, that part of the operand, a slice of what the operand is
  /// a slice of. False where that has no fixed places, and nothing is made.
  bool slice(const Binding &binding, uint32_t result, Part part) {
    ir::ExprPool &exprs = module().exprs;
    ValueId whole = operand_of(binding);
    const auto known = slices_.find(whole.index);
    if (known != slices_.end()) {
      const Part &outer = known->second.part;
      for (size_t d = 0; d < part.size(); ++d) {
        const ir::ExprId inside = exprs.mul(part[d].begin, exprs.constant(outer[d].step));
        part[d] = {exprs.add(outer[d].begin, inside), part[d].size, outer[d].step * part[d].step};
      }
      whole = known->second.whole;
    }
    const std::optional<std::vector<ir::Attribute>> attributes =
        attributes_of(dims_of(whole), part);
    if (!attributes)
      return false;
    slices_[binding.result(result).index] = {whole, part};
    if (is_op(binding, ir::Op::slice) && known == slices_.end())
      return copy(binding).ok();
    joined_any_ = joined_any_ || known != slices_.end();
    const ir::Value &section = source().value(binding.result(result));
    Binding made{};
    made.kind = BindingKind::op;
    made.callee = uint32_t(ir::Op::slice);
    made.location = binding.location;
    const Operand operand = Operand::of(mapped(whole));
    map(binding.result(result),
        builder().bind(made, std::span(&operand, 1), {}, *attributes, std::span(&section.name, 1),
                       std::span(&section.type, 1)));
    return true;
  }

  /// Those of a slice that is that part; none where places count from behind or are not known.
  std::optional<std::vector<ir::Attribute>> attributes_of(std::span<const ir::ExprId> dims,
                                                          const Part &part) const {
    const ir::ExprPool &exprs = module().exprs;
    std::vector<int64_t> starts, ends, axes, steps;
    for (size_t d = 0; d < dims.size(); ++d) {
      const auto [begin, size, step] = part[d];
      const std::optional<int64_t> from = exprs.as_constant(begin), count = exprs.as_constant(size);
      if (from == 0 && size == dims[d] && step == 1)
        continue;
      if (!from || !count || *count == 0 || step < 1)
        return std::nullopt;
      starts.push_back(*from);
      ends.push_back(*from + (*count - 1) * step + 1);
      axes.push_back(int64_t(d));
      steps.push_back(step);
    }
    std::vector<ir::Attribute> made = {{"starts", starts}, {"ends", ends}, {"axes", axes}};
    if (std::ranges::any_of(steps, [](int64_t step) { return step != 1; }))
      made.push_back({"steps", steps});
    return made;
  }

  std::map<uint32_t, Slice> slices_; // by value of the source
  bool joined_any_ = false;
};

bool has_parts(const ir::Function &function) {
  for (const ir::Block &block : function.blocks)
    for (const Binding &binding : block.bindings)
      if (is_split(binding) || is_op(binding, ir::Op::slice))
        return true;
  return false;
}

} // namespace

Result<ir::Module> slice_splits(const ir::Module &module, const PassContext &context) {
  ir::Module target = ir::without_functions(module);
  bool joined_any = false;
  for (const ir::Function &function : module.functions) {
    if (!has_parts(function)) {
      target.functions.push_back(function);
      continue;
    }
    SliceMaker maker(function, target);
    CUGRT_TRY(maker.add_function());
    joined_any = joined_any || maker.joined_any();
  }
  return joined_any ? eliminate_dead_bindings(target, context) : std::move(target);
}

} // namespace cugrt::passes
