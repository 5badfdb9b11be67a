// Products of bytes: kernels/linear/matmul_integer.cu.
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"

#include <algorithm>
#include <string>

namespace cugrt::ir {

// --- Products of bytes ---------------------------------------------------------------------------

Status Inference::check_byte(size_t i) const {
  if (type(i).dtype == DType::i8 || type(i).dtype == DType::u8)
    return {};
  return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) +
               ", i8 or u8 is needed");
}

Status Inference::check_zero_point(size_t i, size_t of, ExprId length) const {
  if (!has(i))
    return {};
  CUGRT_TRY(check_dtype(i, type(of).dtype));
  if (rank(i) == 0 || (rank(i) == 1 && known(dims(i)[0]) == 1))
    return {};
  CUGRT_TRY(check_rank(i, 1));
  return check_equal(dims(i)[0], length,
                     "the zero points of " + number(of) + " and what they go with");
}

Types Inference::matmul_integer() const {
  CUGRT_TRY(check_byte(0));
  CUGRT_TRY(check_byte(1));
  if (rank(0) < 2 || rank(1) < 2)
    return wrong("matmul_integer needs operands of rank 2 or more");
  const Dims &a = dims(0);
  Dims b = dims(1);
  if (op_bool(op, attributes, "transpose_b"))
    std::swap(b.back(), b[b.size() - 2]);
  CUGRT_TRY(check_equal(a[a.size() - 1], b[b.size() - 2], "inner dimensions"));
  if (rank(1) > 2)
    for (size_t i = 0; i + 2 < std::max(rank(0), rank(1)); ++i)
      if (rank(0) != rank(1) || a[i] != b[i])
        return wrong("operand 2 has rank 2, or the outer dimensions of operand 1");
  CUGRT_TRY(check_zero_point(2, 0, a[a.size() - 2]));
  CUGRT_TRY(check_zero_point(3, 1, b.back()));
  Dims out = a;
  out.back() = b.back();
  return one(DType::i32, std::move(out));
}

} // namespace cugrt::ir

