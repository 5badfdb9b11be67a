// Reference arithmetic: matrix products, convolutions, pools, softmax and norms.
#include "support/launch_runner.h" // decode
#include "support/reference_call.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace cugrt::test {

std::vector<Array> reference_matmul(const Call &call) {
  const Array &a = call.operand(0);
  Array b = call.operand(1);
  if (call.flag("transpose_b")) {
    const Array given = b;
    std::swap(b.dims[b.dims.size() - 2], b.dims.back());
    for (size_t i = 0; i < b.values.size(); ++i) {
      Dims at = coordinates(int64_t(i), b.dims);
      std::swap(at[at.size() - 2], at.back());
      b.values[i] = given.values[size_t(index_of(at, given.dims))];
    }
  }
  Dims a_batch(a.dims.begin(), a.dims.end() - 2), b_batch(b.dims.begin(), b.dims.end() - 2);
  const int64_t m = a.dims[a.dims.size() - 2], k = a.dims.back(), n = b.dims.back();
  Dims dims = broadcast_dims(a_batch, b_batch);
  dims.push_back(m);
  dims.push_back(n);
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    Dims at = coordinates(int64_t(i), y.dims);
    const int64_t row = at[at.size() - 2], column = at.back();
    double sum = call.optional(2) ? call.operand(2).values[size_t(column)] : 0;
    for (int64_t j = 0; j < k; ++j) {
      at[at.size() - 2] = row;
      at.back() = j;
      Dims other = at;
      other[other.size() - 2] = j;
      other.back() = column;
      // A dimension of size 1 broadcasts to the same element, also among the last two.
      sum += broadcast_at(a, at) * broadcast_at(b, other);
    }
    y.values[i] = sum;
  }
  return {y};
}

// Element `at` of rows of blocks, given as bytes.
static double block_element(ir::DType format, const std::vector<double> &bytes, int64_t at) {
  const size_t head = format == ir::DType::q4_1 ? 4 : 2;
  const size_t size = ir::info(format).bytes_per_block, begin = size_t(at / 32) * size;
  auto half = [&](size_t i) {
    const std::string raw = {char(uint8_t(bytes[begin + i])), char(uint8_t(bytes[begin + i + 1]))};
    return decode(ir::DType::f16, raw)[0];
  };
  const auto e = size_t(at % 32);
  if (format == ir::DType::q8_0)
    return double(int8_t(uint8_t(bytes[begin + head + e]))) * half(0);
  const int byte = int(bytes[begin + head + e % 16]), nibble = e < 16 ? byte & 15 : byte >> 4;
  return format == ir::DType::q4_1 ? nibble * half(0) + half(2) : (nibble - 8) * half(0);
}

std::vector<Array> reference_matmul_blocks(const Call &call) {
  const Array &x = call.operand(0), &w = call.operand(1);
  const int64_t n = w.dims[0], k = w.dims[1];
  const auto format = n * k == 0 || w.values.size() == size_t(n * k / 32 * 18) ? ir::DType::q4_0
                      : w.values.size() == size_t(n * k / 32 * 20)             ? ir::DType::q4_1
                                                                               : ir::DType::q8_0;
  Dims dims = x.dims;
  dims.back() = n;
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const int64_t row = int64_t(i) / n, column = int64_t(i) % n;
    y.values[i] = call.optional(2) ? call.operand(2).values[size_t(column)] : 0;
    for (int64_t j = 0; j < k; ++j)
      y.values[i] +=
          x.values[size_t(row * k + j)] * block_element(format, w.values, column * k + j);
  }
  return {y};
}

