// Reference arithmetic: reductions, searches and running sums along axes.
#include "support/op_test.h"
#include "support/reference_call.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace cugrt::test {

std::vector<Array> reference_reduce(const Call &call) {
  const Array &x = call.operand(0);
  const Dims axes = call.integers("axes");
  const auto rank = int64_t(x.dims.size());
  std::vector<bool> reduced(x.dims.size(), axes.empty());
  for (int64_t axis : axes)
    reduced[size_t(axis < 0 ? axis + rank : axis)] = true;
  Dims kept_dims = x.dims, dims;
  int64_t count = 1;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (reduced[i]) {
      count *= x.dims[i];
      kept_dims[i] = 1;
    }
    if (!reduced[i] || call.flag("keep_dims"))
      dims.push_back(kept_dims[i]);
  }
  Array y = Array::of(dims);
  const double start = call.op == Op::reduce_max    ? round_to(call.dtype, -INFINITY)
                       : call.op == Op::reduce_min  ? round_to(call.dtype, INFINITY)
                       : call.op == Op::reduce_prod ? 1
                                                    : 0;
  const Op combine = call.op == Op::reduce_max    ? Op::maximum
                     : call.op == Op::reduce_min  ? Op::minimum
                     : call.op == Op::reduce_prod ? Op::mul
                                                  : Op::add;
  y.values.assign(y.values.size(), start);
  for (size_t i = 0; i < x.values.size(); ++i) {
    Dims at = coordinates(int64_t(i), x.dims);
    for (size_t d = 0; d < at.size(); ++d)
      at[d] = reduced[d] ? 0 : at[d];
    double &result = y.values[size_t(index_of(at, kept_dims))];
    result = call.stored(binary(combine, result, x.values[i]));
  }
  if (call.op == Op::reduce_mean)
    for (double &value : y.values)
      value /= double(count);
  return {y};
}

std::vector<Array> reference_argmax(const Call &call) {
  const Array &x = call.operand(0);
  Dims dims = x.dims;
  if (call.flag("keep_dims"))
    dims[call.axis()] = 1;
  else
    dims.erase(dims.begin() + int64_t(call.axis()));
  Array y = Array::of(dims);
  size_t next = 0;
  each_line(x, call.axis(), [&](int64_t begin, int64_t stride, int64_t length) {
    auto at = [&](int64_t i) { return x.values[size_t(begin + i * stride)]; };
    // Whether a place is preferred to one before it.
    auto wins = [&](double p, double q) {
      if (std::isnan(q) || std::isnan(p))
        return std::isnan(p) && (!std::isnan(q) || call.flag("last"));
      if (p == q)
        return call.flag("last");
      return call.op == Op::argmax ? p > q : p < q;
    };
    int64_t best = 0;
    for (int64_t i = 1; i < length; ++i)
      if (wins(at(i), at(best)))
        best = i;
    y.values[next++] = double(best);
  });
  return {y};
}

std::vector<Array> reference_cumsum(const Call &call) {
  const Array &x = call.operand(0);
  Array y = Array::of(x.dims);
  each_line(x, call.axis(), [&](int64_t begin, int64_t stride, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      double sum = 0, product = 1;
      for (int64_t j = 0; j < length; ++j) {
        const bool earlier = call.flag("reverse") ? j > i : j < i;
        if (earlier || (j == i && !call.flag("exclusive"))) {
          sum += x.values[size_t(begin + j * stride)];
          product *= x.values[size_t(begin + j * stride)];
        }
      }
      y.values[size_t(begin + i * stride)] = call.stored(call.op == Op::cumsum ? sum : product);
    }
  });
  return {y};
}

std::vector<Array> reference_top_k(const Call &call) {
  const Array &x = call.operand(0);
  const int64_t k = call.integer("k");
  Dims dims = x.dims;
  dims[call.axis()] = k;
  Array values = Array::of(dims), positions = values;
  int64_t line = 0;
  each_line(x, call.axis(), [&](int64_t begin, int64_t stride, int64_t length) {
    std::vector<int64_t> order(static_cast<size_t>(length));
    std::iota(order.begin(), order.end(), int64_t(0));
    auto at = [&](int64_t i) { return x.values[size_t(begin + i * stride)]; };
    std::stable_sort(order.begin(), order.end(), [&](int64_t p, int64_t q) {
      const bool p_nan = std::isnan(at(p)), q_nan = std::isnan(at(q)); // larger than any number
      if (p_nan || q_nan)
        return p_nan != q_nan && p_nan == call.flag("largest");
      return call.flag("largest") ? at(p) > at(q) : at(p) < at(q);
    });
    const int64_t out = line / stride * k * stride + line % stride;
    for (int64_t i = 0; i < k; ++i) {
      values.values[size_t(out + i * stride)] = at(order[size_t(i)]);
      positions.values[size_t(out + i * stride)] = double(order[size_t(i)]);
    }
    ++line;
  });
  return {values, positions};
}

std::vector<Array> reference_dynamic_quantize(const Call &call) {
  const Array &x = call.operand(0);
  float low = 0, high = 0;
  for (double value : x.values) {
    low = std::fmin(low, float(value));
    high = std::fmax(high, float(value));
  }
  auto limited = [](float value) { return std::isnan(value) ? 0 : std::clamp(value, 0.f, 255.f); };
  const float range = (high - low) / 255, scale = range == 0 ? 1 : range;
  Array y = Array::of(x.dims), of_scale = Array::of({}), zero = Array::of({});
  of_scale.values = {scale};
  zero.values = {limited(std::nearbyint(-low / scale))};
  for (size_t i = 0; i < x.values.size(); ++i)
    y.values[i] = limited(std::nearbyint(float(x.values[i]) / scale) + float(zero.values[0]));
  return {y, of_scale, zero};
}

std::vector<OpTest> cases_dynamic_quantize() {
  std::vector<OpTest> cases;
  auto add = [&](Dims dims, bool symbolic, double scale) {
    OpTest test{.op = Op::dynamic_quantize, .operands = {{std::move(dims)}}};
    test.symbolic = symbolic, test.specials = scale == 3, test.scale = scale;
    cases.push_back(test);
  };
  // One block of few and of many threads, two launches, two with more than a run a thread.
  for (const Dims &dims : {Dims{}, Dims{0, 4}, Dims{7, 3}, Dims{4096}, Dims{2, 31, 67}, Dims{16384},
                           Dims{16385}, Dims{5, 4099}, Dims{257, 4096}})
    for (double scale : {2.0, 3.0, 1e-3})
      add(dims, false, scale);
  add({7, 3}, true, 2);
  add({5, 4099}, true, 2);
  for (const std::vector<double> &values :
       {std::vector<double>{0, 0, 0, 0, 0}, std::vector<double>{3, 4, 5, 3, 3},
        std::vector<double>{-3, -4, -5, -3, -3}, std::vector<double>{-127.5, 127.5, 0.5, 1.5, 2.5},
        std::vector<double>{NAN, 1, -2, NAN, 0}, std::vector<double>(5, NAN),
        std::vector<double>{INFINITY, 1, -2, 0, 0}, std::vector<double>{-INFINITY, 1, 2, 0, 0}}) {
    OpTest test{.op = Op::dynamic_quantize, .operands = {{{5}}}};
    test.operands[0].values = values;
    cases.push_back(test);
  }
  return cases;
}

} // namespace cugrt::test
