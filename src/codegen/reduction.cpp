// Reductions, searches and running sums: kernels/reduce.cu, argmax.cu, top_k.cu, cumsum.cu.
#include "codegen/op_emitter.h"

#include "support/check.h"

#include <array>
#include <initializer_list>
#include <utility>

namespace cugrt::codegen {

namespace {

// Parameters PREFIX_size1.. and PREFIX_stride0.. of kernels/reduce.cu for at most four dimensions.
void walk_parameters(OpEmitter &op, KernelLaunch &launch, const std::string &prefix,
                     std::vector<Dimension> walk) {
  CUGRT_CHECK(walk.size() <= 4);
  walk.resize(4, {op.constant(1), {op.constant(0)}});
  for (size_t d = 1; d < 4; ++d)
    launch.size(prefix + "_size" + std::to_string(d), walk[d].size);
  for (size_t d = 0; d < 4; ++d)
    launch.size(prefix + "_stride" + std::to_string(d), walk[d].strides[0]);
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
  const std::string function(op.name().substr(std::string_view("reduce_").size()));

  KernelLaunch launch =
      op.number_launch("reduce.cu", function + (rows ? "_rows" : "_columns"), x.dtype);
  launch.option("-DOP=" + function);
  if (op.has_operand(0)) // else it is computed where it is loaded
    launch.input("x", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId outputs = launch.count("kept", kept_count);
  const ir::ExprId length = launch.size("reduced", reduced_count);
  walk_parameters(op, launch, "kept", std::move(kept));
  walk_parameters(op, launch, "reduced", std::move(reduced));

  ir::ExprPool &exprs = op.exprs();
  if (rows) {
    launch.variant("", exprs.make(ir::ExprKind::le, length, exprs.constant(256)), outputs,
                   {32, 1, 1});
    launch.variant("", {}, outputs, {256, 1, 1});
  } else {
    launch.variant("", {}, exprs.ceildiv(outputs, exprs.constant(128)), {128, 1, 1});
  }
  launch.emit(op.call().location);
  return {};
}

/// A kernel NAME.cu along an axis: NAME_rows where its elements are adjacent, block.y lines a
/// block; else NAME_columns, a line a thread. `options` are those that hold.
static Status emit_along_axis(OpEmitter &op, const std::string &name,
                              std::initializer_list<std::pair<bool, const char *>> options,
                              std::array<int64_t, 3> block) {
  const ir::Type x = op.operand_type(0);
  const size_t axis = op.axis(x.dims.size());
  const ir::ExprId inner = op.count(x, axis + 1);
  const bool rows = op.exprs().as_constant(inner) == 1;

  KernelLaunch launch =
      op.number_launch(name + ".cu", name + (rows ? "_rows" : "_columns"), x.dtype);
  for (const auto &[holds, option] : options)
    if (holds)
      launch.option(option);
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId outer = launch.count("outer", op.count(x, 0, axis));
  launch.size("axis", x.dims[axis]);
  const ir::ExprId columns = launch.size("inner", inner);
  ir::ExprPool &exprs = op.exprs();
  if (rows)
    launch.variant("", {}, exprs.ceildiv(outer, exprs.constant(block[1])), block);
  else
    launch.variant("", {}, exprs.ceildiv(exprs.mul(outer, columns), exprs.constant(128)),
                   {128, 1, 1});
  launch.emit(op.call().location);
  return {};
}

Status emit_argmax(OpEmitter &op) {
  return emit_along_axis(
      op, "argmax", {{op.call().op == ir::Op::argmin, "-DSMALLEST"}, {op.flag("last"), "-DLAST"}},
      {32, 4, 1});
}

Status emit_cumsum(OpEmitter &op) {
  return emit_along_axis(op, "cumsum",
                         {{op.flag("exclusive"), "-DEXCLUSIVE"}, {op.flag("reverse"), "-DREVERSE"}},
                         {256, 1, 1});
}

Status emit_top_k(OpEmitter &op) {
  const ir::Type x = op.operand_type(0);
  const size_t axis = op.axis(x.dims.size());

  KernelLaunch launch = op.number_launch("top_k.cu", "top_k", x.dtype);
  if (!op.flag("largest"))
    launch.option("-DSMALLEST");
  launch.input("x", op.operand(0));
  launch.output("values", op.result(0));
  launch.output("positions", op.result(1));
  const ir::ExprId outer = launch.count("outer", op.count(x, 0, axis));
  const ir::ExprId length = launch.size("axis", x.dims[axis]);
  const ir::ExprId inner = launch.size("inner", op.count(x, axis + 1));
  launch.size("k", op.constant(op.integer("k")));
  ir::ExprPool &exprs = op.exprs();
  const ir::ExprId lines = exprs.mul(outer, inner);
  launch.variant("", exprs.make(ir::ExprKind::le, length, exprs.constant(256)), lines, {32, 1, 1});
  launch.variant("", {}, lines, {256, 1, 1});
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
