// Convolutions over volumes, transposed ones, and those of bytes: kernels/convolution/conv3d.cu,
// conv_transpose.cu. Fewer than three dimensions get 1s in front.
#include "ops/convolution/convolution_form.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <string>

namespace cugrt::ir {

Types Inference::conv_transpose() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_same_dtype(1));
  if (rank(0) < 3 || rank(0) > 5)
    return wrong("operand 1 has rank 3 to 5: batch, channels, and one to three dimensions");
  const size_t axes = rank(0) - 2;
  CUGRT_TRY(check_rank(1, rank(0)));
  CUGRT_ASSIGN(const auto strides, window_list("strides", axes, 1));
  CUGRT_ASSIGN(const auto padding, paddings(axes));
  CUGRT_ASSIGN(const auto dilation, window_list("dilation", axes, 1));
  CUGRT_ASSIGN(const auto added, window_list("output_padding", axes, 0));
  const int64_t groups = op_integer(op, attributes, "groups");
  const Dims x = dims(0), w = dims(1);
  if (groups < 1 || groups > kMaxWindow)
    return wrong("attribute 'groups' is at least 1");
  CUGRT_TRY(check_equal(x[1], w[0], "the input's channels and the weight's"));
  if (auto in = known(x[1]); in && *in % groups != 0)
    return wrong("the " + std::to_string(*in) + " input channels do not divide into " +
                 std::to_string(groups) + " groups");
  ExprPool &e = m.exprs;
  const ExprId channels = e.mul(w[1], constant(groups));
  CUGRT_TRY(check_vector(2, channels));
  Dims out = {x[0], channels};
  for (size_t i = 0; i < axes; ++i) {
    if (added[i] >= std::max(strides[i], dilation[i]))
      return wrong("attribute 'output_padding' is less than the stride or the dilation");
    const ExprId reach = e.mul(e.sub(w[2 + i], constant(1)), constant(dilation[i]));
    const ExprId steps = e.mul(e.sub(x[2 + i], constant(1)), constant(strides[i]));
    const int64_t more = 1 + added[i] - padding[i][0] - padding[i][1];
    const ExprId size = e.add(e.add(steps, reach), constant(more));
    if (auto wrong_size = known(size); wrong_size && *wrong_size < 0)
      return wrong("the padding is larger than the result by " + std::to_string(-*wrong_size));
    out.push_back(size);
  }
  return one(type(0).dtype, std::move(out));
}

Types Inference::conv_integer() const {
  CUGRT_TRY(check_byte(0));
  CUGRT_TRY(check_byte(1));
  if (rank(0) < 3 || rank(0) > 5)
    return wrong("operand 1 has rank 3 to 5: batch, channels, and one to three dimensions");
  if (rank(0) != 4 && op_bool(op, attributes, "channels_last"))
    return wrong("channels are last in images alone, of rank 4");
  return convolution(rank(0) - 2, DType::i32);
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::conv_transpose() { return convolution(Fill::zero, 1, 0); }

Status OpPadding::conv_integer() {
  return convolution(Fill::any, 0, flag("channels_last") ? 3 : 1);
}

} // namespace cugrt::padding

