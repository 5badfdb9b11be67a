// Products with matrices of blocks: kernels/linear/matmul_blocks.cu, matmul_formats.cu,
// matmul_repacked.cu, repack_blocks.cu.
#include "ops/emit/op_emitter.h"
#include "ops/linear/stream_form.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <optional>
#include <string>

namespace cugrt::ir {

Status Inference::check_blocks(size_t i) const {
  CUGRT_TRY(check_rank(i, 2));
  if (info(type(i).dtype).kind != DTypeKind::block)
    return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) +
                 ", a block format, as q4_0, is needed");
  return {};
}

Status Inference::check_whole_blocks(ExprId dim, DType dtype) const {
  const int64_t elements = info(dtype).elements_per_block;
  if (std::optional<int64_t> k = known(dim); !k || *k % elements != 0)
    return wrong("the inner dimension is a constant multiple of the " + std::to_string(elements) +
                 " elements of a block, not " + text(dim));
  return {};
}

Types Inference::repack_blocks() const {
  CUGRT_TRY(check_blocks(0));
  return one(type(0).dtype, dims(0));
}

Types Inference::matmul_blocks() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_blocks(1));
  if (rank(0) == 0)
    return wrong("operand 1 has rank 1 or more");
  CUGRT_TRY(check_equal(dims(0).back(), dims(1)[1], "inner dimensions"));
  CUGRT_TRY(check_whole_blocks(dims(1)[1], type(1).dtype));
  CUGRT_TRY(check_vector(2, dims(1)[0]));
  Dims out = dims(0);
  out.back() = dims(1)[0];
  return one(type(0).dtype, std::move(out));
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::repack_blocks() { return {}; }

