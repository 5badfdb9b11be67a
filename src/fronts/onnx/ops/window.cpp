// Convolutions and pools of one to three dimensions.
//
// One dimension of a pool is an image of one row; three are pooled as planes, then along the first
// axis.
#include "fronts/onnx/ops/integers.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

struct Window {
  Ints strides, dilation, before, after;
  bool ceil = false;
};

std::string auto_pad_of(Call &c) {
  std::string name = c.text("auto_pad", "NOTSET");
  if (name != "NOTSET" && name != "VALID" && name != "SAME_UPPER" && name != "SAME_LOWER")
    c.w.fail(Code::parse_error, "attribute 'auto_pad' is '" + name +
                                    "', none of NOTSET, VALID, SAME_UPPER and SAME_LOWER");
  return name;
}

Dims image_of(Call &c, V x) {
  const Dims d = c.dims(x);
  return d.size() < 3 ? Dims() : d.from(2);
}

/// The padding that auto_pad adds along an axis of `size` elements, for windows that reach over
/// `reach` and are `stride` apart.
E added(Call &c, E size, int64_t stride, int64_t reach) {
  ir::ExprPool &exprs = c.w.exprs();
  const E windows = exprs.ceildiv(size, c.constant(stride));
  const E end = exprs.add(exprs.mul(exprs.sub(windows, c.constant(1)), c.constant(stride)),
                          c.constant(reach));
  return exprs.max(exprs.sub(end, size), c.constant(0));
}

/// Strides, paddings and dilation, by auto_pad or pads. Where auto_pad depends on a dimension, x is
/// padded with `fill` here; without one, such a dimension must be a number.
Window window_of(Call &c, V &x, const Ints &kernel, V fill) {
  const Dims image = image_of(c, x);
  const size_t axes = image.size();
  Window out;
  out.strides = c.integers("strides", Ints(axes, 1));
  out.dilation = c.integers("dilations", Ints(axes, 1));
  Ints pads = c.integers("pads", Ints(2 * axes, 0));
  const std::string automatic = auto_pad_of(c);
  if (out.strides.size() != axes || out.dilation.size() != axes || pads.size() != 2 * axes ||
      kernel.size() != axes)
    c.w.fail(Code::parse_error, "strides, pads or dilations are not as many as the image's axes");
  if (!of_a_window(out.strides, 1) || !of_a_window(out.dilation, 1) || !of_a_window(pads, 0) ||
      !of_a_window(kernel, 0))
    c.w.fail(Code::parse_error, "strides, pads, dilations or a kernel that no window has");
  for (size_t i = 0; i < axes; ++i) {
    if (automatic == "VALID")
      pads[i] = pads[axes + i] = 0;
    else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t reach = (kernel[i] - 1) * out.dilation[i] + 1;
      int64_t total = std::max<int64_t>(0, reach - 1);
      if (out.strides[i] != 1 && fill.valid() && !c.known(image[i])) {
        const E all = added(c, image[i], out.strides[i], reach),
                half = c.w.exprs().floordiv(all, c.constant(2)), rest = c.w.exprs().sub(all, half);
        x = automatic == "SAME_UPPER" ? padded(c, x, 2 + i, half, rest, fill)
                                      : padded(c, x, 2 + i, rest, half, fill);
        total = 0;
      } else if (out.strides[i] != 1) {
        const int64_t size = c.number_of(image[i], "an image that auto_pad pads for a stride");
        total = std::max<int64_t>(
            0, ((size + out.strides[i] - 1) / out.strides[i] - 1) * out.strides[i] + reach - size);
      }
      const int64_t small = total / 2, large = total - small;
      pads[i] = automatic == "SAME_UPPER" ? small : large;
      pads[axes + i] = automatic == "SAME_UPPER" ? large : small;
    }
  }
  out.before.assign(pads.begin(), pads.begin() + ptrdiff_t(axes));
  out.after.assign(pads.begin() + ptrdiff_t(axes), pads.end());
  out.ceil = c.integer("ceil_mode", 0) != 0;
  if (const Dims all = image_of(c, x); !out.ceil) // then windows may reach beyond
    for (size_t i = 0; i < axes; ++i)
      c.w.require_at_least(all[i],
                           (kernel[i] - 1) * out.dilation[i] + 1 - pads[i] - pads[axes + i]);
  return out;
}

