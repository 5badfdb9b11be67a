// Elements and slices by their positions along an axis, rows of a table by their ids, and one-hot
// rows: kernels/index/gather.cu, one_hot.cu.
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

namespace cugrt::ir {

Types Inference::embedding() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_rank(0, 2));
  return gathered(0);
}

Types Inference::gather() const {
  CUGRT_ASSIGN(const size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  return gathered(axis);
}

Types Inference::gathered(size_t axis) const {
  CUGRT_TRY(check_whole_bytes(0));
  CUGRT_TRY(check_ids(1));
  Dims out = dims(0);
  out.erase(out.begin() + static_cast<ptrdiff_t>(axis));
  out.insert(out.begin() + static_cast<ptrdiff_t>(axis), dims(1).begin(), dims(1).end());
  return one(type(0).dtype, std::move(out));
}

Types Inference::gather_elements() const {
  CUGRT_TRY(check_whole_bytes(0));
  CUGRT_TRY(check_ids(1));
  CUGRT_TRY(check_rank(1, rank(0)));
  CUGRT_ASSIGN(const size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  for (size_t i = 0; i < rank(0); ++i)
    if (i != axis)
      CUGRT_TRY(check_equal(dims(0)[i], dims(1)[i], "dimensions beside the axis"));
  return one(type(0).dtype, dims(1));
}

Types Inference::one_hot() const {
  CUGRT_TRY(check_ids(0));
  const int64_t depth = op_integer(op, attributes, "depth");
  const DType dtype = op_dtype(op, attributes, "dtype");
  if (depth < 0)
    return wrong("attribute 'depth' is not negative");
  if (info(dtype).elements_per_block != 1)
    return wrong("attribute 'dtype' has elements of whole bytes");
  const std::optional<size_t> axis =
      normalize_axis(op_integer(op, attributes, "axis"), rank(0) + 1);
  if (!axis)
    return wrong("attribute 'axis' is outside of the result's rank " + std::to_string(rank(0) + 1));
  Dims out = dims(0);
  out.insert(out.begin() + static_cast<ptrdiff_t>(*axis), constant(depth));
  return one(dtype, std::move(out));
}

} // namespace cugrt::ir

namespace cugrt::padding {

// Negative indices count from the end, and indices outside are moved to it or left out; in a bucket
// both would refer to the bucket's end. So indexing along a padded dimension is refused.

Status OpPadding::gather() {
  const size_t along = op_ == Op::gather ? axis() : 0;
  CUGRT_TRY(take(0, along, Fill::any));
  for (size_t d = 0; d < rank(0); ++d)
    if (d != along)
      CUGRT_TRY(carry(0, d, d < along ? d : d - 1 + rank(1)));
  for (size_t d = 0; d < rank(1); ++d)
    CUGRT_TRY(carry(1, d, along + d));
  fills(
      [&](size_t d, size_t) { return d >= along && d < along + rank(1) ? Fill::any : fill(0, d); });
  return {};
}

Status OpPadding::gather_elements() {
  const size_t along = axis();
  CUGRT_TRY(take(0, along, Fill::any));
  for (size_t d = 0; d < rank(0); ++d) {
    if (d != along)
      CUGRT_TRY(carry(0, d, d));
    CUGRT_TRY(carry(1, d, d));
  }
  fills([&](size_t d, size_t) { return d == along ? Fill::any : fill(0, d); });
  return {};
}

Status OpPadding::one_hot() {
  const size_t along = *ir::normalize_axis(integer("axis"), rank(0) + 1);
  for (size_t d = 0; d < rank(0); ++d)
    CUGRT_TRY(carry(0, d, d < along ? d : d + 1));
  fills([](size_t, size_t) { return Fill::finite; });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

void option_for_ids(KernelLaunch &launch, ir::DType ids) {
  launch.option_if(ids == ir::DType::i64, "-DWIDE_IDS");
}

static Status emit_gather_along(OpEmitter &op, std::string entry) {
  const ir::Type x = op.operand_type(0), ids = op.operand_type(1);
  const bool of_rows = op.call().op == ir::Op::embedding;
  const size_t axis = of_rows ? 0 : op.axis(x.dims.size());
  const bool elements = op.call().op == ir::Op::gather_elements;

  KernelLaunch launch = op.moving_launch("gather.cu", std::move(entry), x.dtype, op.name());
  launch.option_if(of_rows, "-DOUTSIDE=nearest");
  option_for_ids(launch, ids.dtype);
  const uint32_t bytes = ir::info(x.dtype).bytes_per_block;
  const ir::ExprId across = op.count(x, axis + 1); // what vectors lie along
  if (op.divides(KernelLaunch::vector_size(bytes),
                 elements && op.exprs().as_constant(across) == 1 ? ids.dims[axis] : across))
    launch.vectors(bytes);
  launch.index_type({op.count(x), op.count(op.result_type())});
  launch.input("x", op.operand(0));
  launch.input("positions", op.operand(1));
  launch.output("y", op.result());
  const ir::ExprId before = op.count(x, 0, axis);
  const ir::ExprId outer = op.exprs().as_constant(before) == 1 // saves a division an element
                               ? launch.size("outer", before)
                               : launch.count("outer", before);
  launch.size("axis", x.dims[axis]);
  const ir::ExprId inner = launch.size("inner", op.count(x, axis + 1));
  const ir::ExprId length = launch.size("length", elements ? ids.dims[axis] : op.count(ids));
  launch.loop_variant(op.exprs().mul(outer, op.exprs().mul(length, inner)));
  return op.emit(launch);
}

Status emit_embedding(OpEmitter &op) { return emit_gather_along(op, "gather"); }

Status emit_gather(OpEmitter &op) { return emit_gather_along(op, "gather"); }

Status emit_gather_elements(OpEmitter &op) { return emit_gather_along(op, "gather_elements"); }

Status emit_one_hot(OpEmitter &op) {
  const ir::Type ids = op.operand_type(0), y = op.result_type();
  const size_t axis = op.axis(y.dims.size());

  KernelLaunch launch = op.moving_launch("one_hot.cu", "one_hot", y.dtype);
  option_for_ids(launch, ids.dtype);
  const uint32_t bytes = ir::info(y.dtype).bytes_per_block;
  if (axis + 1 == y.dims.size() ||
      op.divides(KernelLaunch::vector_size(bytes), op.count(y, axis + 1)))
    launch.vectors(bytes);
  launch.index_type({op.count(y)});
  launch.input("ids", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId outer = launch.count("outer", op.count(y, 0, axis));
  const ir::ExprId depth = launch.size("depth", y.dims[axis]);
  const ir::ExprId inner = launch.size("inner", op.count(y, axis + 1));
  launch.count("on_bits", op.constant(element_bits(y.dtype, op.number("on"))));
  launch.count("off_bits", op.constant(element_bits(y.dtype, op.number("off"))));
  launch.loop_variant(op.exprs().mul(outer, op.exprs().mul(depth, inner)));
  return op.emit(launch);
}

} // namespace cugrt::codegen
