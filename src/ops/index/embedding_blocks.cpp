// Rows of a table of blocks by their ids: kernels/index/embedding_blocks.cu.
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"

namespace cugrt::ir {

Types Inference::embedding_blocks() const {
  CUGRT_TRY(check_blocks(0));
  CUGRT_TRY(check_whole_blocks(dims(0)[1], type(0).dtype));
  CUGRT_TRY(check_ids(1));
  const DType dtype = op_dtype(op, attributes, "dtype");
  if (info(dtype).kind != DTypeKind::floating)
    return wrong("attribute 'dtype' is a floating-point dtype");
  Dims out = dims(1);
  out.push_back(dims(0)[1]);
  return one(dtype, std::move(out));
}

} // namespace cugrt::ir

namespace cugrt::codegen {

Status emit_embedding_blocks(OpEmitter &op) {
  const ir::Type table = op.operand_type(0), ids = op.operand_type(1), y = op.result_type();
  const bool repacked = op.flag("repacked");
  if (repacked && !takes_repacked_blocks(ir::DType::f32, table.dtype, op.table().choice().target))
    return op.unsupported(table.dtype, "repacked blocks are read from compute capability 8.0 on");
  KernelLaunch launch =
      op.launch("embedding_blocks.cu", "embedding_blocks", std::string(ir::info(table.dtype).name));
  launch.floating_type(y.dtype);
  launch.option("-DFORMAT=" + block_format(table.dtype));
  launch.option_if(repacked, "-DREPACKED");
  launch.option_if(ids.dtype == ir::DType::i64, "-DWIDE_IDS");
  launch.input("table", op.operand(0));
  launch.input("ids", op.operand(1));
  launch.output("y", op.result());
  const ir::ExprId count = launch.count("count", op.count(ids));
  launch.size("rows", table.dims[0]);
  const ir::ExprId width = launch.size("width", table.dims[1]);
  launch.loop_variant(op.exprs().mul(count, width));
  return op.emit(launch);
}

} // namespace cugrt::codegen
