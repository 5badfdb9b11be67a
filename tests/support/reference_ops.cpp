// Reference arithmetic. Indices are taken apart and put together by general helpers; speed is no
// aim.
#include "support/reference_ops.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace cugrt::test {

namespace {

using ir::Op;
using Dims = std::vector<int64_t>;

int64_t product(const Dims &dims, size_t begin = 0, size_t end = SIZE_MAX) {
  int64_t count = 1;
  for (size_t i = begin; i < std::min(end, dims.size()); ++i)
    count *= dims[i];
  return count;
}

Dims coordinates(int64_t index, const Dims &dims) {
  Dims at(dims.size());
  for (size_t i = dims.size(); i-- > 0; index /= dims[i])
    at[i] = index % dims[i];
  return at;
}

int64_t index_of(const Dims &at, const Dims &dims) {
  int64_t index = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    index = index * dims[i] + at[i];
  return index;
}

/// The element of `x` that result coordinates `at` see under NumPy's broadcasting.
double broadcast_at(const Array &x, const Dims &at) {
  Dims own(x.dims.size());
  const size_t missing = at.size() - own.size();
  for (size_t i = 0; i < own.size(); ++i)
    own[i] = x.dims[i] == 1 ? 0 : at[missing + i];
  return x.values[size_t(index_of(own, x.dims))];
}

Dims broadcast_dims(const Dims &a, const Dims &b) {
  Dims dims(std::max(a.size(), b.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t p = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t q = i < b.size() ? b[b.size() - 1 - i] : 1;
    dims[dims.size() - 1 - i] = p == 1 ? q : p;
  }
  return dims;
}

// One op's operands and attributes.
struct Call {
  Op op;
  std::span<const Array *const> operands;
  std::span<const ir::Attribute> attributes;

  const Array &operand(size_t i) const { return *operands[i]; }
  const Array *optional(size_t i) const { return i < operands.size() ? operands[i] : nullptr; }
  int64_t integer(std::string_view name) const { return ir::op_integer(op, attributes, name); }
  Dims integers(std::string_view name) const { return ir::op_integers(op, attributes, name); }
  bool flag(std::string_view name) const { return ir::op_bool(op, attributes, name); }
  size_t axis() const {
    const int64_t axis = integer("axis");
    return size_t(axis < 0 ? axis + int64_t(operand(0).dims.size()) : axis);
  }
};

double unary(const Call &call, double x) {
  switch (call.op) {
  case Op::relu:
    return x < 0 ? 0 : x;
  case Op::neg:
    return -x;
  case Op::abs:
    return std::fabs(x);
  case Op::exp:
    return std::exp(x);
  case Op::log:
    return std::log(x);
  case Op::sqrt:
    return std::sqrt(x);
  case Op::rsqrt:
    return 1 / std::sqrt(x);
  case Op::tanh:
    return std::tanh(x);
  case Op::sigmoid:
    return 1 / (1 + std::exp(-x));
  case Op::silu:
    return x / (1 + std::exp(-x));
  case Op::gelu:
    if (ir::op_string(call.op, call.attributes, "approximate") == "tanh")
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  default:
    throw std::logic_error("no unary op");
  }
}

double binary(Op op, double a, double b) {
  const bool nan = std::isnan(a) || std::isnan(b);
  switch (op) {
  case Op::add:
    return a + b;
  case Op::sub:
    return a - b;
  case Op::mul:
    return a * b;
  case Op::div:
    return a / b;
  case Op::maximum:
    return nan ? NAN : std::max(a, b);
  case Op::minimum:
    return nan ? NAN : std::min(a, b);
  default:
    throw std::logic_error("no binary op");
  }
}

Array elementwise(const Call &call) {
  Array y = Array::of(call.operand(0).dims);
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = unary(call, call.operand(0).values[i]);
  return y;
}

Array broadcasting(const Call &call) {
  const Array &a = call.operand(0), &b = call.operand(1);
  Array y = Array::of(broadcast_dims(a.dims, b.dims));
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), y.dims);
    y.values[i] = binary(call.op, broadcast_at(a, at), broadcast_at(b, at));
  }
  return y;
}

Array cast(const Call &call) {
  Array y = call.operand(0);
  for (double &value : y.values)
    value = round_to(ir::op_dtype(call.op, call.attributes, "dtype"), value);
  return y;
}

Array matmul(const Call &call) {
  const Array &a = call.operand(0), &b = call.operand(1);
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
  return y;
}

