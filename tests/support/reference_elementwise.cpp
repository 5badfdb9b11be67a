// Reference arithmetic: ops that work element by element.
#include "support/reference_call.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace cugrt::test {

namespace {

double unary(const Call &call, double x) {
  const double pi = 3.14159265358979323846;
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
    if (call.text("approximate") == "tanh")
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case Op::erf:
    return std::erf(x);
  case Op::sin:
    return std::sin(x);
  case Op::cos:
    return std::cos(x);
  case Op::tan:
    return std::tan(x);
  case Op::asin:
    return std::asin(x);
  case Op::acos:
    return std::acos(x);
  case Op::atan:
    return std::atan(x);
  case Op::sinh:
    return std::sinh(x);
  case Op::cosh:
    return std::cosh(x);
  case Op::asinh:
    return std::asinh(x);
  case Op::acosh:
    return std::acosh(x);
  case Op::atanh:
    return std::atanh(x);
  case Op::log1p:
    return std::log1p(x);
  case Op::floor:
    return std::floor(x);
  case Op::ceil:
    return std::ceil(x);
  case Op::round:
    return std::nearbyint(x);
  case Op::reciprocal:
    return 1 / x;
  case Op::softplus:
    return std::isinf(x) ? (x > 0 ? x : 0) : std::log1p(std::exp(x));
  case Op::softsign:
    return x / (1 + std::fabs(x));
  case Op::hard_swish:
    return x * std::min(6.0, std::isnan(x) ? x : std::max(0.0, x + 3)) / 6;
  case Op::leaky_relu:
    return x < 0 ? call.number("alpha") * x : x;
  case Op::elu:
    return x < 0 ? call.number("alpha") * std::expm1(x) : x;
  case Op::hard_sigmoid: {
    const double y = call.number("alpha") * x + call.number("beta");
    return std::isnan(y) ? y : std::min(1.0, std::max(0.0, y));
  }
  case Op::sign:
    return std::isnan(x) ? x : double(x > 0) - double(x < 0);
  case Op::clip:
    return std::isnan(x) ? x : std::min(std::max(x, call.number("min")), call.number("max"));
  case Op::is_nan:
    return std::isnan(x);
  case Op::is_inf:
    return std::isinf(x);
  case Op::logical_not:
    return x == 0;
  default:
    throw std::logic_error("no unary op");
  }
}

// By the bits of two whole numbers.
double bitwise(const Call &call, double a, double b) {
  const int64_t p = int64_t(a), q = int64_t(b);
  switch (call.op) {
  case Op::bitwise_and:
    return double(p & q);
  case Op::bitwise_or:
    return double(p | q);
  case Op::bitwise_xor:
    return double(p ^ q);
  case Op::shift_left: // by too much, or by a negative number, nothing is left
    return q < 0 || q > 40 ? 0 : wrap_to(call.dtype, a * std::ldexp(1.0, int(q)));
  default: // shift_right: a sign fills
    return q < 0 || q > 63 ? (a < 0 ? -1 : 0) : std::floor(std::ldexp(a, -int(q)));
  }
}

// As for floats, but for what division does.
double integer_binary(Op op, double a, double b) {
  switch (op) {
  case Op::div:
    return b == 0 ? 0 : std::trunc(a / b);
  case Op::trunc_mod:
    return b == 0 ? 0 : std::fmod(a, b);
  case Op::floor_mod:
    return b == 0 ? 0 : a - b * std::floor(a / b);
  case Op::pow:
    if (b < 0)
      return a == 0 ? 0 : std::trunc(std::pow(a, b));
    return std::pow(a, b);
  default:
    return binary(op, a, b);
  }
}

} // namespace

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
  case Op::pow:
    return std::pow(a, b);
  case Op::trunc_mod:
    return std::fmod(a, b);
  case Op::floor_mod: {
    const double rest = std::fmod(a, b);
    return rest != 0 && std::signbit(rest) != std::signbit(b) ? rest + b : rest;
  }
  case Op::prelu:
    return a < 0 ? a * b : a;
  case Op::equal:
    return a == b;
  case Op::not_equal:
    return a != b;
  case Op::less:
    return a < b;
  case Op::less_equal:
    return a <= b;
  case Op::greater:
    return a > b;
  case Op::greater_equal:
    return a >= b;
  case Op::logical_and:
    return a != 0 && b != 0;
  case Op::logical_or:
    return a != 0 || b != 0;
  case Op::logical_xor:
    return (a != 0) != (b != 0);
  default:
    throw std::logic_error("no binary op");
  }
}

static std::vector<Array> elementwise(const Call &call) {
  Array y = Array::of(call.operand(0).dims);
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = call.stored(unary(call, call.operand(0).values[i]));
  return {y};
}

static std::vector<Array> broadcasting(const Call &call) {
  const Array &a = call.operand(0), &b = call.operand(1);
  Array y = Array::of(broadcast_dims(a.dims, b.dims));
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), y.dims);
    const double p = broadcast_at(a, at), q = broadcast_at(b, at);
    y.values[i] =
        call.stored(call.is_integer() ? integer_binary(call.op, p, q) : binary(call.op, p, q));
  }
  return {y};
}

std::vector<Array> reference_unary(const Call &call) { return elementwise(call); }
std::vector<Array> reference_unary_number(const Call &call) { return elementwise(call); }
std::vector<Array> reference_test(const Call &call) { return elementwise(call); }
std::vector<Array> reference_logical_not(const Call &call) { return elementwise(call); }
std::vector<Array> reference_binary(const Call &call) { return broadcasting(call); }
std::vector<Array> reference_binary_float(const Call &call) { return broadcasting(call); }
std::vector<Array> reference_compare(const Call &call) { return broadcasting(call); }
std::vector<Array> reference_logical(const Call &call) { return broadcasting(call); }

std::vector<Array> reference_bitwise_not(const Call &call) {
  Array y = call.operand(0);
  const bool is_signed = ir::info(call.dtype).kind == ir::DTypeKind::signed_integer;
  const double ones =
      is_signed ? -1 : std::ldexp(1.0, int(ir::info(call.dtype).bytes_per_block) * 8) - 1;
  for (double &value : y.values)
    value = ones - value;
  return {y};
}

std::vector<Array> reference_bitwise(const Call &call) {
  const Array &a = call.operand(0), &b = call.operand(1);
  Array y = Array::of(broadcast_dims(a.dims, b.dims));
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), y.dims);
    y.values[i] = bitwise(call, broadcast_at(a, at), broadcast_at(b, at));
  }
  return {y};
}

std::vector<Array> reference_where(const Call &call) {
  const Array &condition = call.operand(0), &a = call.operand(1), &b = call.operand(2);
  Array y = Array::of(broadcast_dims(condition.dims, broadcast_dims(a.dims, b.dims)));
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), y.dims);
    y.values[i] = broadcast_at(condition, at) != 0 ? broadcast_at(a, at) : broadcast_at(b, at);
  }
  return {y};
}

std::vector<Array> reference_cast(const Call &call) {
  const ir::DType to = ir::op_dtype(call.op, call.attributes, "dtype");
  Array y = call.operand(0);
  for (double &value : y.values)
    value = call.is_integer() ? wrap_to(to, value) : round_to(to, value);
  return {y};
}

} // namespace cugrt::test
