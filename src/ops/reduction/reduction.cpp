// Reductions, searches, running sums and bytes of a range: kernels/reduction/reduce.cu, argmax.cu,
// top_k.cu, cumsum.cu, dynamic_quantize.cu.
#include "base/check.h"
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

namespace cugrt::ir {

Types Inference::without_axes(DType result, std::vector<int64_t> axes) const {
  bool keep = op_bool(op, attributes, "keep_dims");
  std::vector<bool> reduced(rank(0), axes.empty());
  for (int64_t axis : axes) {
    CUGRT_ASSIGN(size_t a, axis_of(axis, 0));
    if (reduced[a])
      return wrong("axis " + std::to_string(axis) + " is given twice");
    reduced[a] = true;
  }
  Dims out;
  for (size_t i = 0; i < rank(0); ++i)
    if (!reduced[i])
      out.push_back(dims(0)[i]);
    else if (keep)
      out.push_back(constant(1));
  return one(result, std::move(out));
}

Types Inference::reduce() const {
  CUGRT_TRY(op == Op::reduce_mean ? check_float(0) : check_number(0));
  return without_axes(type(0).dtype, op_integers(op, attributes, "axes"));
}

Types Inference::argmax() const {
  CUGRT_TRY(check_number(0));
  return without_axes(DType::i64, {op_integer(op, attributes, "axis")});
}

Types Inference::cumsum() const {
  CUGRT_TRY(check_number(0));
  CUGRT_TRY(axis_of(op_integer(op, attributes, "axis"), 0).take_status());
  return one(type(0).dtype, dims(0));
}

Types Inference::top_k() const {
  CUGRT_TRY(check_number(0));
  CUGRT_ASSIGN(const size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  const int64_t k = op_integer(op, attributes, "k");
  Dims out = dims(0);
  if (const std::optional<int64_t> size = known(out[axis]); k < 0 || (size && k > *size))
    return wrong("attribute 'k' is " + std::to_string(k) + ", of a dimension of " +
                 text(out[axis]));
  if (range_of(out[axis]).lower < k)
    return wrong("the dimension that top_k searches, " + text(out[axis]) +
                 ", cannot be shown to have k elements; bound it from below");
  out[axis] = constant(k);
  const DType dtype = type(0).dtype;
  return std::vector<TypeId>{m.types.tensor(dtype, out), m.types.tensor(DType::i64, out)};
}

Types Inference::dynamic_quantize() const {
  CUGRT_TRY(check_dtype(0, DType::f32));
  return std::vector<TypeId>{m.types.tensor(DType::u8, Dims(dims(0))),
                             m.types.tensor(DType::f32, {}), m.types.tensor(DType::u8, {})};
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::reduce() {
  std::vector<bool> along(rank(0), list("axes").empty());
  for (int64_t number : list("axes"))
    along[axis(number)] = true;
  const Fill harmless = op_ == Op::reduce_sum    ? Fill::zero
                        : op_ == Op::reduce_max  ? Fill::lowest
                        : op_ == Op::reduce_min  ? Fill::highest
                        : op_ == Op::reduce_prod ? Fill::one
                                                 : Fill::any;
  bool some = op_ == Op::reduce_sum; // others give no 0 over nothing
  for (size_t d = 0, to = 0; d < rank(0); ++d) {
    if (!along[d]) {
      CUGRT_TRY(carry(0, d, to++));
      continue;
    }
    CUGRT_TRY(take(0, d, harmless));
    some = some || all_.exprs.as_constant(operands_[0].dims[d]).value_or(0) > 0;
    to += flag("keep_dims");
  }
  fills([&](size_t d, size_t) { return some ? like_first(d) : Fill::any; });
  return {};
}

Status OpPadding::argmax() {
  const size_t along = axis();
  // The first of equal elements wins, which is never an added one.
  const Fill harmless = flag("last") ? Fill::any : op_ == Op::argmax ? Fill::lowest : Fill::highest;
  CUGRT_TRY(take(0, along, harmless));
  for (size_t d = 0, to = 0; d < rank(0); ++d)
    if (d != along)
      CUGRT_TRY(carry(0, d, to++));
    else
      to += flag("keep_dims");
  fills([](size_t, size_t) { return Fill::finite; });
  return {};
}

Status OpPadding::cumsum() {
  const size_t along = axis();
  const bool is_sum = op_ == Op::cumsum;
  if (flag("reverse")) // forwards, added elements come last
    CUGRT_TRY(take(0, along, is_sum ? Fill::zero : Fill::one));
  CUGRT_TRY(follow(0, along, along));
  for (size_t d = 0; d < rank(0); ++d)
    if (d != along)
      CUGRT_TRY(carry(0, d, d));
  fills([&](size_t d, size_t) {
    const Fill same = like_first(d);
    // An added 0 stands behind a sum, or makes a product 0 unless that leaves it out.
    const bool keeps_zero = is_sum ? d != along || flag("reverse") : !flag("exclusive");
    return same == Fill::zero && !keeps_zero ? Fill::finite : same;
  });
  return {};
}

Status OpPadding::top_k() {
  const size_t along = axis();
  CUGRT_TRY(take(0, along, flag("largest") ? Fill::lowest : Fill::highest));
  for (size_t result : {0, 1})
    for (size_t d = 0; d < rank(0); ++d)
      if (d != along)
        CUGRT_TRY(carry(0, d, d, result));
  fills([&](size_t d, size_t r) { return r == 1 ? Fill::finite : fill(0, d); });
  return {};
}

Status OpPadding::dynamic_quantize() {
  for (size_t d = 0; d < rank(0); ++d) {
    CUGRT_TRY(take(0, d, Fill::zero)); // lies in the range anyway
    CUGRT_TRY(carry(0, d, d));
  }
  fills([](size_t, size_t) { return Fill::finite; });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

// Parameters PREFIX_size1.. and PREFIX_stride0.. of kernels/reduction/reduce.cu for at most four
// dimensions.
static void walk_parameters(OpEmitter &op, KernelLaunch &launch, const std::string &prefix,
                            std::vector<Dimension> walk) {
  CUGRT_CHECK(walk.size() <= 4);
  walk.resize(4, {op.constant(1), {op.constant(0)}});
  for (size_t d = 1; d < 4; ++d)
    launch.size(prefix + "_size" + std::to_string(d), walk[d].size);
  for (size_t d = 0; d < 4; ++d)
    launch.size(prefix + "_stride" + std::to_string(d), walk[d].strides[0]);
}

namespace {

// kernels/reduction/reduce.cu: threads of a block of OP_columns, and most of them that have results
// beside one another. Blocks share a tile where that gives a multiprocessor up to kBlocksEach, each
// thread of which has kLeastReduced elements or more of each result.
constexpr int64_t kColumnThreads = 256, kMostAcross = 32, kBlocksEach = 2, kLeastReduced = 4,
                  kMostSplits = 64;

struct Columns {
  int64_t vector = 1, across = kMostAcross, splits = 1;
};

/// `run`: the innermost kept dimension. Ignores the op that computes the operand, so that sums have
/// one order, fused or not.
Columns choose_columns(OpEmitter &op, ir::DType dtype, ir::ExprId run, ir::ExprId kept,
                       ir::ExprId reduced) {
  ir::ExprPool &exprs = op.exprs();
  Columns form;
  const int64_t size = ir::info(dtype).bytes_per_block;
  const std::optional<int64_t> inner = exprs.as_constant(run), all = exprs.as_constant(kept),
                               length = exprs.as_constant(reduced);
  if (inner && *inner > 0 && *inner % KernelLaunch::vector_size(uint32_t(size)) == 0)
    form.vector = KernelLaunch::vector_size(uint32_t(size));
  const std::optional<int64_t> vectors = all ? *all / form.vector : inner;
  while (vectors && form.across > 1 && form.across / 2 >= *vectors)
    form.across /= 2;
  if (!all || *all == 0 || !length || op.builder().in_nested_block() ||
      ir::info(dtype).kind != ir::DTypeKind::floating || dtype == ir::DType::f64)
    return form;
  const int64_t wide = form.across * form.vector, tiles = (*all + wide - 1) / wide;
  form.splits =
      std::clamp<int64_t>(std::min(kBlocksEach * op.table().choice().target.multiprocessors / tiles,
                                   *length / (kColumnThreads / form.across * kLeastReduced)),
                          1, kMostSplits);
  return form;
}

} // namespace

Status emit_reduce(OpEmitter &op) {
  const ir::Type x = op.operand_type(0);
  const size_t rank = x.dims.size();
  const std::vector<int64_t> axes = op.integers("axes");
  std::vector<bool> is_reduced(rank, axes.empty());
  for (int64_t axis : axes)
    is_reduced[*ir::normalize_axis(axis, rank)] = true;

  const std::vector<ir::ExprId> strides = contiguous_strides(op.exprs(), x.dims);
  std::vector<Dimension> kept, reduced;
  ir::ExprId kept_count = op.constant(1), reduced_count = op.constant(1);
  for (size_t i = 0; i < rank; ++i) {
    (is_reduced[i] ? reduced : kept).push_back({x.dims[i], {strides[i]}});
    ir::ExprId &count = is_reduced[i] ? reduced_count : kept_count;
    count = op.exprs().mul(count, x.dims[i]);
  }
  // Dimensions of one kind that are neighbours in x merge, so of eight at most four are left of
  // each.
  kept = merge(op.exprs(), std::move(kept));
  reduced = merge(op.exprs(), std::move(reduced));
  const bool rows =
      kept.empty() || (!reduced.empty() && reduced.back().strides[0] == op.constant(1));
  const bool is_run = reduced.size() == 1 && reduced.back().strides[0] == op.constant(1);
  const std::string function(op.name().substr(std::string_view("reduce_").size()));

  KernelLaunch launch =
      op.number_launch("reduce.cu", function + (rows ? "_rows" : "_columns"), x.dtype);
  launch.option("-DOP=" + function);
  Columns columns;
  if (!rows) {
    columns = choose_columns(op, x.dtype, kept.back().size, kept_count, reduced_count);
    launch.option("-DACROSS=" + std::to_string(columns.across));
    if (columns.vector > 1)
      launch.vectors(ir::info(x.dtype).bytes_per_block);
  }
  const ir::ExprId tiles =
      op.exprs().ceildiv(kept_count, op.constant(columns.across * columns.vector));
  if (columns.splits > 1) {
    launch.option("-DSPLIT");
    add_shared_tiles(op, launch, tiles, columns.splits * columns.across * columns.vector);
    launch.size("splits", op.constant(columns.splits));
  }
  op.input_if_given(launch, "x", 0); // else it is computed where it is loaded
  launch.output("y", op.result());
  const ir::ExprId outputs = launch.count("kept", kept_count);
  const ir::ExprId length = launch.size("reduced", reduced_count);
  walk_parameters(op, launch, "kept", std::move(kept));
  walk_parameters(op, launch, "reduced", std::move(reduced));

  ir::ExprPool &exprs = op.exprs();
  if (rows)
    launch.row_variants(outputs, length, is_run ? exprs.as_constant(reduced_count) : std::nullopt,
                        ir::info(x.dtype).bytes_per_block);
  else
    launch.variant("", {},
                   exprs.mul(exprs.ceildiv(outputs, op.constant(columns.across * columns.vector)),
                             op.constant(columns.splits)),
                   {kColumnThreads, 1, 1});
  return op.emit(launch);
}

using Block = std::array<int64_t, 3>;

/// A kernel NAME.cu along an axis: NAME_rows where its elements are adjacent, `rows_block`[1] lines
/// a block; else NAME_columns, `columns_block`[0] lines a block. `options` are those that hold.
static Status emit_along_axis(OpEmitter &op, const std::string &name,
                              std::initializer_list<std::pair<bool, const char *>> options,
                              Block rows_block, Block columns_block) {
  const ir::Type x = op.operand_type(0);
  const size_t axis = op.axis(x.dims.size());
  const ir::ExprId inner = op.count(x, axis + 1);
  const bool rows = op.exprs().as_constant(inner) == 1;

  KernelLaunch launch =
      op.number_launch(name + ".cu", name + (rows ? "_rows" : "_columns"), x.dtype);
  for (const auto &[holds, option] : options)
    launch.option_if(holds, option);
  op.input_if_given(launch, "x", 0); // else it is computed where it is loaded
  launch.output("y", op.result());
  const ir::ExprId outer = launch.count("outer", op.count(x, 0, axis));
  launch.size("axis", x.dims[axis]);
  const ir::ExprId columns = launch.size("inner", inner);
  ir::ExprPool &exprs = op.exprs();
  if (rows)
    launch.variant("", {}, exprs.ceildiv(outer, exprs.constant(rows_block[1])), rows_block);
  else
    launch.variant("", {},
                   exprs.ceildiv(exprs.mul(outer, columns), exprs.constant(columns_block[0])),
                   columns_block);
  return op.emit(launch);
}

// --- A long row over many blocks ---------------------------------------------------------------

// A chunk is a block's 256 threads times what leaves at most kMaxSplits chunks to join. Rows are
// cut where they may be as long as kLongRow, and too few to fill the device with a warp each.
constexpr int64_t kSplitThreads = 256, kMaxSplits = 1024, kLongRow = 4096, kFewRowsEach = 4;

static bool is_split(OpEmitter &op, const ir::Type &x, size_t axis) {
  ir::ExprPool &exprs = op.exprs();
  const ir::SymbolDomain bounds = op.builder().function().symbol_domain(exprs);
  const int64_t few = kFewRowsEach * op.table().choice().target.multiprocessors;
  return axis + 1 == x.dims.size() && exprs.range(x.dims[axis], bounds).upper >= kLongRow &&
         exprs.range(op.count(x, 0, axis), bounds).upper <= few;
}

static Status emit_split_argmax(OpEmitter &op, const ir::Type &x,
                                std::initializer_list<std::pair<bool, const char *>> options) {
  ir::ExprPool &exprs = op.exprs();
  const ir::ExprId axis = x.dims.back(), outer = op.count(x, 0, x.dims.size() - 1);
  const ir::ExprId chunk =
      exprs.mul(exprs.ceildiv(axis, exprs.constant(kSplitThreads * kMaxSplits)),
                exprs.constant(kSplitThreads));
  // One also for an empty row: the kernel that joins them reads the first.
  const ir::ExprId splits =
      exprs.max(exprs.ceildiv(axis, exprs.max(chunk, exprs.constant(1))), exprs.constant(1));
  const std::vector<ir::ExprId> dims = {outer, splits};
  const ir::ValueId parts =
      op.builder().alloc("parts", op.builder().module().types.tensor(ir::DType::i64, dims));
  for (bool joins : {false, true}) {
    KernelLaunch launch =
        op.number_launch("argmax.cu", joins ? "argmax_join" : "argmax_split", x.dtype);
    launch.option("-DSPLIT");
    for (const auto &[holds, option] : options)
      launch.option_if(holds, option);
    op.input_if_given(launch, "x", 0); // else it is computed where it is loaded
    if (joins)
      launch.input("parts", parts);
    launch.output(joins ? "y" : "parts", joins ? op.result() : parts);
    const ir::ExprId rows = launch.count("outer", outer);
    launch.size("axis", axis);
    const ir::ExprId count = launch.count("splits", splits);
    if (!joins)
      launch.count("chunk", chunk);
    launch.variant("", {}, joins ? rows : exprs.mul(rows, count), {kSplitThreads, 1, 1});
    launch.emit(op.call().location);
  }
  return {};
}

Status emit_argmax(OpEmitter &op) {
  const ir::Type x = op.operand_type(0);
  const std::initializer_list<std::pair<bool, const char *>> options = {
      {op.call().op == ir::Op::argmin, "-DSMALLEST"}, {op.flag("last"), "-DLAST"}};
  if (is_split(op, x, op.axis(x.dims.size())))
    return emit_split_argmax(op, x, options);
  return emit_along_axis(op, "argmax", options, {32, 4, 1}, {32, 8, 1});
}

Status emit_cumsum(OpEmitter &op) {
  return emit_along_axis(op, "cumsum",
                         {{op.call().op == ir::Op::cumprod, "-DPRODUCT"},
                          {op.flag("exclusive"), "-DEXCLUSIVE"},
                          {op.flag("reverse"), "-DREVERSE"}},
                         {256, 1, 1}, {128, 1, 1});
}

Status emit_top_k(OpEmitter &op) {
  const ir::Type x = op.operand_type(0);
  const size_t axis = op.axis(x.dims.size());

  KernelLaunch launch = op.number_launch("top_k.cu", "top_k", x.dtype);
  launch.option_if(!op.flag("largest"), "-DSMALLEST");
  const bool is_held = ir::info(x.dtype).bytes_per_block <= 4;
  launch.option_if(is_held, "-DHELD");
  launch.input("x", op.operand(0));
  launch.output("values", op.result(0));
  launch.output("positions", op.result(1));
  const ir::ExprId outer = launch.count("outer", op.count(x, 0, axis));
  const ir::ExprId length = launch.size("axis", x.dims[axis]);
  const ir::ExprId inner = launch.size("inner", op.count(x, axis + 1));
  launch.size("k", op.constant(op.integer("k")));
  ir::ExprPool &exprs = op.exprs();
  const ir::ExprId lines = exprs.mul(outer, inner);
  struct Held { // kernels/reduction/top_k.cu has what these take in registers
    const char *entry;
    int64_t most;
    uint32_t threads;
  };
  constexpr Held kHeld[] = {
      {"top_k_warp", 256, 32}, {"top_k_block", 4096, 256}, {"top_k_large", 16384, 1024}};
  if (is_held)
    for (const Held &held : kHeld)
      launch.variant(held.entry, exprs.make(ir::ExprKind::le, length, exprs.constant(held.most)),
                     lines, {held.threads, 1, 1});
  launch.variant("", exprs.make(ir::ExprKind::le, length, exprs.constant(256)), lines, {32, 1, 1});
  launch.variant("", {}, lines, {256, 1, 1});
  return op.emit(launch);
}

Status emit_dynamic_quantize(OpEmitter &op) {
  // kernels/reduction/dynamic_quantize.cu: elements that a thread has at once, and blocks that one
  // can join.
  constexpr int64_t kEach = 16, kMostBlocks = 256, kThreads = 256, kMostThreads = 1024;
  ir::ExprPool &exprs = op.exprs();
  const ir::ExprId all = op.count(op.operand_type(0));
  const ir::SymbolDomain bounds = op.builder().function().symbol_domain(exprs);
  const auto bytes = [&](const char *entry, ir::ValueId parts, ir::ExprId blocks) {
    KernelLaunch launch = op.number_launch("dynamic_quantize.cu", entry, ir::DType::f32);
    launch.option_if(parts.valid(), "-DSPLIT");
    launch.input("x", op.operand(0));
    if (parts.valid())
      launch.input("parts", parts);
    launch.output("y", op.result(0));
    launch.output("scale", op.result(1));
    launch.output("zero", op.result(2));
    const ir::ExprId count = launch.count("count", all);
    if (parts.valid()) {
      launch.variant("", {}, launch.count("blocks", blocks), {kThreads, 1, 1});
    } else {
      launch.variant("", at_most(exprs, count, kThreads * kEach), blocks, {kThreads, 1, 1});
      launch.variant("", {}, blocks, {kMostThreads, 1, 1});
    }
    return op.emit(launch);
  };
  if (exprs.range(all, bounds).upper <= kMostThreads * kEach)
    return bytes("dynamic_quantize", {}, op.constant(1));

  const ir::ExprId blocks = exprs.max(
      exprs.min(exprs.ceildiv(all, op.constant(kThreads * kEach)), op.constant(kMostBlocks)),
      op.constant(1));
  const std::vector<ir::ExprId> dims = {blocks, op.constant(2)};
  const ir::ValueId parts =
      op.builder().alloc("parts", op.builder().module().types.tensor(ir::DType::f32, dims));
  KernelLaunch launch = op.number_launch("dynamic_quantize.cu", "dynamic_range", ir::DType::f32);
  launch.option("-DSPLIT");
  launch.input("x", op.operand(0));
  launch.output("parts", parts);
  launch.count("count", all);
  launch.variant("", {}, launch.count("blocks", blocks), {kThreads, 1, 1});
  CUGRT_TRY(op.emit(launch));
  return bytes("dynamic_bytes", parts, blocks);
}

} // namespace cugrt::codegen
