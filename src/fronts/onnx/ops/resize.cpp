// Resize and Upsample: by whole factors to the nearest one a reshape and a broadcast; else, for
// sizes that are known, a gather (nearest) or a product with the matrix of the weights, axis by
// axis. Source: ONNX's Resize, its coordinate and nearest modes.
#include "fronts/onnx/call.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace cugrt::onnx {

namespace {

struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1, begin = 0, end = 1; // of the region of interest
};

struct Mode {
  std::string kind, coordinates, nearest;
  double cubic = -0.75;
  bool exclude_outside = false, antialias = false;
};

double source_of(const Mode &mode, const Axis &a, int64_t x) {
  const double at = double(x), length = double(a.out);
  const double resized = a.scale * double(a.in); // not rounded
  if (mode.coordinates == "asymmetric")
    return at / a.scale;
  if (mode.coordinates == "align_corners")
    return length == 1 ? 0 : at * double(a.in - 1) / (length - 1);
  if (mode.coordinates == "pytorch_half_pixel")
    return length > 1 ? (at + 0.5) / a.scale - 0.5 : 0;
  if (mode.coordinates == "tf_half_pixel_for_nn")
    return (at + 0.5) / a.scale;
  if (mode.coordinates == "half_pixel_symmetric")
    return double(a.in) / 2 * (1 - length / resized) + (at + 0.5) / a.scale - 0.5;
  if (mode.coordinates == "tf_crop_and_resize")
    return length > 1 ? a.begin * double(a.in - 1) +
                            at * (a.end - a.begin) * double(a.in - 1) / (length - 1)
                      : 0.5 * (a.begin + a.end) * double(a.in - 1);
  return (at + 0.5) / a.scale - 0.5;
}

