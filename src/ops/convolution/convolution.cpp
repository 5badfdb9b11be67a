// Convolution and pooling: kernels/convolution/conv2d.cu, pool2d.cu.
#include "ops/convolution/convolution_form.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <string>
#include <vector>

namespace cugrt::ir {

Result<ExprId> Inference::windowed(ExprId size, ExprId window, int64_t stride,
                                   const std::array<int64_t, 2> &padding, int64_t dilation) const {
  ExprPool &e = m.exprs;
  ExprId reach = e.add(e.mul(e.sub(window, constant(1)), constant(dilation)), constant(1));
  ExprId steps = e.sub(e.add(size, constant(padding[0] + padding[1])), reach);
  if (auto last = known(steps); last && *last < 0)
    return wrong("the window is larger than the padded input by " + std::to_string(-*last));
  return e.add(e.floordiv(steps, constant(stride)), constant(1));
}

Status Inference::spread(Dims &out, size_t first, size_t channels) const {
  const size_t axes = out.size() - 2;
  CUGRT_ASSIGN(const auto phases, window_list("phases", axes, 1));
  CUGRT_ASSIGN(const auto cut, paddings(axes, "cut"));
  CUGRT_ASSIGN(const auto strides, window_list("strides", axes, 1));
  int64_t count = 1, left = 0;
  for (size_t i = 0; i < axes; ++i)
    count *= phases[i], left += cut[i][0] + cut[i][1];
  if (count == 1 && left == 0)
    return {};
  const std::optional<int64_t> outputs = known(out[channels]);
  if (channels != first + axes || op_integer(op, attributes, "groups") != 1 ||
      std::ranges::any_of(strides, [](int64_t stride) { return stride != 1; }))
    return wrong("attributes 'phases' and 'cut' are for channels that are last, one group, and "
                 "strides of 1");
  if (!outputs || *outputs % count != 0)
    return wrong("the weight's output channels do not divide into " + std::to_string(count) +
                 " phases");
  out[channels] = constant(*outputs / count);
  for (size_t i = 0; i < axes; ++i) {
    out[first + i] = m.exprs.sub(m.exprs.mul(out[first + i], constant(phases[i])),
                                 constant(cut[i][0] + cut[i][1]));
    if (known(out[first + i]).value_or(0) < 0)
      return wrong("attribute 'cut' takes away more than there is");
  }
  return {};
}

Types Inference::convolution(size_t axes, DType result) const {
  CUGRT_TRY(check_rank(0, 2 + axes));
  CUGRT_TRY(check_rank(1, 2 + axes));
  CUGRT_ASSIGN(const auto strides, window_list("strides", axes, 1));
  CUGRT_ASSIGN(const auto padding, paddings(axes));
  CUGRT_ASSIGN(const auto dilation, window_list("dilation", axes, 1));
  int64_t groups = op_integer(op, attributes, "groups");
  Dims x = dims(0);
  const Dims w = dims(1);
  const bool last = (op == Op::conv2d || op == Op::conv3d || op == Op::conv_integer) &&
                    op_bool(op, attributes, "channels_last");
  const size_t channels = last ? 1 + axes : 1, first = last ? 1 : 2; // first: of the axes
  if (groups < 1 || groups > kMaxWindow)
    return wrong("attribute 'groups' is at least 1");
  if (op == Op::conv2d && op_bool(op, attributes, "x_second")) {
    if (!last || groups != 1 || op_integer(op, attributes, "first_channel") >= 0)
      return wrong("attribute 'x_second' is for channels that are last, and one group of all");
    std::rotate(x.begin() + 1, x.begin() + 2, x.end());
    if (known(x[channels]) && known(w[channels]) && *known(x[channels]) < *known(w[channels]))
      x[channels] = w[channels]; // zeros
  }
  if (auto out = known(w[0]); out && *out % groups != 0)
    return wrong("the weight's " + std::to_string(*out) + " output channels do not divide into " +
                 std::to_string(groups) + " groups");
  const ExprId read = m.exprs.mul(w[channels], constant(groups));
  const int64_t begin = op == Op::conv2d ? op_integer(op, attributes, "first_channel") : -1;
  if (begin < 0) {
    CUGRT_TRY(check_equal(x[channels], read, "the input's channels and the weight's times groups"));
  } else if (!last || !known(x[channels]) || !known(read) || begin > *known(x[channels]) ||
             *known(read) > *known(x[channels]) - begin) {
    return wrong("attribute 'first_channel' begins a range of the input's channels, which are last "
                 "and known");
  }
  if (op == Op::conv_integer) {
    CUGRT_TRY(check_zero_point(2, 0, constant(1)));
    CUGRT_TRY(check_zero_point(3, 1, w[0]));
  } else {
    CUGRT_TRY(check_vector(2, w[0], result));
    if (has(2) && type(2).dtype != result)
      return wrong("a bias has the weight's dtype");
  }
  Dims out = x;
  out[channels] = w[0];
  for (size_t i = 0; i < axes; ++i) {
    CUGRT_ASSIGN(out[first + i],
                 windowed(x[first + i], w[first + i], strides[i], padding[i], dilation[i]));
  }
  if (op == Op::conv2d || op == Op::conv3d)
    CUGRT_TRY(spread(out, first, channels));
  if ((op == Op::conv2d || op == Op::conv3d) && op_bool(op, attributes, "result_second")) {
    if (!last)
      return wrong("attribute 'result_second' is for channels that are last");
    std::rotate(out.begin() + 1, out.end() - 1, out.end());
  }
  return one(result, std::move(out));
}

static Types of_floats(const Inference &op, size_t axes) {
  CUGRT_TRY(op.check_float(0));
  const DType narrow = op.has(1) ? op.type(1).dtype : DType::f32;
  if (op.op == Op::conv2d && op_bool(op.op, op.attributes, "x_second") &&
      op.type(0).dtype == DType::f32 && is_half(narrow))
    return op.convolution(axes, narrow);
  CUGRT_TRY(op.check_same_dtype(1));
  return op.convolution(axes, op.type(0).dtype);
}

Types Inference::conv1d() const { return of_floats(*this, 1); }

Types Inference::conv2d() const { return of_floats(*this, 2); }

Types Inference::conv3d() const { return of_floats(*this, 3); }

Types Inference::pool2d() const {
  CUGRT_TRY(op == Op::avg_pool2d ? check_float(0) : check_number(0));
  CUGRT_TRY(check_rank(0, 4));
  CUGRT_ASSIGN(const auto kernel, window_list("kernel", 2, 1));
  CUGRT_ASSIGN(const auto strides, window_list("strides", 2, 1));
  CUGRT_ASSIGN(const auto dilation, window_list("dilation", 2, 1));
  CUGRT_ASSIGN(const auto padding, paddings(2));
  const bool round_up = op_bool(op, attributes, "ceil_mode");
  const Dims x = dims(0);
  const size_t first = op_bool(op, attributes, "channels_last") ? 1 : 2; // of the axes
  Dims out = x;
  for (size_t i = 0; i < 2; ++i) {
    const auto [before, after] = padding[i];
    const int64_t reach = (kernel[i] - 1) * dilation[i] + 1;
    if (std::max(before, after) >= reach)
      return wrong("padding of a pool is smaller than its kernel");
    const std::array<int64_t, 2> padded = {before, after + (round_up ? strides[i] - 1 : 0)};
    CUGRT_ASSIGN(ExprId size,
                 windowed(x[first + i], constant(kernel[i]), strides[i], padded, dilation[i]));
    // A partial window that begins behind the image does not count.
    if (round_up)
      size = m.exprs.min(
          size, m.exprs.ceildiv(m.exprs.add(x[first + i], constant(before)), constant(strides[i])));
    out[first + i] = size;
  }
  const int64_t begin = op_integer(op, attributes, "first_channel"),
                given = op_integer(op, attributes, "channels");
  if (begin != 0 || given != 0) {
    const int64_t all = known(x[3]).value_or(0), channels = given == 0 ? all - begin : given;
    if (first == 2 || begin < 0 || channels < 1 || channels > all - begin)
      return wrong("attributes 'first_channel' and 'channels' are a range of the input's channels, "
                   "which are last and known");
    out[3] = constant(channels);
  }
  return one(type(0).dtype, std::move(out));
}

} // namespace cugrt::ir