Ints joined(const Ints &a, const Ints &b) {
  Ints out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

std::vector<ir::Attribute> attributes_of(const Window &win, int64_t groups) {
  return {attr("strides", win.strides), attr("padding", joined(win.before, win.after)),
          attr("dilation", win.dilation), attr("groups", groups)};
}

/// A convolution of one to three dimensions with an optional bias.
V convolve(Call &c, V x, V w, V bias, const Window &win, int64_t groups) {
  const size_t axes = win.strides.size();
  return c.op(axes == 1   ? Op::conv1d
              : axes == 2 ? Op::conv2d
                          : Op::conv3d,
              {x, w, bias}, attributes_of(win, groups));
}

Ints kernel_of(Call &c, V w) {
  Ints kernel;
  for (E e : image_of(c, w))
    kernel.push_back(c.number_of(e, "the size of a kernel"));
  return kernel;
}

void convolution(Call &c) {
  V x = c.value(0), w = c.value(1), bias = c.value(2);
  if (c.rank(x) < 3 || c.rank(x) > 5)
    return c.unsupported("a convolution of other than one to three dimensions");
  const bool last = c.node.op == "NhwcConv"; // of com.microsoft: where channels stand
  if (last)
    x = c.transpose(x, {0, 3, 1, 2}), w = c.transpose(w, {0, 3, 1, 2});
  c.expect_dims("kernel_shape", w, 2);
  const Window win = window_of(c, x, kernel_of(c, w), c.like(x, 0));
  const int64_t groups = c.integer("group", 1);
  fold_batch_norm(c, w, bias, groups, false);
  V y = convolve(c, x, w, bias, win, groups);
  c.result(last ? c.transpose(y, {0, 2, 3, 1}) : y);
}

/// Convolves bytes less their zero points, which are a scalar and one for the weights or each
/// output: i32. Pads with zero points.
V convolve_bytes(Call &c, V x, V w, V x_zero, V w_zero, const Window &win) {
  return c.op(Op::conv_integer, {x, w, x_zero, w_zero}, attributes_of(win, c.integer("group", 1)));
}

void convolution_integer(Call &c) {
  V x = c.value(0), w = c.value(1);
  c.expect_dims("kernel_shape", w, 2);
  const Window win = window_of(c, x, kernel_of(c, w), c.has(2) ? c.value(2) : c.like(x, 0));
  c.result(convolve_bytes(c, x, w, c.value(2), c.value(3), win));
}

void qlinear_convolution(Call &c) {
  V x = c.value(0), w = c.value(3), out_zero = c.value(7);
  c.expect_dims("kernel_shape", w, 2);
  const Window win = window_of(c, x, kernel_of(c, w), c.value(2));
  Dims channel(c.rank(x), c.constant(1));
  auto of_channels = [&](V q) {
    if (!c.rank(q))
      return q;
    channel[1] = c.dims(q)[0];
    return c.reshape(q, channel);
  };
  V y = convolve_bytes(c, x, w, c.value(2), c.value(5), win);
  if (c.has(8))
    y = c.binary(Op::add, y, of_channels(c.value(8)));
  c.result(requantize(c, y, c.reshape(c.value(1), {}), of_channels(c.value(4)),
                      c.reshape(c.value(6), {}), c.reshape(out_zero, {}), c.dtype(out_zero)));
}

void transposed_convolution(Call &c) {
  V x = c.value(0), w = c.value(1), bias = c.value(2);
  if (c.rank(x) < 3 || c.rank(x) > 5)
    return c.unsupported("a convolution of other than one to three dimensions");
  const Dims image = image_of(c, x);
  const size_t axes = image.size();
  c.expect_dims("kernel_shape", w, 2);
  const Ints kernel = kernel_of(c, w);
  const Ints strides = c.integers("strides", Ints(axes, 1)),
             dilation = c.integers("dilations", Ints(axes, 1)),
             more = c.integers("output_padding", Ints(axes, 0)),
             shape = c.integers("output_shape", {});
  Ints pads = c.integers("pads", Ints(2 * axes, 0));
  const std::string automatic = auto_pad_of(c);
  const int64_t groups = c.integer("group", 1);
  if (kernel.size() != axes || strides.size() != axes || dilation.size() != axes ||
      more.size() != axes || pads.size() != 2 * axes || groups < 1)
    return c.w.fail(Code::parse_error,
                    "strides, pads or dilations are not as many as the image's axes");
  if (!of_a_window(strides, 1) || !of_a_window(dilation, 1) || !of_a_window(pads, 0) ||
      !of_a_window(kernel, 0) || !of_a_window(more, 0) || !of_a_window(shape, 1) ||
      (!shape.empty() && shape.size() < axes))
    return c.w.fail(Code::parse_error, "strides, pads, dilations or a kernel that no window has");
  for (size_t i = 0; i < axes; ++i) {
    const int64_t reach = (kernel[i] - 1) * dilation[i] + 1;
    std::optional<int64_t> total; // given where pads are not
    if (!shape.empty()) {
      const int64_t size = c.number_of(image[i], "an image whose result has a given size");
      total = strides[i] * (size - 1) + more[i] + reach - shape[shape.size() - axes + i];
    } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      total = reach + more[i] - strides[i];
    } else if (automatic == "VALID") {
      total = 0;
    }
    if (total) {
      const int64_t half = (*total - (*total < 0)) / 2; // rounded down, also below 0
      pads[i] = automatic == "SAME_UPPER" ? half : *total - half;
      pads[axes + i] = *total - pads[i];
    }
  }
  fold_batch_norm(c, w, bias, groups, true);
  Window win{strides, dilation, {}, {}, false};
  Ints added = more, before(2 + axes, 0), after(2 + axes, 0);
  bool wider = false; // than the kernels reach: elements beyond are the bias alone
  for (size_t i = 0; i < axes; ++i) {
    if (more[i] >= std::max(strides[i], dilation[i]))
      added[i] = 0, pads[axes + i] -= more[i];
    win.before.push_back(std::max<int64_t>(pads[i], 0));
    win.after.push_back(std::max<int64_t>(pads[axes + i], 0));
    before[2 + i] = std::max<int64_t>(-pads[i], 0);
    after[2 + i] = std::max<int64_t>(-pads[axes + i], 0);
    wider = wider || before[2 + i] || after[2 + i];
  }
  auto attributes = attributes_of(win, groups);
  attributes.push_back(attr("output_padding", added));
  V y = c.op(Op::conv_transpose, {x, w, wider ? V() : bias}, attributes);
  if (wider) {
    y = c.op(Op::pad, {y}, {attr("before", before), attr("after", after)});
    if (bias.valid()) {
      Dims column(axes + 1, c.constant(1));
      column[0] = c.dims(bias)[0];
      y = c.binary(Op::add, y, c.reshape(bias, column));
    }
  }
  c.result(y);
}

