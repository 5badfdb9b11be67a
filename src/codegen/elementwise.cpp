// Elementwise ops: kernels/unary.cu, binary.cu, cast.cu.
#include "codegen/element_code.h"
#include "codegen/op_emitter.h"

#include "support/check.h"

namespace cugrt::codegen {

Status emit_unary(OpEmitter &op) {
  CUGRT_TRY(op.require_floating());
  const std::string function = elementwise_function(op.call().op, op.call().attributes);
  const ir::ExprId count = op.count(op.result_type());

  KernelLaunch launch = op.floating_launch("unary.cu", function + "_elementwise");
  launch.option("-DOP=" + function);
  launch.index_type({count});
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  launch.over_inputs();
  launch.loop_variant(launch.count("count", count));
  launch.emit(op.call().location);
  return {};
}

Status emit_binary(OpEmitter &op) {
  CUGRT_TRY(op.require_floating());
  const ir::Type y = op.result_type();
  const std::vector<ir::ExprId> a = broadcast_strides(op.exprs(), op.operand_type(0), y.dims);
  const std::vector<ir::ExprId> b = broadcast_strides(op.exprs(), op.operand_type(1), y.dims);
  std::vector<Dimension> walk;
  for (size_t i = 0; i < y.dims.size(); ++i)
    walk.push_back({y.dims[i], {a[i], b[i]}});
  walk = merge(op.exprs(), std::move(walk));
  const ir::ExprId zero = op.constant(0), one = op.constant(1);
  const bool alike =
      walk.empty() || (walk.size() == 1 && walk[0].strides[0] == one && walk[0].strides[1] == one);

  const std::string function = elementwise_function(op.call().op, op.call().attributes);
  KernelLaunch launch =
      op.floating_launch("binary.cu", function + (alike ? "_elementwise" : "_broadcast"));
  const ir::ExprId count = op.count(y);
  const size_t rank = walk.size() <= 4 ? 4 : 8;
  launch.option("-DOP=" + function);
  if (!alike) {
    launch.option("-DBROADCAST");
    launch.option("-DMAX_RANK=" + std::to_string(rank));
  }
  launch.index_type({count});
  launch.input("a", op.operand(0));
  launch.input("b", op.operand(1));
  launch.output("y", op.result());
  if (alike)
    launch.over_inputs();
  const ir::ExprId counted = launch.count("count", count);
  if (!alike) {
    // Unused dimensions come last, with size 1: the outermost one has no size to say so.
    CUGRT_CHECK(walk.size() <= rank);
    walk.resize(rank, {one, {zero, zero}});
    for (size_t d = 1; d < rank; ++d)
      launch.size("size" + std::to_string(d), walk[d].size);
    for (size_t d = 0; d < rank; ++d)
      launch.size("a_stride" + std::to_string(d), walk[d].strides[0]);
    for (size_t d = 0; d < rank; ++d)
      launch.size("b_stride" + std::to_string(d), walk[d].strides[1]);
  }
  launch.loop_variant(counted);
  launch.emit(op.call().location);
  return {};
}

// The name of a dtype within kernels/cast.cu; there, bool is called as in dtypes.def.
static std::string cast_name(ir::DType dtype) {
  return dtype == ir::DType::boolean ? "boolean" : std::string(ir::info(dtype).name);
}

Status emit_cast(OpEmitter &op) {
  const ir::DType from = op.operand_type(0).dtype, to = op.result_type().dtype;
  CUGRT_TRY(op.require_whole_bytes(from));
  CUGRT_TRY(op.require_whole_bytes(to));
  const ir::ExprId count = op.count(op.result_type());

  KernelLaunch launch = op.launch("cast.cu", "cast_" + cast_name(from) + "_" + cast_name(to));
  launch.option("-DFROM=" + cast_name(from));
  launch.option("-DTO=" + cast_name(to));
  if (from == ir::DType::f16 || to == ir::DType::f16)
    launch.option("-DUSES_F16");
  if (from == ir::DType::bf16 || to == ir::DType::bf16)
    launch.option("-DUSES_BF16");
  launch.index_type({count});
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  launch.loop_variant(launch.count("count", count));
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
