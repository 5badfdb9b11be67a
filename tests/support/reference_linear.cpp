// Reference arithmetic: matrix products, convolutions, pools, softmax and norms.
#include "support/launch_runner.h" // decode
#include "support/op_test.h"
#include "support/reference_call.h"

#include <algorithm>
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
    const int64_t column = at.back();
    Dims other = at;
    double sum = call.optional(2) ? call.operand(2).values[size_t(column)] : 0;
    for (int64_t j = 0; j < k; ++j) {
      at.back() = j;
      other[other.size() - 2] = j;
      // A dimension of size 1 broadcasts to the same element, also among the last two.
      sum += broadcast_at(a, at) * broadcast_at(b, other);
    }
    y.values[i] = sum;
  }
  return {y};
}

namespace {

/// How a format is laid out by kernels/linear/repacked.cuh, and where its parts are in GGUF's
/// blocks.
struct Repacking {
  int64_t low = 4, high = 0, unit = 4; // bits of quants, blocks of 32
  int64_t scales_at = 0, scales = 2, tail_at = 0, tail = 0;
  bool has_halves = false;
};

Repacking repacking_of(ir::DType format) {
  switch (format) {
  case ir::DType::q4_1:
    return {.scales = 4};
  case ir::DType::q5_0:
    return {.high = 1};
  case ir::DType::q5_1:
    return {.high = 1, .scales = 4};
  case ir::DType::q8_0:
    return {.low = 8};
  case ir::DType::q2_k:
    return {.low = 2, .unit = 8, .scales = 16, .tail_at = 80, .tail = 4};
  case ir::DType::q3_k:
    return {2, 1, 8, 96, 12, 108, 2};
  case ir::DType::q4_k:
    return {.unit = 8, .scales = 16};
  case ir::DType::q5_k:
    return {.high = 1, .unit = 8, .scales = 16};
  case ir::DType::q6_k:
    return {4, 2, 8, 192, 16, 208, 2, true};
  default:
    return {};
  }
}

/// Quant e of 32, as many bits as it has, of a block's 32 elements in a GGUF block; of q8_0 with
/// 128 added.
int quant_of(ir::DType format, const double *block, int64_t part, int64_t e) {
  auto byte = [&](int64_t at) { return int(block[at]); };
  auto bits = [&](int64_t at, int64_t from, int count) {
    return byte(at) >> from & ((1 << count) - 1);
  };
  const int64_t upper = part / 4, quarter = part % 4; // of 128 elements, and of these
  switch (format) {
  case ir::DType::q8_0:
    return (byte(2 + e) + 128) % 256;
  case ir::DType::q5_0:
  case ir::DType::q5_1: {
    const int64_t head = format == ir::DType::q5_0 ? 2 : 4;
    return bits(head + 4 + e % 16, e / 16 * 4, 4) | bits(head + e / 8, e % 8, 1) << 4;
  }
  case ir::DType::q2_k:
    return bits(16 + upper * 32 + e, quarter * 2, 2);
  case ir::DType::q3_k:
    return bits(32 + upper * 32 + e, quarter * 2, 2) | bits(e, part, 1) << 2;
  case ir::DType::q4_k:
    return bits(16 + part / 2 * 32 + e, part % 2 * 4, 4);
  case ir::DType::q5_k:
    return bits(48 + part / 2 * 32 + e, part % 2 * 4, 4) | bits(16 + e, part, 1) << 4;
  case ir::DType::q6_k:
    return bits(upper * 64 + quarter % 2 * 32 + e, quarter / 2 * 4, 4) |
           bits(128 + upper * 32 + e, quarter * 2, 2) << 4;
  default:
    return bits((format == ir::DType::q4_1 ? 4 : 2) + e % 16, e / 16 * 4, 4);
  }
}

/// The scale of a part of 16 elements of q2_k, and 16 times its least, or of q3_k with 32 added.
int narrow_scale_of(ir::DType format, const double *block, int64_t part) {
  auto byte = [&](int64_t at) { return int(block[at]); };
  if (format == ir::DType::q2_k)
    return byte(part);
  return (part < 8 ? byte(96 + part) % 16 : byte(96 + part - 8) / 16) |
         (byte(104 + part % 4) >> part / 4 * 2 & 3) << 4;
}

/// Where bit `bit` of element e of block i of a unit is that a lane has of q2_k or q3_k: bits of
/// its 16 bytes of low ones and, behind them, of its 8 of high ones.
int64_t narrow_place(ir::DType format, int64_t i, int64_t e, int64_t bit) {
  const int64_t group = i / 4, own = i % 4, pair = e / 2, side = e % 2 * 16;
  if (format == ir::DType::q2_k)
    return group * 64 + pair / 2 * 32 + side + pair % 2 * 8 + own * 2 + bit;
  constexpr int64_t kBegins[] = {0, 3, 9, 12};
  const int64_t words[] = {group * 64, group * 64 + 32, 128 + group * 32};
  if (pair < 3)
    return words[pair] + side + kBegins[own] + bit;
  return own < 3 ? words[own] + side + 6 + bit : words[bit] + side + 15;
}

} // namespace