Status OpPadding::matmul_blocks() {
  CUGRT_TRY(align(0, 1));
  fills([&](size_t d, size_t) { return has(2) ? Fill::any : like_first(d); });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

bool has_plain_blocks(ir::DType dtype) {
  return dtype == ir::DType::q4_0 || dtype == ir::DType::q4_1 || dtype == ir::DType::q8_0;
}

std::string block_format(ir::DType dtype) {
  return dtype == ir::DType::q4_0   ? "40"
         : dtype == ir::DType::q4_1 ? "41"
         : dtype == ir::DType::q8_0 ? "80"
                                    : "FORMAT_" + std::string(ir::info(dtype).name);
}

bool takes_repacked_blocks(ir::DType x, ir::DType w, const Target &target) {
  return (has_tensor_cores(x) || x == ir::DType::f32) &&
         target.compute_capability >= kTensorCoresSince && ir::info(w).kind == ir::DTypeKind::block;
}

int64_t slices_of_blocks(int64_t depth) {
  constexpr int64_t kSlices = 4;
  return depth > kMostRoundsAhead * 128 ? kSlices : 1;
}

int64_t rounds_of_blocks(int64_t depth) {
  const int64_t each = 128 * slices_of_blocks(depth);
  return (depth + each - 1) / each;
}

int64_t repacked_low_bits(ir::DType dtype) {
  return dtype == ir::DType::q8_0                               ? 8
         : dtype == ir::DType::q2_k || dtype == ir::DType::q3_k ? 2
                                                                : 4;
}

namespace {

/// The elements of k of which kernels/linear/matmul_repacked_tiles.cuh takes a whole number, for x
/// of `dtype` and a matrix of `format`; 0 where it has no form: numbers with the scales of blocks
/// of 256 are f16, of quants of 2 and 3 bits there are none, and q5_1 takes more registers than a
/// thread has.
int64_t unit_of_tiles(ir::DType dtype, ir::DType format) {
  if (!has_tensor_cores(dtype))
    return 0;
  if (ir::info(format).elements_per_block == 32)
    return format == ir::DType::q4_1 || format == ir::DType::q5_1 ? 0 : 128;
  const bool has_numbers = format != ir::DType::q2_k && format != ir::DType::q3_k;
  return has_numbers && dtype == ir::DType::f16 ? 256 : 0;
}

/// Whether tiles compute x of `dtype` times [n, depth] of `format`.
bool has_tiles(ir::DType dtype, ir::DType format, int64_t n, int64_t depth) {
  const int64_t unit = unit_of_tiles(dtype, format);
  if (unit == 0 || depth == 0 || depth % unit != 0)
    return false;
  return format != ir::DType::q6_k || n * (depth / unit) % 2 == 0; // the last d is in a whole word
}

/// Two units of 32 rows for each of four warps, with a word for d where it lies apart, and three
/// steps of 64 x 64 elements of x.
int64_t shared_bytes_of_tiles(ir::DType format) {
  const ir::DTypeInfo &info = ir::info(format);
  const int64_t unit = info.elements_per_block == 32 ? 4 : 1;
  const int64_t row = unit * info.bytes_per_block + (format == ir::DType::q6_k ? 2 : 0);
  return 4 * 2 * 32 * row + 3 * 64 * 64 * 2;
}

/// The fewest rows that take tiles. Each strip of 8 rows reads all weights, with all
/// multiprocessors; a tile of 128 columns reads its own once, with one. So as many strips times
/// tiles as there are multiprocessors; one strip is never a tile.
int64_t rows_for_tiles(int64_t n, int64_t multiprocessors) {
  const int64_t across = (n + 127) / 128;
  return std::max<int64_t>(1, (multiprocessors - 1) / across) * 8 + 1;
}

} // namespace

Status emit_repack_blocks(OpEmitter &op) {
  const ir::Type w = op.operand_type(0);
  KernelLaunch launch = op.launch("repack_blocks.cu", "repack_blocks", ir::info(w.dtype).name);
  launch.option("-DFORMAT=" + block_format(w.dtype));
  launch.input("w", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId rows = launch.count("n", w.dims[0]);
  launch.size("k", w.dims[1]);
  ir::ExprPool &exprs = op.exprs();
  launch.variant("", {}, exprs.min(rows, exprs.constant(KernelLaunch::kMaxLoopBlocks)),
                 {128, 1, 1});
  launch.emit(op.call().location);
  return {};
}

Status emit_matmul_blocks(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), w = op.operand_type(1);
  const bool repacked = op.flag("repacked");
  if (repacked && !takes_repacked_blocks(x.dtype, w.dtype, op.table().choice().target))
    return op.unsupported(
        x.dtype, "repacked blocks multiply f32, f16 and bf16, from compute capability 8.0 on");
  const std::string entry = repacked                    ? "matmul_repacked"
                            : has_plain_blocks(w.dtype) ? "matmul_blocks"
                                                        : "matmul_formats";
  KernelLaunch launch =
      op.floating_launch(entry + ".cu", entry, "matmul_" + std::string(ir::info(w.dtype).name));
  launch.option("-DFORMAT=" + block_format(w.dtype));
  const std::optional<int64_t> depth = op.exprs().as_constant(w.dims[1]);
  const int64_t slices = depth ? slices_of_blocks(*depth) : 1;
  if (!repacked && slices > 1)
    launch.option("-DSLICES=" + std::to_string(slices));
  if (op.has_operand(2))
    launch.option("-DHAS_BIAS");
  launch.input("x", op.operand(0));
  launch.input("w", op.operand(1));
  if (op.has_operand(2))
    launch.input("bias", op.operand(2));
  launch.output("y", op.result());
  const ir::ExprId all_rows = op.count(x, 0, x.dims.size() - 1);
  const ir::ExprId rows = launch.count("rows", all_rows);
  const ir::ExprId columns = launch.size("n", w.dims[0]);
  launch.size("k", w.dims[1]);
  ir::ExprPool &exprs = op.exprs();
  auto tiles = [&](int64_t height, int64_t width) {
    return exprs.mul(exprs.ceildiv(rows, exprs.constant(height)),
                     exprs.ceildiv(columns, exprs.constant(width)));
  };
  const std::array<int64_t, 3> threads = {32, 8, 1};
  const ir::Interval range = exprs.range(all_rows, op.builder().function().symbol_domain(exprs));
  auto at_most = [&](int64_t bound) {
    return range.upper <= bound ? ir::ExprId()
                                : exprs.make(ir::ExprKind::le, rows, exprs.constant(bound));
  };
  if (repacked && x.dtype == ir::DType::f32) {
    if (range.lower <= 1)
      launch.variant("matmul_repacked_1", at_most(1), tiles(1, 16), threads);
    if (range.upper > 1)
      launch.variant("", {}, tiles(4, 16), threads);
  } else if (repacked) {
    const Target &target = op.table().choice().target;
    const std::optional<int64_t> width = exprs.as_constant(w.dims[0]);
    const bool streams = width && depth && streams_blocks(x.dtype, w.dtype, *width, *depth);
    auto stays = [&](int64_t most, const std::string &name, const std::string &option) {
      const int64_t slot = stream_slot_bytes(w.dtype, most);
      const StreamRing ring = stream_ring(slot, 0, 2, target);
      launch.option(option + "=" + std::to_string(ring.slots));
      const int64_t blocks =
          std::min(*width / kStreamColumns, ring.blocks * target.multiprocessors);
      launch.variant(name, at_most(most),
                     exprs.mul(exprs.min(rows, exprs.constant(1)), exprs.constant(blocks)), threads,
                     ring.slots * slot);
    };
    if (streams && range.lower <= 1)
      stays(1, "matmul_stream_1", "-DSLOTS_1");
    if (streams && range.lower <= kMostStreamRows && range.upper > 1)
      stays(kMostStreamRows, "matmul_stream", "-DSLOTS");
    // As many rows as the forms before leave.
    const int64_t lower = streams ? std::max(range.lower, kMostStreamRows + 1) : range.lower;
    const int64_t least = width && *width > 0 ? rows_for_tiles(*width, target.multiprocessors) : 0;
    const bool some =
        least > 0 && depth && range.upper >= least && has_tiles(x.dtype, w.dtype, *width, *depth);
    if (some) {
      launch.option("-DHAS_TILES");
      launch.variant("matmul_repacked_tiles",
                     lower >= least ? ir::ExprId()
                                    : exprs.make(ir::ExprKind::le, exprs.constant(least), rows),
                     tiles(64, 128), {32, 4, 1}, shared_bytes_of_tiles(w.dtype));
    }
    if (lower > range.upper || (some && lower >= least))
      launch.option("-DWITHOUT_STRIPS");
    else
      launch.variant("", {}, tiles(8, 16), threads);
  } else {
    launch.variant("", {}, tiles(4, 8 / slices), threads);
  }
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