/// The blocks of an image, [n, c * block, blocks], summed where they overlap.
void col_to_image(Call &c) {
  V x = c.value(0);
  const Ints image = c.constants(1), block = c.constants(2);
  const size_t axes = image.size();
  if (c.rank(x) != 3 || axes < 1 || axes > 3 || block.size() != axes)
    return c.unsupported("blocks of other than one to three dimensions");
  Window win;
  win.strides = c.integers("strides", Ints(axes, 1));
  win.dilation = c.integers("dilations", Ints(axes, 1));
  const Ints pads = c.integers("pads", Ints(2 * axes, 0));
  if (win.strides.size() != axes || win.dilation.size() != axes || pads.size() != 2 * axes ||
      !of_a_window(win.strides, 1) || !of_a_window(win.dilation, 1) || !of_a_window(pads, 0) ||
      !of_a_window(block, 1) || !of_a_window(image, 0))
    return c.w.fail(Code::parse_error, "strides, pads, dilations or a block that no image has");
  int64_t taps = 1;
  for (int64_t size : block)
    taps *= std::min<int64_t>(size, 1 << 12);
  if (taps > 1 << 10)
    return c.unsupported("blocks of so many elements");
  // A transposed convolution whose kernels are 1 at their own element, channel by channel.
  const Dims d = c.dims(x);
  const E channels = c.w.exprs().floordiv(d[1], c.constant(taps));
  Dims columns = {c.w.exprs().mul(d[0], channels), c.constant(taps)}, out = {d[0], channels};
  Host kernel{c.dtype(x), {taps, 1}, {}, {}};
  kernel.dims.insert(kernel.dims.end(), block.begin(), block.end());
  for (int64_t i = 0; i < taps * taps; ++i)
    kernel.reals.push_back(i / taps == i % taps);
  Ints added;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t padded = image[i] + pads[i] + pads[axes + i],
                  room = padded - win.dilation[i] * (block[i] - 1) - 1;
    if (room < 0)
      return c.w.fail(Code::parse_error, "the image is smaller than a block");
    columns.push_back(c.constant(room / win.strides[i] + 1));
    added.push_back(room % win.strides[i]);
    out.push_back(c.constant(image[i]));
  }
  win.before.assign(pads.begin(), pads.begin() + ptrdiff_t(axes));
  win.after.assign(pads.begin() + ptrdiff_t(axes), pads.end());
  auto attributes = attributes_of(win, 1);
  attributes.push_back(attr("output_padding", added));
  c.result(c.reshape(
      c.op(Op::conv_transpose, {c.reshape(x, columns), c.w.materialize(kernel)}, attributes), out));
}

