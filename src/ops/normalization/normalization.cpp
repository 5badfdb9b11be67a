// Softmax and norms: kernels/normalization/softmax.cu, norm.cu.
#include "ops/emit/op_emitter.h"

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
  launch.scalar("epsilon", x.dtype == ir::DType::f64 ? ir::DType::f64 : ir::DType::f32,
                ir::op_float(op.call().op, op.call().attributes, "epsilon"));
  launch.row_variants(rows, columns, op.exprs().as_constant(x.dims.back()),
                      ir::info(x.dtype).bytes_per_block);
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
