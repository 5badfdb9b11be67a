// Products with matrices of blocks: kernels/linear/matmul_blocks.cu, matmul_repacked.cu,
// repack_blocks.cu.
#include "ops/emit/op_emitter.h"
#include "ops/linear/stream_form.h"
#include "ops/linear/tile_form.h"
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

std::string block_format(ir::DType dtype) { return "FORMAT_" + std::string(ir::info(dtype).name); }

bool takes_repacked_blocks(ir::DType x, ir::DType w, const Target &target) {
  return (ir::is_half(x) || x == ir::DType::f32) &&
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

/// Elements of k in a unit of kernels/linear/repacked.cuh.
int64_t unit_elements(ir::DType format) {
  return ir::info(format).elements_per_block == 32 ? 128 : 256;
}
/// Whether d, of two bytes, stands apart from the scales.
bool has_short_d(ir::DType format) {
  return format == ir::DType::q3_k || format == ir::DType::q6_k;
}

/// Whether elements are a scale times a quant, and a least.
bool has_least(ir::DType format) {
  return format == ir::DType::q4_1 || format == ir::DType::q5_1 || format == ir::DType::q2_k ||
         format == ir::DType::q4_k || format == ir::DType::q5_k;
}

/// Whether two blocks are behind the last whole unit, of a format whose units may be less.
bool has_half_unit(ir::DType format, int64_t depth) {
  return ir::info(format).elements_per_block == 32 && depth % 128 == 64;
}

/// Whether tiles on tensor cores compute x of `dtype` times [n, depth] of `format`.
bool has_tiles(ir::DType dtype, ir::DType format, int64_t n, int64_t depth) {
  const int64_t unit = unit_elements(format);
  if (!ir::is_half(dtype) || n <= 0 || depth <= 0 ||
      (depth % unit != 0 && !has_half_unit(format, depth)))
    return false;
  return !has_short_d(format) || n * (depth / unit) % 2 == 0; // the last d is in a whole word
}

/// Rows of matmul_stream_4.
constexpr int64_t kFewRowsOfF32 = 4;

/// Facts for the choice of a form of tiles.
struct TiledProduct {
  ir::DType x, w;
  int64_t n, k;
  const Target &target;
  bool in_registers = !has_tiles(x, w, n, k); // what tensor cores do not take
};

/// Columns of a block of the second form, whose warps have half of the rows where all would take
/// more than 255 registers, and are then half as many side by side.
int64_t large_tile_columns(const TiledProduct &product) {
  constexpr int64_t kNewCapability = 100, kNewestCapability = 120;
  const bool is_bf16 = product.x == ir::DType::bf16;
  const int64_t capability = product.target.compute_capability;
  const bool is_high = is_bf16 && product.w == ir::DType::q5_k;
  const bool is_high_there =
      (capability >= kNewCapability && product.w == ir::DType::q4_1 &&
       has_half_unit(product.w, product.k)) ||
      (capability >= kNewestCapability && is_bf16 && product.w == ir::DType::q6_k);
  return is_high || is_high_there ? 64 : 128;
}

/// Two units of 32 columns for each of a row of warps, with a word for d where it lies apart, steps
/// of 64 elements of x, and of 128 rows sums of x that warps exchange, eight words a row.
int64_t shared_bytes_of_tiles(int64_t rows, int64_t columns, const TiledProduct &product) {
  const ir::DType format = product.w;
  const ir::DTypeInfo &info = ir::info(format);
  const int64_t row = unit_elements(format) / info.elements_per_block * info.bytes_per_block +
                      (has_short_d(format) ? 2 : 0);
  const int64_t steps = format == ir::DType::q6_k && rows * columns == 128 * 128 ? 2 : 3;
  return 2 * columns * row + steps * rows * 64 * 2 +
         (rows == 128 && has_least(format) ? rows * 8 * 4 : 0);
}

/// kernels/linear/matmul_repacked_tiles.cuh, or what takes the rest.
TileForms tile_forms(const TiledProduct &product) {
  const std::string entry = "matmul_repacked_tiles";
  if (product.in_registers)
    return register_tiles(entry, product.x, product.k, product.target);
  const bool is_high = product.x == ir::DType::bf16 || product.w == ir::DType::q8_0 ||
                       (product.w == ir::DType::q4_0 && product.target.compute_capability < 90);
  auto form = [&](const char *suffix, const char *option, int64_t rows, int64_t columns,
                  int64_t warps, int64_t most_blocks, int64_t parts) {
    const int64_t bytes = shared_bytes_of_tiles(rows, columns, product);
    return TileForm{entry + suffix,
                    option,
                    rows,
                    columns,
                    warps,
                    bytes,
                    places_of_tiles(bytes, most_blocks, product.target),
                    parts};
  };
  // Sums of a part are 16 and up to 64 KiB.
  return {form("_32", "-DPLACES_32", 32, 128, 4, is_high ? 2 : 3, parts_of_tile(product.k, 256, 8)),
          form("", "-DPLACES", 128, large_tile_columns(product), 8, 1,
               parts_of_tile(product.k, 1024, 4))};
}

/// Whether tiles have registers for sizes that the compiler does not know: their loops are the same
/// then, and products of all sizes have one code.
bool tiles_any_size(const TiledProduct &product) {
  if (product.in_registers)
    return true;
  return product.x == ir::DType::f16 && product.w != ir::DType::q2_k &&
         product.w != ir::DType::q5_k && product.w != ir::DType::q5_1 &&
         !(product.w == ir::DType::q4_1 &&
           shared_bytes_of_multiprocessor(product.target) < 160 << 10) &&
         !(product.w == ir::DType::q4_0 && has_half_unit(product.w, product.k));
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
  return op.emit(launch);
}

Status emit_matmul_blocks(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), w = op.operand_type(1);
  const bool repacked = op.flag("repacked");
  if (repacked && !takes_repacked_blocks(x.dtype, w.dtype, op.table().choice().target))
    return op.unsupported(
        x.dtype, "repacked blocks multiply f32, f16 and bf16, from compute capability 8.0 on");
  const std::string entry = repacked ? "matmul_repacked" : "matmul_blocks";
  KernelLaunch launch =
      op.floating_launch(entry + ".cu", entry, "matmul_" + std::string(ir::info(w.dtype).name));
  launch.option("-DFORMAT=" + block_format(w.dtype));
  const std::optional<int64_t> depth = op.exprs().as_constant(w.dims[1]);
  const int64_t slices = depth ? slices_of_blocks(*depth) : 1;
  launch.option_if(!repacked && slices > 1, "-DSLICES=" + std::to_string(slices));
  launch.option_if(op.has_operand(2), "-DHAS_BIAS");
  launch.input("x", op.operand(0));
  launch.input("w", op.operand(1));
  op.input_if_given(launch, "bias", 2);
  const Target &target = op.table().choice().target;
  const std::optional<int64_t> width = op.exprs().as_constant(w.dims[0]);
  const ir::ExprId all_rows = op.count(x, 0, x.dims.size() - 1);
  const ir::Interval range =
      op.exprs().range(all_rows, op.builder().function().symbol_domain(op.exprs()));
  const TiledProduct product = {x.dtype, w.dtype, width.value_or(0), depth.value_or(0), target};
  const bool tiled = repacked && width && depth && range.upper > kMostStreamRows;
  TileForms forms;
  if (tiled) {
    forms = tile_forms(product);
    if (range.lower < range.upper) // fewer rows are cut as they would be
      bound_sums(forms, x.dtype, *width + *depth, range);
    add_parts(op, launch, forms, *width, range);
    launch.option_if(product.in_registers, "-DIN_REGISTERS");
    launch.option_if(!product.in_registers && has_half_unit(w.dtype, *depth), "-DHALF_UNIT");
  }
  launch.output("y", op.result());
  const ir::ExprId rows = launch.count("rows", all_rows);
  auto size = [&](const char *name, ir::ExprId dim) {
    return tiled && tiles_any_size(product) ? launch.count(name, dim) : launch.size(name, dim);
  };
  const ir::ExprId columns = size("n", w.dims[0]);
  size("k", w.dims[1]);
  ir::ExprPool &exprs = op.exprs();
  auto tiles = [&](int64_t height, int64_t width) {
    return exprs.mul(exprs.ceildiv(rows, exprs.constant(height)),
                     exprs.ceildiv(columns, exprs.constant(width)));
  };
  const std::array<int64_t, 3> threads = {32, 8, 1};
  auto at_most = [&](int64_t bound) {
    return range.upper <= bound ? ir::ExprId()
                                : exprs.make(ir::ExprKind::le, rows, exprs.constant(bound));
  };
  if (repacked) {
    launch.option_if(op.begins_aligned(0), "-DX_ALIGNED");
    const bool streams = width && depth && streams_blocks(x.dtype, w.dtype, *width, *depth);
    const bool is_f32 = x.dtype == ir::DType::f32; // which takes as long as it has rows
    auto stays = [&](int64_t most, const std::string &name, const std::string &option) {
      const int64_t slot = stream_slot_bytes(x.dtype, w.dtype, most);
      // At most as many blocks as the kernel's registers allow.
      const StreamRing ring = stream_ring(slot, 0, is_f32 && most > 1 ? 1 : 2, target);
      launch.option(option + "=" + std::to_string(ring.slots));
      const int64_t blocks =
          std::min(*width / kStreamColumns, ring.blocks * target.multiprocessors);
      launch.variant(name, at_most(most),
                     exprs.mul(exprs.min(rows, exprs.constant(1)), exprs.constant(blocks)), threads,
                     ring.slots * slot);
    };
    // Few rows of a prompt are its last part: one form will do, as each takes seconds to compile.
    const bool goes_on = range.upper > kMostStreamRows;
    if (streams && range.lower <= 1 && !goes_on)
      stays(1, "matmul_stream_1", "-DSLOTS_1");
    if (streams && is_f32 && range.lower <= kFewRowsOfF32 && range.upper > 1)
      stays(kFewRowsOfF32, "matmul_stream_4", "-DSLOTS_4");
    const int64_t fewer = is_f32 ? kFewRowsOfF32 : goes_on ? 0 : 1;
    const bool has_eight = streams && !(is_f32 && goes_on);
    if (has_eight && range.lower <= kMostStreamRows && range.upper > fewer)
      stays(kMostStreamRows, "matmul_stream", "-DSLOTS");
    // The rows that the forms before leave; tiles also take few of them, behind four of f32.
    const int64_t taken = has_eight ? kMostStreamRows : streams ? kFewRowsOfF32 : 0;
    if (tiled ? !streams && range.lower <= kMostStreamRows : taken == 0 || taken < range.upper)
      launch.variant("", tiled ? at_most(kMostStreamRows) : ir::ExprId(), tiles(is_f32 ? 4 : 8, 16),
                     threads);
    else
      launch.option("-DWITHOUT_STRIPS");
    if (tiled) {
      if (!product.in_registers && range.upper > kMostRowsOfSmallTiles)
        launch.option("-DEACH=" + std::to_string(forms[1].columns / 16));
      add_tiles(launch, forms, *width, rows, range);
    }
  } else {
    launch.variant("", {}, tiles(4, 8 / slices), threads);
  }
  return op.emit(launch);
}

} // namespace cugrt::codegen
