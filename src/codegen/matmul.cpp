// Matrix multiplication: kernels/matmul.cu.
#include "codegen/op_emitter.h"

namespace cugrt::codegen {

namespace {

// The batch dimensions of a product, merged: at most two are left that the kernel walks.
struct Batches {
  ir::ExprId count; // all of them
  ir::ExprId inner; // size of the inner one
  Dimension outer_walk, inner_walk;
};

Result<Batches> merge_batches(OpEmitter &op, const ir::Type &a, const ir::Type &c,
                              const ir::Type &y) {
  // Strides of whole matrices, over the result's batch dimensions.
  const size_t rank = y.dims.size() - 2;
  auto matrices = [&](const ir::Type &type) {
    ir::Type batch = type;
    batch.strides = contiguous_strides(op.exprs(), type.dims);
    batch.dims.resize(type.dims.size() - 2);
    batch.strides.resize(batch.dims.size());
    // A tensor without batch dimensions has no strides, which would read as contiguous: rank 0
    // either way.
    return broadcast_strides(op.exprs(), batch, std::span(y.dims).first(rank));
  };
  const std::vector<ir::ExprId> a_strides = matrices(a), c_strides = matrices(c);
  std::vector<Dimension> walk;
  for (size_t i = 0; i < rank; ++i)
    walk.push_back({y.dims[i], {a_strides[i], c_strides[i]}});
  walk = merge(op.exprs(), std::move(walk));
  if (walk.size() > 2)
    return op.unsupported(
        a.dtype, "batch dimensions that broadcast in turns leave " + std::to_string(walk.size()) +
                     " dimensions, and the kernel walks two; reshape or expand an "
                     "operand");
  const ir::ExprId zero = op.constant(0), one = op.constant(1);
  const Dimension unused{one, {zero, zero}};
  Batches batches;
  batches.count = op.count(y, 0, rank);
  batches.inner_walk = walk.empty() ? unused : walk.back();
  batches.outer_walk = walk.size() == 2 ? walk.front() : unused;
  batches.inner = batches.inner_walk.size;
  return batches;
}

} // namespace

Status emit_matmul(OpEmitter &op) {
  CUGRT_TRY(op.require_floating());
  ir::Type a = op.operand_type(0), y = op.result_type();
  const ir::Type c = op.operand_type(1);
  const size_t a_rank = a.dims.size(), c_rank = c.dims.size();
  if (a_rank < 2 || c_rank < 2)
    return op.unsupported(a.dtype, "operands of rank 1 are not matrices; reshape them");
  const ir::ExprId k = a.dims[a_rank - 1], n = c.dims[c_rank - 1];
  // One matrix on the right: the batches of the left one are rows of one large matrix.
  if (c_rank == 2) {
    a.dims = {op.count(a, 0, a_rank - 1), k};
    y.dims = {a.dims[0], n};
  }
  const ir::ExprId m = y.dims[y.dims.size() - 2];
  CUGRT_ASSIGN(const Batches batches, merge_batches(op, a, c, y));

  KernelLaunch launch = op.floating_launch("matmul.cu", "matmul_register", "matmul");
  if (op.has_operand(2))
    launch.option("-DHAS_BIAS");
  launch.input("a", op.operand(0));
  launch.input("c", op.operand(1));
  if (op.has_operand(2))
    launch.input("bias", op.operand(2));
  launch.output("y", op.result());
  const ir::ExprId rows = launch.count("m", m), columns = launch.size("n", n);
  launch.size("k", k);
  const ir::ExprId batch = launch.count("batch", batches.count);
  launch.size("inner_batch", batches.inner);
  launch.size("a_outer_stride", batches.outer_walk.strides[0]);
  launch.size("a_inner_stride", batches.inner_walk.strides[0]);
  launch.size("c_outer_stride", batches.outer_walk.strides[1]);
  launch.size("c_inner_stride", batches.inner_walk.strides[1]);

  ir::ExprPool &exprs = op.exprs();
  auto tiles = [&](int64_t height, int64_t width) {
    return exprs.mul(batch, exprs.mul(exprs.ceildiv(rows, exprs.constant(height)),
                                      exprs.ceildiv(columns, exprs.constant(width))));
  };
  auto at_most = [&](ir::ExprId value, int64_t bound) {
    return exprs.make(ir::ExprKind::le, value, exprs.constant(bound));
  };
  // Few rows: one pass over the right matrix. Results of less than 64 large tiles would leave most
  // of a device idle.
  launch.variant("matmul_gemv", at_most(rows, 4), tiles(4, 32), {32, 8, 1});
  launch.variant("matmul_tiled", at_most(tiles(64, 64), 64), tiles(16, 16), {16, 16, 1});
  launch.variant("", {}, tiles(64, 64), {16, 16, 1});
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
