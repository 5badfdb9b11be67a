// Reference arithmetic: resize and grid_sample, from ONNX's definitions. Which place of x an
// element of a resized tensor lies at is computed in float, as docs/ir.md says; all else in double.
#include "support/reference_call.h"

#include <cmath>
#include <functional>

namespace cugrt::test {

namespace {

// Weights by element: what makes one along an axis; those that lie nowhere are left out.
using Parts = std::vector<std::pair<int64_t, double>>;

double keys(double distance, double a) { // Keys' cubic
  const double d = std::fabs(distance);
  return d <= 1   ? (a + 2) * d * d * d - (a + 3) * d * d + 1
         : d <= 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a
                  : 0;
}

// The sum over all axes of x's elements at `at`, in which `axes` are replaced by their parts.
double combined(const Array &x, Dims at, const std::vector<std::pair<size_t, Parts>> &axes,
                size_t first = 0) {
  if (first == axes.size())
    return x.values[size_t(index_of(at, x.dims))];
  double sum = 0;
  for (const auto &[place, weight] : axes[first].second)
    if (weight != 0) {
      at[axes[first].first] = place;
      sum += weight * combined(x, at, axes, first + 1);
    }
  return sum;
}

int64_t within(double place, int64_t size) {
  return place < 0 ? 0 : place > double(size - 1) ? size - 1 : int64_t(place);
}

struct Axis {
  int64_t size, x_size;
  float scale, from, to;
};

float place_of(const std::string &rule, int64_t at, const Axis &a) {
  const float i = float(at), out = float(a.size), in = float(a.x_size);
  if (rule == "asymmetric")
    return i / a.scale;
  if (rule == "tf_half_pixel_for_nn")
    return (i + 0.5f) / a.scale;
  if (rule == "align_corners")
    return a.size == 1 ? 0 : i * (in - 1) / (out - 1);
  if (rule == "tf_crop_and_resize")
    return a.size == 1 ? 0.5f * (a.from + a.to) * (in - 1)
                       : a.from * (in - 1) + i * (a.to - a.from) * (in - 1) / (out - 1);
  if (rule == "pytorch_half_pixel" && a.size == 1)
    return 0;
  float begin = 0;
  if (rule == "half_pixel_symmetric")
    begin = in / 2 * (1 - out / (a.scale * in));
  return begin + (i + 0.5f) / a.scale - 0.5f;
}

Parts parts_of(const Call &call, float place, int64_t size) {
  const std::string mode = call.text("mode"), rule = call.text("nearest");
  const double lower = std::floor(double(place)), rest = double(place) - lower;
  if (mode == "nearest") {
    const double up = rule == "floor"                ? 0
                      : rule == "ceil"               ? double(rest > 0)
                      : rule == "round_prefer_floor" ? double(rest > 0.5)
                                                     : double(rest >= 0.5);
    return {{within(lower + up, size), 1}};
  }
  Parts parts;
  double sum = 0;
  for (int64_t away = mode == "linear" ? 0 : -1; away <= (mode == "linear" ? 1 : 2); ++away) {
    const double at = lower + double(away);
    double weight = mode == "linear" ? 1 - std::fabs(rest - double(away))
                                     : keys(rest - double(away), call.number("cubic_coeff"));
    if (call.flag("exclude_outside") && (at < 0 || at > double(size - 1)))
      weight = 0;
    parts.push_back({within(at, size), weight});
    sum += weight;
  }
  for (auto &[at, weight] : parts)
    weight /= call.flag("exclude_outside") ? sum : 1;
  return parts;
}

} // namespace

std::vector<Array> reference_interpolate(const Call &call) {
  const Array &x = call.operand(0), *scales = call.optional(2), *region = call.optional(3);
  Dims dims, axes = call.integers("axes");
  for (double size : call.operand(1).values)
    dims.push_back(int64_t(size));
  const auto rank = int64_t(dims.size());
  if (axes.empty())
    for (int64_t i = 0; i < rank; ++i)
      axes.push_back(i);
  // The scales go with the axes from the outermost on.
  for (int64_t &axis : axes)
    axis += axis < 0 ? rank : 0;
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    std::vector<std::pair<size_t, Parts>> made;
    bool outside = false, empty = false;
    for (size_t k = 0; k < axes.size(); ++k) {
      const auto axis = size_t(axes[k]);
      Axis a{dims[axis], x.dims[axis], float(dims[axis]) / float(x.dims[axis]), 0, 1};
      if (scales)
        a.scale = float(scales->values[k]);
      if (region) {
        a.from = float(region->values[k]);
        a.to = float(region->values[axes.size() + k]);
      }
      const float place = place_of(call.text("coordinates"), at[axis], a);
      outside = outside || place < 0 || place > float(a.x_size - 1);
      empty = empty || a.x_size == 0;
      made.push_back({axis, parts_of(call, place, a.x_size)});
    }
    y.values[i] = empty               ? 0
                  : region && outside ? call.number("extrapolation")
                                      : combined(x, at, made);
  }
  return {y};
}

