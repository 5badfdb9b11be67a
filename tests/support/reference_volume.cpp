// Reference arithmetic: convolutions over one to three dimensions, transposed ones, and products of
// bytes. A transposed convolution scatters here: each element of x gives to those of y.
#include "support/reference_call.h"

namespace cugrt::test {

namespace {

struct Window {
  Dims stride, dilation, before, after;
  int64_t groups;
};

Window window_of(const Call &call) {
  const size_t axes = call.operand(0).dims.size() - 2;
  auto list = [&](const char *name, int64_t otherwise) {
    Dims values = call.integers(name);
    return values.empty() ? Dims(axes, otherwise) : values;
  };
  Window window{
      list("strides", 1), list("dilation", 1), list("padding", 0), {}, call.integer("groups")};
  window.after = window.before;
  if (window.before.size() == 2 * axes) {
    window.after.assign(window.before.begin() + int64_t(axes), window.before.end());
    window.before.resize(axes);
  }
  return window;
}

// The weights of one kernel in their order: the channel of each and its place in the window.
std::vector<Dims> taps_of(const Array &w) {
  std::vector<Dims> taps;
  for (int64_t k = 0; k < product(w.dims, 1); ++k)
    taps.push_back(coordinates(k, Dims(w.dims.begin() + 1, w.dims.end())));
  return taps;
}

double zero_point(const Array *zero, int64_t i) {
  return !zero ? 0 : zero->values[zero->values.size() == 1 ? 0 : size_t(i)];
}

Array convolved(const Call &call, const Array *bias, const Array *x_zero, const Array *w_zero) {
  const Array &x = call.operand(0), &w = call.operand(1);
  const Window window = window_of(call);
  const size_t axes = x.dims.size() - 2;
  Dims dims = {x.dims[0], w.dims[0]};
  for (size_t i = 0; i < axes; ++i)
    dims.push_back((x.dims[2 + i] + window.before[i] + window.after[i] -
                    window.dilation[i] * (w.dims[2 + i] - 1) - 1) /
                       window.stride[i] +
                   1);
  Array y = Array::of(dims);
  const int64_t out_group = w.dims[0] / window.groups;
  const std::vector<Dims> taps = taps_of(w);
  Dims from(x.dims.size());
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    double sum = bias ? bias->values[size_t(at[1])] : 0;
    for (size_t k = 0; k < taps.size(); ++k) {
      const Dims &tap = taps[k];
      from[0] = at[0];
      from[1] = at[1] / out_group * w.dims[1] + tap[0];
      bool inside = true;
      for (size_t d = 0; d < axes; ++d) {
        from[2 + d] =
            at[2 + d] * window.stride[d] - window.before[d] + tap[1 + d] * window.dilation[d];
        inside = inside && from[2 + d] >= 0 && from[2 + d] < x.dims[2 + d];
      }
      if (inside)
        sum += (x.values[size_t(index_of(from, x.dims))] - zero_point(x_zero, 0)) *
               (w.values[size_t(at[1]) * taps.size() + k] - zero_point(w_zero, at[1]));
    }
    y.values[i] = sum;
  }
  return y;
}

} // namespace

// Images, or weights, in another order of their dimensions.
static Array turned(const Array &x, const Dims &from) {
  Dims dims;
  for (int64_t d : from)
    dims.push_back(x.dims[size_t(d)]);
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    Dims place(from.size());
    for (size_t d = 0; d < from.size(); ++d)
      place[size_t(from[d])] = at[d];
    y.values[i] = x.values[size_t(index_of(place, x.dims))];
  }
  return y;
}

Array spread(const Call &call, const Array &y) {
  const Dims phases = call.integers("phases"), cut = call.integers("cut");
  const size_t axes = phases.size();
  Dims dims = {y.dims[0], y.dims[1] / product(phases, 0)};
  for (size_t i = 0; i < axes; ++i)
    dims.push_back(y.dims[2 + i] * phases[i] - cut[i] - cut[cut.size() == axes ? i : axes + i]);
  Array out = Array::of(dims);
  for (size_t i = 0; i < out.values.size(); ++i) {
    Dims at = coordinates(int64_t(i), dims);
    int64_t phase = 0;
    for (size_t d = 0; d < axes; ++d) {
      at[2 + d] += cut[d];
      phase = phase * phases[d] + at[2 + d] % phases[d];
      at[2 + d] /= phases[d];
    }
    at[1] += phase * dims[1];
    out.values[i] = y.values[size_t(index_of(at, y.dims))];
  }
  return out;
}

