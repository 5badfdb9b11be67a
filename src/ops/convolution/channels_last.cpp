// Convolution of images with channels last: kernels/convolution/conv2d_last.cu.
#include "ops/convolution/convolution_form.h"

namespace cugrt::codegen {

namespace {

// kernels/convolution/conv2d_last_mma.cuh: elements of a copy, kMostSide, and kMmaDepth.
constexpr int64_t kRun = 8, kMostSide = 12, kDepth = 32;
// Of a group of y: of fewer most of a tile would be empty.
constexpr int64_t kFewestToLayOut = 16;

} // namespace

bool takes_channels_last(const ir::Module &module, const ir::Type &x, const ir::Type &w,
                         int64_t groups, const Target &target) {
  std::array<int64_t, 4> sizes{};
  for (size_t d = 0; d < 4; ++d) {
    const std::optional<int64_t> size = module.exprs.as_constant(w.dims[d]);
    if (!size)
      return false;
    sizes[d] = *size;
  }
  const auto [out_channels, in_group, height, width] = sizes;
  return has_tensor_cores(x.dtype, target) && in_group > 0 && in_group % kRun == 0 &&
         out_channels / groups >= kFewestToLayOut && height <= kMostSide && width <= kMostSide;
}

Status emit_convolution_last(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), w = op.operand_type(1), y = op.result_type();
  const int64_t groups = op.integer("groups");
  ir::ExprPool &exprs = op.exprs();
  const std::optional<int64_t> out_channels = exprs.as_constant(w.dims[0]),
                               in_group = exprs.as_constant(w.dims[3]);
  const int64_t kernel_h = exprs.as_constant(w.dims[1]).value_or(INT64_MAX),
                kernel_w = exprs.as_constant(w.dims[2]).value_or(INT64_MAX);

  KernelLaunch launch = op.floating_launch("conv2d_last.cu", "conv2d_last");
  if (op.has_operand(2))
    launch.option("-DHAS_BIAS");
  ConvolutionSizes sizes;
  if (out_channels)
    sizes.channels = *out_channels / groups;
  sizes.parts = groups;
  sizes.pixels = exprs.mul(y.dims[0], exprs.mul(y.dims[1], y.dims[2]));
  sizes.small_indices = launch.index_type({op.count(x), op.count(w), op.count(y)});
  std::vector<ConvolutionForm> forms;
  if (in_group && *in_group > 0 && *in_group % kRun == 0 && kernel_h <= kMostSide &&
      kernel_w <= kMostSide)
    forms = choose_last_forms(op, sizes);
  if (!forms.empty()) {
    launch.option("-DWITH_MMA");
    if (*in_group % kDepth == 0)
      launch.option("-DWHOLE_STEPS");
    launch.entry(forms.back().entry);
  }
  launch.input("x", op.operand(0));
  launch.input("w", op.operand(1));
  if (op.has_operand(2))
    launch.input("bias", op.operand(2));
  launch.output("y", op.result());
  const ir::ExprId batch = launch.count("batch", x.dims[0]);
  launch.size("channels", x.dims[3]);
  launch.size("height", x.dims[1]);
  launch.size("width", x.dims[2]);
  const ir::ExprId outputs = launch.size("out_channels", y.dims[3]);
  const ir::ExprId out_height = launch.size("out_height", y.dims[1]);
  const ir::ExprId out_width = launch.size("out_width", y.dims[2]);
  launch.size("kernel_h", w.dims[1]);
  launch.size("kernel_w", w.dims[2]);
  // Of padding on four sides what lies behind follows from the result's size.
  for (std::string_view name : {"stride", "pad", "dilation"}) {
    const std::vector<int64_t> values = op.integers(name == "stride" ? "strides"
                                                    : name == "pad"  ? "padding"
                                                                     : "dilation");
    launch.size(std::string(name) + "_h", op.constant(values[0]));
    launch.size(std::string(name) + "_w", op.constant(values[1]));
  }
  launch.size("groups", op.constant(groups));

  const ir::ExprId pixels = exprs.mul(batch, exprs.mul(out_height, out_width));
  add_form_variants(launch, forms, sizes, pixels);
  if (forms.empty())
    launch.loop_variant(exprs.mul(pixels, outputs));
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