double block_element(ir::DType format, const std::vector<double> &bytes, int64_t at) {
  const ir::DTypeInfo &info = ir::info(format);
  const double *block = &bytes[size_t(at / info.elements_per_block * info.bytes_per_block)];
  const int64_t part = at % info.elements_per_block / 32, e = at % 32, half = part * 2 + e / 16;
  auto byte = [&](int64_t i) { return int(block[i]); };
  auto half_at = [&](int64_t i) {
    const std::string raw = {char(uint8_t(byte(i))), char(uint8_t(byte(i + 1)))};
    return decode(ir::DType::f16, raw)[0];
  };
  const int quant = quant_of(format, block, part, e);
  switch (format) {
  case ir::DType::q4_1:
  case ir::DType::q5_1:
    return quant * half_at(0) + half_at(2);
  case ir::DType::q5_0:
    return (quant - 16) * half_at(0);
  case ir::DType::q8_0:
    return (quant - 128) * half_at(0);
  case ir::DType::iq4_nl: {
    constexpr int kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
    return kValues[quant] * half_at(0);
  }
  case ir::DType::q2_k:
    return half_at(80) * (byte(half) % 16) * quant - half_at(82) * (byte(half) / 16);
  case ir::DType::q3_k:
    return half_at(108) * (narrow_scale_of(format, block, half) - 32) * (quant - 4);
  case ir::DType::q4_k:
  case ir::DType::q5_k: {
    const int64_t i = part % 4;
    const bool is_first = part < 4;
    const int scale = is_first ? byte(4 + i) % 64 : byte(12 + i) % 16 + byte(4 + i) / 64 * 16,
              least = is_first ? byte(8 + i) % 64 : byte(12 + i) / 16 + byte(8 + i) / 64 * 16;
    return half_at(0) * scale * quant - half_at(2) * least;
  }
  case ir::DType::q6_k:
    return half_at(208) * int8_t(uint8_t(byte(192 + half))) * (quant - 32);
  default:
    return (quant - 8) * half_at(0);
  }
}

namespace {

/// Of a matrix of bytes: q4_0, q4_1 or q8_0.
ir::DType format_of(const Array &w) {
  const int64_t blocks = w.dims[0] * w.dims[1] / 32;
  return blocks == 0 || w.values.size() == size_t(blocks * 18) ? ir::DType::q4_0
         : w.values.size() == size_t(blocks * 20)              ? ir::DType::q4_1
                                                               : ir::DType::q8_0;
}

} // namespace

std::vector<Array> reference_embedding_blocks(const Call &call) {
  const Array &table = call.operand(0);
  const ir::DType format = format_of(table);
  return {looked_up(table, call.operand(1),
                    [&](int64_t i) { return block_element(format, table.values, i); })};
}

