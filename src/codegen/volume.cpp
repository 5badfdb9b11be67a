// Convolutions over volumes, transposed ones, and those of bytes: kernels/conv3d.cu,
// conv_transpose.cu. What has fewer than three dimensions has 1s in front.
#include "codegen/op_emitter.h"

#include <string>

namespace cugrt::codegen {

namespace {

constexpr std::string_view kSides[] = {"_d", "_h", "_w"};

ir::Type as_volume(OpEmitter &op, ir::Type type) {
  while (type.dims.size() < 5)
    type.dims.insert(type.dims.begin() + 2, op.constant(1));
  return type;
}

void sides(KernelLaunch &launch, std::string_view name, std::span<const ir::ExprId> values) {
  for (size_t i = 0; i < 3; ++i)
    launch.size(std::string(name) + std::string(kSides[i]), values[i]);
}

// A window's attribute for three dimensions, what is not given being `otherwise`. Of padding on
// both sides it is what comes before; what lies behind follows from the result's size.
std::vector<ir::ExprId> window(OpEmitter &op, std::string_view name, int64_t otherwise) {
  const size_t axes = op.operand_type(0).dims.size() - 2;
  std::vector<int64_t> values = op.integers(name);
  values.resize(axes, otherwise); // of both sides, those before
  values.insert(values.begin(), 3 - axes, otherwise);
  std::vector<ir::ExprId> result;
  for (int64_t value : values)
    result.push_back(op.constant(value));
  return result;
}

void convolve(OpEmitter &op, KernelLaunch &launch) {
  const ir::Type x = as_volume(op, op.operand_type(0)), w = as_volume(op, op.operand_type(1));
  const ir::Type y = as_volume(op, op.result_type());
  launch.output("y", op.result());
  const ir::ExprId batch = launch.count("batch", x.dims[0]);
  launch.size("channels", x.dims[1]);
  sides(launch, "size", std::span(x.dims).subspan(2));
  const ir::ExprId channels = launch.size("out_channels", y.dims[1]);
  ir::ExprId count = op.exprs().mul(batch, channels);
  for (size_t i = 0; i < 3; ++i)
    count = op.exprs().mul(count, launch.size("out" + std::string(kSides[i]), y.dims[2 + i]));
  sides(launch, "kernel", std::span(w.dims).subspan(2));
  sides(launch, "stride", window(op, "strides", 1));
  sides(launch, "pad", window(op, "padding", 0));
  sides(launch, "dilation", window(op, "dilation", 1));
  launch.size("groups", op.constant(op.integer("groups")));
  launch.loop_variant(count);
  launch.emit(op.call().location);
}

void index_type(OpEmitter &op, KernelLaunch &launch) {
  launch.index_type(
      {op.count(op.operand_type(0)), op.count(op.operand_type(1)), op.count(op.result_type())});
}

Status emit_floating(OpEmitter &op, std::string_view source) {
  CUGRT_TRY(op.require_floating());
  KernelLaunch launch = op.floating_launch(source, std::string(op.name()));
  if (op.has_operand(2))
    launch.option("-DHAS_BIAS");
  index_type(op, launch);
  launch.input("x", op.operand(0));
  launch.input("w", op.operand(1));
  if (op.has_operand(2))
    launch.input("bias", op.operand(2));
  convolve(op, launch);
  return {};
}

} // namespace

Status emit_conv3d(OpEmitter &op) { return emit_floating(op, "conv3d.cu"); }
Status emit_conv_transpose(OpEmitter &op) { return emit_floating(op, "conv_transpose.cu"); }

Status emit_conv_integer(OpEmitter &op) {
  KernelLaunch launch = op.launch("conv3d.cu", "conv_integer");
  launch.option("-DINTEGERS");
  if (op.operand_type(0).dtype == ir::DType::u8)
    launch.option("-DX_UNSIGNED");
  if (op.operand_type(1).dtype == ir::DType::u8)
    launch.option("-DW_UNSIGNED");
  if (op.has_operand(2))
    launch.option("-DHAS_X_ZERO");
  if (op.has_operand(3))
    launch.option("-DHAS_W_ZERO");
  index_type(op, launch);
  launch.input("x", op.operand(0));
  launch.input("w", op.operand(1));
  if (op.has_operand(2))
    launch.input("x_zero", op.operand(2));
  if (op.has_operand(3)) {
    launch.input("w_zero", op.operand(3));
    const bool each = op.exprs().as_constant(op.count(op.operand_type(3))) != 1;
    launch.size("w_zero_step", op.constant(each));
  }
  convolve(op, launch);
  return {};
}

} // namespace cugrt::codegen
