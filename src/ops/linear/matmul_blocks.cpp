// Products with matrices of blocks: kernels/linear/matmul_blocks.cu, matmul_repacked.cu,
// repack_blocks.cu.
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

/// Elements of k in a unit of kernels/linear/repacked.cuh.
int64_t unit_elements(ir::DType format) {
  return ir::info(format).elements_per_block == 32 ? 128 : 256;
}
/// Whether d, of two bytes, stands apart from the scales.
bool has_short_d(ir::DType format) {
  return format == ir::DType::q3_k || format == ir::DType::q6_k;
}

/// Whether two blocks are behind the last whole unit, of a format that tiles take so.
bool has_half_unit(ir::DType format, int64_t depth) {
  const bool takes = format == ir::DType::q4_0 || format == ir::DType::q4_1 ||
                     format == ir::DType::q8_0 || format == ir::DType::iq4_nl;
  return takes && depth % 128 == 64;
}

/// Whether tiles compute x of `dtype` times [n, depth] of `format`.
bool has_tiles(ir::DType dtype, ir::DType format, int64_t n, int64_t depth) {
  const int64_t unit = unit_elements(format);
  if (!has_tensor_cores(dtype) || n <= 0 || depth <= 0 ||
      (depth % unit != 0 && !has_half_unit(format, depth)))
    return false;
  return !has_short_d(format) || n * (depth / unit) % 2 == 0; // the last d is in a whole word
}

/// Of matmul_stream_4.
constexpr int64_t kFewRowsOfF32 = 4;

/// A form of kernels/linear/matmul_repacked_tiles.cuh: its entry, and the option for `places`.
struct TileForm {
  std::string_view entry, option;
  int64_t rows, warps;
  int64_t most_blocks,
      most_blocks_high; // of a multiprocessor, by registers; of those that take many
  // Of a tile that is cut: the last block reads the sums of all parts, 16 and 64 KiB each, so that
  // parts of less depth would take longer for sums than for products.
  int64_t most_parts, least_depth;
};
constexpr TileForm kTileForms[] = {{"matmul_repacked_tiles_32", "-DPLACES_32", 32, 4, 3, 2, 8, 256},
                                   {"matmul_repacked_tiles", "-DPLACES", 128, 8, 1, 1, 4, 1024}};
constexpr int64_t kTileColumns = 128;

/// What the form of tiles depends on.
struct TiledProduct {
  ir::DType x, w;
  int64_t n, k;
  const Target &target;
};

int64_t most_parts(const TileForm &form, const TiledProduct &product) {
  return std::clamp<int64_t>(product.k / form.least_depth, 1, form.most_parts);
}

/// Of a block. The second form has half of its rows where it would take more than 255 registers.
int64_t tile_rows(const TileForm &form, const TiledProduct &product) {
  constexpr int64_t kNewCapability = 100, kNewestCapability = 120;
  const bool is_bf16 = product.x == ir::DType::bf16;
  const int64_t capability = product.target.compute_capability;
  const bool is_high = is_bf16 && product.w == ir::DType::q5_k;
  const bool is_high_there =
      (capability >= kNewCapability && product.w == ir::DType::q4_1 &&
       has_half_unit(product.w, product.k)) ||
      (capability >= kNewestCapability && is_bf16 && product.w == ir::DType::q6_k);
  return is_high || is_high_there ? std::min<int64_t>(form.rows, 64) : form.rows;
}
/// Up to so many rows the first takes fewer instructions than the second.
constexpr int64_t kMostRowsOfSmallTiles = 64;
/// Whether some of so many rows take the form.
bool takes(const TileForm &form, const ir::Interval &rows) {
  return form.rows < kMostRowsOfSmallTiles ? rows.lower <= kMostRowsOfSmallTiles
                                           : rows.upper > kMostRowsOfSmallTiles;
}

/// Two units of 32 rows for each of four warps, with a word for d where it lies apart, and steps of
/// 64 elements of x.
int64_t shared_bytes_of_tiles(const TileForm &form, const TiledProduct &product) {
  const ir::DType format = product.w;
  const ir::DTypeInfo &info = ir::info(format);
  const int64_t row = unit_elements(format) / info.elements_per_block * info.bytes_per_block +
                      (has_short_d(format) ? 2 : 0);
  const int64_t rows = tile_rows(form, product);
  const int64_t steps = format == ir::DType::q6_k && rows == 128 ? 2 : 3;
  return 4 * 2 * 32 * row + steps * rows * 64 * 2;
}

/// Whether tiles have registers for sizes that the compiler does not know: their loops are the same
/// then, and products of all sizes have one code.
bool tiles_any_size(const TiledProduct &product) {
  return product.x == ir::DType::f16 && product.w != ir::DType::q2_k &&
         product.w != ir::DType::q5_k && product.w != ir::DType::q5_1 &&
         !(product.w == ir::DType::q4_1 &&
           shared_bytes_of_multiprocessor(product.target) < 160 << 10) &&
         !(product.w == ir::DType::q4_0 && has_half_unit(product.w, product.k));
}

/// The blocks of a form that the device holds at once.
int64_t places_of_tiles(const TileForm &form, const TiledProduct &product) {
  constexpr int64_t kOfDriver = 1 << 10;
  const int64_t room = shared_bytes_of_multiprocessor(product.target) /
                       (shared_bytes_of_tiles(form, product) + kOfDriver);
  const bool is_high = product.x == ir::DType::bf16 || product.w == ir::DType::q8_0 ||
                       (product.w == ir::DType::q4_0 && product.target.compute_capability < 90);
  const int64_t most = is_high ? form.most_blocks_high : form.most_blocks;
  return std::clamp<int64_t>(room, 1, most) * product.target.multiprocessors;
}

