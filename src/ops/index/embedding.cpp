// Rows of a table by their ids: kernels/index/embedding.cu, embedding_blocks.cu.
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"

namespace cugrt::ir {

Types Inference::embedding() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_rank(0, 2));
  if (type(1).dtype != DType::i32 && type(1).dtype != DType::i64)
    return wrong("operand 2 of embedding has dtype i32 or i64");
  Dims out = dims(1);
  out.push_back(dims(0)[1]);
  return one(type(0).dtype, std::move(out));
}

Types Inference::embedding_blocks() const {
  CUGRT_TRY(check_blocks(0));
  CUGRT_TRY(check_whole_blocks(dims(0)[1], type(0).dtype));
  if (type(1).dtype != DType::i32 && type(1).dtype != DType::i64)
    return wrong("operand 2 of embedding_blocks has dtype i32 or i64");
  const DType dtype = op_dtype(op, attributes, "dtype");
  if (info(dtype).kind != DTypeKind::floating)
    return wrong("attribute 'dtype' is a floating-point dtype");
  Dims out = dims(1);
  out.push_back(dims(0)[1]);
  return one(dtype, std::move(out));
}

} // namespace cugrt::ir

namespace cugrt::codegen {

/// Rows of a table by their ids, whatever the table's elements are.
static void emit_rows(OpEmitter &op, KernelLaunch &launch) {
  const ir::Type table = op.operand_type(0);
  launch.input("table", op.operand(0));
  launch.input("ids", op.operand(1));
  launch.output("y", op.result());
  const ir::ExprId count = launch.count("count", op.count(op.operand_type(1)));
  launch.size("rows", table.dims[0]);
  const ir::ExprId width = launch.size("width", table.dims[1]);
  launch.loop_variant(op.exprs().mul(count, width));
  launch.emit(op.call().location);
}

Status emit_embedding(OpEmitter &op) {
  const ir::Type table = op.operand_type(0), ids = op.operand_type(1);
  CUGRT_TRY(op.require_whole_bytes(table.dtype));
  if (ids.dtype != ir::DType::i32 && ids.dtype != ir::DType::i64)
    return op.unsupported(ids.dtype, "ids are i32 or i64; cast them");
  const bool wide = ids.dtype == ir::DType::i64;

  const uint32_t bytes = ir::info(table.dtype).bytes_per_block;
  KernelLaunch launch =
      op.launch("embedding.cu", "embedding", "b" + std::to_string(8 * bytes)); // "b32"
  launch.element_bytes(bytes);
  launch.option_if(wide, "-DWIDE_IDS");
  if (op.divides(KernelLaunch::vector_size(bytes), table.dims[1]))
    launch.vectors(bytes);
  launch.index_type({op.count(table), op.count(op.result_type())});
  emit_rows(op, launch);
  return {};
}

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
  emit_rows(op, launch);
  return {};
}

} // namespace cugrt::codegen