double cubic(double a, double x) {
  x = std::fabs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

double weight(const Mode &mode, double x) {
  return mode.kind == "linear" ? std::max(0.0, 1 - std::fabs(x)) : cubic(mode.cubic, x);
}

int64_t nearest(const Mode &mode, double x) {
  const double low = std::floor(x);
  if (mode.nearest == "floor")
    return int64_t(low);
  if (mode.nearest == "ceil")
    return int64_t(std::ceil(x));
  if (mode.nearest == "round_prefer_ceil")
    return int64_t(std::floor(x + 0.5));
  return int64_t(std::ceil(x - 0.5)); // round_prefer_floor
}

/// The weights of each result's sources: [in, out].
std::vector<double> matrix(const Mode &mode, const Axis &a) {
  std::vector<double> out(size_t(a.in * a.out), 0);
  const double stretch = mode.antialias && a.scale < 1 ? a.scale : 1;
  const double reach = (mode.kind == "linear" ? 1 : 2) / stretch;
  for (int64_t x = 0; x < a.out; ++x) {
    const double at = source_of(mode, a, x);
    std::vector<std::pair<int64_t, double>> taps;
    double sum = 0;
    for (int64_t i = int64_t(std::floor(at - reach)); i <= int64_t(std::ceil(at + reach)); ++i) {
      double v = weight(mode, (double(i) - at) * stretch);
      if ((mode.exclude_outside || stretch != 1) && (i < 0 || i >= a.in) && (mode.exclude_outside))
        v = 0;
      taps.emplace_back(i, v);
      sum += v;
    }
    const bool rescale = mode.exclude_outside || stretch != 1;
    for (auto [i, v] : taps)
      out[size_t(std::clamp<int64_t>(i, 0, a.in - 1) * a.out + x)] +=
          rescale && sum != 0 ? v / sum : v;
  }
  return out;
}

/// The nearest integers of that dtype, halves up.
V whole_numbers(Call &c, V x, DType dtype) {
  x = c.op(Op::floor, {c.binary(Op::add, x, c.like(x, 0.5))});
  const ir::DTypeInfo &info = ir::info(dtype);
  if (info.bytes_per_block > 2) // a float has not all of them
    return x;
  const double values = std::exp2(8 * info.bytes_per_block);
  const bool is_signed = info.kind == ir::DTypeKind::signed_integer;
  return c.op(Op::clip, {x},
              {attr("min", is_signed ? -values / 2 : 0),
               attr("max", is_signed ? values / 2 - 1 : values - 1)});
}

V resize_axis(Call &c, V x, size_t axis, const Axis &a, const Mode &mode) {
  if (mode.kind == "nearest") {
    Host ids{DType::i64, {a.out}, {}, {}};
    for (int64_t i = 0; i < a.out; ++i)
      ids.ints.push_back(
          c.constant(std::clamp<int64_t>(nearest(mode, source_of(mode, a, i)), 0, a.in - 1)));
    return c.gather(x, c.w.materialize(ids), axis);
  }
  Host weights{c.dtype(x), {a.in, a.out}, {}, matrix(mode, a)};
  Ints order;
  for (size_t i = 0; i < c.rank(x); ++i)
    order.push_back(int64_t(i));
  std::swap(order[axis], order.back());
  return c.transpose(c.matmul(c.transpose(x, order), c.w.materialize(weights)), order);
}

/// Repeats by a whole factor, for any dimensions.
V repeat(Call &c, V x, size_t axis, int64_t factor) {
  Dims one = c.dims(x), all = one, out = one;
  one.insert_at(size_t(axis) + 1, c.constant(1));
  all.insert_at(size_t(axis) + 1, c.constant(factor));
  out[axis] = c.w.exprs().mul(out[axis], c.constant(factor));
  return c.reshape(c.broadcast(c.reshape(x, one), all), out);
}

/// Whether each result of that mode and whole factor is element floor(i / factor).
bool repeats(const Mode &mode, int64_t factor) {
  const Axis a{8, 8 * factor, double(factor), 0, 1};
  for (int64_t i = 0; i < a.out; ++i)
    if (std::clamp<int64_t>(nearest(mode, source_of(mode, a, i)), 0, a.in - 1) != i / factor)
      return false;
  return mode.coordinates != "align_corners" && mode.coordinates != "tf_crop_and_resize";
}

/// Uses the device's op, for any sizes.
V resize_on_device(Call &c, V x, const Mode &mode, const Ints &axes,
                   const std::vector<double> &scales, const std::vector<E> &sizes) {
  constexpr int64_t kParts = 256;
  Dims out = c.dims(x);
  Host factors{DType::f32, {int64_t(axes.size())}, {}, scales};
  for (size_t i = 0; i < axes.size(); ++i) {
    E &d = out[size_t(axes[i])];
    if (scales.empty()) {
      d = sizes[i];
      continue;
    }
    const double s = scales[i], inverse = std::round(1 / s);
    if (c.known(d))
      d = c.constant(int64_t(std::floor(double(c.number_of(d, "a size")) * s)));
    else if (s == std::floor(s))
      d = c.w.exprs().mul(d, c.constant(int64_t(s)));
    else if (float(1 / inverse) == float(s))
      d = c.w.exprs().floordiv(d, c.constant(int64_t(inverse)));
    else if (const double n = s * kParts; // products of so few digits are exact as floats, too
             n == std::floor(n) && double(c.w.range(d).upper) * n <= 1 << 24)
      d = c.w.exprs().floordiv(c.w.exprs().mul(d, c.constant(int64_t(n))), c.constant(kParts));
    else
      c.unsupported("a scale that is no fraction of few binary digits of a symbol");
  }
  V region = mode.coordinates == "tf_crop_and_resize" ? c.cast(c.value(1), DType::f32) : V();
  std::vector<size_t> order(axes.size()); // the device's op takes axes as they follow
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return axes[a] < axes[b]; });
  Ints in_order, places;
  for (size_t from : order) {
    in_order.push_back(axes[from]);
    places.push_back(int64_t(from));
  }
  if (!std::is_sorted(axes.begin(), axes.end())) {
    for (size_t i = 0; i < factors.reals.size(); ++i)
      factors.reals[i] = scales[order[i]];
    for (size_t i = 0; region.valid() && i < order.size(); ++i) // starts, then ends
      places.push_back(places[i] + int64_t(order.size()));
    if (region.valid()) {
      Host ids{DType::i64, {int64_t(places.size())}, {}, {}};
      for (int64_t place : places)
        ids.ints.push_back(c.constant(place));
      region = c.gather(region, c.w.materialize(ids), 0);
    }
  }
  return c.op("resize",
              {x, c.w.shape(out), scales.empty() ? V() : c.w.materialize(factors), region},
              {attr("mode", mode.kind), attr("coordinates", mode.coordinates),
               attr("nearest", mode.nearest), attr("axes", in_order),
               attr("cubic_coeff", mode.cubic), attr("exclude_outside", mode.exclude_outside),
               attr("extrapolation", c.number("extrapolation_value", 0))});
}

