// Signals: windows, Fourier transforms as products with their matrix; images cut and padded about
// their centre; running products.
#include "fronts/onnx/call.h"

#include <algorithm>
#include <numbers>

namespace cugrt::onnx {

constexpr int64_t kMostSamples = 4096;

static void window(Call &c) {
  const Ints size = c.constants(0);
  const std::optional<DType> dtype =
      dtype_of(static_cast<int32_t>(c.integer("output_datatype", 1)));
  if (!dtype || size.at(0) < 0 || size[0] > kMostSamples)
    return c.unsupported("a window that is computed on the device, or larger than " +
                         std::to_string(kMostSamples));
  const double n = c.integer("periodic", 1) ? double(size[0]) : double(size[0] - 1);
  Host out{DType::f64, {size[0]}, {}, {}};
  for (int64_t i = 0; i < size[0]; ++i) {
    const double turn = 2 * std::numbers::pi * double(i) / n;
    out.reals.push_back(c.node.op == "HannWindow" ? 0.5 - 0.5 * std::cos(turn)
                        : c.node.op == "HammingWindow"
                            ? 25.0 / 46 - 21.0 / 46 * std::cos(turn)
                            : 0.42 - 0.5 * std::cos(turn) + 0.08 * std::cos(2 * turn));
  }
  if (is_real(*dtype)) {
    out.dtype = *dtype;
    return c.result(std::move(out));
  }
  c.result(c.cast(c.w.materialize(out), *dtype));
}

/// [n, m] of cosines and sines of 2 pi i j / length.
static V waves(Call &c, DType dtype, int64_t n, int64_t m, int64_t length, bool sines,
               double factor) {
  Host out{dtype, {n, m}, {}, {}};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) {
      const double turn = 2 * std::numbers::pi * double(i * j % length) / double(length);
      out.reals.push_back(factor * (sines ? std::sin(turn) : std::cos(turn)));
    }
  return c.w.materialize(out);
}

static void fourier(Call &c) {
  V x = c.value(0);
  if (c.rank(x) < 2)
    return;
  const size_t rank = c.rank(x);
  const bool inverse = c.integer("inverse", 0) != 0, onesided = c.integer("onesided", 0) != 0;
  int64_t axis_number = c.w.opset() < 20 ? c.integer("axis", 1) : -2;
  if (c.w.opset() >= 20 && c.has(2)) {
    const Ints given = c.constants(2);
    axis_number = given.empty() ? axis_number : given[0];
  }
  const size_t axis = c.axis(axis_number, rank);
  const int64_t have = c.number_of(c.dims(x)[axis], "the length of a signal"),
                parts = c.number_of(c.dims(x)[rank - 1], "a complex number");
  Ints given = c.has(1) ? c.constants(1) : Ints();
  const int64_t length = given.empty() ? (inverse && onesided ? 2 * (have - 1) : have) : given[0];
  if (axis + 1 == rank || length < 1 || length > kMostSamples || parts < 1 || parts > 2)
    return c.unsupported("a transform of so many samples, or along the complex axis");
  // The axis goes last; [.., length] products with [length, bins].
  const DType dtype = c.dtype(x);
  auto part = [&](int64_t i) {
    Dims d = c.dims(x);
    d.pop_back();
    V y = c.reshape(c.slice(x, rank - 1, c.constant(i), c.constant(1)), d);
    Ints order;
    for (size_t a = 0; a + 1 < rank; ++a)
      order.push_back(int64_t(a));
    std::swap(order[axis], order.back());
    return std::pair(c.transpose(y, order), order);
  };
  auto [real, order] = part(0);
  V imaginary = parts == 2 ? part(1).first : V();
  const int64_t used = std::min(have, inverse && onesided ? length / 2 + 1 : length);
  auto cut = [&](V v) {
    return v.valid() ? c.slice(v, rank - 2, c.constant(0), c.constant(used)) : v;
  };
  real = cut(real), imaginary = cut(imaginary);
  const int64_t bins = onesided && !inverse ? length / 2 + 1 : length;
  const double sign = inverse ? 1 : -1, factor = inverse ? 1.0 / double(length) : 1.0;
  V cosine, sine;
  if (inverse && onesided) {
    // Bins beyond the half are the conjugates of those below it: they count twice.
    Host co{dtype, {used, length}, {}, {}}, si = co;
    for (int64_t i = 0; i < used; ++i)
      for (int64_t j = 0; j < length; ++j) {
        const double turn = 2 * std::numbers::pi * double(i * j % length) / double(length);
        const double twice = i == 0 || 2 * i == length ? factor : 2 * factor;
        co.reals.push_back(twice * std::cos(turn));
        si.reals.push_back(twice * std::sin(turn));
      }
    cosine = c.w.materialize(co), sine = c.w.materialize(si);
  } else {
    cosine = waves(c, dtype, used, bins, length, false, factor);
    sine = waves(c, dtype, used, bins, length, true, factor * sign);
  }
  V out_real = c.matmul(real, cosine), out_imaginary;
  if (imaginary.valid())
    out_real = c.binary(Op::sub, out_real, c.matmul(imaginary, sine));
  const bool real_only = inverse && onesided;
  if (!real_only) {
    out_imaginary = c.matmul(real, sine);
    if (imaginary.valid())
      out_imaginary = c.binary(Op::add, out_imaginary, c.matmul(imaginary, cosine));
  }
  auto back = [&, &places = order](V v) {
    V y = c.transpose(v, places);
    Dims d = c.dims(y);
    d.push_back(c.constant(1));
    return c.reshape(y, d);
  };
  c.result(real_only ? back(out_real) : c.concat({back(out_real), back(out_imaginary)}, rank - 1));
}

