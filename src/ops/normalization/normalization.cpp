// Softmax and norms: kernels/normalization/softmax.cu, norm.cu.
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>

namespace cugrt::codegen {

// kernels/normalization/group_norm.cu: warps of a block, and what their sums take of its memory.
constexpr int64_t kMostWarps = 16, kPartBytes = 32 << 10, kMostGroupChannels = 1024;
// Neighbouring channels that a block reads of a pixel, if there are enough blocks without.
constexpr int64_t kWideBytes = 64, kLeastBytes = 4;

} // namespace cugrt::codegen

namespace cugrt::ir {

Types Inference::softmax() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(axis_of(op_integer(op, attributes, "axis"), 0).take_status());
  return one(type(0).dtype, dims(0));
}

static Status check_epsilon(const Inference &op) {
  const double epsilon = op_float(op.op, op.attributes, "epsilon");
  return epsilon >= 0 && epsilon <= 1 ? Status() : wrong("attribute 'epsilon' is from 0 to 1");
}

Types Inference::norm() const {
  CUGRT_TRY(check_float(0));
  if (rank(0) == 0)
    return wrong("a norm needs at least rank 1");
  CUGRT_TRY(check_epsilon(*this));
  auto may_be = [&](size_t i, DType dtype) { return !has(i) || type(i).dtype == dtype; };
  const bool has_wide = is_half(type(0).dtype) && may_be(1, DType::f32) && may_be(2, DType::f32);
  for (size_t i : {1, 2})
    CUGRT_TRY(check_vector(i, dims(0).back(), has_wide ? DType::f32 : type(0).dtype));
  return one(type(0).dtype, dims(0));
}