/// Places of a grid, [n, h, w, 2] or [n, d, h, w, 3], of affine maps [n, 2, 3] or [n, 3, 4].
void affine_grid(Call &c) {
  V theta = c.value(0);
  const Ints size = c.constants(1);
  const size_t axes = size.size() < 2 ? 0 : size.size() - 2;
  if (axes < 2 || axes > 3 || c.rank(theta) != 3)
    return c.unsupported("a grid of other than two or three dimensions");
  constexpr int64_t kMost = 1 << 22;
  int64_t count = 1;
  for (size_t i = 0; i < axes; ++i)
    count *= std::max(size[2 + i], count) > kMost ? 0 : std::max<int64_t>(size[2 + i], 0);
  if (count < 1 || count > kMost)
    return c.unsupported("a grid of no place, or of so many");
  const bool corners = c.integer("align_corners", 0) != 0;
  Host places{c.dtype(theta), {int64_t(axes + 1), count}, {}, {}};
  places.reals.reserve(size_t(count) * (axes + 1));
  int64_t inner = 1;
  for (size_t i = axes; i-- > 0;) { // x first, which is the last axis
    const int64_t n = size[2 + i];
    for (int64_t at = 0; at < count; ++at) {
      const double x = double(at / inner % n);
      places.reals.push_back(corners && n > 1 ? 2 * x / double(n - 1) - 1
                             : corners        ? -1
                                              : (2 * x + 1) / double(n) - 1);
    }
    inner *= n;
  }
  places.reals.insert(places.reals.end(), size_t(count), 1.0);
  V grid = c.transpose(c.matmul(theta, c.w.materialize(places)), {0, 2, 1});
  Dims out = {c.dims(theta)[0]};
  for (size_t i = 0; i < axes; ++i)
    out.push_back(c.constant(size[2 + i]));
  out.push_back(c.constant(int64_t(axes)));
  c.result(c.reshape(grid, out));
}

void grid_sample(Call &c) {
  std::string mode = c.text("mode", "linear");
  mode = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
  V x = c.value(0), grid = c.value(1);
  Dims wanted = c.dims(grid);
  if (c.rank(x) > 2 && !wanted.empty()) // places of each image of the batch
    wanted.front() = c.dims(x)[0], wanted.back() = c.constant(int64_t(c.rank(x)) - 2);
  c.result(c.op("grid_sample", {x, c.w.match(grid, wanted)},
                {attr("mode", mode), attr("padding", c.text("padding_mode", "zeros")),
                 attr("align_corners", c.integer("align_corners", 0) != 0)}));
}

/// A node Resize or Upsample.
class Resizing {
public:
  explicit Resizing(Call &call) : c(call) {}