std::vector<Array> reference_matmul_blocks(const Call &call) {
  const Array &x = call.operand(0), &w = call.operand(1);
  const int64_t n = w.dims[0], k = w.dims[1];
  const ir::DType format = format_of(w);
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

// The layout of kernels/linear/repacked.cuh, from the bytes of [n, k].
std::vector<Array> reference_repack_blocks(const Call &call) {
  const Array &w = call.operand(0);
  const ir::DType format = call.dtype;
  const Repacking r = repacking_of(format);
  const int64_t n = w.dims[0], blocks = w.dims[1] / 32, size = ir::info(format).bytes_per_block,
                each = ir::info(format).elements_per_block / 32; // blocks of 32 of a block
  const bool is_narrow = format == ir::DType::q2_k || format == ir::DType::q3_k;
  std::vector<uint8_t> y(w.values.size());
  auto set = [&](int64_t at, int64_t bit, int value) {
    y[size_t(at + bit / 8)] = uint8_t(y[size_t(at + bit / 8)] | value << bit % 8);
  };
  // High bits of small blocks are behind their scales.
  const int64_t low_bytes = n * blocks * 4 * r.low, high_bytes = n * blocks * 4 * r.high,
                scales_at = low_bytes + (each == 1 ? 0 : high_bytes),
                high_at = each == 1 ? low_bytes + n * blocks * r.scales : low_bytes,
                tail_at = scales_at + n * (blocks / r.unit) * r.scales;
  for (int64_t row = 0; row < n; ++row)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t first = b / r.unit * r.unit, i = b - first,
                    count = std::min(r.unit, blocks - first);
      const double *block = &w.values[size_t((row * blocks + b) / each * size)];
      auto copy = [&](int64_t to, int64_t from, int64_t bytes) {
        for (int64_t byte = 0; byte < bytes; ++byte)
          y[size_t(to + byte)] = uint8_t(int(block[from + byte]));
      };
      if (each == 1) {
        copy(scales_at + (first * n + row * count + i) * r.scales, 0, r.scales);
      } else if (i == 0) {
        const int64_t scales = scales_at + (b / r.unit * n + row) * r.scales;
        if (!is_narrow)
          copy(scales, r.scales_at, r.scales);
        for (int64_t part = 0; is_narrow && part < 16; ++part) {
          const int64_t own = part / 2, half = part % 2, place = own / 2 * 4 + own % 2 * 16;
          const int bits = narrow_scale_of(format, block, part);
          set(scales, 32 * half + place, bits % 16);
          set(scales,
              64 + (r.low + r.high == 2 ? own % 4 * 16 + 8 * half + own / 4 * 4 : place + 2 * half),
              bits / 16);
        }
        copy(tail_at + (b / r.unit * n + row) * r.tail, r.tail_at, r.tail);
      }
      for (int64_t q = 0; q < 4; ++q)
        for (int64_t e = 0; e < 8; ++e) {
          const int64_t element = r.has_halves ? 4 * q + e % 4 + e / 4 * 16 : 8 * q + e;
          const int quant = quant_of(format, block, b % each, element);
          const int64_t lane = (row * blocks + first) * 4, own = q * count;
          if (is_narrow) {
            for (int64_t bit = 0; bit < r.low + r.high; ++bit) {
              const int64_t place = narrow_place(format, i, e, bit);
              set(place < 128 ? (lane + own) * r.low : high_at + (lane + own) * r.high, place % 128,
                  quant >> bit & 1);
            }
            continue;
          }
          if (r.low == 8) {
            set(((lane + own * 1) + i) * 8 + e, 0, quant);
            continue;
          }
          // Words of 4 / bits blocks; of large formats two words of low bits have two blocks.
          auto place = [&](int64_t bits) {
            if (each > 1 && bits == 4)
              return (i - i % 2 + e / 4) * 32 + e / 2 % 2 * 8 + i % 2 * 4 + e % 2 * 16;
            const int64_t in_half = i % (4 / bits) * 4 * bits + e / 2 * bits;
            return i / (4 / bits) * 32 +
                   (format == ir::DType::iq4_nl ? 4 * e : in_half + e % 2 * 16);
          };
          set((lane + own) * r.low, place(r.low), quant % (1 << r.low));
          if (r.high == 0)
            continue;
          const int upper = quant >> r.low;
          if (count == r.unit)
            set(high_at + (lane + own) * r.high, place(r.high), upper);
          else
            set(high_at + lane + own + i, e / 2 + e % 2 * 4, upper);
        }
    }
  Array out = w;
  std::copy(y.begin(), y.end(), out.values.begin());
  return {out};
}