namespace cugrt::codegen {

namespace {

constexpr std::string_view kVolumeSides[] = {"_d", "_h", "_w"};

ir::Type as_volume(OpEmitter &op, ir::Type type) {
  while (type.dims.size() < 5)
    type.dims.insert(type.dims.begin() + 2, op.constant(1));
  return type;
}

void sides(KernelLaunch &launch, std::string_view name, std::span<const ir::ExprId> values) {
  for (size_t i = 0; i < 3; ++i)
    launch.size(std::string(name) + std::string(kVolumeSides[i]), values[i]);
}

/// Pixels of all images that have their taps in common: those of one phase of the strides `apart`.
ir::ExprId pixels_of(ir::ExprPool &exprs, ir::ExprId batch, std::span<const ir::ExprId> out,
                     std::span<const ir::ExprId> apart) {
  ir::ExprId pixels = batch;
  for (size_t i = 0; i < 3; ++i)
    pixels = exprs.mul(pixels, exprs.ceildiv(out[i], apart[i]));
  return pixels;
}

/// The strides that keep pixels apart that have no taps in common: those of transposed ones.
std::vector<ir::ExprId> apart(OpEmitter &op) {
  std::vector<ir::ExprId> apart(3, op.constant(1));
  if (op.call().op == ir::Op::conv_transpose)
    std::ranges::transform(window(op, "strides", 3), apart.begin(),
                           [&](int64_t stride) { return op.constant(stride); });
  return apart;
}

void convolve(OpEmitter &op, KernelLaunch &launch, std::span<const ConvolutionForm> forms = {},
              const ConvolutionSizes &sizes = {}) {
  const ir::Type x = as_volume(op, op.operand_type(0)), w = as_volume(op, op.operand_type(1));
  const ir::Type y = as_volume(op, op.result_type());
  ir::ExprPool &exprs = op.exprs();
  launch.output("y", op.result());
  const ir::ExprId batch = launch.count("batch", x.dims[0]);
  launch.size("channels", x.dims[1]);
  sides(launch, "size", std::span(x.dims).subspan(2));
  ir::ExprId count = exprs.mul(batch, launch.size("out_channels", y.dims[1]));
  std::vector<ir::ExprId> out;
  for (size_t i = 0; i < 3; ++i) {
    out.push_back(launch.size("out" + std::string(kVolumeSides[i]), y.dims[2 + i]));
    count = exprs.mul(count, out.back());
  }
  sides(launch, "kernel", std::span(w.dims).subspan(2));
  window_sizes(op, launch, 3);
  launch.size("groups", op.constant(op.integer("groups")));
  add_form_variants(launch, forms, sizes, pixels_of(exprs, batch, out, apart(op)));
  if (forms.empty() || forms.back().most_pixels)
    launch.loop_variant(count);
  launch.emit(op.call().location);
}

bool index_type(OpEmitter &op, KernelLaunch &launch) {
  return launch.index_type(
      {op.count(op.operand_type(0)), op.count(op.operand_type(1)), op.count(op.result_type())});
}

Status emit_floating(OpEmitter &op, std::string_view source) {
  CUGRT_TRY(op.require_floating());
  KernelLaunch launch = op.floating_launch(source, std::string(op.name()));
  launch.option_if(op.has_operand(2), "-DHAS_BIAS");
  const ir::Type w = as_volume(op, op.operand_type(1)), y = as_volume(op, op.result_type());
  ir::ExprPool &exprs = op.exprs();
  ConvolutionSizes sizes;
  sizes.small_indices = index_type(op, launch);
  if (const std::optional<int64_t> channels = exprs.as_constant(y.dims[1]))
    sizes.channels = *channels / op.integer("groups");
  sizes.taps = exprs.as_constant(op.count(w, 2));
  sizes.pixels = pixels_of(exprs, y.dims[0], std::span(y.dims).subspan(2), apart(op));
  sizes.parts = op.integer("groups");
  const bool transposed = op.call().op == ir::Op::conv_transpose;
  if (!transposed)
    sizes.products = exprs.as_constant(op.count(w, 1));
  else if (const std::optional<int64_t> in = exprs.as_constant(w.dims[0]); in && sizes.taps) {
    int64_t phases = 1;
    for (ir::ExprId stride : apart(op))
      phases *= *exprs.as_constant(stride);
    sizes.products = *in / sizes.parts * *sizes.taps / phases; // of a phase
    sizes.parts *= phases;
  }
  const std::vector<ConvolutionForm> forms =
      choose_convolution_forms(op, sizes, false, !transposed);
  add_form_options(launch, forms);
  launch.input("x", op.operand(0));
  launch.input("w", op.operand(1));
  op.input_if_given(launch, "bias", 2);
  convolve(op, launch, forms, sizes);
  return {};
}

} // namespace

Status emit_conv3d(OpEmitter &op) {
  return op.flag("channels_last") ? emit_convolution_last(op) : emit_floating(op, "conv3d.cu");
}
Status emit_conv_transpose(OpEmitter &op) { return emit_floating(op, "conv_transpose.cu"); }

Status emit_conv_integer(OpEmitter &op) {
  if (op.flag("channels_last"))
    return emit_conv_integer_last(op);
  KernelLaunch launch = op.launch("conv3d.cu", "conv_integer");
  launch.option_if(op.call().fusion, "-fmad=false"); // kernels/shared/byte_sums.cuh
  launch.option("-DINTEGERS");
  byte_options(op, launch);
  const ir::Type w = as_volume(op, op.operand_type(1)), y = as_volume(op, op.result_type());
  ir::ExprPool &exprs = op.exprs();
  ConvolutionSizes sizes;
  sizes.small_indices = index_type(op, launch);
  sizes.parts = op.integer("groups");
  if (const std::optional<int64_t> channels = exprs.as_constant(y.dims[1]))
    sizes.channels = *channels / sizes.parts;
  sizes.products = exprs.as_constant(op.count(w, 1));
  sizes.taps = exprs.as_constant(op.count(w, 2));
  sizes.pixels = pixels_of(exprs, y.dims[0], std::span(y.dims).subspan(2), apart(op));
  const std::vector<ConvolutionForm> forms = choose_byte_forms(op, sizes);
  add_form_options(launch, forms);
  launch.input("x", op.operand(0));
  launch.input("w", op.operand(1));
  op.input_if_given(launch, "x_zero", 2);
  op.zero_points(launch, "w_zero", 3);
  convolve(op, launch, forms, sizes);
  return {};
}

} // namespace cugrt::codegen
