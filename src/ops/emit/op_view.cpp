// Ops that are views; see element_ops.h.
#include "ops/emit/element_ops.h"

#include "base/check.h"
#include "ops/emit/index_space.h"

namespace cugrt::codegen {

namespace {

using ir::ExprId;
using ir::Op;

class Viewer {
public:
  Viewer(ir::Module &module, Op op, std::span<const ir::TypeId> operands,
         std::span<const ir::TypeId> results, std::span<const ir::Attribute> attributes)
      : module_(module), op_(op), operands_(operands), results_(results), attributes_(attributes),
        x_(module.types[operands[0]]) {}

  Result<std::optional<OpView>> run() {
    switch (ir::op_info(op_).storage) {
    case ir::OpStorage::fresh:
    case ir::OpStorage::copied:
    case ir::OpStorage::written:
      return std::optional<OpView>();
    case ir::OpStorage::retyped:
      return itself(x_.dtype == result(0).dtype);
    case ir::OpStorage::joined:
      return itself(operands_.size() == 1);
    case ir::OpStorage::view:
      break;
    }
    if (op_ == Op::reshape)
      return at(exprs().constant(0));
    if (op_ == Op::transpose)
      return keeps_order() ? at(exprs().constant(0)) : std::nullopt;
    if (op_ == Op::split)
      return sections();
    if (op_ == Op::slice)
      return slice();
    CUGRT_CHECK(op_ == Op::broadcast_to);
    return itself(x_.dims == result(0).dims);
  }

private:
  static std::optional<OpView> at(ExprId offset_bytes) { return OpView{false, {offset_bytes}}; }
  static std::optional<OpView> itself(bool is_operand) {
    return is_operand ? std::optional(OpView{true, {}}) : std::nullopt;
  }

  ir::ExprPool &exprs() { return module_.exprs; }
  const ir::Type &result(size_t i) const { return module_.types[results_[i]]; }
  ExprId bytes_per_block() { return exprs().constant(ir::info(x_.dtype).bytes_per_block); }

  /// Whether a transposition leaves all axes of other sizes than 1 in their order.
  bool keeps_order() const {
    const std::vector<int64_t> axes = ir::op_integers(op_, attributes_, "axes");
    const size_t rank = x_.dims.size();
    size_t next = 0;
    for (size_t i = 0; i < rank; ++i) { // none given: all, last first
      const size_t axis = axes.empty() ? rank - 1 - i : *ir::normalize_axis(axes[i], rank);
      if (module_.exprs.as_constant(x_.dims[axis]) == 1)
        continue;
      if (axis < next)
        return false;
      next = axis;
    }
    return true;
  }

  /// Sections that lie one after the other.
  std::optional<OpView> sections() {
    const size_t axis =
        *ir::normalize_axis(ir::op_integer(op_, attributes_, "axis"), x_.dims.size());
    const ExprId outer = element_count(exprs(), std::span(x_.dims).first(axis));
    if (ir::info(x_.dtype).elements_per_block != 1 || exprs().as_constant(outer) != 1)
      return std::nullopt;
    const ExprId row = element_count(exprs(), std::span(x_.dims).subspan(axis + 1));
    ExprId begin = exprs().constant(0);
    OpView view;
    for (size_t i = 0; i < results_.size(); ++i) {
      view.offsets_bytes.push_back(exprs().mul(exprs().mul(begin, row), bytes_per_block()));
      begin = exprs().add(begin, result(i).dims[axis]);
    }
    return view;
  }

  /// A slice that takes a run of bytes.
  Result<std::optional<OpView>> slice() {
    std::vector<ir::SliceDimension> slice;
    if (operands_.size() > 1) {
      slice = slice_of_shapes(module_.types[operands_[1]].dims, module_.types[operands_[2]].dims);
    } else {
      CUGRT_ASSIGN(slice, ir::slice_dimensions(exprs(), x_.dims, attributes_));
    }
    const ExprId begin = run_begin(exprs(), x_.dims, slice);
    return begin.valid() ? at(exprs().mul(begin, bytes_per_block())) : std::nullopt;
  }

  ir::Module &module_;
  const Op op_;
  const std::span<const ir::TypeId> operands_, results_;
  const std::span<const ir::Attribute> attributes_;
  const ir::Type x_;
};

} // namespace

Result<std::optional<OpView>> op_view(ir::Module &module, Op op,
                                      std::span<const ir::TypeId> operands,
                                      std::span<const ir::TypeId> results,
                                      std::span<const ir::Attribute> attributes) {
  if (operands.empty() || !operands[0].valid())
    return std::optional<OpView>();
  return Viewer(module, op, operands, results, attributes).run();
}

} // namespace cugrt::codegen