/// Frames of a real signal, each times the window, transformed: [batch, frames, bins, 2].
static void short_time_fourier(Call &c) {
  V x = c.value(0), window = c.value(2);
  const Ints step = c.constants(1);
  if (c.rank(x) == 3 && c.known(c.dims(x)[2]) == 1)
    x = c.reshape(x, {c.dims(x)[0], c.dims(x)[1]});
  if (c.rank(x) != 2)
    return c.unsupported("a transform of frames of a complex signal");
  const int64_t have = c.number_of(c.dims(x)[1], "the length of a signal");
  int64_t length = have;
  if (window.valid())
    length = c.number_of(c.dims(window)[0], "the length of a window");
  if (c.has(3)) {
    const Ints given = c.constants(3);
    length = given.empty() ? length : given[0];
  }
  if (step.at(0) < 1 || length < 1 || length > kMostSamples || length > have)
    return c.unsupported("frames of so many samples");
  const int64_t frames = (have - length) / step[0] + 1;
  if (frames * length > 1 << 20)
    return c.unsupported("so many frames");
  Host ids{DType::i64, {frames, length}, {}, {}};
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t i = 0; i < length; ++i)
      ids.ints.push_back(c.constant(f * step[0] + i));
  V framed = c.gather(x, c.w.materialize(ids), 1);
  if (window.valid())
    framed = c.binary(Op::mul, framed, window);
  const DType dtype = c.dtype(x);
  const int64_t bins = c.integer("onesided", 1) ? length / 2 + 1 : length;
  auto part = [&](bool sines) {
    V y = c.matmul(framed, waves(c, dtype, length, bins, length, sines, sines ? -1 : 1));
    Dims d = c.dims(y);
    d.push_back(c.constant(1));
    return c.reshape(y, d);
  };
  c.result(c.concat({part(false), part(true)}, 3));
}

/// [bins, mel bins]: triangles over the bins of a spectrum, their corners even on the mel scale.
static void mel_weights(Call &c) {
  const double mels = c.real(0, 0), length = c.real(1, 0), rate = c.real(2, 0), low = c.real(3, 0),
               high = c.real(4, 0);
  const std::optional<DType> dtype =
      dtype_of(static_cast<int32_t>(c.integer("output_datatype", 1)));
  if (!dtype || !is_real(*dtype) || !(mels >= 1 && mels <= kMostSamples) ||
      !(length >= 1 && length <= kMostSamples) || !(rate > 0) || !(low >= 0) || !(high >= low) ||
      !(high < rate))
    return c.unsupported("weights of mel bins of such numbers");
  const auto columns = int64_t(mels), rows = int64_t(length) / 2 + 1;
  auto mel_of = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double first = mel_of(low), step = (mel_of(high) - first) / double(columns + 2);
  Ints corners; // their bins
  for (int64_t i = 0; i < columns + 2; ++i) {
    const double hertz = 700 * (std::pow(10.0, (first + double(i) * step) / 2595) - 1);
    corners.push_back(int64_t(std::floor((length + 1) * hertz / rate)));
  }
  Host out{*dtype, {rows, columns}, {}, {}};
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t *corner = &corners[size_t(i)];
      const int64_t left = corner[0], centre = corner[1], right = corner[2];
      const double rise =
          left == centre ? double(row == centre) : double(row - left) / double(centre - left);
      out.reals.push_back(row < left || row > right ? 0
                          : row <= centre           ? rise
                          : row < right             ? double(right - row) / double(right - centre)
                                                    : 0);
    }
  c.result(std::move(out));
}

static void center_crop_pad(Call &c) {
  V x = c.value(0);
  const Ints shape = c.constants(1);
  Ints axes = c.integers("axes", {});
  if (axes.empty())
    for (size_t i = 0; i < c.rank(x); ++i)
      axes.push_back(int64_t(i));
  axes = c.axes(axes, c.rank(x));
  if (axes.size() != shape.size())
    return c.w.fail(Code::parse_error, "the shape has not one size for each axis");
  Ints before(c.rank(x), 0), after(c.rank(x), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = size_t(axes[i]);
    const int64_t have = c.number_of(c.dims(x)[axis], "an axis that is cut"), want = shape[i];
    if (want < have)
      x = c.slice(x, axis, c.constant((have - want) / 2), c.constant(want));
    before[axis] = std::max<int64_t>(0, want - have) / 2;
    after[axis] = std::max<int64_t>(0, want - have) - before[axis];
  }
  c.result(c.op(Op::pad, {x}, {attr("before", before), attr("after", after)}));
}

void add_signals(HandlerTable &table) {
  table["HannWindow"] = table["HammingWindow"] = table["BlackmanWindow"] = window;
  table["DFT"] = fourier;
  table["STFT"] = short_time_fourier;
  table["MelWeightMatrix"] = mel_weights;
  table["CenterCropPad"] = center_crop_pad;
}

} // namespace cugrt::onnx
