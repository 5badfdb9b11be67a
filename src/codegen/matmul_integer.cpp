// Products of bytes: kernels/matmul_integer.cu.
#include "codegen/op_emitter.h"

#include <string>

namespace cugrt::codegen {

// A zero point, or one for each row or column.
static void zero_points(OpEmitter &op, KernelLaunch &launch, size_t i, const std::string &name) {
  if (!op.has_operand(i))
    return;
  launch.input(name, op.operand(i));
  const bool each = op.exprs().as_constant(op.count(op.operand_type(i))) != 1;
  launch.size(name + "_step", op.constant(each));
}

Status emit_matmul_integer(OpEmitter &op) {
  const ir::Type a = op.operand_type(0), b = op.operand_type(1);
  const size_t rank = a.dims.size();
  KernelLaunch launch = op.launch("matmul_integer.cu", "matmul_integer");
  if (a.dtype == ir::DType::u8)
    launch.option("-DA_UNSIGNED");
  if (b.dtype == ir::DType::u8)
    launch.option("-DB_UNSIGNED");
  if (op.has_operand(2))
    launch.option("-DHAS_A_ZERO");
  if (op.has_operand(3))
    launch.option("-DHAS_B_ZERO");
  launch.input("a", op.operand(0));
  launch.input("b", op.operand(1));
  zero_points(op, launch, 2, "a_zero");
  zero_points(op, launch, 3, "b_zero");
  launch.output("y", op.result());
  ir::ExprPool &exprs = op.exprs();
  const ir::ExprId batch = launch.count("batch", op.count(a, 0, rank - 2));
  const ir::ExprId rows = launch.count("rows", a.dims[rank - 2]);
  const ir::ExprId columns = launch.size("columns", b.dims.back());
  launch.size("inner", a.dims.back());
  launch.size("b_batch_stride",
              b.dims.size() > 2 ? exprs.mul(b.dims[rank - 2], b.dims[rank - 1]) : op.constant(0));
  const ir::ExprId side = exprs.constant(64);
  launch.variant(
      "", {}, exprs.mul(batch, exprs.mul(exprs.ceildiv(rows, side), exprs.ceildiv(columns, side))),
      {16, 16, 1});
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