// --- Pools

/// A pool over the image's axes `rows` and `columns`; axes beyond the kernel's are not pooled.
V pool_plane(Call &c, Op op, V image, const Ints &kernel, const Window &win, size_t rows,
             size_t columns, bool count_pad) {
  auto both = [&](const Ints &list, int64_t otherwise) {
    return Ints{rows < list.size() ? list[rows] : otherwise,
                columns < list.size() ? list[columns] : otherwise};
  };
  std::vector<ir::Attribute> attributes = {
      attr("kernel", both(kernel, 1)), attr("strides", both(win.strides, 1)),
      attr("dilation", both(win.dilation, 1)),
      attr("padding", joined(both(win.before, 0), both(win.after, 0))),
      attr("ceil_mode", win.ceil)};
  if (op == Op::avg_pool2d)
    attributes.push_back(attr("count_include_pad", count_pad));
  return c.op(op, {image}, attributes);
}

V pool(Call &c, Op op, V x, const Ints &kernel, const Window &win, bool count_pad) {
  const Dims d = c.dims(x);
  const size_t none = SIZE_MAX;
  if (kernel.size() == 1) {
    V y = pool_plane(c, op, c.reshape(x, {d[0], d[1], c.constant(1), d[2]}), kernel, win, none, 0,
                     count_pad);
    return c.reshape(y, {d[0], d[1], c.dims(y)[3]});
  }
  if (kernel.size() == 2)
    return pool_plane(c, op, x, kernel, win, 0, 1, count_pad);
  const E planes = c.w.exprs().mul(d[1], d[2]);
  V slabs =
      pool_plane(c, op, c.reshape(x, {d[0], planes, d[3], d[4]}), kernel, win, 1, 2, count_pad);
  const Dims s = c.dims(slabs);
  V columns = pool_plane(c, op, c.reshape(slabs, {d[0], d[1], d[2], c.w.exprs().mul(s[2], s[3])}),
                         kernel, win, 0, none, count_pad);
  return c.reshape(columns, {d[0], d[1], c.dims(columns)[2], s[2], s[3]});
}

/// The kernel of a pool over x.
Ints pool_kernel(Call &c, V x) {
  const Ints kernel = c.integers("kernel_shape", {});
  if (kernel.empty() || kernel.size() > 3 || c.rank(x) != kernel.size() + 2)
    c.unsupported("a pool of other than one to three dimensions");
  return kernel;
}

Window pool_window(Call &c, V &x, const Ints &kernel, V fill) {
  Window win = window_of(c, x, kernel, fill);
  const std::string automatic = auto_pad_of(c);
  if (automatic != "NOTSET" && automatic != "VALID")
    win.ceil = false;
  return win;
}

void max_pool(Call &c) {
  V x = c.value(0);
  const Ints kernel = pool_kernel(c, x);
  c.ignore({"storage_order"}); // of the positions, whose maker reads it
  V fill;                      // beside the image; positions are those of an image without it
  if (!c.wants(1))
    fill = c.like(x, is_real(c.dtype(x)) ? -INFINITY : c.dtype(x) == DType::i8 ? -128 : 0);
  const Window win = pool_window(c, x, kernel, fill);
  V y = pool(c, Op::max_pool2d, x, kernel, win, false);
  c.result(y);
  if (c.wants(1))
    c.result(pool_positions(c, x, c.dims(y), {kernel, win.strides, win.dilation, win.before}), 1);
}