Types Inference::group_norm() const {
  CUGRT_TRY(check_float(0));
  if (rank(0) < 3)
    return wrong("an image has at least rank 3");
  CUGRT_TRY(check_epsilon(*this));
  const int64_t groups = op_integer(op, attributes, "groups"),
                first = op_integer(op, attributes, "first_channel"),
                given = op_integer(op, attributes, "channels"),
                all = known(dims(0).back()).value_or(0),
                channels = given == 0 ? all - first : given;
  if (first < 0 || first >= std::max<int64_t>(all, 1) || given < 0 || given > all - first)
    return wrong("attributes 'first_channel' and 'channels' are a range of the channels");
  if (channels < 1 || groups < 1 || channels % groups != 0 ||
      channels / groups > codegen::kMostGroupChannels)
    return wrong("channels are known, and divide into 'groups' of at most " +
                 std::to_string(codegen::kMostGroupChannels));
  DType dtype = type(0).dtype;
  if (op_bool(op, attributes, "wide")) {
    if (!is_half(dtype))
      return wrong("attribute 'wide' is of images of f16 or bf16");
    dtype = DType::f32;
  }
  Dims result = dims(0);
  result.back() = constant(channels);
  return one(dtype, std::move(result));
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::softmax() {
  const size_t along = axis();
  CUGRT_TRY(take(0, along, Fill::lowest));
  CUGRT_TRY(align(0));
  fills([&](size_t d, size_t) {
    return padding::is_number(fill(0, d)) || (d == along && op_ == Op::softmax) ? Fill::finite
                                                                                : Fill::any;
  });
  return {};
}

Status OpPadding::norm() {
  CUGRT_TRY(take(0, rank(0) - 1, Fill::any));
  CUGRT_TRY(align(0));
  const bool defined = ir::op_float(op_, attributes_, "epsilon") > 0; // of rows of equal numbers
  fills([&](size_t d, size_t) {
    const Fill same = defined ? like_first(d) : Fill::any;
    return same == Fill::zero && has(2) ? Fill::finite : same;
  });
  return {};
}

Status OpPadding::group_norm() {
  CUGRT_TRY(carry(0, 0, 0));
  for (size_t d = 1; d < rank(0); ++d)
    CUGRT_TRY(take(0, d, Fill::any));
  fills([&](size_t d, size_t) {
    return ir::op_float(op_, attributes_, "epsilon") > 0 ? like_first(d) : Fill::any;
  });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

Status emit_softmax(OpEmitter &op) {
  CUGRT_TRY(op.require_floating());
  const ir::Type x = op.operand_type(0);
  const size_t axis = op.axis(x.dims.size());
  const ir::ExprId inner = op.count(x, axis + 1);
  const bool rows = op.exprs().as_constant(inner) == 1;

  const bool log = op.call().op == ir::Op::log_softmax;
  KernelLaunch launch = op.floating_launch("softmax.cu", rows ? "softmax_rows" : "softmax_columns",
                                           log ? "log_softmax" : "");
  launch.option_if(log, "-DLOG");
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId outer = launch.count("outer", op.count(x, 0, axis));
  const ir::ExprId length = launch.size("axis", x.dims[axis]);
  const ir::ExprId columns = launch.size("inner", inner);
  ir::ExprPool &exprs = op.exprs();
  if (rows)
    launch.row_variants(outer, length, exprs.as_constant(x.dims[axis]),
                        ir::info(x.dtype).bytes_per_block);
  else
    launch.variant("", {}, exprs.ceildiv(exprs.mul(outer, columns), exprs.constant(32)),
                   {32, 16, 1});
  return op.emit(launch);
}

Status emit_norm(OpEmitter &op) {
  CUGRT_TRY(op.require_floating(1));
  const ir::Type x = op.operand_type(0);
  const bool has_scale = op.has_operand(1), has_bias = op.has_operand(2);

  KernelLaunch launch = op.floating_launch("norm.cu", std::string(op.name()));
  launch.option_if(op.name() == "rms_norm", "-DIS_RMS");
  launch.option_if(has_scale, "-DHAS_SCALE");
  launch.option_if(has_bias, "-DHAS_BIAS");
  for (size_t i : {1, 2})
    if (op.has_operand(i) && op.operand_type(i).dtype != x.dtype) {
      launch.option("-DWIDE_SCALE");
      break;
    }
  launch.input("x", op.operand(0));
  if (has_scale)
    launch.input("scale", op.operand(1));
  if (has_bias)
    launch.input("bias", op.operand(2));
  launch.output("y", op.result());
  const ir::ExprId rows = launch.count("rows", op.count(x, 0, x.dims.size() - 1));
  const ir::ExprId columns = launch.size("columns", x.dims.back());
  launch.scalar("epsilon", wide_type(x.dtype),
                ir::op_float(op.call().op, op.call().attributes, "epsilon"));
  launch.row_variants(rows, columns, op.exprs().as_constant(x.dims.back()),
                      ir::info(x.dtype).bytes_per_block);
  return op.emit(launch);
}

Status emit_group_norm(OpEmitter &op) {
  const bool is_wide = op.flag("wide");
  CUGRT_TRY(is_wide ? Status() : op.require_floating());
  const ir::Type x = op.operand_type(0), y = op.result_type();
  ir::ExprPool &exprs = op.exprs();
  const int64_t all = *exprs.as_constant(y.dims.back()), pitch = *exprs.as_constant(x.dims.back());
  const int64_t group = all / op.integer("groups"), first = op.integer("first_channel");
  const int64_t size = ir::info(x.dtype).bytes_per_block;
  // Whole groups and vectors: fewer where blocks would be fewer than multiprocessors.
  const int64_t images = exprs.as_constant(x.dims[0]).value_or(1);
  auto occupies = [&](int64_t channels) {
    return images * all / channels >= op.table().choice().target.multiprocessors;
  };
  const int64_t most = KernelLaunch::vector_size(
      uint32_t(is_wide ? ir::info(y.dtype).bytes_per_block : size)); // of what registers hold
  int64_t vector = std::gcd(std::gcd(most, all), std::gcd(pitch, first));
  while (vector * size > kLeastBytes && vector % 2 == 0 && !occupies(std::lcm(vector, group)))
    vector /= 2;
  int64_t channels = std::lcm(vector, group);
  while (channels * size < kWideBytes && 2 * channels <= all && occupies(2 * channels))
    channels *= 2;
  const int64_t wide = ir::info(wide_type(x.dtype)).bytes_per_block;
  const int64_t lanes = std::min<int64_t>(32, std::bit_ceil(uint64_t(channels / vector))),
                warps = std::clamp<int64_t>(kPartBytes / (channels * wide), 1, kMostWarps);

  KernelLaunch launch = op.floating_launch("group_norm.cu", "group_norm");
  launch.index_type({op.count(x)});
  if (is_wide)
    launch.option("-DWIDE");
  if (pitch != all)
    launch.option("-DCHANNEL_RANGE");
  launch.option("-DVECTOR=" + std::to_string(vector));
  launch.option("-DCHANNELS=" + std::to_string(channels));
  launch.option("-DGROUP=" + std::to_string(group));
  launch.option("-DLANES=" + std::to_string(lanes));
  launch.option("-DWARPS=" + std::to_string(warps));
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId count = launch.count("images", x.dims[0]);
  launch.size("pixels", op.count(x, 1, x.dims.size() - 1));
  launch.size("channels", y.dims.back());
  if (pitch != all) {
    launch.size("pitch", x.dims.back());
    launch.size("first_channel", op.constant(first));
  }
  launch.scalar("epsilon", wide_type(x.dtype), op.number("epsilon"));
  launch.variant("", {}, exprs.mul(count, exprs.constant((all + channels - 1) / channels)),
                 {32 * warps, 1, 1});
  return op.emit(launch);
}

} // namespace cugrt::codegen