std::vector<Array> reference_conv3d(const Call &call) {
  if (!call.flag("channels_last"))
    return {convolved(call, call.optional(2), nullptr, nullptr)};
  const Array x = turned(call.operand(0), {0, 4, 1, 2, 3}),
              w = turned(call.operand(1), {0, 4, 1, 2, 3});
  std::vector<const Array *> operands(call.operands.begin(), call.operands.end());
  operands[0] = &x, operands[1] = &w;
  Call planes = call;
  planes.operands = operands;
  const Array y = spread(call, convolved(planes, call.optional(2), nullptr, nullptr));
  return {call.flag("result_second") ? y : turned(y, {0, 2, 3, 4, 1})};
}

std::vector<Array> reference_conv_integer(const Call &call) {
  if (!call.flag("channels_last"))
    return {convolved(call, nullptr, call.optional(2), call.optional(3))};
  const Array x = turned(call.operand(0), {0, 3, 1, 2}), w = turned(call.operand(1), {0, 3, 1, 2});
  std::vector<const Array *> operands(call.operands.begin(), call.operands.end());
  operands[0] = &x, operands[1] = &w;
  Call planes = call;
  planes.operands = operands;
  return {turned(convolved(planes, nullptr, call.optional(2), call.optional(3)), {0, 2, 3, 1})};
}

std::vector<Array> reference_conv_transpose(const Call &call) {
  const Array &x = call.operand(0), &w = call.operand(1);
  const Window window = window_of(call);
  const size_t axes = x.dims.size() - 2;
  Dims added = call.integers("output_padding");
  added.resize(axes);
  Dims dims = {x.dims[0], w.dims[1] * window.groups};
  for (size_t i = 0; i < axes; ++i)
    dims.push_back((x.dims[2 + i] - 1) * window.stride[i] +
                   window.dilation[i] * (w.dims[2 + i] - 1) + 1 + added[i] - window.before[i] -
                   window.after[i]);
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] =
        call.optional(2) ? call.operand(2).values[size_t(coordinates(int64_t(i), dims)[1])] : 0;
  const int64_t in_group = x.dims[1] / window.groups;
  const std::vector<Dims> taps = taps_of(w);
  Dims to(dims.size());
  for (size_t i = 0; i < x.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), x.dims);
    for (size_t k = 0; k < taps.size(); ++k) {
      const Dims &tap = taps[k];
      to[0] = at[0];
      to[1] = at[1] / in_group * w.dims[1] + tap[0];
      bool inside = true;
      for (size_t d = 0; d < axes; ++d) {
        to[2 + d] =
            at[2 + d] * window.stride[d] - window.before[d] + tap[1 + d] * window.dilation[d];
        inside = inside && to[2 + d] >= 0 && to[2 + d] < dims[2 + d];
      }
      if (inside)
        y.values[size_t(index_of(to, dims))] +=
            x.values[i] * w.values[size_t(at[1]) * taps.size() + k];
    }
  }
  return {y};
}

std::vector<Array> reference_matmul_integer(const Call &call) {
  const Array &a = call.operand(0), &b = call.operand(1);
  const bool turned = call.flag("transpose_b");
  const int64_t rows = a.dims[a.dims.size() - 2], inner = a.dims.back();
  const int64_t columns = b.dims[b.dims.size() - (turned ? 2 : 1)];
  Dims dims = a.dims;
  dims.back() = columns;
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const int64_t row = int64_t(i) / columns, column = int64_t(i) % columns;
    const int64_t of_b = b.dims.size() > 2 ? row / rows * inner * columns : 0;
    for (int64_t k = 0; k < inner; ++k)
      y.values[i] +=
          (a.values[size_t(row * inner + k)] - zero_point(call.optional(2), row % rows)) *
          (b.values[size_t(of_b + (turned ? column * inner + k : k * columns + column))] -
           zero_point(call.optional(3), column));
  }
  return {y};
}

} // namespace cugrt::test