std::vector<Array> reference_grid_sample(const Call &call) {
  const Array &x = call.operand(0), &grid = call.operand(1);
  const std::string mode = call.text("mode"), padding = call.text("padding");
  const bool corners = call.flag("align_corners");
  const size_t axes = x.dims.size() - 2;
  Dims dims = {x.dims[0], x.dims[1]};
  dims.insert(dims.end(), grid.dims.begin() + 1, grid.dims.end() - 1);
  // Back and forth between the ends until it lies between them.
  auto reflected = [&](double place, double lower, double upper) {
    if (upper <= lower)
      return 0.0;
    while (place < lower || place > upper)
      place = place < lower ? 2 * lower - place : 2 * upper - place;
    return place;
  };
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    Dims of = {at[0]};
    of.insert(of.end(), at.begin() + 2, at.end());
    of.push_back(0);
    std::vector<std::pair<size_t, Parts>> made;
    bool empty = false;
    for (size_t d = 0; d < axes; ++d) {
      const int64_t size = x.dims[2 + d];
      empty = empty || size == 0;
      of.back() = int64_t(axes - 1 - d); // the innermost dimension's coordinate comes first
      double given = grid.values[size_t(index_of(of, grid.dims))];
      // As PyTorch and ONNX Runtime have it; ONNX says nothing.
      if (std::isnan(given) || (std::isinf(given) && padding == "reflection"))
        given = -1;
      const double lower = corners ? 0 : -0.5, upper = double(size - 1) - lower;
      double place =
          corners ? (given + 1) / 2 * double(size - 1) : ((given + 1) * double(size) - 1) / 2;
      if (mode == "nearest")
        place = std::nearbyint(place);
      if (mode != "cubic" && (place < lower || place > upper)) { // of cubic each tap alone
        if (padding == "border")
          place = place < lower ? 0 : double(size - 1);
        if (padding == "reflection")
          place = reflected(place, lower, upper);
      }
      Parts parts;
      const double first = std::floor(place);
      for (int64_t away = mode == "cubic" ? -1 : 0; away <= (mode == "cubic" ? 2 : 1); ++away) {
        double tap = first + double(away);
        const double weight = mode == "nearest"  ? double(away == 0)
                              : mode == "linear" ? 1 - std::fabs(place - tap)
                                                 : keys(place - tap, -0.75);
        if (padding == "border")
          tap = double(within(tap, size));
        if (padding == "reflection")
          tap = double(within(reflected(tap, lower, upper), size));
        if (tap >= 0 && tap < double(size))
          parts.push_back({int64_t(tap), weight});
      }
      made.push_back({2 + d, parts});
    }
    Dims from = {at[0], at[1]};
    from.resize(2 + axes);
    y.values[i] = empty ? 0 : combined(x, from, made);
  }
  return {y};
}

} // namespace cugrt::test
