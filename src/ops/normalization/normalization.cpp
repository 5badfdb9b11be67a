// Softmax and norms: kernels/normalization/softmax.cu, norm.cu.
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

namespace cugrt::ir {

Types Inference::softmax() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(axis_of(op_integer(op, attributes, "axis"), 0).take_status());
  return one(type(0).dtype, dims(0));
}

Types Inference::norm() const {
  CUGRT_TRY(check_float(0));
  if (rank(0) == 0)
    return wrong("a norm needs at least rank 1");
  double epsilon = op_float(op, attributes, "epsilon");
  if (!(epsilon >= 0 && epsilon <= 1))
    return wrong("attribute 'epsilon' is from 0 to 1");
  CUGRT_TRY(check_vector(1, dims(0).back()));
  CUGRT_TRY(check_vector(2, dims(0).back()));
  return one(type(0).dtype, dims(0));
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::softmax() {
  const size_t along = axis();
  CUGRT_TRY(take(0, along, Fill::lowest));
  CUGRT_TRY(align(0));
  fills([&](size_t d, size_t) {
    return padding::is_number(fill(0, d)) || (d == along && op_ == Op::softmax) ? Fill::finite
                                                                                : Fill::any;
  });
  return {};
}

Status OpPadding::norm() {
  CUGRT_TRY(take(0, rank(0) - 1, Fill::any));
  CUGRT_TRY(align(0));
  const bool defined = ir::op_float(op_, attributes_, "epsilon") > 0; // of rows of equal numbers
  fills([&](size_t d, size_t) {
    const Fill same = defined ? like_first(d) : Fill::any;
    return same == Fill::zero && has(2) ? Fill::finite : same;
  });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

Status emit_softmax(OpEmitter &op) {
  CUGRT_TRY(op.require_floating());
  const ir::Type x = op.operand_type(0);
  const size_t axis = op.axis(x.dims.size());
  const ir::ExprId inner = op.count(x, axis + 1);
  const bool rows = op.exprs().as_constant(inner) == 1;

  const bool log = op.call().op == ir::Op::log_softmax;
  KernelLaunch launch = op.floating_launch("softmax.cu", rows ? "softmax_rows" : "softmax_columns",
                                           log ? "log_softmax" : "");
  if (log)
    launch.option("-DLOG");
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId outer = launch.count("outer", op.count(x, 0, axis));
  const ir::ExprId length = launch.size("axis", x.dims[axis]);
  const ir::ExprId columns = launch.size("inner", inner);
  ir::ExprPool &exprs = op.exprs();
  if (rows)
    launch.row_variants(outer, length, exprs.as_constant(x.dims[axis]),
                        ir::info(x.dtype).bytes_per_block);
  else
    launch.variant("", {}, exprs.ceildiv(exprs.mul(outer, columns), exprs.constant(32)),
                   {32, 16, 1});
  launch.emit(op.call().location);
  return {};
}

Status emit_norm(OpEmitter &op) {
  CUGRT_TRY(op.require_floating());
  const ir::Type x = op.operand_type(0);
  const bool has_scale = op.has_operand(1), has_bias = op.has_operand(2);

  KernelLaunch launch = op.floating_launch("norm.cu", std::string(op.name()));
  if (has_scale)
    launch.option("-DHAS_SCALE");
  if (has_bias)
    launch.option("-DHAS_BIAS");
  launch.input("x", op.operand(0));
  if (has_scale)
    launch.input("scale", op.operand(1));
  if (has_bias)
    launch.input("bias", op.operand(2));
  launch.output("y", op.result());
  const ir::ExprId rows = launch.count("rows", op.count(x, 0, x.dims.size() - 1));
  const ir::ExprId columns = launch.size("columns", x.dims.back());
  launch.scalar("epsilon", wide_type(x.dtype),
                ir::op_float(op.call().op, op.call().attributes, "epsilon"));
  launch.row_variants(rows, columns, op.exprs().as_constant(x.dims.back()),
                      ir::info(x.dtype).bytes_per_block);
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
