// Convolution and pooling: kernels/convolution/conv2d.cu, pool2d.cu.
#include "ops/convolution/convolution_form.h"

#include <algorithm>
#include <string>
#include <vector>

namespace cugrt::codegen {

namespace {

constexpr std::string_view kSides[] = {"_h", "_w"};

// A [height, width] attribute as two parameters, NAME_h and NAME_w. Of padding on four sides these
// are the first two; what lies beyond the other ones mostly follows from the result's size.
void sides(OpEmitter &op, KernelLaunch &launch, std::string_view name,
           const std::vector<int64_t> &values) {
  for (size_t i = 0; i < 2; ++i)
    launch.size(std::string(name) + std::string(kSides[i]), op.constant(values[i]));
}

} // namespace

namespace {

// Images of one row stand for what has one dimension less.
ir::Type as_image(OpEmitter &op, ir::Type type) {
  if (type.dims.size() == 3)
    type.dims.insert(type.dims.begin() + 2, op.constant(1));
  return type;
}

// A window's attribute for [height, width]: of one dimension, `of_row` for the height.
std::vector<int64_t> window(const OpEmitter &op, std::string_view name, int64_t of_row) {
  std::vector<int64_t> values = op.integers(name);
  if (op.call().op == ir::Op::conv1d)
    values.insert(values.begin(), of_row);
  return values;
}

// Channels of y and pixels of an image that a product of matrices wants; half as many channels of
// x.
constexpr int64_t kFewestPointwise = 64;

// kernels/convolution/conv2d_depthwise.cuh: what its loops are unrolled by, of a thread's kHigh
// elements.
constexpr int64_t kDepthwiseHigh = 4, kMostDepthwiseRows = 16, kMostDepthwiseTaps = 25;

// The options of the depthwise form; none where it is not taken.
std::vector<std::string> depthwise_options(OpEmitter &op, const ir::Type &x, const ir::Type &w,
                                           const ir::Type &y) {
  ir::ExprPool &exprs = op.exprs();
  const std::optional<int64_t> height = exprs.as_constant(w.dims[2]),
                               width = exprs.as_constant(w.dims[3]);
  const ir::Interval out_height =
      exprs.range(y.dims[2], op.builder().function().symbol_domain(exprs));
  const int64_t groups = op.integer("groups");
  if (groups == 1 || exprs.as_constant(x.dims[1]) != groups || !height || !width ||
      out_height.upper < kDepthwiseHigh)
    return {};
  const int64_t stride = window(op, "strides", 1)[0], dilation = window(op, "dilation", 1)[0];
  const int64_t rows = (kDepthwiseHigh - 1) * stride + (*height - 1) * dilation + 1;
  if (*height == 0 || *width == 0 || *height * *width > kMostDepthwiseTaps ||
      rows > kMostDepthwiseRows)
    return {};
  return {"-DWITH_DEPTHWISE",
          "-DWITHOUT_DIRECT",
          "-DKERNEL_H=" + std::to_string(*height),
          "-DKERNEL_W=" + std::to_string(*width),
          "-DSTRIDE_H=" + std::to_string(stride),
          "-DDILATION_H=" + std::to_string(dilation)};
}

// Whether the convolution is a product of w and each image, and one whose tiles it fills: of f16
// and bf16 with rows of which all begin at multiples of 16 bytes.
bool is_pointwise(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), w = op.operand_type(1);
  ir::ExprPool &exprs = op.exprs();
  auto all = [&](std::string_view name, int64_t value) {
    const std::vector<int64_t> values = op.integers(name);
    return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
  };
  const int64_t out = exprs.as_constant(w.dims[0]).value_or(0);
  const int64_t in = exprs.as_constant(w.dims[1]).value_or(0);
  const ir::ExprId pixels = op.count(x, 2);
  const int64_t fewest = exprs.range(pixels, op.builder().function().symbol_domain(exprs)).lower;
  if (exprs.as_constant(op.count(w, 2)) != 1 || !all("strides", 1) || !all("padding", 0) ||
      op.integer("groups") != 1 || out < kFewestPointwise || in < kFewestPointwise / 2 ||
      fewest < kFewestPointwise)
    return false;
  constexpr int64_t kRun = 8; // elements of a copy of 16 bytes
  return !has_tensor_cores(x.dtype) ||
         (in % kRun == 0 && exprs.as_constant(pixels).value_or(1) % kRun == 0);
}

Status emit_convolution(OpEmitter &op) {
  CUGRT_TRY(op.require_floating());
  if (op.call().op == ir::Op::conv2d && op.flag("channels_last"))
    return emit_convolution_last(op);
  if (is_pointwise(op))
    return emit_pointwise_convolution(op);
  const ir::Type x = as_image(op, op.operand_type(0)), w = as_image(op, op.operand_type(1));
  const ir::Type y = as_image(op, op.result_type());
  const int64_t groups = op.integer("groups");
  ir::ExprPool &exprs = op.exprs();
  const std::optional<int64_t> out_channels = exprs.as_constant(w.dims[0]);
  const bool four = out_channels && *out_channels / groups % 4 == 0;

  KernelLaunch launch = op.floating_launch("conv2d.cu", four ? "conv2d_x4" : "conv2d");
  if (op.has_operand(2))
    launch.option("-DHAS_BIAS");
  ConvolutionSizes sizes;
  if (out_channels)
    sizes.channels = *out_channels / groups;
  sizes.products = exprs.as_constant(op.count(w, 1));
  sizes.taps = exprs.as_constant(op.count(w, 2));
  sizes.parts = groups;
  sizes.pixels = exprs.mul(y.dims[0], op.count(y, 2));
  sizes.small_indices = launch.index_type({op.count(x), op.count(w), op.count(y)});
  const std::vector<std::string> depthwise =
      sizes.small_indices ? depthwise_options(op, x, w, y) : std::vector<std::string>();
  std::vector<ConvolutionForm> forms;
  if (depthwise.empty())
    forms = choose_convolution_forms(op, sizes, true, true);
  else
    launch.entry("conv2d_depthwise");
  for (const std::string &option : depthwise)
    launch.option(option);
  const bool always = add_form_options(launch, forms);
  launch.input("x", op.operand(0));
  launch.input("w", op.operand(1));
  if (op.has_operand(2))
    launch.input("bias", op.operand(2));
  launch.output("y", op.result());
  const ir::ExprId batch = launch.count("batch", x.dims[0]);
  launch.size("channels", x.dims[1]);
  launch.size("height", x.dims[2]);
  launch.size("width", x.dims[3]);
  const ir::ExprId outputs = launch.size("out_channels", y.dims[1]);
  const ir::ExprId out_height = launch.size("out_height", y.dims[2]);
  const ir::ExprId out_width = launch.size("out_width", y.dims[3]);
  launch.size("kernel_h", w.dims[2]);
  launch.size("kernel_w", w.dims[3]);
  sides(op, launch, "stride", window(op, "strides", 1));
  sides(op, launch, "pad", window(op, "padding", 0));
  sides(op, launch, "dilation", window(op, "dilation", 1));
  launch.size("groups", op.constant(groups));

  const ir::ExprId pixels = exprs.mul(batch, exprs.mul(out_height, out_width));
  add_form_variants(launch, forms, sizes, pixels);
  if (!depthwise.empty())
    launch.loop_variant(
        exprs.mul(exprs.mul(batch, outputs),
                  exprs.mul(exprs.ceildiv(out_height, exprs.constant(kDepthwiseHigh)), out_width)));
  else if (!always)
    launch.loop_variant(exprs.mul(pixels, exprs.floordiv(outputs, exprs.constant(four ? 4 : 1))));
  launch.emit(op.call().location);
  return {};
}

} // namespace