  void run() {
    read_mode();
    read_sizes();
    keep_aspect_ratio();
    dtype_ = c.dtype(x_);
    if (mode_.kind != "nearest" && !is_real(dtype_))
      x_ = c.cast(x_, DType::f32);
    if (!choose_device())
      by_axis();
    else if (old_ && mode_.kind == "nearest")
      by_old_nearest();
    else
      x_ = resize_on_device(c, x_, mode_, axes_, scales_, sizes_);
    c.result(c.cast(x_, dtype_));
  }

private:
  void read_mode() {
    x_ = c.value(0);
    mode_.kind = c.text("mode", "nearest");
    old_ = c.node.op == "Upsample" || c.w.opset() < 11;
    mode_.coordinates =
        old_ ? "asymmetric" : c.text("coordinate_transformation_mode", "half_pixel");
    mode_.nearest = old_ ? "floor" : c.text("nearest_mode", "round_prefer_floor");
    mode_.cubic = c.number("cubic_coeff_a", -0.75);
    mode_.exclude_outside = c.integer("exclude_outside", 0) != 0;
    mode_.antialias = c.integer("antialias", 0) != 0;
    if (mode_.kind == "bilinear")
      mode_.kind = "linear";
    c.ignore({"extrapolation_value"}); // of tf_crop_and_resize, which reads it, and the region
    if (!old_)
      c.ignore_input(1);
  }

  /// Axes, and for each its scale or its size.
  void read_sizes() {
    const size_t scales_at = old_ ? 1 : 2;
    if (const AttributeView *given = c.attribute("scales"))
      scales_.assign(given->numbers.begin(), given->numbers.end());
    else if (c.has(scales_at))
      scales_ = c.reals(scales_at);
    if (!old_ && scales_.empty() && c.has(3))
      sizes_ = c.exprs(3);
    for (size_t i = 0; i < c.rank(x_); ++i)
      axes_.push_back(int64_t(i));
    if (c.attribute("axes"))
      axes_ = c.axes(c.integers("axes", {}), c.rank(x_));
    if (std::max(scales_.size(), sizes_.size()) != axes_.size())
      c.w.fail(Code::parse_error, "scales or sizes are not one for each axis");
    constexpr double kMostScale = 1 << 20;
    for (double s : scales_)
      if (!(s >= 1 / kMostScale && s <= kMostScale))
        c.w.fail(Code::parse_error, "a scale that is no scale of an image");
  }

  void keep_aspect_ratio() {
    const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
    if (sizes_.empty() || policy == "stretch")
      return;
    for (size_t i = 0; i < axes_.size(); ++i) {
      const int64_t to = c.number_of(sizes_[i], "a size"), from = c.number_of(size_of(i), "a size");
      if (to < 0 || from < 1)
        c.unsupported("an aspect ratio of an image of no element");
      const double s = double(to) / double(from);
      kept_ = i == 0 ? s : policy == "not_larger" ? std::min(kept_, s) : std::max(kept_, s);
    }
  }

