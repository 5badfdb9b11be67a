// Rotary embedding of positions: kernels/attention/rotary.cu.
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <cmath>

namespace cugrt::ir {

Types Inference::rotary() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_ids(1));
  if (rank(0) < 2)
    return wrong("operand 1 has rank 2 or more: heads and their elements come last");
  CUGRT_TRY(check_rank(1, rank(0) - 2));
  for (size_t i = 0; i < rank(1); ++i)
    CUGRT_TRY(check_equal(dims(0)[i], dims(1)[i], "dimensions of positions"));
  const std::optional<int64_t> width = known(dims(0).back());
  const int64_t given = op_integer(op, attributes, "dims");
  const int64_t turned = given == 0 && width ? *width : given;
  if (!width || turned < 1 || turned > *width || turned % 2 != 0)
    return wrong("a head has a constant number of elements, of which an even number, 'dims', is "
                 "turned");
  const double base = op_float(op, attributes, "base");
  if (!(base > 0) || !std::isfinite(base) || !std::isfinite(op_float(op, attributes, "scale")))
    return wrong("attributes 'base' and 'scale' are finite, and the base is above 0");
  if (has(2) != has(3))
    return wrong("takes a table of cosines and one of sines, or neither");
  if (has(2)) {
    for (size_t i : {2, 3}) {
      CUGRT_TRY(check_same_dtype(i));
      CUGRT_TRY(check_rank(i, 2));
      CUGRT_TRY(check_equal(dims(i)[1], constant(turned / 2), "columns of a table and pairs"));
    }
    CUGRT_TRY(check_equal(dims(2)[0], dims(3)[0], "rows of the tables"));
  }
  return one(type(0).dtype, dims(0));
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::rotary() {
  CUGRT_TRY(align(0, 1));
  for (size_t d = 0; d < rank(1); ++d)
    CUGRT_TRY(carry(1, d, d));
  fills([&](size_t d, size_t) {
    const bool numbers = operands_[1].is_number() && (!has(2) || operands_[2].is_number());
    return numbers ? like_first(d) : Fill::any;
  });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

Status emit_rotary(OpEmitter &op) {
  const ir::Type x = op.operand_type(0);
  const size_t rank = x.dims.size();
  const bool has_tables = op.has_operand(2);
  const int64_t width = *op.exprs().as_constant(x.dims.back()), dims = op.integer("dims");
  const int64_t turned = dims == 0 ? width : dims;

  KernelLaunch launch = op.floating_launch("rotary.cu", "rotary");
  launch.option_if(op.flag("interleaved"), "-DINTERLEAVED");
  launch.option_if(has_tables, "-DHAS_TABLES");
  launch.option_if(op.operand_type(1).dtype == ir::DType::i64, "-DWIDE_IDS");
  const uint32_t bytes = ir::info(x.dtype).bytes_per_block;
  const int64_t vector = KernelLaunch::vector_size(bytes);
  if (turned / 2 % vector == 0 && width % vector == 0)
    launch.vectors(bytes);
  launch.index_type({op.count(x)});
  launch.input("x", op.operand(0));
  launch.input("positions", op.operand(1));
  if (has_tables) {
    launch.input("cosines", op.operand(2));
    launch.input("sines", op.operand(3));
  }
  launch.output("y", op.result());
  const ir::ExprId rows = launch.count("rows", op.count(x, 0, rank - 2));
  const ir::ExprId heads = launch.size("heads", x.dims[rank - 2]);
  launch.size("width", x.dims.back());
  launch.size("turned", op.constant(turned));
  launch.count("table_rows", has_tables ? op.operand_type(2).dims[0] : op.constant(0));
  launch.scalar("base", wide_type(x.dtype), op.number("base"));
  launch.scalar("scale", wide_type(x.dtype), op.number("scale"));
  constexpr int64_t kHeadsEach = 8; // rotary.cu's
  const ir::ExprId items = op.constant(width - turned / 2),
                   groups = op.exprs().ceildiv(heads, op.constant(kHeadsEach));
  launch.loop_variant(op.exprs().mul(op.exprs().mul(rows, groups), items));
  return op.emit(launch);
}

} // namespace cugrt::codegen