Status emit_conv1d(OpEmitter &op) { return emit_convolution(op); }
Status emit_conv2d(OpEmitter &op) { return emit_convolution(op); }

Status emit_pool2d(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), y = op.result_type();
  const std::vector<int64_t> kernel = op.integers("kernel"), padding = op.integers("padding");

  KernelLaunch launch = op.number_launch("pool2d.cu", std::string(op.name()), x.dtype);
  launch.index_type({op.count(x), op.count(y)});
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  const bool last = op.flag("channels_last");
  const size_t first = last ? 1 : 2; // dimension of rows
  const ir::ExprId planes = launch.count("planes", op.count(x, 0, first));
  launch.size("height", x.dims[first]);
  launch.size("width", x.dims[first + 1]);
  const ir::ExprId inner = launch.size("inner", last ? x.dims[3] : op.constant(1));
  const ir::ExprId out_height = launch.size("out_height", y.dims[first]);
  const ir::ExprId out_width = launch.size("out_width", y.dims[first + 1]);
  sides(op, launch, "kernel", kernel);
  sides(op, launch, "stride", op.integers("strides"));
  sides(op, launch, "pad", padding);
  sides(op, launch, "dilation", op.integers("dilation"));
  for (size_t i = 0; i < 2; ++i)
    launch.size("end" + std::string(kSides[i]),
                op.exprs().add(x.dims[first + i], op.constant(padding[padding.size() - 2 + i])));
  const bool count_padding =
      op.call().op == ir::Op::avg_pool2d &&
      ir::op_bool(ir::Op::avg_pool2d, op.call().attributes, "count_include_pad");
  launch.size("count_padding", op.constant(count_padding));
  launch.loop_variant(
      op.exprs().mul(op.exprs().mul(planes, inner), op.exprs().mul(out_height, out_width)));
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