namespace cugrt::codegen {

// COPY_BYTES: bytes that rows of `inner` are known to be multiples of, or may be.
static int64_t copied_bytes(OpEmitter &op, ir::ExprId inner) {
  ir::ExprPool &exprs = op.exprs();
  for (int64_t bytes : {16, 8, 4})
    if (exprs.as_constant(exprs.make(ir::ExprKind::mod, inner, exprs.constant(bytes)))
            .value_or(0) == 0)
      return bytes;
  return 1;
}

// Blocks that share each of so many small tiles, each with kLeastSteps of k at least, where a
// device has places left for them; 1 where sizes are not known, and in branches and loops, which
// have no state.
static int64_t splits_of(OpEmitter &op, ir::ExprId small_tiles, ir::ExprId inner) {
  constexpr int64_t kStepBytes = 64, kLeastSteps = 4, kMostSplits = 8, kPlacesEach = 2;
  const Target &target = op.table().choice().target;
  const auto tiles = op.exprs().as_constant(small_tiles), depth = op.exprs().as_constant(inner);
  if (!tiles || *tiles < 1 || !depth || op.builder().in_nested_block() ||
      target.compute_capability < kTensorCoresSince)
    return 1;
  const int64_t places = kPlacesEach * target.multiprocessors;
  return std::max<int64_t>(
      1, std::min({kMostSplits, *depth / kStepBytes / kLeastSteps, places / *tiles}));
}

Status emit_matmul_integer(OpEmitter &op) {
  const ir::Type a = op.operand_type(0), b = op.operand_type(1);
  const size_t rank = a.dims.size();
  const bool transposed = op.flag("transpose_b");
  const Target &target = op.table().choice().target;
  KernelLaunch launch = op.launch("matmul_integer.cu", "matmul_integer");
  launch.option_if(op.call().fusion, "-fmad=false"); // kernels/shared/byte_sums.cuh
  launch.option_if(a.dtype == ir::DType::u8, "-DA_UNSIGNED");
  launch.option_if(b.dtype == ir::DType::u8, "-DB_UNSIGNED");
  launch.option_if(op.has_operand(2), "-DHAS_A_ZERO");
  launch.option_if(op.has_operand(3), "-DHAS_B_ZERO");
  launch.option_if(transposed, "-DB_COLUMNS");
  launch.input("a", op.operand(0));
  launch.input("b", op.operand(1));
  op.zero_points(launch, "a_zero", 2);
  op.zero_points(launch, "b_zero", 3);
  ir::ExprPool &exprs = op.exprs();
  // By one matrix the batches are rows of one large one, unless each of them has a zero point.
  const bool one_matrix =
      b.dims.size() == 2 &&
      (!op.has_operand(2) || exprs.as_constant(op.count(op.operand_type(2))) == int64_t(1));
  const ir::ExprId all_batches = one_matrix ? op.constant(1) : op.count(a, 0, rank - 2);
  const ir::ExprId all_rows = one_matrix ? op.count(a, 0, rank - 1) : a.dims[rank - 2];
  const ir::ExprId all_columns = b.dims[b.dims.size() - (transposed ? 2 : 1)];
  auto tiles = [&](ir::ExprId of_batch, ir::ExprId of_rows, ir::ExprId of_columns, int64_t side) {
    return exprs.mul(of_batch, exprs.mul(exprs.ceildiv(of_rows, exprs.constant(side)),
                                         exprs.ceildiv(of_columns, exprs.constant(side))));
  };
  const ir::ExprId small_tiles = tiles(all_batches, all_rows, all_columns, 64);
  const int64_t splits = transposed ? splits_of(op, small_tiles, a.dims.back()) : 1;
  if (splits > 1) {
    launch.option("-DSPLIT");
    add_shared_tiles(op, launch, small_tiles, splits * 64 * 64, ir::DType::i32);
    launch.size("splits", op.constant(splits));
  }
  launch.output("y", op.result());
  const ir::ExprId batch = launch.count("batch", all_batches);
  const ir::ExprId rows = launch.count("rows", all_rows);
  const ir::ExprId columns = launch.size("columns", all_columns);
  launch.size("inner", a.dims.back());
  launch.size("b_batch_stride",
              b.dims.size() > 2 ? exprs.mul(b.dims[rank - 2], b.dims[rank - 1]) : op.constant(0));
  if (target.compute_capability < kTensorCoresSince) {
    launch.variant("", {}, tiles(batch, rows, columns, 64), {16, 16, 1});
  } else {
    // Large tiles where each multiprocessor has one.
    auto many = [&](ir::ExprId of_batch, ir::ExprId of_rows, ir::ExprId of_columns) {
      return exprs.make(ir::ExprKind::lt, exprs.constant(target.multiprocessors),
                        tiles(of_batch, of_rows, of_columns, 128));
    };
    const ir::Interval holds = exprs.range(many(all_batches, all_rows, all_columns),
                                           op.builder().function().symbol_domain(exprs));
    launch.option("-DWITHOUT_DP4A");
    if (transposed) {
      launch.option("-DSTAGES=" + std::to_string(byte_stages(target)));
      launch.option("-DCOPY_BYTES=" + std::to_string(copied_bytes(op, a.dims.back())));
    }
    auto stage_bytes = [&](int64_t side) {
      return transposed ? byte_stage_bytes(target, side, side) : 0;
    };
    launch.entry(holds.lower != 0 ? "matmul_integer_mma" : "matmul_integer_mma_small");
    if (holds.upper != 0) {
      launch.option("-DWITH_MMA");
      launch.variant("matmul_integer_mma",
                     holds.lower != 0 ? ir::ExprId() : many(batch, rows, columns),
                     tiles(batch, rows, columns, 128), {32, 4, 1}, stage_bytes(128));
    }
    if (holds.lower == 0) {
      launch.option("-DWITH_MMA_SMALL");
      launch.variant("", {}, exprs.mul(tiles(batch, rows, columns, 64), op.constant(splits)),
                     {32, 4, 1}, stage_bytes(64));
    }
  }
  return op.emit(launch);
}

} // namespace cugrt::codegen