/// What a launch of tiles of `form` has.
struct TileGrid {
  int64_t places;
  ir::ExprId blocks;
};
TileGrid tile_grid(ir::ExprPool &exprs, const TileForm &form, const TiledProduct &product,
                   ir::ExprId rows) {
  const int64_t places = places_of_tiles(form, product);
  const ir::ExprId tiles = exprs.mul(exprs.ceildiv(rows, exprs.constant(tile_rows(form, product))),
                                     exprs.constant((product.n + kTileColumns - 1) / kTileColumns));
  const ir::ExprId rest = exprs.make(ir::ExprKind::mod, tiles, exprs.constant(places));
  const int64_t most = most_parts(form, product);
  const ir::ExprId parts =
      exprs.min(exprs.floordiv(exprs.constant(places), exprs.max(rest, exprs.constant(1))),
                exprs.constant(most));
  return {places, exprs.add(exprs.sub(tiles, rest), exprs.mul(rest, parts))};
}

/// Sums of the tiles that are cut along k, as many as there can be, and a counter for each of them.
void add_parts(OpEmitter &op, KernelLaunch &launch, const TiledProduct &product,
               const ir::Interval &rows) {
  int64_t sums = 1, counters = 1;
  for (const TileForm &form : kTileForms) {
    const int64_t parts = most_parts(form, product);
    if (!takes(form, rows) || parts == 1)
      continue;
    const int64_t places = places_of_tiles(form, product);
    const int64_t most = form.rows < kMostRowsOfSmallTiles
                             ? std::min(rows.upper, kMostRowsOfSmallTiles)
                             : rows.upper;
    const int64_t height = tile_rows(form, product), each = height * kTileColumns;
    const int64_t strips = std::min(places, most / height + (most % height != 0));
    const int64_t tiles =
        std::min(places, strips * ((product.n + kTileColumns - 1) / kTileColumns));
    sums = std::max(sums, std::min(places, tiles * parts) * each);
    counters = std::max(counters, places);
  }
  const std::vector<ir::ExprId> dims = {op.constant(sums)};
  launch.option("-DHAS_TILES");
  launch.option_if(has_half_unit(product.w, product.k), "-DHALF_UNIT");
  launch.output("parts", op.builder().alloc(
                             "parts", op.builder().module().types.tensor(ir::DType::f32, dims)));
  add_counters(op, launch, op.constant(counters));
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
  const bool tiled = repacked && width && depth && range.upper > kMostStreamRows &&
                     has_tiles(x.dtype, w.dtype, *width, *depth);
  if (tiled)
    add_parts(op, launch, product, range);
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
      // As many blocks as the kernel's registers leave.
      const StreamRing ring = stream_ring(slot, 0, is_f32 && most > 1 ? 1 : 2, target);
      launch.option(option + "=" + std::to_string(ring.slots));
      const int64_t blocks =
          std::min(*width / kStreamColumns, ring.blocks * target.multiprocessors);
      launch.variant(name, at_most(most),
                     exprs.mul(exprs.min(rows, exprs.constant(1)), exprs.constant(blocks)), threads,
                     ring.slots * slot);
    };
    // Of prompts few rows are the last part: one form will do, since each is compiled for seconds.
    const bool goes_on = range.upper > kMostStreamRows;
    if (streams && range.lower <= 1 && !goes_on)
      stays(1, "matmul_stream_1", "-DSLOTS_1");
    if (streams && is_f32 && range.lower <= kFewRowsOfF32 && range.upper > 1)
      stays(kFewRowsOfF32, "matmul_stream_4", "-DSLOTS_4");
    const int64_t fewer = is_f32 ? kFewRowsOfF32 : goes_on ? 0 : 1;
    const bool has_eight = streams && !(is_f32 && goes_on);
    if (has_eight && range.lower <= kMostStreamRows && range.upper > fewer)
      stays(kMostStreamRows, "matmul_stream", "-DSLOTS");
    // As many rows as the forms before leave.
    const int64_t taken = has_eight ? kMostStreamRows
                          : streams ? kFewRowsOfF32
                                    : 0,
                  lower = taken == 0 ? range.lower : std::max(range.lower, taken + 1);
    if (tiled ? lower <= kMostStreamRows : lower <= range.upper)
      launch.variant("", tiled ? at_most(kMostStreamRows) : ir::ExprId(), tiles(is_f32 ? 4 : 8, 16),
                     threads);
    else
      launch.option("-DWITHOUT_STRIPS");
    for (const TileForm &form : kTileForms) {
      if (!tiled || !takes(form, range))
        continue;
      const TileGrid grid = tile_grid(exprs, form, product, rows);
      launch.option(std::string(form.option) + "=" + std::to_string(grid.places));
      if (form.rows > kMostRowsOfSmallTiles)
        launch.option("-DEACH=" + std::to_string(tile_rows(form, product) / 16));
      launch.variant(std::string(form.entry),
                     form.rows < kMostRowsOfSmallTiles ? at_most(kMostRowsOfSmallTiles)
                                                       : ir::ExprId(),
                     grid.blocks, {32, form.warps, 1}, shared_bytes_of_tiles(form, product));
    }
  } else {
    launch.variant("", {}, tiles(4, 8 / slices), threads);
  }
  return op.emit(launch);
}

} // namespace cugrt::codegen