void average_pool(Call &c) { c.result(averages(c, c.value(0))); }

/// The root of sums of powers.
void lp_pool(Call &c) {
  V x = c.value(0);
  const Ints kernel = pool_kernel(c, x);
  const int64_t p = c.integer("p", 2);
  double size = 1;
  for (int64_t k : kernel)
    size *= double(k);
  const Window win = pool_window(c, x, kernel, c.like(x, 0));
  if (win.ceil)
    return c.unsupported("a pool of powers with ceil_mode");
  V absolute = c.op(Op::abs, {x});
  V power = p == 1   ? absolute
            : p == 2 ? c.binary(Op::mul, x, x)
                     : c.binary(Op::pow, absolute, c.like(x, double(p)));
  V mean = pool(c, Op::avg_pool2d, power, kernel, win, true);
  V sum = c.binary(Op::mul, mean, c.like(mean, size));
  c.result(p == 1   ? sum
           : p == 2 ? c.op(Op::sqrt, {sum})
                    : c.binary(Op::pow, sum, c.like(sum, 1.0 / double(p))));
}

void global_pool(Call &c) {
  V x = c.value(0);
  Ints axes;
  for (size_t i = 2; i < c.rank(x); ++i)
    axes.push_back(int64_t(i));
  if (c.node.op != "GlobalLpPool")
    return c.result(
        c.reduce(c.node.op == "GlobalMaxPool" ? Op::reduce_max : Op::reduce_mean, x, axes, true));
  if (c.integer("p", 2) != 2)
    return c.unsupported("powers other than 2");
  c.result(c.op(Op::sqrt, {c.reduce(Op::reduce_sum, c.binary(Op::mul, x, x), axes, true)}));
}

/// x / (bias + alpha/size * sum of squares of the neighbouring channels) ^ beta
void local_response(Call &c) {
  V x = c.value(0);
  const int64_t size = c.integer("size", 1);
  if (c.rank(x) < 3)
    return c.unsupported("an image without axes");
  if (size < 1)
    return c.w.fail(Code::parse_error, "a neighbourhood of no channel");
  const Dims d = c.dims(x);
  V squares =
      c.reshape(c.binary(Op::mul, x, x), {d[0], c.constant(1), d[1], c.product(image_of(c, x))});
  const int64_t before = (size - 1) / 2;
  Window win{{1, 1}, {1, 1}, {before, 0}, {size - 1 - before, 0}, false};
  V mean = pool_plane(c, Op::avg_pool2d, squares, {size, 1}, win, 0, 1, true);
  V scale = c.binary(Op::add, c.binary(Op::mul, mean, c.like(mean, c.number("alpha", 1e-4))),
                     c.like(mean, c.number("bias", 1)));
  c.result(c.binary(Op::div, x,
                    c.reshape(c.binary(Op::pow, scale, c.like(scale, c.number("beta", 0.75))), d)));
}

} // namespace

V averages(Call &c, V image) {
  const Ints kernel = pool_kernel(c, image);
  V x = image, fill = c.like(x, 0);
  Window win = pool_window(c, x, kernel, fill);
  const bool padded_here = x != image, count_pad = c.integer("count_include_pad", 0) != 0;
  V y = pool(c, Op::avg_pool2d, x, kernel, win, count_pad || padded_here);
  if (!padded_here || count_pad)
    return y;
  Dims one = c.dims(image); // by how much of each window is the image's
  one[0] = one[1] = c.constant(1);
  V inside = c.broadcast(c.like(x, 1), one);
  win = window_of(c, inside, kernel, fill);
  return c.binary(Op::div, y, pool(c, Op::avg_pool2d, inside, kernel, win, true));
}

void add_windows(HandlerTable &table) {
  table["Conv"] = convolution;
  table["ConvInteger"] = convolution_integer;
  table["QLinearConv"] = qlinear_convolution;
  table["ConvTranspose"] = transposed_convolution;
  table["Col2Im"] = col_to_image;
  table["MaxPool"] = max_pool;
  table["AveragePool"] = average_pool;
  table["LpPool"] = lp_pool;
  table["GlobalAveragePool"] = table["GlobalMaxPool"] = table["GlobalLpPool"] = global_pool;
  table["LRN"] = local_response;
}

} // namespace cugrt::onnx