// The layout of kernels/repacked.cuh, from the bytes of [n, k].
std::vector<Array> reference_repack_blocks(const Call &call) {
  const Array &w = call.operand(0);
  const int64_t n = w.dims[0], blocks = w.dims[1] / 32;
  Array y = w;
  const int64_t size = n * blocks == 0 ? 18 : int64_t(w.values.size()) / (n * blocks);
  const int64_t head = size == 20 ? 4 : 2, quants = size - head;
  for (int64_t row = 0; row < n; ++row)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t unit = b / 4 * 4, in_unit = std::min<int64_t>(4, blocks - unit);
      const double *block = &w.values[size_t((row * blocks + b) * size)];
      for (int64_t e = 0; e < head; ++e)
        y.values[size_t(n * blocks * quants + (unit * n + row * in_unit + b - unit) * head + e)] =
            block[e];
      for (int64_t lane = 0; lane < 4; ++lane) {
        const int64_t word =
            (row * blocks + unit) * quants + (lane * in_unit + b - unit) * (quants / 4);
        uint32_t nibbles = 0;
        for (int64_t e = 0; e < 8; ++e) {
          const int64_t element = 8 * lane + e;
          if (quants == 32) {
            y.values[size_t(word + e)] = (int(block[head + element]) + 128) % 256;
            continue;
          }
          const int byte = int(block[head + element % 16]);
          nibbles |= uint32_t(element < 16 ? byte % 16 : byte / 16) << (e / 2 * 4 + e % 2 * 16);
        }
        for (int64_t e = 0; e < 4 && quants == 16; ++e)
          y.values[size_t(word + e)] = double(nibbles >> 8 * e & 255);
      }
    }
  return {y};
}

// Padding before and after dimension i of `axes`.
static std::pair<int64_t, int64_t> padding_of(const Call &call, size_t i, size_t axes) {
  const Dims pad = call.integers("padding");
  return {pad[i], pad.size() == 2 * axes ? pad[axes + i] : pad[i]};
}

static Array convolve(const Call &call, const Array &x, const Array &w, const Dims &stride,
                      const Dims &dilation, const std::pair<int64_t, int64_t> (&pad)[2]) {
  const int64_t in_group = w.dims[1], out_group = w.dims[0] / call.integer("groups");
  Dims dims = {x.dims[0], w.dims[0], 0, 0};
  for (size_t i = 0; i < 2; ++i)
    dims[2 + i] =
        (x.dims[2 + i] + pad[i].first + pad[i].second - dilation[i] * (w.dims[2 + i] - 1) - 1) /
            stride[i] +
        1;
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    double sum = call.optional(2) ? call.operand(2).values[size_t(at[1])] : 0;
    for (int64_t c = 0; c < in_group; ++c)
      for (int64_t r = 0; r < w.dims[2]; ++r)
        for (int64_t q = 0; q < w.dims[3]; ++q) {
          const int64_t row = at[2] * stride[0] - pad[0].first + r * dilation[0];
          const int64_t column = at[3] * stride[1] - pad[1].first + q * dilation[1];
          if (row < 0 || row >= x.dims[2] || column < 0 || column >= x.dims[3])
            continue;
          const int64_t channel = at[1] / out_group * in_group + c;
          sum += x.values[size_t(index_of({at[0], channel, row, column}, x.dims))] *
                 w.values[size_t(index_of({at[1], c, r, q}, w.dims))];
        }
    y.values[i] = sum;
  }
  return y;
}

std::vector<Array> reference_conv2d(const Call &call) {
  return {convolve(call, call.operand(0), call.operand(1), call.integers("strides"),
                   call.integers("dilation"), {padding_of(call, 0, 2), padding_of(call, 1, 2)})};
}

std::vector<Array> reference_conv1d(const Call &call) {
  Array x = call.operand(0), w = call.operand(1);
  x.dims.insert(x.dims.begin() + 2, 1);
  w.dims.insert(w.dims.begin() + 2, 1);
  Array y = convolve(call, x, w, {1, call.integers("strides")[0]},
                     {1, call.integers("dilation")[0]}, {{0, 0}, padding_of(call, 0, 1)});
  y.dims.erase(y.dims.begin() + 2);
  return {y};
}