Array conv2d(const Call &call) {
  const Array &x = call.operand(0), &w = call.operand(1);
  const Dims stride = call.integers("strides"), pad = call.integers("padding");
  const Dims dilation = call.integers("dilation");
  const int64_t in_group = w.dims[1], out_group = w.dims[0] / call.integer("groups");
  Dims dims = {x.dims[0], w.dims[0], 0, 0};
  for (size_t i = 0; i < 2; ++i)
    dims[2 + i] =
        (x.dims[2 + i] + 2 * pad[i] - dilation[i] * (w.dims[2 + i] - 1) - 1) / stride[i] + 1;
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    double sum = call.optional(2) ? call.operand(2).values[size_t(at[1])] : 0;
    for (int64_t c = 0; c < in_group; ++c)
      for (int64_t r = 0; r < w.dims[2]; ++r)
        for (int64_t q = 0; q < w.dims[3]; ++q) {
          const int64_t row = at[2] * stride[0] - pad[0] + r * dilation[0];
          const int64_t column = at[3] * stride[1] - pad[1] + q * dilation[1];
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

Array pool2d(const Call &call) {
  const Array &x = call.operand(0);
  const Dims kernel = call.integers("kernel"), stride = call.integers("strides");
  const Dims pad = call.integers("padding");
  const bool is_max = call.op == Op::max_pool2d;
  Dims dims = {x.dims[0], x.dims[1], 0, 0};
  for (size_t i = 0; i < 2; ++i)
    dims[2 + i] = (x.dims[2 + i] + 2 * pad[i] - kernel[i]) / stride[i] + 1;
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    double result = is_max ? -INFINITY : 0;
    int64_t inside = 0;
    for (int64_t r = 0; r < kernel[0]; ++r)
      for (int64_t q = 0; q < kernel[1]; ++q) {
        const int64_t row = at[2] * stride[0] - pad[0] + r, column = at[3] * stride[1] - pad[1] + q;
        if (row < 0 || row >= x.dims[2] || column < 0 || column >= x.dims[3])
          continue;
        const double value = x.values[size_t(index_of({at[0], at[1], row, column}, x.dims))];
        ++inside;
        result = is_max ? binary(Op::maximum, result, value) : result + value;
      }
    if (!is_max)
      result /= double(call.flag("count_include_pad") ? kernel[0] * kernel[1] : inside);
    y.values[i] = result;
  }
  return y;
}

// Calls row(begin, stride, length) for every line of `x` along `axis`.
template <class Row> void each_line(const Array &x, size_t axis, Row row) {
  const int64_t inner = product(x.dims, axis + 1), length = x.dims[axis];
  for (int64_t outer = 0; outer < product(x.dims, 0, axis); ++outer)
    for (int64_t i = 0; i < inner; ++i)
      row(outer * length * inner + i, inner, length);
}

Array softmax(const Call &call) {
  Array y = call.operand(0);
  each_line(y, call.axis(), [&](int64_t begin, int64_t stride, int64_t length) {
    auto at = [&](int64_t i) -> double & { return y.values[size_t(begin + i * stride)]; };
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < length; ++i)
      largest = std::fmax(largest, at(i));
    for (int64_t i = 0; i < length; ++i)
      sum += at(i) = std::exp(at(i) - largest);
    for (int64_t i = 0; i < length; ++i)
      at(i) /= sum;
  });
  return y;
}

Array norm(const Call &call) {
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
  return y;
}

Array reduce(const Call &call) {
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
  if (call.op == Op::reduce_max)
    y.values.assign(y.values.size(), -INFINITY);
  for (size_t i = 0; i < x.values.size(); ++i) {
    Dims at = coordinates(int64_t(i), x.dims);
    for (size_t d = 0; d < at.size(); ++d)
      at[d] = reduced[d] ? 0 : at[d];
    double &result = y.values[size_t(index_of(at, kept_dims))];
    result = binary(call.op == Op::reduce_max ? Op::maximum : Op::add, result, x.values[i]);
  }
  if (call.op == Op::reduce_mean)
    for (double &value : y.values)
      value /= double(count);
  return y;
}

Array argmax(const Call &call) {
  const Array &x = call.operand(0);
  Dims dims = x.dims;
  if (call.flag("keep_dims"))
    dims[call.axis()] = 1;
  else
    dims.erase(dims.begin() + int64_t(call.axis()));
  Array y = Array::of(dims);
  size_t next = 0;
  each_line(x, call.axis(), [&](int64_t begin, int64_t stride, int64_t length) {
    int64_t best = 0;
    auto at = [&](int64_t i) { return x.values[size_t(begin + i * stride)]; };
    for (int64_t i = 1; i < length; ++i)
      if (!std::isnan(at(best)) && (std::isnan(at(i)) || at(i) > at(best)))
        best = i;
    y.values[next++] = double(best);
  });
  return y;
}

Array reshape(const Call &call) {
  Array y = call.operand(0);
  if (const Array *shape = call.optional(1)) {
    y.dims.assign(shape->values.begin(), shape->values.end());
    return y;
  }
  y.dims = call.integers("shape");
  for (int64_t &dim : y.dims)
    if (dim == -1) {
      dim = 1;
      dim = int64_t(y.values.size()) / product(y.dims);
    }
  return y;
}

Array transpose(const Call &call) {
  const Array &x = call.operand(0);
  Dims axes = call.integers("axes");
  if (axes.empty())
    for (size_t i = x.dims.size(); i-- > 0;)
      axes.push_back(int64_t(i));
  Dims dims;
  for (int64_t &axis : axes) {
    axis += axis < 0 ? int64_t(x.dims.size()) : 0;
    dims.push_back(x.dims[size_t(axis)]);
  }
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    Dims from(at.size());
    for (size_t d = 0; d < at.size(); ++d)
      from[size_t(axes[d])] = at[d];
    y.values[i] = x.values[size_t(index_of(from, x.dims))];
  }
  return y;
}

