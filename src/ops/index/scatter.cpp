// Elements and slices at places that are read: kernels/index/scatter.cu, gather_nd.cu.
#include "ops/emit/op_emitter.h"

#include "base/check.h"

#include <string>

namespace cugrt::codegen {

namespace {

size_t max_rank(size_t rank) { return rank <= 4 ? 4 : 8; }

// The ids' option, as kernels/index/gather.cu has it.
// The first `count` of these, and `rest` up to the kernel's dimensions.
std::vector<ir::ExprId> first(std::span<const ir::ExprId> values, size_t count, ir::ExprId rest) {
  std::vector<ir::ExprId> result(values.begin(), values.begin() + static_cast<ptrdiff_t>(count));
  result.resize(max_rank(count), rest);
  return result;
}

// A launch that adds the updates to what the result holds, with the operands that all have.
KernelLaunch scatter_launch(OpEmitter &op) {
  const ir::DType dtype = op.operand_type(0).dtype;
  const std::string reduction = ir::op_string(op.call().op, op.call().attributes, "reduction");
  const std::string entry(op.name());
  const bool moves = reduction == "none";
  KernelLaunch launch = moves ? op.moving_launch("scatter.cu", entry, dtype)
                              : op.number_launch("scatter.cu", entry, dtype);
  if (!moves)
    launch.option("-DREDUCE=" + std::string(reduction == "max"   ? "maximum"
                                            : reduction == "min" ? "minimum"
                                                                 : reduction));
  option_for_ids(launch, op.operand_type(1).dtype);
  return launch;
}

void scatter_operands(OpEmitter &op, KernelLaunch &launch) {
  launch.index_type({op.count(op.operand_type(2))});
  launch.input("indices", op.operand(1));
  launch.input("updates", op.operand(2));
  launch.inout("y", op.result());
}

} // namespace

Status emit_scatter_elements(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), updates = op.operand_type(2);
  const size_t rank = x.dims.size(), axis = op.axis(rank);
  emit_copy(op, op.operand(0), op.result());
  KernelLaunch launch = scatter_launch(op);
  launch.option("-DMAX_RANK=" + std::to_string(max_rank(rank)));
  launch.option("-DAXIS=" + std::to_string(axis));
  scatter_operands(op, launch);
  const ir::ExprId counted = launch.count("count", op.count(updates));
  launch.size("axis", x.dims[axis]);
  const std::vector<ir::ExprId> sizes = first(updates.dims, rank, op.constant(1));
  for (size_t d = 1; d < sizes.size(); ++d)
    launch.size("size" + std::to_string(d), sizes[d]);
  each_size(launch, "stride", first(contiguous_strides(op.exprs(), x.dims), rank, op.constant(0)));
  launch.loop_variant(counted);
  launch.emit(op.call().location);
  return {};
}

Status emit_scatter_nd(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), indices = op.operand_type(1);
  const auto places = static_cast<size_t>(*op.exprs().as_constant(indices.dims.back()));
  emit_copy(op, op.operand(0), op.result());
  KernelLaunch launch = scatter_launch(op);
  launch.option("-DMAX_RANK=" + std::to_string(max_rank(places)));
  scatter_operands(op, launch);
  const ir::ExprId rows = launch.count("rows", op.count(indices, 0, indices.dims.size() - 1));
  const ir::ExprId width = launch.size("width", op.count(x, places));
  launch.size("places", indices.dims.back());
  each_size(launch, "size", first(x.dims, places, op.constant(1)));
  each_size(launch, "stride",
            first(contiguous_strides(op.exprs(), x.dims), places, op.constant(0)));
  launch.loop_variant(op.exprs().mul(rows, width));
  launch.emit(op.call().location);
  return {};
}

Status emit_gather_nd(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), indices = op.operand_type(1);
  const auto places = static_cast<size_t>(*op.exprs().as_constant(indices.dims.back()));
  const auto batch_dims = static_cast<size_t>(op.integer("batch_dims"));
  const std::vector<ir::ExprId> strides = contiguous_strides(op.exprs(), x.dims);

  KernelLaunch launch = op.moving_launch("gather_nd.cu", "gather_nd", x.dtype);
  launch.option("-DMAX_RANK=" + std::to_string(max_rank(places)));
  option_for_ids(launch, indices.dtype);
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
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