namespace cugrt::padding {

/// x is [N, C, ..], or with channels last [N, .., C]; dimension 0 or 1 of w gives the result's
/// channels, w_contracted is summed with C. A window of one element leaves each position to itself.
Status OpPadding::convolution(Fill harmless, size_t w_channels, size_t w_contracted) {
  const bool grouped = integer("groups") != 1;
  const bool last =
      (op_ == Op::conv2d || op_ == Op::conv3d || op_ == Op::conv_integer) && flag("channels_last");
  const bool x_second = op_ == Op::conv2d && flag("x_second"), x_last = last && !x_second;
  const bool y_last = last && !((op_ == Op::conv2d || op_ == Op::conv3d) && flag("result_second"));
  const size_t end = rank(0) - 1;
  const size_t channels = x_last ? end : 1, first = x_last ? 1 : 2; // first: that windows span
  auto is_spanned = [&](size_t d) { return d >= first && d < first + rank(0) - 2; };
  // Dimension d of one layout in the other one, where they differ.
  auto moved = [&](size_t d, bool from_last, bool to_last) {
    return d == 0 || from_last == to_last ? d
           : from_last                    ? (d == end ? 1 : d + 1)
                                          : (d == 1 ? end : d - 1);
  };
  auto to = [&](size_t d) { return moved(d, x_last, y_last); };
  CUGRT_TRY(carry(0, 0, 0));
  CUGRT_TRY(take(0, channels, grouped ? Fill::any : harmless));
  CUGRT_TRY(take(1, w_contracted, grouped ? Fill::any : harmless));
  if (is_padded(0, channels) &&
      operands_[0].facts.dims[channels].parts != operands_[1].facts.dims[w_contracted].parts)
    return refuse(0, channels, "would mix with others");
  const std::vector<int64_t> phases =
      op_ == Op::conv2d || op_ == Op::conv3d ? list("phases") : std::vector<int64_t>();
  const bool spreads = std::ranges::any_of(phases, [](int64_t n) { return n != 1; });
  CUGRT_TRY(grouped || spreads ? take(1, w_channels, Fill::any)
                               : carry(1, w_channels, to(channels)));
  std::vector<bool> alone(rank(0));
  for (size_t d = first; is_spanned(d); ++d) {
    alone[d] = op_ != Op::conv_transpose && op_ != Op::conv_integer && !spreads &&
               all_.exprs.as_constant(operands_[1].dims[x_second ? d - 1 : d]) == 1;
    if (!alone[d])
      CUGRT_TRY(take(0, d, harmless));
    CUGRT_TRY(follow(0, d, to(d)));
  }
  const bool has_bias = op_ != Op::conv_integer && has(2);
  if (has_bias)
    CUGRT_TRY(spreads ? take(2, 0, Fill::any) : carry(2, 0, to(channels)));
  else
    CUGRT_TRY(carry(3, 0, to(channels)));
  const bool numbers = operands_[0].is_number() && operands_[1].is_number();
  fills([&](size_t result, size_t) {
    const size_t d = moved(result, y_last, x_last);
    if (is_spanned(d) && !alone[d]) // windows there reach back over callers' elements
      return numbers && !has(2) ? Fill::finite : Fill::any;
    return has(2) || has(3) ? Fill::any : linear(result);
  });
  return {};
}

Status OpPadding::conv1d() { return convolution(Fill::zero, 0, 1); }

Status OpPadding::conv2d() { return convolution(Fill::zero, 0, flag("channels_last") ? 3 : 1); }

Status OpPadding::conv3d() { return convolution(Fill::zero, 0, flag("channels_last") ? 4 : 1); }

Status OpPadding::pool2d() {
  const std::vector<int64_t> kernel = list("kernel");
  const bool is_max = op_ == Op::max_pool2d;
  const Fill harmless = is_max                                            ? Fill::lowest
                        : flag("count_include_pad") && !flag("ceil_mode") ? Fill::zero
                                                                          : Fill::any;
  const size_t first = flag("channels_last") ? 1 : 2; // that windows span
  auto is_spanned = [&](size_t d) { return d == first || d == first + 1; };
  auto is_windowed = [&](size_t d) { return is_spanned(d) && kernel[d - first] != 1; };
  for (size_t d = 0; d < 4; ++d) {
    if (is_windowed(d))
      CUGRT_TRY(take(0, d, harmless));
    CUGRT_TRY(is_spanned(d) ? follow(0, d, d) : carry(0, d, d));
  }
  fills([&](size_t d, size_t) { return is_windowed(d) ? Fill::any : like_first(d); });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

constexpr std::string_view kSides[] = {"_h", "_w"};

// Passes a [height, width] attribute as two parameters, NAME_h and NAME_w. For padding on four
// sides these are the first two; the others mostly follow from the result's size.
static void sides(OpEmitter &op, KernelLaunch &launch, std::string_view name,
                  const std::vector<int64_t> &values) {
  for (size_t i = 0; i < 2; ++i)
    launch.size(std::string(name) + std::string(kSides[i]), op.constant(values[i]));
}

// Gives a type with one dimension less the form of images of one row.
static ir::Type as_image(OpEmitter &op, ir::Type type) {
  if (type.dims.size() == 3)
    type.dims.insert(type.dims.begin() + 2, op.constant(1));
  return type;
}

// Channels of y and pixels of an image that a product of matrices wants; half as many channels of
// x.
constexpr int64_t kFewestPointwise = 64;

// kernels/convolution/conv2d_depthwise.cuh: what its loops are unrolled by, of a thread's kHigh
// elements.
constexpr int64_t kDepthwiseHigh = 4, kMostDepthwiseRows = 16, kMostDepthwiseTaps = 25;

// The options of the depthwise form; none where it is not taken.
static std::vector<std::string> depthwise_options(OpEmitter &op, const ir::Type &x,
                                                  const ir::Type &w, const ir::Type &y) {
  ir::ExprPool &exprs = op.exprs();
  const std::optional<int64_t> height = exprs.as_constant(w.dims[2]),
                               width = exprs.as_constant(w.dims[3]);
  const ir::Interval out_height =
      exprs.range(y.dims[2], op.builder().function().symbol_domain(exprs));
  const int64_t groups = op.integer("groups");
  if (groups == 1 || exprs.as_constant(x.dims[1]) != groups || !height || !width ||
      out_height.upper < kDepthwiseHigh)
    return {};
  const int64_t stride = window(op, "strides", 2)[0], dilation = window(op, "dilation", 2)[0];
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
static bool is_pointwise(OpEmitter &op) {
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
  return !ir::is_half(x.dtype) ||
         (in % kRun == 0 && exprs.as_constant(pixels).value_or(1) % kRun == 0);
}

static Status emit_convolution(OpEmitter &op) {
  if (op.call().op == ir::Op::conv2d && op.flag("channels_last"))
    return emit_convolution_last(op);
  CUGRT_TRY(op.require_floating());
  if (is_pointwise(op))
    return emit_pointwise_convolution(op);
  const ir::Type x = as_image(op, op.operand_type(0)), w = as_image(op, op.operand_type(1));
  const ir::Type y = as_image(op, op.result_type());
  const int64_t groups = op.integer("groups");
  ir::ExprPool &exprs = op.exprs();
  const std::optional<int64_t> out_channels = exprs.as_constant(w.dims[0]);
  const bool four = out_channels && *out_channels / groups % 4 == 0;

  KernelLaunch launch = op.floating_launch("conv2d.cu", four ? "conv2d_x4" : "conv2d");
  launch.option_if(op.has_operand(2), "-DHAS_BIAS");
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
  op.input_if_given(launch, "bias", 2);
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
  window_sizes(op, launch, 2);
  launch.size("groups", op.constant(groups));

  const ir::ExprId pixels = exprs.mul(batch, exprs.mul(out_height, out_width));
  add_form_variants(launch, forms, sizes, pixels);
  if (!depthwise.empty())
    launch.loop_variant(
        exprs.mul(exprs.mul(batch, outputs),
                  exprs.mul(exprs.ceildiv(out_height, exprs.constant(kDepthwiseHigh)), out_width)));
  else if (!always)
    launch.loop_variant(exprs.mul(pixels, exprs.floordiv(outputs, exprs.constant(four ? 4 : 1))));
  return op.emit(launch);
}

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
  const ir::ExprId inner = launch.size("inner", last ? y.dims[3] : op.constant(1));
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
  if (y.dims[3] != x.dims[3] && last) {
    launch.option("-DCHANNEL_RANGE");
    launch.size("pitch", x.dims[3]);
    launch.size("first_channel", op.constant(op.integer("first_channel")));
  }
  launch.loop_variant(
      op.exprs().mul(op.exprs().mul(planes, inner), op.exprs().mul(out_height, out_width)));
  return op.emit(launch);
}

} // namespace cugrt::codegen
