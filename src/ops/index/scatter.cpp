// Elements and slices at places that are read: kernels/index/scatter.cu, gather_nd.cu.
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <string>

namespace cugrt::ir {

Types Inference::gather_nd() const {
  CUGRT_TRY(check_whole_bytes(0));
  CUGRT_TRY(check_ids(1));
  const int64_t batch = op_integer(op, attributes, "batch_dims");
  if (rank(1) == 0)
    return wrong("operand 2 has rank 1 or more");
  const std::optional<int64_t> places = known(dims(1).back());
  if (batch < 0 || batch >= static_cast<int64_t>(rank(1)) || !places || *places < 0 ||
      *places > static_cast<int64_t>(rank(0)) - batch)
    return wrong("the last dimension of operand 2 is a constant, and with 'batch_dims' at most the "
                 "rank of operand 1");
  const auto outer = static_cast<size_t>(batch);
  for (size_t i = 0; i < outer; ++i)
    CUGRT_TRY(check_equal(dims(0)[i], dims(1)[i], "dimensions of the batch"));
  Dims out(dims(1).begin(), dims(1).end() - 1);
  out.insert(out.end(), dims(0).begin() + batch + *places, dims(0).end());
  return one(type(0).dtype, std::move(out));
}

Status Inference::check_reduction() const {
  const std::string reduction = op_string(op, attributes, "reduction");
  if (reduction == "none")
    return check_whole_bytes(0);
  CUGRT_TRY(check_number(0));
  return info(type(0).dtype).bytes_per_block == 1
             ? wrong("elements of one byte cannot be reduced in place; insert a cast")
             : Status();
}

Types Inference::scatter_elements() const {
  CUGRT_TRY(check_reduction());
  CUGRT_TRY(check_ids(1));
  CUGRT_TRY(check_same_dtype(2));
  CUGRT_TRY(check_rank(1, rank(0)));
  CUGRT_TRY(check_rank(2, rank(0)));
  CUGRT_ASSIGN(const size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  for (size_t i = 0; i < rank(0); ++i) {
    CUGRT_TRY(check_equal(dims(1)[i], dims(2)[i], "dimensions of indices and updates"));
    if (i != axis && !never_negative(m.exprs.sub(dims(0)[i], dims(1)[i])))
      return wrong("dimension " + text(dims(1)[i]) + " of the indices cannot be shown to lie in " +
                   text(dims(0)[i]) + "; use match to require it");
  }
  return one(type(0).dtype, dims(0));
}

Types Inference::scatter_nd() const {
  CUGRT_TRY(check_reduction());
  CUGRT_TRY(check_ids(1));
  CUGRT_TRY(check_same_dtype(2));
  const std::optional<int64_t> places = rank(1) == 0 ? std::nullopt : known(dims(1).back());
  if (!places || *places < 0 || *places > static_cast<int64_t>(rank(0)))
    return wrong("the last dimension of operand 2 is a constant, at most the rank of operand 1");
  Dims wanted(dims(1).begin(), dims(1).end() - 1);
  wanted.insert(wanted.end(), dims(0).begin() + *places, dims(0).end());
  CUGRT_TRY(check_rank(2, wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i)
    CUGRT_TRY(check_equal(wanted[i], dims(2)[i], "dimensions of what is written and the updates"));
  return one(type(0).dtype, dims(0));
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::gather_nd() {
  const auto batch = static_cast<size_t>(integer("batch_dims"));
  const size_t inner = rank(1) - 1;
  const auto places = static_cast<size_t>(*all_.exprs.as_constant(operands_[1].dims[inner]));
  for (size_t d = 0; d < rank(0); ++d)
    if (d < batch)
      CUGRT_TRY(carry(0, d, d));
    else if (d < batch + places)
      CUGRT_TRY(take(0, d, Fill::any));
    else
      CUGRT_TRY(carry(0, d, inner + d - batch - places));
  for (size_t d = 0; d < inner; ++d)
    CUGRT_TRY(carry(1, d, d));
  fills([&](size_t d, size_t) { return d >= inner ? fill(0, d) : Fill::any; });
  return {};
}

Status OpPadding::scatter_elements() {
  for (size_t i : {0, 1, 2})
    for (size_t d = 0; d < rank(i); ++d)
      CUGRT_TRY(i == 0 && d != axis() ? carry(0, d, d) : take(i, d, Fill::any));
  fills([](size_t, size_t) { return Fill::any; });
  return {};
}

Status OpPadding::scatter_nd() {
  const size_t inner = rank(1) - 1;
  const auto places = static_cast<size_t>(*all_.exprs.as_constant(operands_[1].dims[inner]));
  for (size_t d = 0; d < rank(0); ++d)
    CUGRT_TRY(d < places ? take(0, d, Fill::any) : carry(0, d, d));
  for (size_t d = 0; d < inner; ++d) { // added updates go to places, too
    CUGRT_TRY(take(1, d, Fill::any));
    CUGRT_TRY(take(2, d, Fill::any));
  }
  for (size_t d = inner; d < rank(2); ++d)
    CUGRT_TRY(carry(2, d, places + d - inner));
  fills([](size_t, size_t) { return Fill::any; });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

static size_t max_rank(size_t rank) { return rank <= 4 ? 4 : 8; }

// The first `count` of these, and `rest` up to the kernel's dimensions.
static std::vector<ir::ExprId> first(std::span<const ir::ExprId> values, size_t count,
                                     ir::ExprId rest) {
  std::vector<ir::ExprId> result(values.begin(), values.begin() + static_cast<ptrdiff_t>(count));
  result.resize(max_rank(count), rest);
  return result;
}

// Makes a launch that adds the updates to the result, with the operands that all forms have.
static KernelLaunch scatter_launch(OpEmitter &op) {
  const ir::DType dtype = op.operand_type(0).dtype;
  // By the word's number: functions of elementwise/operations.cuh.
  static constexpr std::string_view kFunctions[] = {"", "add", "mul", "maximum", "minimum"};
  const std::string_view function = kFunctions[op.word("reduction")];
  const std::string entry(op.name());
  const bool moves = function.empty();
  KernelLaunch launch = moves ? op.moving_launch("scatter.cu", entry, dtype)
                              : op.number_launch("scatter.cu", entry, dtype);
  if (!moves)
    launch.option("-DREDUCE=" + std::string(function));
  option_for_ids(launch, op.operand_type(1).dtype);
  return launch;
}

/// `whole`: updates that replace elements go to whole runs of them.
static void scatter_operands(OpEmitter &op, KernelLaunch &launch, bool whole) {
  if (whole && op.word("reduction") == 0)
    launch.vectors(ir::info(op.operand_type(0).dtype).bytes_per_block);
  launch.index_type({op.count(op.operand_type(2))});
  launch.input("indices", op.operand(1));
  launch.input("updates", op.operand(2));
  launch.inout("y", op.result());
}

Status emit_scatter_elements(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), updates = op.operand_type(2);
  const size_t rank = x.dims.size(), axis = op.axis(rank);
  emit_copy(op, op.operand(0), op.result());
  KernelLaunch launch = scatter_launch(op);
  launch.option("-DMAX_RANK=" + std::to_string(max_rank(rank)));
  launch.option("-DAXIS=" + std::to_string(axis));
  launch.option("-DLAST=" + std::to_string(rank - 1));
  const uint32_t bytes = ir::info(x.dtype).bytes_per_block;
  scatter_operands(op, launch, op.divides(KernelLaunch::vector_size(bytes), updates.dims.back()));
  const ir::ExprId counted = launch.count("count", op.count(updates));
  launch.size("axis", x.dims[axis]);
  const std::vector<ir::ExprId> sizes = first(updates.dims, rank, op.constant(1));
  for (size_t d = 1; d < sizes.size(); ++d)
    launch.size("size" + std::to_string(d), sizes[d]);
  each_size(launch, "stride", first(contiguous_strides(op.exprs(), x.dims), rank, op.constant(0)));
  launch.loop_variant(counted);
  return op.emit(launch);
}

Status emit_scatter_nd(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), indices = op.operand_type(1);
  const auto places = static_cast<size_t>(*op.exprs().as_constant(indices.dims.back()));
  emit_copy(op, op.operand(0), op.result());
  KernelLaunch launch = scatter_launch(op);
  launch.option("-DMAX_RANK=" + std::to_string(max_rank(places)));
  const uint32_t bytes = ir::info(x.dtype).bytes_per_block;
  const auto known_width = op.exprs().as_constant(op.count(x, places));
  scatter_operands(op, launch, known_width.value_or(0) % KernelLaunch::vector_size(bytes) == 0);
  const ir::ExprId rows = launch.count("rows", op.count(indices, 0, indices.dims.size() - 1));
  const ir::ExprId width = launch.size("width", op.count(x, places));
  launch.size("places", indices.dims.back());
  each_size(launch, "size", first(x.dims, places, op.constant(1)));
  each_size(launch, "stride",
            first(contiguous_strides(op.exprs(), x.dims), places, op.constant(0)));
  launch.loop_variant(op.exprs().mul(rows, width));
  return op.emit(launch);
}

Status emit_gather_nd(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), indices = op.operand_type(1);
  const auto places = static_cast<size_t>(*op.exprs().as_constant(indices.dims.back()));
  const auto batch_dims = static_cast<size_t>(op.integer("batch_dims"));
  const std::vector<ir::ExprId> strides = contiguous_strides(op.exprs(), x.dims);

  KernelLaunch launch = op.moving_launch("gather_nd.cu", "gather_nd", x.dtype);
  launch.option("-DMAX_RANK=" + std::to_string(max_rank(places)));
  option_for_ids(launch, indices.dtype);
  const uint32_t bytes = ir::info(x.dtype).bytes_per_block;
  const auto known_width = op.exprs().as_constant(op.count(x, batch_dims + places));
  if (known_width.value_or(0) % KernelLaunch::vector_size(bytes) == 0)
    launch.vectors(bytes);
  launch.index_type({op.count(op.result_type())});
  launch.input("x", op.operand(0));
  launch.input("indices", op.operand(1));
  launch.output("y", op.result());
  const ir::ExprId batches = launch.count("batches", op.count(x, 0, batch_dims));
  const ir::ExprId rows =
      launch.count("rows", op.count(indices, batch_dims, indices.dims.size() - 1));
  const ir::ExprId width = launch.size("width", op.count(x, batch_dims + places));
  launch.size("places", indices.dims.back());
  launch.size("batch_stride", op.count(x, batch_dims));
  each_size(launch, "size", first(std::span(x.dims).subspan(batch_dims), places, op.constant(1)));
  each_size(launch, "stride",
            first(std::span(strides).subspan(batch_dims), places, op.constant(0)));
  launch.loop_variant(op.exprs().mul(batches, op.exprs().mul(rows, width)));
  return op.emit(launch);
}

} // namespace cugrt::codegen
