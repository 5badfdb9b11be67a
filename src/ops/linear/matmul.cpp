// Matrix multiplication: kernels/linear/matmul.cu.
#include "ops/emit/op_emitter.h"
#include "ops/linear/stream_form.h"
#include "ops/linear/tile_form.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>

namespace cugrt::ir {

Types Inference::matmul() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_same_dtype(1));
  if (rank(0) < 2 || rank(1) < 2)
    return wrong("matmul needs operands of rank 2 or more");
  const Dims &a = dims(0);
  Dims b = dims(1);
  if (op_bool(op, attributes, "transpose_b"))
    std::swap(b.back(), b[b.size() - 2]);
  CUGRT_TRY(check_equal(a[a.size() - 1], b[b.size() - 2], "inner dimensions of matmul"));
  CUGRT_ASSIGN(Dims out,
               broadcast(std::span(a).first(a.size() - 2), std::span(b).first(b.size() - 2)));
  CUGRT_TRY(check_vector(2, b.back()));
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  return one(type(0).dtype, std::move(out));
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::matmul() {
  const bool transposed = flag("transpose_b");
  const size_t last = results_[0].dims.size() - 1, a = rank(0), b = rank(1);
  const size_t contracted = transposed ? b - 1 : b - 2, columns = transposed ? b - 2 : b - 1;
  const Fill harmless = op_ == Op::matmul_integer && (has(2) || has(3)) ? Fill::any : Fill::zero;
  CUGRT_TRY(take(0, a - 1, harmless));
  CUGRT_TRY(take(1, contracted, harmless));
  if (is_padded(0, a - 1) &&
      operands_[0].facts.dims[a - 1].parts != operands_[1].facts.dims[contracted].parts)
    return refuse(0, a - 1, "would mix with others");
  CUGRT_TRY(align(0, 1));
  for (size_t d = 0; d + 2 < b; ++d)
    CUGRT_TRY(carry(1, d, last + 1 - b + d));
  CUGRT_TRY(carry(1, columns, last));
  if (op_ == Op::matmul) {
    CUGRT_TRY(carry(2, 0, last));
  } else {
    CUGRT_TRY(carry(2, 0, last - 1));
    CUGRT_TRY(carry(3, 0, last));
  }
  fills([&](size_t d, size_t) {
    const Fill product = linear(d);
    return product == Fill::zero && (has(2) || has(3)) ? Fill::finite : product;
  });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

namespace {

// The batch dimensions of a product, merged, outermost first: strides of whole matrices, those of a
// and then those of c.
std::vector<Dimension> merge_batches(OpEmitter &op, const ir::Type &a, const ir::Type &c,
                                     const ir::Type &y) {
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
  return merge(op.exprs(), std::move(walk));
}

// Walks of kernels/linear/matmul.cu: plain ones, and those of MANY_BATCHES.
constexpr size_t kFewBatches = 2, kManyBatches = 6;
static_assert(kManyBatches + 2 >= ir::kMaxRank);

// The walk's parameters. Unused dimensions have size 1: of two, the outer one is unused.
void batch_parameters(OpEmitter &op, KernelLaunch &launch, std::vector<Dimension> walk) {
  const ir::ExprId zero = op.constant(0), one = op.constant(1);
  const size_t rank = walk.size() > kFewBatches ? kManyBatches : kFewBatches;
  walk.insert(walk.begin(), rank - walk.size(), Dimension{one, {zero, zero}});
  if (rank == kFewBatches) {
    launch.size("inner_batch", walk[1].size);
    launch.size("a_outer_stride", walk[0].strides[0]);
    launch.size("a_inner_stride", walk[1].strides[0]);
    launch.size("c_outer_stride", walk[0].strides[1]);
    launch.size("c_inner_stride", walk[1].strides[1]);
    return;
  }
  for (size_t d = 1; d < rank; ++d)
    launch.size("batch_size" + std::to_string(d), walk[d].size);
  for (size_t i = 0; i < 2; ++i)
    for (size_t d = 0; d < rank; ++d)
      launch.size((i == 0 ? "a_stride" : "c_stride") + std::to_string(d), walk[d].strides[i]);
}

// --- Choice among the variants -------------------------------------------------------------------

/// Facts for the choice: sizes, as the launch's parameters or over the function's symbols.
struct Product {
  ir::ExprId rows, columns, batch;
  bool has_tall = false;  // tall tiles may be taken
  bool has_tiles = false; // kernels/shared/number_tile.cuh takes what rows few_rows leaves
};

/// Predicate of a variant, unless an earlier one holds. The rules are a model of cost with two
/// facts: few rows are bound by reading the right matrix once, for as many sums as there are rows,
/// and a variant with large tiles reads less but leaves a device idle when there are fewer tiles
/// than it has multiprocessors to fill.
enum class Where {
  few_rows,          // at most the tile's; c as it is
  these_rows,        // as many as the tile's; c transposed, without rings
  stream_rows,       // those that have rings, at most the tile's; c transposed
  few_tiles,         // at most one tile of 64 x 64 a multiprocessor
  tensor_core_large, // as tensor_core, copied by 16 bytes, where few rows of tiles are empty
  tensor_core,       // f16, bf16 and tf32, with more than one of its tiles a multiprocessor
  tensor_core_tall,  // of a number of rows that comes with the launch, many; c transposed
  tensor_core_small, // as tensor_core
  tensor_core_least,
  many_tiles, // not f64, with more than one of its tiles a multiprocessor
  rest,
};

constexpr int64_t kFewTilesEach = 1; // a multiprocessor
// Large tiles take nine rows of smaller ones at most where these take eight.
constexpr int64_t kMostTaken = 9, kLeastNeeded = 8;
// Tall tiles read half as much of c as small ones, from so many rows on.
constexpr int64_t kTallRows = 128, kTallColumns = 64;

struct Variant {
  std::string_view name; // as in option codegen.matmul
  Where where;
  int64_t height, width; // of a tile
  std::array<int64_t, 3> threads;
};

/// The entry of kernels/linear/matmul.cu is "matmul_" and the name.
constexpr Variant kVariants[] = {
    {"gemv", Where::few_rows, 8, 32, {32, 8, 1}},
    {"stream_1", Where::stream_rows, 1, kStreamColumns, {32, 8, 1}},
    {"stream_8", Where::stream_rows, kMostStreamRows, kStreamColumns, {32, 8, 1}},
    {"gemv_1", Where::these_rows, 1, 4, {32, 4, 1}},
    {"gemv_2", Where::these_rows, 2, 4, {32, 4, 1}},
    {"gemv_3", Where::these_rows, 3, 8, {32, 4, 1}},
    {"gemv_4", Where::these_rows, 4, 8, {32, 4, 1}},
    {"gemv_5", Where::these_rows, 5, 8, {32, 4, 1}},
    {"gemv_6", Where::these_rows, 6, 8, {32, 4, 1}},
    {"gemv_7", Where::these_rows, 7, 8, {32, 4, 1}},
    {"gemv_8", Where::these_rows, 8, 8, {32, 4, 1}},
    {"mma_large", Where::tensor_core_large, 256, 128, {32, 8, 1}},
    {"mma", Where::tensor_core, 128, 128, {32, 4, 1}},
    {"mma_tall", Where::tensor_core_tall, kTallRows, kTallColumns, {32, 4, 1}},
    {"mma_small", Where::tensor_core_small, 64, 64, {32, 4, 1}},
    {"mma_least", Where::tensor_core_least, 32, 64, {32, 4, 1}},
    {"tiled", Where::few_tiles, 8, 32, {32, 8, 1}},
    {"register_large", Where::many_tiles, 128, 128, {16, 16, 1}},
    {"register", Where::rest, 64, 64, {16, 16, 1}},
};

bool wants_transposed(const Variant &v) {
  return v.where == Where::these_rows || v.where == Where::stream_rows;
}

/// Whether the variant is for products whose right operand is transposed, or is not.
bool takes_layout(const Variant &v, bool transposed) {
  return v.where == Where::few_rows
             ? !transposed
             : !(wants_transposed(v) || v.where == Where::tensor_core_tall) || transposed;
}

/// Tiles of matmul_mma.cuh.
bool is_tensor_core_tile(const Variant &v) {
  return v.where == Where::tensor_core_large || v.where == Where::tensor_core ||
         v.where == Where::tensor_core_tall || v.where == Where::tensor_core_small ||
         v.where == Where::tensor_core_least;
}

/// `tf32`: whether factors of f32 may be rounded to tf32.
bool takes_dtype(const Variant &v, ir::DType dtype, bool tf32) {
  if (is_tensor_core_tile(v))
    return ir::is_half(dtype) || (tf32 && dtype == ir::DType::f32);
  return dtype != ir::DType::f64 || (v.where != Where::many_tiles && v.where != Where::stream_rows);
}

ir::ExprId tile_count(ir::ExprPool &exprs, const Product &p, int64_t height, int64_t width) {
  return exprs.mul(p.batch, exprs.mul(exprs.ceildiv(p.rows, exprs.constant(height)),
                                      exprs.ceildiv(p.columns, exprs.constant(width))));
}

/// Whether rows are more than one tall tile has: 0 or 1.
ir::ExprId has_tall_rows(ir::ExprPool &exprs, const Product &p) {
  return exprs.make(ir::ExprKind::lt, exprs.constant(kTallRows), p.rows);
}

/// When a variant is taken, unless one before it is; invalid: always.
ir::ExprId predicate(ir::ExprPool &exprs, const Variant &v, const Product &p,
                     const Target &target) {
  const int64_t few_tiles = kFewTilesEach * target.multiprocessors;
  switch (v.where) {
  case Where::few_rows:
  case Where::these_rows: // in order: those of fewer rows have been taken
  case Where::stream_rows:
    return at_most(exprs, p.rows, v.height);
  case Where::few_tiles:
    return at_most(exprs, tile_count(exprs, p, 64, 64), few_tiles);
  case Where::tensor_core_large:
    return exprs.mul(
        exprs.make(ir::ExprKind::lt, exprs.constant(few_tiles),
                   tile_count(exprs, p, v.height, v.width)),
        exprs.make(
            ir::ExprKind::le,
            exprs.mul(tile_count(exprs, p, v.height, v.width), exprs.constant(2 * kLeastNeeded)),
            exprs.mul(tile_count(exprs, p, v.height / 2, v.width), exprs.constant(kMostTaken))));
  case Where::tensor_core_tall:
    return has_tall_rows(exprs, p);
  case Where::tensor_core:
  case Where::tensor_core_small:
  case Where::many_tiles: {
    ir::ExprId tiles = tile_count(exprs, p, v.height, v.width);
    if (v.where == Where::tensor_core && p.has_tall) // or where tall ones were as many
      tiles = exprs.max(
          tiles, exprs.mul(has_tall_rows(exprs, p), tile_count(exprs, p, kTallRows, kTallColumns)));
    return exprs.make(ir::ExprKind::lt, exprs.constant(few_tiles), tiles);
  }
  case Where::tensor_core_least:
  case Where::rest:
    break;
  }
  return {};
}

/// Stages of a large tile, 48 KiB each in dynamic shared memory. Two are too few.
int64_t large_stages(const Target &target) {
  return std::min<int64_t>(4, (shared_bytes_of_multiprocessor(target) - (1 << 10)) / (48 << 10));
}

/// The variants that some values of the function's symbols take, in order; the last one is taken
/// wherever those before it are not. Or the one that the option names, where it takes the dtype.
std::vector<const Variant *> reachable_variants(OpEmitter &op, const Product &p, ir::DType dtype,
                                                bool transposed, int64_t copied) {
  ir::ExprPool &exprs = op.exprs();
  const KernelChoice &choice = op.table().choice();
  const bool tf32 = computes_in_tf32(dtype, choice);
  const bool narrow = has_tensor_cores(dtype, choice.target), tensor_cores = narrow || tf32;
  const bool rings = has_rings(dtype, choice.target);
  const bool large = tensor_cores && large_stages(choice.target) > 2;
  // Forms for transposed operands with the most rows take any number, in strips.
  const std::string wanted = choice.matmul != "gemv" || !transposed ? choice.matmul
                             : rings                                ? "stream_8"
                                                                    : "gemv_8";
  for (const Variant &v : kVariants)
    if (v.name == wanted && takes_dtype(v, dtype, choice.tf32) &&
        (v.where != Where::tensor_core_large || large))
      return {&v};
  const ir::SymbolDomain bounds = op.builder().function().symbol_domain(exprs);
  std::vector<const Variant *> variants;
  for (const Variant &v : kVariants) {
    if ((is_tensor_core_tile(v) && !tensor_cores) || !takes_dtype(v, dtype, tf32) ||
        !takes_layout(v, transposed))
      continue;
    if (v.where == (rings ? Where::these_rows : Where::stream_rows) ||
        (v.where == Where::tensor_core_large && !(large && copied == 16)) ||
        (v.where == Where::tensor_core_tall && !p.has_tall) ||
        (p.has_tiles && !wants_transposed(v)))
      continue;
    const ir::ExprId when = predicate(exprs, v, p, choice.target);
    const ir::Interval holds = when.valid() ? exprs.range(when, bounds) : ir::Interval{1, 1};
    if (holds.upper == 0)
      continue; // never
    variants.push_back(&v);
    if (holds.lower != 0)
      break; // always
  }
  return variants;
}

/// Blocks that stay share the columns of a strip of rows, as many as are resident at once.
void add_stream(KernelLaunch &launch, const Variant &v, ir::ExprId when, const Product &p,
                ir::DType dtype, const Target &target) {
  ir::ExprPool &exprs = launch.exprs();
  const int64_t slot = stream_slot_bytes(dtype, dtype, v.height);
  const StreamRing ring = stream_ring(slot, 0, 2, target);
  launch.option("-DSLOTS_" + std::to_string(v.height) + "=" + std::to_string(ring.slots));
  const ir::ExprId strips = exprs.mul(p.batch, exprs.ceildiv(p.rows, exprs.constant(v.height)));
  const ir::ExprId places = exprs.constant(ring.blocks * target.multiprocessors),
                   each = exprs.ceildiv(places, exprs.max(strips, exprs.constant(1)));
  launch.variant(
      "matmul_" + std::string(v.name), when,
      exprs.mul(strips, exprs.min(exprs.ceildiv(p.columns, exprs.constant(v.width)), each)),
      v.threads, ring.slots * slot);
}

void add_variants(KernelLaunch &launch, std::span<const Variant *const> variants, const Product &p,
                  ir::DType dtype, const Target &target, int64_t splits, int64_t shared_bytes) {
  ir::ExprPool &exprs = launch.exprs();
  for (const Variant *v : variants) {
    const bool is_last = v == variants.back() && !p.has_tiles;
    const ir::ExprId when = is_last ? ir::ExprId() : predicate(exprs, *v, p, target);
    if (v->where == Where::stream_rows) {
      add_stream(launch, *v, when, p, dtype, target);
      continue;
    }
    const bool named = v->where != Where::rest; // that one's entry is the declaration's
    const ir::ExprId tiles = tile_count(exprs, p, v->height, v->width);
    const bool is_large = v->where == Where::tensor_core_large;
    const int64_t stages = large_stages(target);
    launch.option_if(is_large, "-DLARGE_STAGES=" + std::to_string(stages));
    launch.option_if(v->where == Where::tensor_core_tall, "-DWITH_MMA_TALL");
    launch.variant(named ? "matmul_" + std::string(v->name) : "", when,
                   splits > 1 ? exprs.mul(tiles, exprs.constant(splits)) : tiles, v->threads,
                   is_large ? stages * (48 << 10) : shared_bytes);
  }
}

// Small tiles that are fewer than a device has places for are shared by blocks, each of which takes
// a part of k of at least kLeastSteps steps; joining costs as much again for each of them.
constexpr int64_t kSplitBytes = 128, kLeastSteps = 3, kMostSplits = 8, kPlacesEach = 2;

/// Blocks that share a tile of the only variant; 1 where sizes are not known, and in branches and
/// loops, which have no state.
int64_t splits_of(OpEmitter &op, std::span<const Variant *const> variants, const Product &p,
                  ir::ExprId k, ir::DType dtype) {
  if (variants.size() != 1 || p.has_tiles)
    return 1;
  const Variant &v = *variants.front();
  ir::ExprPool &exprs = op.exprs();
  const auto tiles = exprs.as_constant(tile_count(exprs, p, v.height, v.width));
  const auto depth = exprs.as_constant(k);
  if (!is_tensor_core_tile(v) || v.where == Where::tensor_core ||
      v.where == Where::tensor_core_tall || v.where == Where::tensor_core_large || !tiles ||
      *tiles < 1 || !depth || op.builder().in_nested_block())
    return 1;
  const int64_t step = kSplitBytes / ir::info(dtype).bytes_per_block;
  const int64_t places = kPlacesEach * op.table().choice().target.multiprocessors;
  return std::max<int64_t>(
      1, std::min({kMostSplits, (*depth + step - 1) / step / kLeastSteps, places / *tiles}));
}

/// Dynamic shared memory for four stages if the only variant has tiles of 64 x 64, three of which
/// fit into a block's default memory, and all blocks are resident at once with them; else 0.
int64_t staged_bytes(OpEmitter &op, std::span<const Variant *const> variants, const Product &p,
                     int64_t splits) {
  constexpr int64_t kStages = 4 * (16 << 10), kOfDriver = 1 << 10;
  if (variants.size() != 1)
    return 0;
  const Variant &v = *variants.front();
  const auto tiles = op.exprs().as_constant(tile_count(op.exprs(), p, v.height, v.width));
  const Target &target = op.table().choice().target;
  const int64_t places = shared_bytes_of_multiprocessor(target) / (kStages + kOfDriver);
  return v.where == Where::tensor_core_small && tiles &&
                 *tiles <= places * target.multiprocessors / splits
             ? kStages
             : 0;
}

/// Leaves variants that no launch takes uncompiled: for f16 they are most of the code. Options ask
/// for rings, large and tall tiles.
void leave_out_others(KernelLaunch &launch, std::span<const Variant *const> variants,
                      ir::DType dtype, bool tf32, bool transposed) {
  for (const Variant &v : kVariants) {
    if (!takes_dtype(v, dtype, tf32) || !takes_layout(v, transposed) ||
        v.where == Where::stream_rows || v.where == Where::tensor_core_large ||
        v.where == Where::tensor_core_tall ||
        std::find(variants.begin(), variants.end(), &v) != variants.end())
      continue;
    std::string name(v.name);
    for (char &c : name)
      c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    launch.option("-DWITHOUT_" + name);
  }
}

} // namespace

bool takes_matmul_variant(std::string_view variant, ir::DType dtype, bool tf32) {
  for (const Variant &v : kVariants)
    if (v.name == variant)
      return takes_dtype(v, dtype, tf32);
  return true; // "auto"
}

namespace {

/// y[b] = a[b] x c[b], as kernels/linear/matmul.cu takes it.
struct Factors {
  size_t a, c; // operands of the op
  bool transposed;
  ir::ExprId m, n, k;
  std::vector<Dimension> batches;
  ir::ExprId batch_count;
  std::string_view bias; // options for operand 2, where it is there
  bool across = false;   // y[b] is stored transposed
};

Status emit_product(OpEmitter &op, Factors factors) {
  const ir::DType dtype = op.operand_type(0).dtype;
  const bool has_tall = factors.transposed && !op.exprs().as_constant(factors.m);
  const std::optional<NumberTiles> tiles =
      has_tall && factors.batches.empty() ? number_tiles(op, dtype, factors.m, factors.n, factors.k)
                                          : std::nullopt;
  const Product product{factors.m, factors.n, factors.batch_count, has_tall, tiles.has_value()};
  const int64_t copied = copied_bytes(op, dtype, factors.k, factors.n);
  const std::vector<const Variant *> variants =
      reachable_variants(op, product, dtype, factors.transposed, copied);
  const bool on_tensor_cores = std::any_of(
      variants.begin(), variants.end(), [](const Variant *v) { return is_tensor_core_tile(*v); });
  const bool tf32 = on_tensor_cores && dtype == ir::DType::f32;
  const int64_t splits = splits_of(op, variants, product, factors.k, dtype);
  KernelLaunch launch = op.floating_launch("matmul.cu", "matmul_register", "matmul");
  launch.option_if(op.has_operand(2), "-DHAS_BIAS");
  launch.option_if(op.has_operand(2) && !factors.bias.empty(), std::string(factors.bias));
  launch.option_if(factors.batches.size() > kFewBatches, "-DMANY_BATCHES");
  launch.option_if(factors.transposed, "-DC_COLUMNS");
  launch.option_if(factors.across, "-DRESULT_ACROSS");
  launch.option_if(tf32, "-DTF32");
  launch.option_if(on_tensor_cores && copied < 16, "-DCOPY_BYTES=" + std::to_string(copied));
  launch.option_if(splits > 1, "-DSPLIT");
  const int64_t staged = staged_bytes(op, variants, product, splits);
  launch.option_if(staged > 0, "-DSMALL_STAGES=4");
  leave_out_others(launch, variants, dtype, tf32, factors.transposed);
  launch.input("a", op.operand(factors.a));
  launch.input("c", op.operand(factors.c));
  op.input_if_given(launch, "bias", 2);
  if (splits > 1) {
    const Variant &v = *variants.front();
    add_shared_tiles(op, launch, tile_count(op.exprs(), product, v.height, v.width),
                     splits * v.height * v.width);
    launch.size("splits", op.constant(splits));
  }
  if (tiles)
    add_parts(op, launch, tiles->forms, tiles->n, tiles->rows);
  launch.output("y", op.result());
  const ir::ExprId rows = launch.count("m", factors.m), columns = launch.size("n", factors.n);
  launch.size("k", factors.k);
  const ir::ExprId batch = launch.count("batch", factors.batch_count);
  batch_parameters(op, launch, std::move(factors.batches));
  add_variants(launch, variants, {rows, columns, batch, product.has_tall, product.has_tiles}, dtype,
               op.table().choice().target, splits, staged);
  if (tiles)
    add_tiles(launch, tiles->forms, tiles->n, rows, tiles->rows);
  return op.emit(launch);
}

} // namespace

Status emit_matmul(OpEmitter &op) {
  CUGRT_TRY(op.require_floating());
  ir::Type a = op.operand_type(0), y = op.result_type();
  const ir::Type c = op.operand_type(1);
  const size_t a_rank = a.dims.size(), c_rank = c.dims.size();
  if (a_rank < 2 || c_rank < 2)
    return op.unsupported(a.dtype, "operands of rank 1 are not matrices; reshape them");
  const bool transposed = op.flag("transpose_b");
  const ir::ExprId k = a.dims[a_rank - 1], n = c.dims[c_rank - (transposed ? 2 : 1)];
  // One matrix on the right: the batches of the left one are rows of one large matrix.
  if (c_rank == 2) {
    a.dims = {op.count(a, 0, a_rank - 1), k};
    y.dims = {a.dims[0], n};
  }
  const ir::ExprId m = y.dims[y.dims.size() - 2];
  std::vector<Dimension> batches = merge_batches(op, a, c, y);
  const ir::ExprId batch_count = op.count(y, 0, y.dims.size() - 2);
  return emit_product(op, {0, 1, transposed, m, n, k, std::move(batches), batch_count, ""});
}

// An image's pixels are the columns of c, which lie apart by its channels: each an image of y,
// which may have channels last.
Status emit_pointwise_convolution(OpEmitter &op) {
  CUGRT_TRY(op.require_floating());
  const ir::Type x = op.operand_type(0), w = op.operand_type(1);
  const ir::ExprId pixels = op.count(x, 2);
  std::vector<Dimension> images = {
      {x.dims[0], {op.constant(0), op.exprs().mul(x.dims[1], pixels)}}};
  return emit_product(
      op,
      {1, 0, false, w.dims[0], pixels, x.dims[1], std::move(images), x.dims[0], "-DBIAS_OF_ROWS",
       op.call().op == ir::Op::conv2d && op.flag("channels_last") && !op.flag("result_second")});
}

} // namespace cugrt::codegen
