// Ops that read or write at places which data say: RoiAlign, DeformConv, MaxUnpool, and the
// positions of MaxPool.
#include "fronts/onnx/ops/integers.h"

namespace cugrt::onnx {

// More samples along a side of a bin than any detector takes; each is a turn of the kernel's loop.
constexpr int64_t kMaxSamples = 1 << 12;

static std::string list_text(const Ints &list) {
  std::string text;
  for (int64_t number : list)
    text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

static void roi_align(Call &c) {
  V x = c.value(0), regions = c.value(1), images = c.value(2);
  c.required(1), c.required(2);
  if (c.rank(x) != 4 || c.rank(regions) != 2 || c.rank(images) != 1)
    return c.w.fail(Code::parse_error,
                    "the image has not four dimensions, or a region not its row");
  const Dims d = c.dims(x), r = c.dims(regions);
  const int64_t rows = c.integer("output_height", 1), columns = c.integer("output_width", 1),
                samples = c.integer("sampling_ratio", 0);
  const std::string mode = c.text("mode", "avg"),
                    places = c.text("coordinate_transformation_mode",
                                    c.w.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (rows < 1 || columns < 1 || samples < 0 || (mode != "avg" && mode != "max"))
    return c.w.fail(Code::parse_error, "a number of rows, columns or samples, or a mode");
  if (samples > kMaxSamples)
    return c.unsupported("sampling_ratio " + std::to_string(samples) + ", above " +
                         std::to_string(kMaxSamples));
  regions = c.w.match(regions, {r[0], c.constant(4)});
  images = c.w.match(c.cast(images, DType::i64), {r[0]});
  const DType dtype = c.dtype(x);
  KernelCall call;
  call.source = "roi_align.cu", call.entry = "roi_align";
  call.options = {"-DSCALE=" + float_text(c.number("spatial_scale", 1)),
                  "-DSAMPLES=" + std::to_string(samples)};
  if (places == "half_pixel")
    call.options.push_back("-DHALF_PIXEL");
  if (mode == "max")
    call.options.push_back("-DLARGEST");
  const Dims y = {r[0], d[1], c.constant(rows), c.constant(columns)};
  call.inputs = {c.cast(x, DType::f32), c.cast(regions, DType::f32), images};
  call.outputs = {c.w.tensor_type(DType::f32, y)};
  call.sizes = {d[0], d[1], d[2], d[3], y[2], y[3], c.product(y)};
  call.over_elements();
  c.result(c.cast(c.w.launch(call)[0], dtype));
}

static void deformable_convolution(Call &c) {
  V x = c.value(0), w = c.value(1), offsets = c.value(2), mask = c.value(4);
  c.required(1), c.required(2);
  if (c.rank(x) != 4 || c.rank(w) != 4 || c.rank(offsets) != 4 || (c.has(4) && c.rank(mask) != 4))
    return c.unsupported("a deformable convolution of other than two dimensions");
  const Dims d = c.dims(x), k = c.dims(w);
  c.expect_dims("kernel_shape", w, 2);
  const Ints kernel = {c.number_of(k[2], "a kernel's size"), c.number_of(k[3], "a kernel's size")},
             strides = c.integers("strides", {1, 1}), dilation = c.integers("dilations", {1, 1}),
             pads = c.integers("pads", {0, 0, 0, 0});
  const int64_t groups = c.integer("group", 1), of_offsets = c.integer("offset_group", 1);
  const int64_t channels = c.number_of(d[1], "the number of channels");
  if (strides.size() != 2 || dilation.size() != 2 || pads.size() != 4 || groups < 1 ||
      of_offsets < 1 || channels % of_offsets || channels % groups || strides[0] < 1 ||
      strides[1] < 1 || kernel[0] < 1 || kernel[1] < 1 || kernel[0] > 1 << 12 ||
      kernel[1] > 1 << 12)
    return c.w.fail(Code::parse_error, "strides, pads, dilations or groups that no window has");
  const int64_t taps = kernel[0] * kernel[1];
  const Dims moved = c.dims(offsets);
  Dims wanted = {d[0], c.constant(of_offsets * taps * 2), moved[2], moved[3]};
  offsets = c.w.match(offsets, wanted);
  const DType dtype = c.dtype(x);
  KernelCall call;
  call.source = "deform_columns.cu", call.entry = "deform_columns";
  call.options = {"-DKERNEL=" + list_text(kernel), "-DSTRIDES=" + list_text(strides),
                  "-DDILATION=" + list_text(dilation), "-DBEFORE=" + list_text({pads[0], pads[1]}),
                  "-DGROUPS=" + std::to_string(of_offsets)};
  call.inputs = {c.cast(x, DType::f32), c.cast(offsets, DType::f32)};
  if (c.has(4)) {
    wanted[1] = c.constant(of_offsets * taps);
    call.options.push_back("-DMASKED");
    call.inputs.push_back(c.cast(c.w.match(mask, wanted), DType::f32));
  }
  const E plane = c.w.exprs().mul(moved[2], moved[3]);
  const Dims y = {d[0], c.constant(channels * taps), plane};
  call.outputs = {c.w.tensor_type(DType::f32, y)};
  call.sizes = {d[1], d[2], d[3], moved[2], moved[3], c.product(y)};
  call.over_elements();
  V columns = c.cast(c.w.launch(call)[0], dtype);
  const E g = c.constant(groups), inner = c.constant(channels / groups * taps);
  V product = c.matmul(c.reshape(w, {g, c.w.exprs().floordiv(k[0], g), inner}),
                       c.reshape(columns, {d[0], g, inner, plane}));
  product = c.reshape(product, {d[0], k[0], moved[2], moved[3]});
  if (c.has(3))
    product =
        c.binary(Op::add, product, c.reshape(c.value(3), {k[0], c.constant(1), c.constant(1)}));
  c.result(product);
}

static void max_unpool(Call &c) {
  V x = c.value(0), positions = c.value(1);
  c.required(1);
  const Ints kernel = c.integers("kernel_shape", {});
  const size_t axes = kernel.size();
  const Ints strides = c.integers("strides", Ints(axes, 1)),
             pads = c.integers("pads", Ints(2 * axes, 0));
  const Dims d = c.dims(x);
  if (d.size() != axes + 2 || strides.size() != axes || pads.size() != 2 * axes)
    return c.w.fail(Code::parse_error,
                    "strides, pads or a kernel are not as many as the image's axes");
  if (!of_a_window(kernel, 1) || !of_a_window(strides, 1) || !of_a_window(pads, 0))
    return c.w.fail(Code::parse_error, "strides, pads or a kernel that no window has");
  Dims y = {d[0], d[1]};
  for (size_t i = 0; i < axes; ++i)
    y.push_back(c.w.exprs().add(
        c.w.exprs().mul(c.w.exprs().sub(d[2 + i], c.constant(1)), c.constant(strides[i])),
        c.constant(kernel[i] - pads[i] - pads[axes + i])));
  if (c.has(2) && c.exprs(2) != static_cast<const std::vector<E> &>(y))
    return c.unsupported("a size of the result that does not follow from the kernel");
  const E flat = c.product(d), all = c.product(y);
  V zeros = c.broadcast(c.like(x, 0), {all});
  V ids = c.reshape(c.w.match(c.cast(positions, DType::i64), d), {flat});
  c.result(c.reshape(
      c.op(Op::scatter_elements, {zeros, ids, c.reshape(x, {flat})}, {attr("axis", int64_t(0))}),
      y));
}

V pool_positions(Call &c, V x, const Dims &y, const PoolWindow &window) {
  const Dims d = c.dims(x);
  const size_t axes = d.size() - 2;
  auto three = [&](const Ints &list, int64_t otherwise) {
    Ints out(3 - axes, otherwise);
    out.insert(out.end(), list.begin(), list.begin() + ptrdiff_t(axes));
    return list_text(out);
  };
  const bool wide = c.dtype(x) == DType::f64;
  KernelCall call;
  call.source = "pool_positions.cu", call.entry = "pool_positions";
  call.options = {"-DKERNEL=" + three(window.kernel, 1), "-DSTRIDES=" + three(window.strides, 1),
                  "-DDILATION=" + three(window.dilation, 1), "-DBEFORE=" + three(window.before, 0)};
  if (wide)
    call.options.push_back("-DWIDE");
  if (c.integer("storage_order", 0))
    call.options.push_back("-DCOLUMNS_FIRST");
  call.inputs = {c.cast(x, wide ? DType::f64 : DType::f32)};
  call.outputs = {c.w.tensor_type(DType::i64, y)};
  for (const Dims &dims : {d, y})
    for (size_t i = 0; i < 3; ++i)
      call.sizes.push_back(i < 3 - axes ? c.constant(1) : dims[2 + i - (3 - axes)]);
  call.sizes.push_back(c.product(y));
  call.over_elements();
  return c.w.launch(call)[0];
}

void add_places(HandlerTable &table) {
  table["RoiAlign"] = roi_align;
  table["DeformConv"] = deformable_convolution;
  table["MaxUnpool"] = max_unpool;
}

} // namespace cugrt::onnx