// Padding before and after dimension i of `axes`.
static std::pair<int64_t, int64_t> padding_of(const Call &call, size_t i, size_t axes) {
  const Dims pad = call.integers("padding");
  return {pad[i], pad.size() == 2 * axes ? pad[axes + i] : pad[i]};
}

static Array convolve(const Call &call, const Array &x, const Array &w, const Dims &stride,
                      const Dims &dilation, const std::pair<int64_t, int64_t> (&pad)[2]) {
  const int64_t in_group = w.dims[1], out_group = w.dims[0] / call.integer("groups");
  const int64_t first =
      call.op == Op::conv2d ? std::max<int64_t>(0, call.integer("first_channel")) : 0;
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
          const int64_t channel = first + at[1] / out_group * in_group + c;
          sum += x.values[size_t(index_of({at[0], channel, row, column}, x.dims))] *
                 w.values[size_t(index_of({at[1], c, r, q}, w.dims))];
        }
    y.values[i] = sum;
  }
  return y;
}

// Dimension i of the result is dimension from[i] of x.
static Array permuted(const Array &x, const std::array<size_t, 4> &from) {
  Dims dims(4);
  for (size_t i = 0; i < 4; ++i)
    dims[i] = x.dims[from[i]];
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    Dims place(4);
    for (size_t d = 0; d < 4; ++d)
      place[from[d]] = at[d];
    y.values[i] = x.values[size_t(index_of(place, x.dims))];
  }
  return y;
}

// An image, or weights, with channels second.
static Array as_planes(const Call &call, size_t operand) {
  const Array &x = call.operand(operand);
  if (operand != 0 || call.op != Op::conv2d || !call.flag("x_second"))
    return call.flag("channels_last") ? permuted(x, {0, 3, 1, 2}) : x;
  Array wide = Array::of({x.dims[0], call.operand(1).dims[3], x.dims[2], x.dims[3]});
  for (size_t i = 0; i < x.values.size(); ++i)
    wide.values[size_t(index_of(coordinates(int64_t(i), x.dims), wide.dims))] = x.values[i];
  return wide;
}

static Array from_planes(const Call &call, Array y) {
  const bool last =
      call.flag("channels_last") && !(call.op == Op::conv2d && call.flag("result_second"));
  return last ? permuted(y, {0, 2, 3, 1}) : y;
}

std::vector<Array> reference_conv2d(const Call &call) {
  const Array y =
      convolve(call, as_planes(call, 0), as_planes(call, 1), call.integers("strides"),
               call.integers("dilation"), {padding_of(call, 0, 2), padding_of(call, 1, 2)});
  return {from_planes(call, spread(call, y))};
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
  const Array x = as_planes(call, 0);
  const Dims kernel = call.integers("kernel"), stride = call.integers("strides");
  const Dims dilation = call.integers("dilation");
  const std::pair<int64_t, int64_t> pad[] = {padding_of(call, 0, 2), padding_of(call, 1, 2)};
  const bool is_max = call.op == Op::max_pool2d;
  const bool count_padding = !is_max && call.flag("count_include_pad");
  const int64_t from = call.integer("first_channel"), given = call.integer("channels");
  Dims dims = {x.dims[0], given == 0 ? x.dims[1] - from : given, 0, 0};
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
        const double value = x.values[size_t(index_of({at[0], at[1] + from, row, column}, x.dims))];
        result = is_max ? binary(Op::maximum, result, value) : result + value;
      }
    y.values[i] = is_max ? result : result / double(counted);
  }
  return {from_planes(call, std::move(y))};
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