// How many windows begin within the image and the padding before it and, unless sizes are rounded
// up, end within the padding behind it.
static int64_t window_count(int64_t size, std::pair<int64_t, int64_t> pad, int64_t reach,
                            int64_t stride, bool round_up) {
  int64_t count = 0;
  for (int64_t begin = -pad.first; begin < size; begin += stride, ++count) {
    const int64_t beyond = begin + reach - (size + pad.second);
    if (beyond > (round_up ? stride - 1 : 0))
      break;
  }
  return count;
}

std::vector<Array> reference_pool2d(const Call &call) {
  const Array &x = call.operand(0);
  const Dims kernel = call.integers("kernel"), stride = call.integers("strides");
  const Dims dilation = call.integers("dilation");
  const std::pair<int64_t, int64_t> pad[] = {padding_of(call, 0, 2), padding_of(call, 1, 2)};
  const bool is_max = call.op == Op::max_pool2d;
  const bool count_padding = !is_max && call.flag("count_include_pad");
  Dims dims = {x.dims[0], x.dims[1], 0, 0};
  for (size_t i = 0; i < 2; ++i)
    dims[2 + i] = window_count(x.dims[2 + i], pad[i], dilation[i] * (kernel[i] - 1) + 1, stride[i],
                               call.flag("ceil_mode"));
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    double result = is_max ? -INFINITY : 0;
    int64_t counted = 0;
    for (int64_t r = 0; r < kernel[0]; ++r)
      for (int64_t q = 0; q < kernel[1]; ++q) {
        const int64_t row = at[2] * stride[0] - pad[0].first + r * dilation[0];
        const int64_t column = at[3] * stride[1] - pad[1].first + q * dilation[1];
        const bool in_padding =
            row < x.dims[2] + pad[0].second && column < x.dims[3] + pad[1].second;
        const bool inside = row >= 0 && row < x.dims[2] && column >= 0 && column < x.dims[3];
        counted += inside || (count_padding && in_padding);
        if (!inside)
          continue;
        const double value = x.values[size_t(index_of({at[0], at[1], row, column}, x.dims))];
        result = is_max ? binary(Op::maximum, result, value) : result + value;
      }
    y.values[i] = is_max ? result : result / double(counted);
  }
  return {y};
}

std::vector<Array> reference_softmax(const Call &call) {
  Array y = call.operand(0);
  each_line(y, call.axis(), [&](int64_t begin, int64_t stride, int64_t length) {
    auto at = [&](int64_t i) -> double & { return y.values[size_t(begin + i * stride)]; };
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < length; ++i)
      largest = std::fmax(largest, at(i));
    for (int64_t i = 0; i < length; ++i)
      sum += std::exp(at(i) - largest);
    for (int64_t i = 0; i < length; ++i)
      at(i) = call.op == Op::log_softmax ? at(i) - largest - std::log(sum)
                                         : std::exp(at(i) - largest) / sum;
  });
  return {y};
}

std::vector<Array> reference_norm(const Call &call) {
  Array y = call.operand(0);
  const double epsilon = ir::op_float(call.op, call.attributes, "epsilon");
  const Array *scale = call.optional(1), *bias = call.optional(2);
  each_line(y, y.dims.size() - 1, [&](int64_t begin, int64_t, int64_t length) {
    double *row = y.values.data() + begin;
    double mean = 0, squares = 0;
    if (call.op == Op::layer_norm)
      for (int64_t i = 0; i < length; ++i)
        mean += row[i] / double(length);
    for (int64_t i = 0; i < length; ++i)
      squares += (row[i] - mean) * (row[i] - mean) / double(length);
    for (int64_t i = 0; i < length; ++i)
      row[i] =
          (row[i] - mean) / std::sqrt(squares + epsilon) * (scale ? scale->values[size_t(i)] : 1) +
          (bias ? bias->values[size_t(i)] : 0);
  });
  return {y};
}

} // namespace cugrt::test