  /// Whether the device's op is used: for modes that only it has, and for weighted sums, of which
  /// each element has few. Then only axes that change are left.
  bool choose_device() {
    constexpr size_t kMostAxes = 4; // of the op
    const bool cropped = mode_.coordinates == "tf_crop_and_resize";
    bool on_device = cropped, all_known = true;
    std::vector<size_t> changed;
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (stays(i))
        continue;
      changed.push_back(i);
      if (size_of(i) == c.constant(0))
        c.unsupported("an axis of no element");
      const bool known = c.known(size_of(i)) && (sizes_.empty() || c.known(sizes_[i]));
      all_known &= known;
      on_device |= !mode_.antialias && kept_ == 0 &&
                   (mode_.kind != "nearest" || (!known && !repeats_by(scale_of(i))));
    }
    if (cropped)
      return true;
    on_device &= !all_known || changed.size() <= kMostAxes;
    const auto keep = [&](auto &list) {
      if (list.empty())
        return;
      std::decay_t<decltype(list)> out;
      for (size_t i : changed)
        out.push_back(list[i]);
      list = std::move(out);
    };
    if (on_device)
      keep(axes_), keep(scales_), keep(sizes_);
    return on_device;
  }

  /// Before opset 11, nearest is the place before if an axis grows and the one behind if it
  /// shrinks: so are the examples of ONNX 1.5, whose text says nothing.
  Mode mode_of(bool shrinks) const {
    Mode out = mode_;
    if (old_ && shrinks)
      out.nearest = "ceil";
    return out;
  }

  void by_old_nearest() {
    for (bool shrinks : {true, false}) {
      Ints those;
      std::vector<double> by;
      for (size_t i = 0; i < axes_.size(); ++i)
        if (scales_[i] != 1 && (scales_[i] < 1) == shrinks)
          those.push_back(axes_[i]), by.push_back(scales_[i]);
      if (!those.empty())
        x_ = resize_on_device(c, x_, mode_of(shrinks), those, by, {});
    }
  }

  void by_axis() {
    // Antialiased integers are integers after each axis, the last one first, as in ONNX Runtime
    // and PyTorch.
    const bool rounds = mode_.antialias && mode_.kind != "nearest" && !is_real(dtype_);
    std::vector<size_t> order(axes_.size());
    std::iota(order.begin(), order.end(), size_t(0));
    if (rounds)
      std::sort(order.begin(), order.end(),
                [&](size_t a, size_t b) { return axes_[a] > axes_[b]; });
    for (size_t i : order)
      if (!(stays(i) && kept_ == 0))
        one_axis(i, rounds);
  }

  void one_axis(size_t i, bool rounds) {
    const auto axis = size_t(axes_[i]);
    const E d = size_of(i);
    double factor = scale_of(i);
    if (!sizes_.empty() && kept_ == 0) // a whole multiple of the dimension?
      for (int64_t f = 2; f <= 16 && factor == 0; ++f)
        if (c.w.exprs().mul(d, c.constant(f)) == sizes_[i])
          factor = double(f);
    if (mode_.kind == "nearest" && factor >= 2 && repeats_by(factor)) {
      x_ = repeat(c, x_, axis, int64_t(factor));
      return;
    }
    Axis a;
    a.in = c.number_of(d, "an axis that is resized");
    if (a.in < 1)
      return c.unsupported("an axis of no element");
    if (kept_ != 0)
      a.out = int64_t(std::floor(kept_ * double(a.in) + 0.5)), a.scale = kept_;
    else if (scales_.empty())
      a.out = c.number_of(sizes_[i], "a size"), a.scale = double(a.out) / double(a.in);
    else
      a.out = int64_t(std::floor(double(a.in) * scales_[i])), a.scale = scales_[i];
    if (a.out < 0 || a.out > (1 << 22) / a.in)
      return c.unsupported("sizes of so many elements");
    x_ = resize_axis(c, x_, axis, a, mode_of(a.scale < 1));
    if (rounds)
      x_ = whole_numbers(c, x_, dtype_);
  }

  E size_of(size_t i) { return c.dims(x_)[size_t(axes_[i])]; }

  /// 0: it follows from sizes.
  double scale_of(size_t i) const { return scales_.empty() ? 0 : scales_[i]; }

  bool stays(size_t i) { return scales_.empty() ? sizes_[i] == size_of(i) : scales_[i] == 1; }

  /// Whether nearest by that scale repeats each element so often.
  bool repeats_by(double scale) const {
    return scale >= 1 && scale <= 64 && scale == std::floor(scale) &&
           repeats(mode_, int64_t(scale));
  }

  Call &c;
  V x_;
  DType dtype_ = DType::f32; // of x, which may be computed in another
  Mode mode_;
  bool old_ = false;           // before opset 11
  std::vector<double> scales_; // of axes, or none where sizes are given
  std::vector<E> sizes_;
  Ints axes_;
  double kept_ = 0; // the one scale of all axes, where the ratio is kept
};

void resize(Call &c) { Resizing(c).run(); }

} // namespace

void add_resizing(HandlerTable &table) {
  table["Resize"] = table["Upsample"] = resize;
  table["GridSample"] = grid_sample;
  table["AffineGrid"] = affine_grid;
}

} // namespace cugrt::onnx