std::vector<Array> reference_group_norm(const Call &call) {
  const Array &x = call.operand(0);
  const int64_t all = x.dims.back(), from = call.integer("first_channel"),
                given = call.integer("channels");
  Array y{x.dims, {}};
  y.dims.back() = given == 0 ? all - from : given;
  for (size_t i = 0; i < x.values.size(); ++i)
    if (const int64_t channel = int64_t(i) % all - from; channel >= 0 && channel < y.dims.back())
      y.values.push_back(x.values[i]);
  const int64_t channels = y.dims.back(), group = channels / call.integer("groups");
  const int64_t pixels = product(y.dims, 1, y.dims.size() - 1);
  for (int64_t n = 0; n < y.dims[0]; ++n)
    for (int64_t first = 0; first < channels; first += group) {
      std::vector<double *> of;
      for (int64_t i = 0; i < pixels * group; ++i)
        of.push_back(&y.values[size_t((n * pixels + i / group) * channels + first + i % group)]);
      double mean = 0, squares = 0;
      for (const double *value : of)
        mean += *value / double(of.size());
      for (const double *value : of)
        squares += (*value - mean) * (*value - mean) / double(of.size());
      for (double *value : of)
        *value = (*value - mean) / std::sqrt(squares + call.number("epsilon"));
    }
  return {y};
}

// --- Inverses ------------------------------------------------------------------------------------

// Each column e of the identity: a y = e by elimination, then from the last row to the first.
std::vector<Array> reference_inverse(const Call &call) {
  Array y = Array::of(call.operand(0).dims);
  const auto n = size_t(y.dims.back());
  for (size_t m = 0; m < y.values.size(); m += n * n) {
    std::vector<std::vector<double>> a(n, std::vector<double>(2 * n));
    for (size_t i = 0; i < n; ++i) {
      std::copy_n(call.operand(0).values.begin() + ptrdiff_t(m + i * n), n, a[i].begin());
      a[i][n + i] = 1;
    }
    for (size_t k = 0; k < n; ++k) {
      std::iter_swap(a.begin() + ptrdiff_t(k),
                     std::max_element(a.begin() + ptrdiff_t(k), a.end(), [&](auto &p, auto &q) {
                       return std::fabs(p[k]) < std::fabs(q[k]);
                     }));
      for (size_t i = k + 1; i < n; ++i)
        for (size_t j = 2 * n; j-- > k;)
          a[i][j] -= a[i][k] / a[k][k] * a[k][j];
    }
    for (size_t e = 0; e < n; ++e)
      for (size_t i = n; i-- > 0;) {
        double rest = a[i][n + e];
        for (size_t j = i + 1; j < n; ++j)
          rest -= a[i][j] * y.values[m + j * n + e];
        y.values[m + i * n + e] = rest / a[i][i];
      }
  }
  return {y};
}

// Ones on the diagonal and halves above it, in rows that are turned, so that pivots lie elsewhere:
// all sums are exact, whatever their order.
std::vector<OpTest> cases_inverse() {
  std::vector<OpTest> tests;
  const auto add = [&](Dims dims, ir::DType dtype) {
    std::vector<double> values;
    const int64_t n = dims.back();
    for (int64_t i = 0; i < product(dims); ++i) {
      const int64_t matrix = i / (n * n), row = (i / n + matrix + 1) % n, column = i % n;
      values.push_back(row == column ? 1 : row + 1 == column ? 0.5 : 0);
    }
    tests.push_back(
        {.op = Op::inverse, .dtype = dtype, .operands = {{.dims = dims, .values = values}}});
  };
  for (const ir::DType dtype : {ir::DType::f16, ir::DType::bf16, ir::DType::f32, ir::DType::f64})
    for (const Dims &dims : {Dims{2, 1, 1}, Dims{1, 4, 4}, Dims{5, 3, 3}, Dims{2, 3, 13, 13}})
      add(dims, dtype);
  for (const ir::DType dtype : {ir::DType::f32, ir::DType::f64})
    for (const Dims &dims : {Dims{1, 64, 64}, Dims{3, 33, 33}, Dims{0, 4, 4}, Dims{2, 0, 0}})
      add(dims, dtype);
  return tests;
}

} // namespace cugrt::test
