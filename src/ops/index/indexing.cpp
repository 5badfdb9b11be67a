// Ops that choose elements: kernels/index/gather.cu, one_hot.cu, pad.cu, range.cu; slices and stretched
// tensors by way of transpose.cu.
#include "ops/emit/op_emitter.h"

#include "base/check.h"

namespace cugrt::codegen {

void option_for_ids(KernelLaunch &launch, ir::DType ids) {
  if (ids == ir::DType::i64)
    launch.option("-DWIDE_IDS");
}

namespace {

Status emit_gather_along(OpEmitter &op, std::string entry) {
  const ir::Type x = op.operand_type(0), ids = op.operand_type(1);
  const size_t axis = op.axis(x.dims.size());
  const bool elements = op.call().op == ir::Op::gather_elements;

  KernelLaunch launch = op.moving_launch("gather.cu", std::move(entry), x.dtype);
  option_for_ids(launch, ids.dtype);
  const uint32_t bytes = ir::info(x.dtype).bytes_per_block;
  if (!elements && op.divides(KernelLaunch::vector_size(bytes), op.count(x, axis + 1)))
    launch.vectors(bytes);
  launch.index_type({op.count(x), op.count(op.result_type())});
  launch.input("x", op.operand(0));
  launch.input("positions", op.operand(1));
  launch.output("y", op.result());
  const ir::ExprId outer = launch.count("outer", op.count(x, 0, axis));
  launch.size("axis", x.dims[axis]);
  const ir::ExprId inner = launch.size("inner", op.count(x, axis + 1));
  const ir::ExprId length = launch.size("length", elements ? ids.dims[axis] : op.count(ids));
  launch.loop_variant(op.exprs().mul(outer, op.exprs().mul(length, inner)));
  launch.emit(op.call().location);
  return {};
}

} // namespace

Status emit_gather(OpEmitter &op) { return emit_gather_along(op, "gather"); }
Status emit_gather_elements(OpEmitter &op) { return emit_gather_along(op, "gather_elements"); }

Status emit_one_hot(OpEmitter &op) {
  const ir::Type ids = op.operand_type(0), y = op.result_type();
  const size_t axis = op.axis(y.dims.size());

  KernelLaunch launch = op.moving_launch("one_hot.cu", "one_hot", y.dtype);
  option_for_ids(launch, ids.dtype);
  launch.index_type({op.count(y)});
  launch.input("ids", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId outer = launch.count("outer", op.count(y, 0, axis));
  const ir::ExprId depth = launch.size("depth", y.dims[axis]);
  const ir::ExprId inner = launch.size("inner", op.count(y, axis + 1));
  launch.count("on_bits", op.constant(element_bits(y.dtype, op.number("on"))));
  launch.count("off_bits", op.constant(element_bits(y.dtype, op.number("off"))));
  launch.loop_variant(op.exprs().mul(outer, op.exprs().mul(depth, inner)));
  launch.emit(op.call().location);
  return {};
}

/// The axis, of constant size, along which a slice takes neighbours, where it takes all of the
/// others.
static std::optional<size_t> only_sliced(const ir::ExprPool &exprs,
                                         std::span<const ir::ExprId> dims,
                                         std::span<const ir::SliceDimension> slice) {
  std::optional<size_t> axis;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (slice[d].step != 1 || (slice[d].size != dims[d] && axis))
      return std::nullopt;
    if (slice[d].size != dims[d])
      axis = d;
  }
  return axis && exprs.as_constant(dims[*axis]) ? axis : std::nullopt;
}

Status emit_slice(OpEmitter &op) {
  ir::ExprPool &exprs = op.exprs();
  const ir::Type x = op.operand_type(0);
  const std::vector<ir::ExprId> strides = contiguous_strides(exprs, x.dims);
  std::vector<ir::SliceDimension> slice;
  if (op.has_operand(1)) {
    slice = slice_of_shapes(op.operand_type(1).dims, op.operand_type(2).dims);
  } else {
    CUGRT_ASSIGN(slice, ir::slice_dimensions(exprs, x.dims, op.call().attributes));
  }
  if (const std::optional<size_t> axis = only_sliced(exprs, x.dims, slice)) {
    emit_section(op, op.operand(0), op.result(), *axis, slice[*axis].begin);
    return {};
  }
  std::vector<Dimension> walk;
  ir::ExprId base = exprs.constant(0);
  for (size_t i = 0; i < slice.size(); ++i) {
    base = exprs.add(base, exprs.mul(slice[i].begin, strides[i]));
    walk.push_back({slice[i].size, {exprs.mul(strides[i], exprs.constant(slice[i].step))}});
  }
  emit_permutation(op.table(), op.builder(), op.operand(0), op.result(), x.dtype, std::move(walk),
                   op.call().location, base);
  return {};
}

Status emit_broadcast_to(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), y = op.result_type();
  const std::vector<ir::ExprId> strides = broadcast_strides(op.exprs(), x, y.dims);
  std::vector<Dimension> walk;
  for (size_t i = 0; i < y.dims.size(); ++i)
    walk.push_back({y.dims[i], {strides[i]}});
  emit_permutation(op.table(), op.builder(), op.operand(0), op.result(), x.dtype, std::move(walk),
                   op.call().location);
  return {};
}