// Moves between a whole and its parts along an axis.
void each_part_element(const Dims &whole, const Dims &part, size_t axis, int64_t begin,
                       const auto &move) {
  for (int64_t i = 0; i < product(part); ++i) {
    Dims at = coordinates(i, part);
    at[axis] += begin;
    move(size_t(index_of(at, whole)), size_t(i));
  }
}

Array concat(const Call &call) {
  Dims dims = call.operand(0).dims;
  const size_t axis = call.axis();
  dims[axis] = 0;
  for (const Array *part : call.operands)
    dims[axis] += part->dims[axis];
  Array y = Array::of(dims);
  int64_t begin = 0;
  for (const Array *part : call.operands) {
    each_part_element(dims, part->dims, axis, begin,
                      [&](size_t to, size_t from) { y.values[to] = part->values[from]; });
    begin += part->dims[axis];
  }
  return y;
}

std::vector<Array> split(const Call &call) {
  const Array &x = call.operand(0);
  const size_t axis = call.axis();
  std::vector<Array> parts;
  int64_t begin = 0;
  for (int64_t section : call.integers("sections")) {
    Dims dims = x.dims;
    dims[axis] = section;
    parts.push_back(Array::of(dims));
    each_part_element(x.dims, dims, axis, begin,
                      [&](size_t from, size_t to) { parts.back().values[to] = x.values[from]; });
    begin += section;
  }
  return parts;
}

Array embedding(const Call &call) {
  const Array &table = call.operand(0), &ids = call.operand(1);
  Dims dims = ids.dims;
  const int64_t rows = table.dims[0], width = table.dims[1];
  dims.push_back(width);
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size() && rows > 0; ++i) {
    const auto id = int64_t(ids.values[i / size_t(width)]);
    const int64_t row = std::min(std::max(id, int64_t(0)), rows - 1);
    y.values[i] = table.values[size_t(row * width) + i % size_t(width)];
  }
  return y;
}

} // namespace

int64_t Array::count() const { return product(dims); }

Array Array::of(Dims dims) {
  const int64_t count = product(dims);
  return {std::move(dims), std::vector<double>(size_t(count))};
}

std::vector<Array> evaluate_op(Op op, std::span<const Array *const> operands,
                               std::span<const ir::Attribute> attributes) {
  const Call call{op, operands, attributes};
  switch (op) {
  case Op::add:
  case Op::sub:
  case Op::mul:
  case Op::div:
  case Op::maximum:
  case Op::minimum:
    return {broadcasting(call)};
  case Op::cast:
    return {cast(call)};
  case Op::matmul:
    return {matmul(call)};
  case Op::conv2d:
    return {conv2d(call)};
  case Op::max_pool2d:
  case Op::avg_pool2d:
    return {pool2d(call)};
  case Op::softmax:
    return {softmax(call)};
  case Op::layer_norm:
  case Op::rms_norm:
    return {norm(call)};
  case Op::reduce_sum:
  case Op::reduce_mean:
  case Op::reduce_max:
    return {reduce(call)};
  case Op::argmax:
    return {argmax(call)};
  case Op::reshape:
    return {reshape(call)};
  case Op::transpose:
    return {transpose(call)};
  case Op::concat:
    return {concat(call)};
  case Op::split:
    return split(call);
  case Op::embedding:
    return {embedding(call)};
  default:
    return {elementwise(call)};
  }
}

// --- Dtypes --------------------------------------------------------------------------------------

namespace {

// To a float with `mantissa` explicit bits, least exponent `least` of a normal number, largest
// `most`.
double round_float(double value, int mantissa, int least, int most) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent;
  std::frexp(value, &exponent);                              // value = f * 2^exponent, 0.5 <= f < 1
  const int unit = std::max(exponent - 1, least) - mantissa; // exponent of the last place
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) >= std::ldexp(1.0, most + 1) ? std::copysign(INFINITY, value) : rounded;
}

} // namespace

double round_to(ir::DType dtype, double value) {
  switch (dtype) {
  case ir::DType::f64:
    return value;
  case ir::DType::f32:
    return double(float(value));
  case ir::DType::f16:
    return round_float(value, 10, -14, 15);
  case ir::DType::bf16:
    return round_float(value, 7, -126, 127);
  case ir::DType::boolean:
    return value != 0; // a NaN is not 0
  default:
    break;
  }
  const bool is_signed = ir::info(dtype).kind == ir::DTypeKind::signed_integer;
  const int bits = int(ir::info(dtype).bytes_per_block) * 8 - is_signed;
  if (std::isnan(value))
    return 0;
  const double most = std::ldexp(1.0, bits), whole = std::trunc(value);
  return std::min(std::max(whole, is_signed ? -most : 0.0), most - 1);
}

} // namespace cugrt::test
