// Inverses of matrices: kernels/linear/inverse.cu.
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

namespace cugrt::ir {

Types Inference::inverse() const {
  constexpr int64_t kMostRows = 64; // of f64, 32 KB of shared memory
  CUGRT_TRY(check_float(0));
  if (rank(0) < 2)
    return wrong("needs an operand of rank 2 or more");
  CUGRT_TRY(check_equal(dims(0)[rank(0) - 2], dims(0).back(), "rows and columns of a matrix"));
  const std::optional<int64_t> rows = known(dims(0).back());
  if (!rows || *rows > kMostRows)
    return wrong("matrices have a known number of rows, " + std::to_string(kMostRows) + " at most");
  return one(type(0).dtype, dims(0));
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::inverse() {
  for (size_t d = 0; d + 2 < rank(0); ++d)
    CUGRT_TRY(carry(0, d, d));
  fills([](size_t, size_t) { return Fill::any; }); // added matrices may be singular
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

Status emit_inverse(OpEmitter &op) {
  const ir::Type x = op.operand_type(0);
  const auto rows = *op.exprs().as_constant(x.dims.back());
  KernelLaunch launch = op.floating_launch("inverse.cu", "inverse");
  launch.option("-DSIZE=" + std::to_string(std::max<int64_t>(rows, 1)));
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId count = launch.count("count", op.count(x, 0, x.dims.size() - 2));
  launch.variant("", {}, rows ? count : op.constant(0), {256, 1, 1});
  return op.emit(launch);
}

} // namespace cugrt::codegen
