// Matrix products, of floats and of integers, and quantisation.
//
// Products of bytes are the device's matmul_integer; of shapes that it does not take they go
// through f64, which holds them exactly: 8-bit factors give 16 bits, and sums of fewer than 2^37 of
// those stay whole.
#include "base/type/element.h"
#include "fronts/onnx/ops/integers.h"
#include "ir/module/names.h"

#include <algorithm>
#include <cmath>

namespace cugrt::onnx {

// --- Shared; see integers.h

static std::pair<double, double> limits(DType dtype) {
  const ir::DTypeInfo &row = ir::info(dtype);
  const double values = std::ldexp(1.0, int(8 * row.bytes_per_block / row.elements_per_block));
  return row.kind == ir::DTypeKind::signed_integer ? std::pair(-values / 2, values / 2 - 1)
                                                   : std::pair(0.0, values - 1);
}

static V limited(Call &c, V x, double least, double most) {
  return c.op(Op::clip, {x}, {attr("min", least), attr("max", most)});
}

static V saturated(Call &c, V x, DType to) {
  const auto [least, most] = limits(to);
  return c.cast(limited(c, x, least, most), to);
}

/// x rounded, and the zero point, which may be absent, added.
static V shifted(Call &c, V x, V zero) {
  V y = c.op(Op::round, {x});
  return zero.valid() ? c.binary(Op::add, y, c.stretch(c.cast(zero, c.dtype(y)), c.dims(y))) : y;
}

static V rounded(Call &c, V x, V zero, DType to) { return saturated(c, shifted(c, x, zero), to); }

/// x less its zero point, which may be one a row or one a column.
static V centered(Call &c, V x, V zero, bool rows) {
  x = c.cast(x, DType::f64);
  if (!zero.valid())
    return x;
  zero = c.cast(zero, DType::f64);
  if (c.rank(zero) == 1 && rows)
    zero = c.reshape(zero, {c.dims(zero)[0], c.constant(1)});
  return c.binary(Op::sub, x, c.stretch(zero, c.dims(x)));
}

V quantize(Call &c, V x, V scale, V zero, DType to) {
  return rounded(c, c.binary(Op::div, x, c.stretch(scale, c.dims(x))), zero, to);
}

V requantize(Call &c, V sums, V a_scale, V b_scale, V scale, V zero, DType to) {
  V factor = c.broadcasting(Op::div, c.broadcasting(Op::mul, a_scale, b_scale), scale);
  return rounded(c, c.binary(Op::mul, c.cast(sums, DType::f32), c.stretch(factor, c.dims(sums))),
                 zero, to);
}

static std::string shape_text(Call &c, const Dims &dims) {
  return "[" +
         ir::joined(dims,
                    [&](E dim) { return c.known(dim) ? std::to_string(*c.known(dim)) : "?"; }) +
         "]";
}

/// Whether these dimensions are known to be others.
static bool differ(Call &c, const Dims &a, const Dims &b) {
  return !std::ranges::equal(
      a, b, [&](E p, E q) { return !c.known(p) || !c.known(q) || *c.known(p) == *c.known(q); });
}

V along(Call &c, V q, V x, int64_t axis_number, int64_t block) {
  if (c.rank(q) == 0)
    return q;
  if (c.rank(q) == 1 && c.known(c.dims(q)[0]) == 1 && !block)
    return c.reshape(q, {});
  const size_t axis = c.axis(axis_number, c.rank(x));
  if (block) {
    if (block < 0) {
      c.w.fail(Code::parse_error, "blocks of " + std::to_string(block) + " elements");
      return q;
    }
    const E size = c.dims(x)[axis];
    if (c.known(size)) // so that what is repeated is not much longer
      block = std::clamp<int64_t>(block, 1, std::max<int64_t>(*c.known(size), 1));
    Dims wanted = c.dims(x);
    wanted[axis] = c.w.exprs().ceildiv(size, c.constant(block));
    if (differ(c, c.dims(q), wanted)) {
      c.w.fail(Code::parse_error, "scales or zero points of shape " + shape_text(c, c.dims(q)) +
                                      " where its blocks ask for " + shape_text(c, wanted));
      return q;
    }
    Dims one = c.dims(q), all = c.dims(q), out = c.dims(q);
    one.insert_at(size_t(axis) + 1, c.constant(1));
    all.insert_at(size_t(axis) + 1, c.constant(block));
    out[axis] = c.w.exprs().mul(out[axis], c.constant(block));
    V wide = c.reshape(c.broadcast(c.reshape(q, one), all), out);
    return out == c.dims(x) ? wide : c.slice(wide, axis, c.constant(0), c.dims(x)[axis]);
  }
  if (c.rank(q) != 1) {
    c.w.fail(Code::parse_error, "scales or zero points of shape " + shape_text(c, c.dims(q)) +
                                    " where there are no blocks");
    return q;
  }
  q = c.w.match(q, {c.dims(x)[axis]});
  Dims column(c.rank(x), c.constant(1));
  column[axis] = c.dims(x)[axis];
  return c.reshape(q, column);
}

V dequantize(Call &c, V x, V scale, V zero) {
  V y = c.cast(x, DType::i32);
  if (zero.valid())
    y = c.binary(Op::sub, y, c.stretch(c.cast(zero, DType::i32), c.dims(y)));
  return c.binary(Op::mul, c.cast(y, c.dtype(scale)), c.stretch(scale, c.dims(y)));
}

Bytes dynamically_quantized(Call &c, V x) {
  const std::vector<V> made = c.w.emit(Op::dynamic_quantize, {c.cast(x, DType::f32)}, {});
  return {made[0], made[1], made[2]};
}

V matmul_bytes(Call &c, V a, V b, V a_zero, V b_zero) {
  if (c.rank(a) < 2 || c.rank(b) < 2)
    return c.cast(c.matmul(centered(c, a, a_zero, true), centered(c, b, b_zero, false)),
                  DType::i32);
  const Dims left = c.dims(a), right = c.dims(b);
  auto fits = [&](V zero, E length) {
    return !zero.valid() || c.rank(zero) == 0 ||
           (c.rank(zero) == 1 && (c.known(c.dims(zero)[0]) == 1 || c.dims(zero)[0] == length));
  };
  const bool outer = right.size() == 2 ||
                     (left.size() == right.size() &&
                      std::equal(left.begin(), left.end() - 2, right.begin(), right.end() - 2));
  if (!outer || left.back() != right[right.size() - 2] || !fits(a_zero, left[left.size() - 2]) ||
      !fits(b_zero, right.back()))
    return c.cast(c.matmul(centered(c, a, a_zero, true), centered(c, b, b_zero, false)),
                  DType::i32);
  return c.op(Op::matmul_integer, {a, b, a_zero, b_zero});
}

namespace {

/// A product of integers, which wraps as numbers of 32 and 64 bits do.
V integer_matmul(Call &c, V a, V b) {
  const DType dtype = c.dtype(a);
  if (ir::info(dtype).bytes_per_block < 4)
    return c.cast(c.matmul(c.cast(a, DType::f64), c.cast(b, DType::f64)), dtype);
  // Such products do not fit into a double: they are made one by one and then summed.
  const bool of_vector = c.rank(b) == 1; // then b's last axis is the one that is summed
  Dims left = c.dims(a), right = c.dims(b);
  if (!of_vector) {
    left.push_back(c.constant(1));
    if (c.rank(a) > 1) // beside a's rows
      right.insert_at(right.size() - 2, c.constant(1));
  }
  V all = c.broadcasting(Op::mul, c.reshape(a, left), c.reshape(b, right));
  return c.reduce(Op::reduce_sum, all, {int64_t(c.rank(all)) - (of_vector ? 1 : 2)}, false);
}

void matmul(Call &c) {
  V a = c.value(0), b = c.value(1);
  c.result(is_real(c.dtype(a)) ? c.matmul(a, b) : integer_matmul(c, a, b));
}

void gemm(Call &c) {
  V a = c.value(0), b = c.value(1);
  const DType dtype = c.dtype(a);
  const double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  if (!is_real(dtype) && (alpha != std::floor(alpha) || beta != std::floor(beta)))
    return c.unsupported("integers times a fraction");
  if (c.integer("transA", 0))
    a = c.transpose(a, {1, 0});
  if (c.integer("transB", 0) && !is_blocks(c, b)) // these are in that order whatever it says
    b = c.transpose(b, {1, 0});
  c.ignore_input(2); // where beta is 0
  V y = is_real(dtype) ? c.matmul(a, b) : integer_matmul(c, a, b);
  if (alpha != 1)
    y = c.binary(Op::mul, y, c.like(y, alpha));
  if (c.has(2) && beta != 0) {
    V bias = c.stretch(c.value(2), c.dims(y));
    y = c.binary(Op::add, y, beta == 1 ? bias : c.binary(Op::mul, bias, c.like(bias, beta)));
  }
  c.result(y);
}

/// The dtype of an input as the file has it.
std::string input_dtype(Call &c, size_t i) {
  const EntryPtr one = c.required(i);
  return one->narrow != Narrow::none ? dtype_name(one->narrow)
                                     : std::string(ir::info(c.dtype(c.value(i))).name);
}

/// Fails where a constant scale is none by which numbers can be divided, or the zero point has
/// another shape.
void check_scale(Call &c, V scale, V zero) {
  if (const EntryPtr given = c.entry(1); given && given->constant && is_real(c.dtype(scale))) {
    const size_t bytes = ir::info(c.dtype(scale)).bytes_per_block;
    const std::string_view all = given->constant->bytes;
    for (size_t at = 0; at + bytes <= all.size(); at += bytes)
      if (const double one = ir::float_at(c.dtype(scale), all.data() + at); !(one > 0))
        return c.w.fail(Code::parse_error, "element " + std::to_string(at / bytes) +
                                               " of its scale is " +
                                               (std::isnan(one) ? "NaN"
                                                : one == 0      ? "0"
                                                                : "negative") +
                                               ", and a scale is above 0");
  }
  auto is_one = [&](V x) {
    return c.rank(x) == 0 || (c.rank(x) == 1 && c.known(c.dims(x)[0]) == 1);
  };
  const Dims points = c.dims(zero), scales = c.dims(scale);
  if (zero.valid() && !(is_one(zero) && is_one(scale)) && differ(c, points, scales))
    c.w.fail(Code::parse_error, "its zero point has the shape " + shape_text(c, points) +
                                    ", its scale " + shape_text(c, scales));
}

/// Absent where the zero point is a constant of zeros.
V unless_zero(Call &c, V zero) {
  const EntryPtr given = zero.valid() ? c.entry(2) : nullptr;
  const bool is_zero =
      given && given->constant && c.dtype(zero) != DType::boolean &&
      std::ranges::all_of(given->constant->bytes, [](char byte) { return byte == 0; });
  return is_zero ? V() : zero;
}

bool is_quantized(DType dtype) {
  return dtype == DType::u8 || dtype == DType::i8 || dtype == DType::u16 || dtype == DType::i16 ||
         dtype == DType::i32;
}

/// Floats have no zero point: it is 0, and only gives the dtype.
V quantize_narrow(Call &c, V x, V scale, V zero, Narrow to) {
  switch (to) {
  case Narrow::float8e4m3fn:
  case Narrow::float8e5m2:
    return narrowed(c, c.binary(Op::div, x, scale), to);
  case Narrow::int4:
    return c.cast(limited(c, shifted(c, c.binary(Op::div, x, scale), zero), -8, 7), held_as(to));
  case Narrow::uint4:
    return c.cast(limited(c, shifted(c, c.binary(Op::div, x, scale), zero), 0, 15), held_as(to));
  case Narrow::none:
    break;
  }
  return {};
}

void quantize_linear(Call &c) {
  V x = c.value(0), scale = c.value(1), zero = c.value(2);
  std::optional<DType> to = zero.valid() ? c.dtype(zero) : DType::u8;
  Narrow narrow = zero.valid() ? c.entry(2)->narrow : Narrow::none;
  if (const auto number = static_cast<int32_t>(c.integer("output_dtype", 0))) {
    to = dtype_of(number);
    narrow = narrow_of(number);
    if (narrow == Narrow::none && (!to || !is_quantized(*to)))
      return c.unsupported("quantised values of dtype " + dtype_name(number));
  } else if (narrow == Narrow::none && !is_quantized(*to)) {
    return c.unsupported("quantised values of dtype " + std::string(ir::info(*to).name));
  }
  if (zero.valid() && (c.dtype(zero) != (narrow == Narrow::none ? *to : held_as(narrow)) ||
                       c.entry(2)->narrow != narrow))
    return c.w.fail(
        Code::parse_error,
        "its zero point has dtype " + input_dtype(c, 2) + ", its result " +
            (narrow == Narrow::none ? std::string(ir::info(*to).name) : dtype_name(narrow)));
  check_scale(c, scale, zero);
  const int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  c.ignore({"saturate"}); // of floats of 8 bits
  if (const int64_t precision = c.integer("precision", 0); precision != 0 && precision != 1)
    return c.unsupported("a quotient that is rounded to another dtype than f32");
  x = c.cast(x, DType::f32), scale = c.cast(along(c, scale, x, axis, block), DType::f32);
  if (zero = unless_zero(c, zero); zero.valid())
    zero = along(c, zero, x, axis, block);
  c.result(narrow == Narrow::none ? quantize(c, x, scale, zero, *to)
                                  : quantize_narrow(c, x, scale, zero, narrow),
           narrow);
}

void dequantize_linear(Call &c) {
  if (const EntryPtr blocks = blocks_for_product(c))
    return c.result(blocks);
  V x = c.value(0), scale = c.value(1), zero = c.value(2);
  if (const EntryPtr given = c.required(0);
      given->narrow == Narrow::none && !is_quantized(c.dtype(x)))
    return c.unsupported("quantised values of dtype " + input_dtype(c, 0));
  if (zero.valid() && input_dtype(c, 2) != input_dtype(c, 0))
    return c.w.fail(Code::parse_error, "its zero point has dtype " + input_dtype(c, 2) +
                                           ", its input " + input_dtype(c, 0));
  check_scale(c, scale, zero);
  const int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  scale = along(c, scale, x, axis, block);
  if (zero = unless_zero(c, zero); zero.valid())
    zero = along(c, zero, x, axis, block);
  V y = is_real(c.dtype(x)) ? c.binary(Op::mul, c.cast(x, c.dtype(scale)), scale)
                            : dequantize(c, x, scale, zero);
  if (const auto to = dtype_of(static_cast<int32_t>(c.integer("output_dtype", 0))))
    y = c.cast(y, *to);
  c.result(y);
}

void dynamic_quantize(Call &c) {
  V x = c.value(0);
  const Bytes made = dynamically_quantized(c, x);
  c.result(made.values, 0);
  c.result(made.scale, 1);
  c.result(made.zero, 2);
}

void matmul_integer(Call &c) {
  c.result(matmul_bytes(c, c.value(0), c.value(1), c.value(2), c.value(3)));
}

void qlinear_matmul(Call &c) {
  V a = c.value(0), b = c.value(3), zero = c.value(7);
  c.result(requantize(c, matmul_bytes(c, a, b, c.value(2), c.value(5)),
                      c.cast(c.value(1), DType::f32), c.cast(c.value(4), DType::f32),
                      c.cast(c.value(6), DType::f32), zero, c.dtype(zero)));
}

void determinant(Call &c) {
  V x = c.value(0);
  if (c.rank(x) < 2)
    return;
  const Dims d = c.dims(x);
  const size_t r = d.size();
  const int64_t n = c.number_of(d[r - 1], "the size of a matrix");
  if (n != 2 && n != 3)
    return c.unsupported("matrices larger than 3 by 3");
  const Dims outer = d.first(d.size() - 2);
  auto at = [&](int64_t i, int64_t j) {
    return c.reshape(c.slice(c.slice(x, r - 2, c.constant(i % n), c.constant(1)), r - 1,
                             c.constant(j % n), c.constant(1)),
                     outer);
  };
  auto minor = [&](int64_t j) { // of row 0, cyclic
    return c.binary(Op::sub, c.binary(Op::mul, at(1, j + 1), at(2, j + 2)),
                    c.binary(Op::mul, at(1, j + 2), at(2, j + 1)));
  };
  if (n == 2)
    return c.result(c.binary(Op::sub, c.binary(Op::mul, at(0, 0), at(1, 1)),
                             c.binary(Op::mul, at(0, 1), at(1, 0))));
  V sum = c.binary(Op::mul, at(0, 0), minor(0));
  for (int64_t j = 1; j < 3; ++j)
    sum = c.binary(Op::add, sum, c.binary(Op::mul, at(0, j), minor(j)));
  c.result(sum);
}

} // namespace

void add_products(HandlerTable &table) {
  table["MatMul"] = matmul;
  table["Gemm"] = gemm;
  table["QuantizeLinear"] = quantize_linear;
  table["DequantizeLinear"] = dequantize_linear;
  table["DynamicQuantizeLinear"] = dynamic_quantize;
  table["MatMulInteger"] = matmul_integer;
  table["QLinearMatMul"] = qlinear_matmul;
  table["Det"] = determinant;
}

} // namespace cugrt::onnx
