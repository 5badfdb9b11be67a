// Convolution of images and volumes with channels last: kernels/convolution/conv2d_last.cu.
#include "ops/convolution/convolution_form.h"

#include <algorithm>
#include <numeric>

namespace cugrt::codegen {

// kernels/convolution/conv2d_last_mma.cuh: most bytes of a copy and least ones, kMostSide, and
// bytes of a step of k.
constexpr int64_t kRunBytes = 16, kLeastRunBytes = 4, kMostSide = 12, kDepthBytes = 64;
// So few channels of f16 are copied by half a run, so that two taps are in eight elements of k.
constexpr int64_t kHalfRun = 4;
// Least channels in a group of y: with fewer most of a tile would be empty, which is still cheaper
// than copying an image that has channels last already. Half suffices where LayOutImages joins no
// groups, and for an image of few channels, such as a network's own, that is no pixel.
constexpr int64_t kFewestToLayOut = 16, kMostGroupsJoined = 16;

// kernels/convolution/conv2d_last_depthwise.cuh: a thread's kHigh pixels, or one where kHigh would
// leave multiprocessors without a block: time is then what one thread takes. Then what its loops
// are unrolled by, the bytes of taps that registers hold, and those of taps and a row of x.
constexpr int64_t kMostChannels = 8, kHigh = 4, kMostRows = 17, kMostTapBytes = 484,
                  kMostHeldBytes = 640, kDepthwiseThreads = 128;

static int64_t bytes_of(ir::DType dtype) { return ir::info(dtype).bytes_per_block; }

// Elements of a copy where a group of x has so many channels, and places in x that multiple: a
// divisor of both; 0 where there is none, or no channel.
static int64_t run_of(int64_t in_group, ir::DType dtype, int64_t multiple = 0) {
  const int64_t size = bytes_of(dtype);
  for (int64_t run = kRunBytes / size; run * size >= kLeastRunBytes; run /= 2)
    if (in_group > 0 && in_group % run == 0 && multiple % run == 0)
      return run;
  return 0;
}

static bool is_depthwise(int64_t groups, std::optional<int64_t> in_group,
                         std::optional<int64_t> out_channels) {
  return groups > 1 && in_group == 1 && out_channels == groups;
}

// Channels that a thread takes of a convolution with a channel of x and one of y a group, of which
// `channels` is a multiple: eight, or fewer of which registers hold the taps; 0 where it has no
// such form.
static int64_t depthwise_run(ir::DType dtype, int64_t channels, int64_t height, int64_t width,
                             int64_t stride, int64_t dilation) {
  const int64_t rows = (kHigh - 1) * stride + (height - 1) * dilation + 1;
  if (height < 1 || width < 1 || height > kMostSide || width > kMostHeldBytes || rows > kMostRows)
    return 0;
  const int64_t row = width * bytes_of(dtype), bytes = height * row; // of a channel's taps
  for (int64_t run = kMostChannels; run > 1; run /= 2)
    if (channels % run == 0 && run * bytes <= kMostTapBytes &&
        run * (bytes + row) <= kMostHeldBytes)
      return run;
  return 0;
}

// Whether it is a product of a matrix and pixels.
static bool is_product(OpEmitter &op) {
  auto are = [&](std::string_view name, int64_t value) {
    return std::ranges::all_of(op.integers(name), [&](int64_t n) { return n == value; });
  };
  const ir::Type w = op.operand_type(1);
  return op.exprs().as_constant(op.count(w, 1, 3)) == 1 && are("strides", 1) && are("padding", 0) &&
         w.dims[3] == op.operand_type(0).dims[1];
}

bool is_laid_out(ir::DType dtype, const KernelChoice &choice) {
  return has_tensor_cores(dtype, choice.target) || computes_in_tf32(dtype, choice);
}

std::optional<int64_t> channels_laid_out(const ir::Module &module, const ir::Type &x,
                                         const ir::Type &w,
                                         std::span<const ir::Attribute> attributes,
                                         const KernelChoice &choice, bool is_copied) {
  std::vector<int64_t> sizes;
  for (ir::ExprId dim : w.dims) {
    const std::optional<int64_t> size = module.exprs.as_constant(dim);
    if (!size)
      return {};
    sizes.push_back(*size);
  }
  const int64_t out_channels = sizes[0], in_group = sizes[1];
  const bool is_volume = sizes.size() > 4;
  const int64_t groups = ir::op_integer(ir::Op::conv2d, attributes, "groups");
  const int64_t channels = in_group * groups;
  if (!is_laid_out(x.dtype, choice) || in_group == 0)
    return {};
  if (is_depthwise(groups, in_group, out_channels)) {
    if (!is_volume &&
        depthwise_run(x.dtype, groups, sizes[2], sizes[3],
                      ir::op_integers(ir::Op::conv2d, attributes, "strides")[0],
                      ir::op_integers(ir::Op::conv2d, attributes, "dilation")[0]) == 0)
      return {};
    return channels;
  }
  const bool is_pixel = std::all_of(x.dims.begin() + 2, x.dims.end(), [&](ir::ExprId dim) {
    return module.exprs.as_constant(dim) == 1;
  });
  bool joins = false; // groups that LayOutImages may join have more channels then
  for (int64_t count = 2; count <= kMostGroupsJoined; ++count)
    joins = joins || groups % count == 0;
  const bool is_many = joins || is_pixel || (groups == 1 && channels > kHalfRun);
  const int64_t fewest = is_many ? kFewestToLayOut : kFewestToLayOut / 2;
  if ((out_channels / groups < fewest && (groups > 1 || is_copied || is_pixel)) ||
      (is_volume && *std::max_element(sizes.begin() + 2, sizes.end()) > kMostSide))
    return {};
  const int64_t own = run_of(in_group, x.dtype), most = kRunBytes / bytes_of(x.dtype);
  if (own == most || (own > 0 && (groups > 1 || !is_copied)))
    return channels;
  if (groups > 1)
    return {};
  const int64_t run = channels <= kHalfRun ? kHalfRun : most;
  return (channels + run - 1) / run * run;
}

Status emit_convolution_last(OpEmitter &op) {
  const bool x_second = op.call().op == ir::Op::conv2d && op.flag("x_second");
  const ir::Type x = op.operand_type(0), w = op.operand_type(1), y = op.result_type();
  const bool is_wide = x_second && x.dtype != w.dtype;
  CUGRT_TRY(is_wide ? Status() : op.require_floating());
  if (x_second && !is_wide && is_product(op))
    return emit_pointwise_convolution(op);
  const bool is_volume = op.call().op == ir::Op::conv3d;
  const size_t row = is_volume ? 2 : 1, last = row + 2; // dimensions of rows and of channels
  const bool is_second = op.flag("result_second");      // of channels of y
  const std::vector<int64_t> phases = op.integers("phases"), cut = op.integers("cut");
  const size_t axes = phases.size();
  const bool spreads = std::ranges::any_of(phases, [](int64_t n) { return n != 1; }) ||
                       std::ranges::any_of(cut, [](int64_t n) { return n != 0; });
  const int64_t groups = op.integer("groups");
  ir::ExprPool &exprs = op.exprs();
  const std::optional<int64_t> out_channels = exprs.as_constant(w.dims[0]),
                               in_group = exprs.as_constant(w.dims[last]);
  auto side = [&](size_t d) { return exprs.as_constant(w.dims[d]).value_or(INT64_MAX); };
  const int64_t kernel_d = is_volume ? side(1) : 1, kernel_h = side(row), kernel_w = side(row + 1);
  const bool is_large = kernel_d > kMostSide || kernel_h > kMostSide || kernel_w > kMostSide;
  const bool has_sides = !is_large || (!is_volume && kernel_h < INT64_MAX && kernel_w < INT64_MAX);

  KernelLaunch launch =
      op.floating_launch("conv2d_last.cu", std::string(op.name()) + "_last", "", 1);
  launch.option_if(x_second, "-DX_SECOND");
  launch.option_if(is_wide, "-DX_F32");
  launch.option_if(is_volume, "-DVOLUME");
  launch.option_if(op.has_operand(2), "-DHAS_BIAS");
  ConvolutionSizes sizes;
  if (out_channels)
    sizes.channels = *out_channels / groups;
  if (in_group && has_sides)
    sizes.products = *in_group * kernel_d * kernel_h * kernel_w;
  sizes.parts = groups;
  // Places of windows: along each axis y's, or fewer where it has phases of them.
  std::vector<ir::ExprId> places;
  sizes.pixels = y.dims[0];
  for (size_t i = 0; i < axes; ++i) {
    const size_t at = is_second ? 2 + i : 1 + i;
    places.push_back(exprs.floordiv(
        exprs.add(y.dims[at], exprs.constant(cut[i] + cut[cut.size() == axes ? i : axes + i])),
        exprs.constant(phases[i])));
    sizes.pixels = exprs.mul(sizes.pixels, places[i]);
  }
  sizes.small_indices = launch.index_type(
      {op.count(x), op.count(w), op.count(y), exprs.mul(sizes.pixels, w.dims[0])});
  const int64_t stride_h = op.integers("strides")[0], dilation_h = op.integers("dilation")[0];
  // If channels of x are left out, the places of the others are multiples of this.
  const int64_t first_channel = is_volume ? -1 : op.integer("first_channel");
  const int64_t multiple =
      first_channel < 0 ? 0 : std::gcd(*exprs.as_constant(x.dims[last]), first_channel);
  launch.option_if(first_channel >= 0, "-DCHANNEL_RANGE");
  launch.option_if(is_second, "-DRESULT_SECOND");
  launch.option_if(spreads, "-DPHASES");
  const int64_t channels_each = !is_volume && !is_second && sizes.small_indices &&
                                        is_depthwise(groups, in_group, out_channels)
                                    ? depthwise_run(x.dtype, std::gcd(groups, multiple), kernel_h,
                                                    kernel_w, stride_h, dilation_h)
                                    : 0;
  const bool depthwise = channels_each != 0;
  int64_t high = kHigh;
  if (depthwise) {
    const std::optional<int64_t> all = exprs.as_constant(op.count(y));
    const int64_t each = kHigh * channels_each * kDepthwiseThreads; // of a block
    if (all && *all < each * op.table().choice().target.multiprocessors)
      high = 1;
    launch.option("-DWITH_DEPTHWISE");
    launch.option("-DRUN=" + std::to_string(channels_each));
    launch.option("-DHIGH=" + std::to_string(high));
    launch.option("-DKERNEL_H=" + std::to_string(kernel_h));
    launch.option("-DKERNEL_W=" + std::to_string(kernel_w));
    launch.option("-DSTRIDE_H=" + std::to_string(stride_h));
    launch.option("-DDILATION_H=" + std::to_string(dilation_h));
    launch.entry("conv2d_last_depthwise");
  }
  std::vector<ConvolutionForm> forms;
  const int64_t run = !in_group               ? 0
                      : !x_second             ? run_of(*in_group, w.dtype, multiple)
                      : *in_group == kHalfRun ? kHalfRun
                                              : 0;
  if (run > 0 && has_sides)
    forms = choose_last_forms(op, sizes, run, is_large);
  const bool is_split = !forms.empty() && forms.front().splits > 1;
  if (!forms.empty()) {
    launch.option("-DWITH_MMA");
    for (const ConvolutionForm &form : forms)
      launch.option(form.option);
    launch.option("-DRUN=" + std::to_string(run));
    launch.option_if(computes_in_tf32(w.dtype, op.table().choice()), "-DTF32");
    launch.option_if(is_split, "-DSPLIT");
    launch.option_if(is_large, "-DLARGE");
    launch.option_if(*in_group * bytes_of(w.dtype) % kDepthBytes == 0, "-DWHOLE_STEPS");
    launch.entry(forms.back().entry);
  }
  launch.input("x", op.operand(0));
  launch.input("w", op.operand(1));
  op.input_if_given(launch, "bias", 2);
  if (is_split)
    add_parts(op, launch, forms.front(), sizes, ir::DType::f32);
  launch.output("y", op.result());
  // Of padding on both sides what lies behind follows from the result's size.
  auto window = [&](std::string_view name, std::string_view attribute, size_t d) {
    launch.size(std::string(name), op.constant(op.integers(attribute)[d]));
  };
  ir::ExprId out_depth = op.constant(1);
  if (is_volume) {
    launch.size("depth", x.dims[1]);
    out_depth = launch.size("out_depth", places[0]);
    launch.size("kernel_d", w.dims[1]);
    window("stride_d", "strides", 0);
    window("pad_d", "padding", 0);
    window("dilation_d", "dilation", 0);
  }
  const ir::ExprId batch = launch.count("batch", x.dims[0]);
  launch.size("channels", first_channel < 0 && !x_second
                              ? x.dims[last]
                              : exprs.mul(w.dims[last], exprs.constant(groups)));
  if (x_second)
    launch.size("planes", x.dims[1]);
  if (first_channel >= 0) {
    launch.size("pitch", x.dims[last]);
    launch.size("first_channel", op.constant(first_channel));
  }
  launch.size("height", x.dims[x_second ? 2 : row]);
  launch.size("width", x.dims[x_second ? 3 : row + 1]);
  const ir::ExprId outputs = launch.size("out_channels", w.dims[0]);
  const ir::ExprId out_height = launch.size("out_height", places[axes - 2]);
  const ir::ExprId out_width = launch.size("out_width", places[axes - 1]);
  launch.size("kernel_h", w.dims[row]);
  launch.size("kernel_w", w.dims[row + 1]);
  window("stride_h", "strides", row - 1);
  window("stride_w", "strides", row);
  window("pad_h", "padding", row - 1);
  window("pad_w", "padding", row);
  window("dilation_h", "dilation", row - 1);
  window("dilation_w", "dilation", row);
  launch.size("groups", op.constant(groups));
  for (size_t i = 0; spreads && i < axes; ++i) {
    const std::string axis = std::array{"_d", "_h", "_w"}[i + 3 - axes];
    launch.size("phases" + axis, op.constant(phases[i]));
    launch.size("cut" + axis, op.constant(cut[i]));
    launch.size("y" + axis, y.dims[is_second ? 2 + i : 1 + i]);
  }
  if (is_split)
    launch.size("splits", op.constant(forms.front().splits));

  const ir::ExprId pixels =
      exprs.mul(exprs.mul(batch, out_depth), exprs.mul(out_height, out_width));
  add_form_variants(launch, forms, sizes, pixels);
  if (depthwise) {
    const ir::ExprId strips = exprs.ceildiv(out_height, exprs.constant(high));
    const ir::ExprId runs = exprs.floordiv(outputs, exprs.constant(channels_each));
    launch.variant("conv2d_last_depthwise", {},
                   exprs.ceildiv(exprs.mul(exprs.mul(batch, strips), exprs.mul(out_width, runs)),
                                 exprs.constant(kDepthwiseThreads)),
                   {kDepthwiseThreads, 1, 1});
  } else if (forms.empty()) {
    launch.loop_variant(spreads ? op.count(y) : exprs.mul(pixels, outputs));
  }
  return op.emit(launch);
}

} // namespace cugrt::codegen