// --- pad -----------------------------------------------------------------------------------------

namespace {

struct Padded {
  ir::ExprId size, x_size; // of the result and the operand
  int64_t before, after;
  ir::ExprId stride; // in the operand
};

// Neighbours that are not padded become one dimension, and those of size 1 that are not go.
std::vector<Padded> padded_dimensions(OpEmitter &op) {
  ir::ExprPool &exprs = op.exprs();
  const ir::Type x = op.operand_type(0), y = op.result_type();
  const std::vector<int64_t> before = op.integers("before"), after = op.integers("after");
  const std::vector<ir::ExprId> strides = contiguous_strides(exprs, x.dims);
  std::vector<Padded> merged;
  bool last_is_plain = false;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    const bool plain = before[i] == 0 && after[i] == 0;
    if (plain && exprs.as_constant(x.dims[i]) == 1)
      continue;
    if (plain && last_is_plain) {
      merged.back().size = merged.back().x_size = exprs.mul(merged.back().size, x.dims[i]);
      merged.back().stride = strides[i];
    } else {
      merged.push_back({y.dims[i], x.dims[i], before[i], after[i], strides[i]});
    }
    last_is_plain = plain;
  }
  return merged;
}

} // namespace

Status emit_pad(OpEmitter &op) {
  const ir::Type y = op.result_type();
  const std::string mode = ir::op_string(op.call().op, op.call().attributes, "mode");
  std::vector<Padded> walk = padded_dimensions(op);
  const size_t rank = walk.size() <= 4 ? 4 : 8;
  CUGRT_CHECK(walk.size() <= rank);
  walk.resize(rank, {op.constant(1), op.constant(1), 0, 0, op.constant(0)});

  KernelLaunch launch = op.moving_launch("pad.cu", "pad", y.dtype);
  launch.option(mode == "constant" ? "-DMODE=0" : mode == "edge" ? "-DMODE=1" : "-DMODE=2");
  launch.option("-DMAX_RANK=" + std::to_string(rank));
  launch.index_type({op.count(y)});
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId counted = launch.count("count", op.count(y));
  launch.count("bits", op.constant(element_bits(y.dtype, op.number("value"))));
  for (size_t d = 1; d < rank; ++d)
    launch.size("size" + std::to_string(d), walk[d].size);
  for (size_t d = 0; d < rank; ++d)
    launch.size("before" + std::to_string(d), op.constant(walk[d].before));
  for (size_t d = 0; d < rank; ++d)
    launch.size("x_size" + std::to_string(d), walk[d].x_size);
  for (size_t d = 0; d < rank; ++d)
    launch.size("stride" + std::to_string(d), walk[d].stride);
  launch.loop_variant(counted);
  launch.emit(op.call().location);
  return {};
}

Status emit_range(OpEmitter &op) {
  const ir::Type y = op.result_type();
  const ir::ExprId count = op.count(y);
  KernelLaunch launch = op.number_launch("range.cu", "range", y.dtype);
  launch.index_type({count});
  launch.output("y", op.result());
  const ir::ExprId counted = launch.count("count", count);
  launch.parameter("start", y.dtype, op.number("start"));
  launch.parameter("delta", y.dtype, op.number("step"));
  launch.loop_variant(counted);
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
