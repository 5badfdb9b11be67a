// Arithmetic over known elements; see known_ops.h.
#include "base/type/element.h"
#include "ops/known/known_ops.h"

#include <cmath>

namespace cugrt::ir {

bool compares(Op op) {
  return op == Op::equal || op == Op::less || op == Op::greater || op == Op::less_equal ||
         op == Op::greater_equal;
}

static double rounded_to(DType dtype, double value) {
  std::string bytes;
  append_float(dtype, value, bytes);
  return float_at(dtype, bytes.data());
}

static int64_t wrapped_to(DType dtype, int64_t value) {
  std::string bytes;
  append_integer(dtype, value, bytes);
  return integer_at(dtype, bytes.data());
}

static std::optional<double> real_op(Op op, double a, double b) {
  if (op == Op::add)
    return a + b;
  if (op == Op::sub)
    return a - b;
  if (op == Op::mul)
    return a * b;
  if (op == Op::div)
    return a / b;
  if (op == Op::pow)
    return std::pow(a, b);
  if (std::isnan(a) || std::isnan(b))
    return std::nullopt;
  if (op == Op::minimum)
    return std::min(a, b);
  if (op == Op::maximum)
    return std::max(a, b);
  if (op == Op::equal)
    return a == b;
  if (op == Op::less)
    return a < b;
  if (op == Op::less_equal)
    return a <= b;
  if (op == Op::greater)
    return a > b;
  if (op == Op::greater_equal)
    return a >= b;
  return std::nullopt;
}

static std::optional<double> real_op(Op op, DType dtype, double x) {
  if (op == Op::neg)
    return -x;
  if (op == Op::abs)
    return std::fabs(x);
  if (op == Op::sqrt)
    return rounded_to(dtype, std::sqrt(x));
  if (op == Op::floor)
    return std::floor(x);
  if (op == Op::ceil)
    return std::ceil(x);
  if (op == Op::round)
    return std::nearbyint(x);
  if (op == Op::reciprocal)
    return rounded_to(dtype, 1 / x);
  if (op == Op::exp)
    return rounded_to(dtype, std::exp(x));
  if (op == Op::log)
    return rounded_to(dtype, std::log(x));
  return std::nullopt;
}

static bool is_too_large(std::span<const int64_t> dims) {
  const auto count = element_count(dims);
  return !count || *count > kMostKnownElements;
}

std::optional<int64_t> element_count(std::span<const int64_t> dims) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0)
      return std::nullopt;
    empty |= dim == 0;
    if (dim && __builtin_mul_overflow(count, dim, &count))
      return std::nullopt;
  }
  return empty ? 0 : count;
}

ExprId KnownOps::wrapped(DType dtype, ExprId e) {
  const auto number = known(e);
  return number ? constant(wrapped_to(dtype, *number)) : e;
}

std::optional<ExprId> KnownOps::quotient(DType dtype, ExprId a, ExprId b) {
  const auto x = known(a), y = known(b);
  if (dtype == DType::u64 || (y && *y == 0) || (x && y && *y == -1))
    return std::nullopt;
  if (x && y)
    return constant(*x / *y);
  if (range_(b).lower <= 0)
    return std::nullopt;
  if (range_(a).lower >= 0)
    return exprs_.floordiv(a, b); // of a number that is not negative, truncation is the floor
  return exprs_.make(ExprKind::select, exprs_.make(ExprKind::lt, a, constant(0)),
                     exprs_.ceildiv(a, b), exprs_.floordiv(a, b));
}

std::optional<ExprId> KnownOps::integer_op(Op op, DType dtype, ExprId a, ExprId b) {
  const auto x = known(a), y = known(b);
  int64_t number = 0;
  if (op == Op::add)
    return x && y ? (__builtin_add_overflow(*x, *y, &number), constant(number)) : exprs_.add(a, b);
  if (op == Op::sub)
    return x && y ? (__builtin_sub_overflow(*x, *y, &number), constant(number)) : exprs_.sub(a, b);
  if (op == Op::mul)
    return x && y ? (__builtin_mul_overflow(*x, *y, &number), constant(number)) : exprs_.mul(a, b);
  if (op == Op::div)
    return quotient(dtype, a, b);
  if (dtype == DType::u64)
    return std::nullopt;
  if (op == Op::floor_mod)
    return y && *y != 0 ? std::optional(exprs_.make(ExprKind::mod, a, b)) : std::nullopt;
  const Interval of_a = range_(a), of_b = range_(b);
  const bool below = of_a.upper<of_b.lower, above = of_a.lower> of_b.upper;
  if (op == Op::equal)
    return below || above ? constant(0) : exprs_.make(ExprKind::eq, a, b);
  if (op == Op::less || op == Op::less_equal)
    return below || above ? constant(below)
                          : exprs_.make(op == Op::less ? ExprKind::lt : ExprKind::le, a, b);
  if (op == Op::greater || op == Op::greater_equal)
    return below || above ? constant(above)
                          : exprs_.make(op == Op::greater ? ExprKind::lt : ExprKind::le, b, a);
  if (op == Op::minimum)
    return exprs_.min(a, b);
  if (op == Op::maximum || op == Op::logical_or)
    return exprs_.max(a, b);
  if (op == Op::logical_and)
    return exprs_.mul(a, b);
  if (op == Op::logical_xor)
    return exprs_.make(ExprKind::ne, a, b);
  return std::nullopt;
}

std::optional<KnownTensor> KnownOps::binary(Op op, const Tensor &a, const Tensor &b) {
  if (a.dtype != b.dtype)
    return std::nullopt;
  const auto dims = known_broadcast(a.dims, b.dims);
  if (!dims || is_too_large(*dims))
    return std::nullopt;
  Tensor out{compares(op) ? DType::boolean : a.dtype, *dims, {}, {}};
  const std::vector<size_t> from_a = known_places(a.dims, *dims),
                            from_b = known_places(b.dims, *dims);
  for (size_t i = 0; i < from_a.size(); ++i)
    if (is_real(a.dtype)) {
      const auto value = real_op(op, a.reals[from_a[i]], b.reals[from_b[i]]);
      if (!value)
        return std::nullopt;
      if (compares(op))
        out.ints.push_back(constant(*value != 0));
      else
        out.reals.push_back(rounded_to(a.dtype, *value));
    } else {
      const auto value = integer_op(op, a.dtype, a.ints[from_a[i]], b.ints[from_b[i]]);
      if (!value)
        return std::nullopt;
      out.ints.push_back(compares(op) ? *value : wrapped(a.dtype, *value));
    }
  return out;
}

std::optional<KnownTensor> KnownOps::unary(Op op, const Tensor &x) {
  Tensor out = x;
  for (ExprId &e : out.ints) {
    const ExprId zero = constant(0);
    if (op == Op::neg)
      e = exprs_.sub(zero, e);
    else if (op == Op::logical_not)
      e = exprs_.make(ExprKind::eq, e, zero);
    else if (op == Op::abs)
      e = exprs_.max(e, exprs_.sub(zero, e));
    else
      return std::nullopt;
    e = wrapped(out.dtype, e);
  }
  for (double &number : out.reals) {
    const auto value = real_op(op, out.dtype, number);
    if (!value)
      return std::nullopt;
    number = *value;
  }
  return out;
}

std::optional<KnownTensor> KnownOps::cast(const Tensor &x, DType to) {
  Tensor out{to, x.dims, {}, {}};
  for (ExprId e : x.ints) {
    const auto number = known(e);
    if (is_real(to)) {
      if (!number || x.dtype == DType::u64)
        return std::nullopt;
      out.reals.push_back(rounded_to(to, static_cast<double>(*number)));
    } else if (to == DType::boolean) {
      out.ints.push_back(exprs_.make(ExprKind::ne, e, constant(0)));
    } else if (const Interval range = range_(e);
               !number && to != DType::i64 && to != DType::i32 &&
               !(integer_fits(to, range.lower) && integer_fits(to, range.upper))) {
      return std::nullopt; // it would be cut
    } else {
      out.ints.push_back(wrapped(to, e));
    }
  }
  for (double value : x.reals)
    if (is_real(to))
      out.reals.push_back(rounded_to(to, value));
    else if (!(std::fabs(value) < 9e15) ||
             (to != DType::i64 && to != DType::i32 && to != DType::boolean))
      return std::nullopt;
    else
      out.ints.push_back(constant(
          to == DType::boolean ? value != 0 : wrapped_to(to, static_cast<int64_t>(value))));
  return out;
}

std::optional<KnownTensor> KnownOps::where(const Tensor &condition, const Tensor &a,
                                           const Tensor &b) {
  const auto both = known_broadcast(a.dims, b.dims);
  const auto dims = both ? known_broadcast(condition.dims, *both) : std::nullopt;
  if (!dims || is_too_large(*dims) || a.dtype != b.dtype)
    return std::nullopt;
  const auto from_c = known_places(condition.dims, *dims), from_a = known_places(a.dims, *dims),
             from_b = known_places(b.dims, *dims);
  Tensor out{a.dtype, *dims, {}, {}};
  for (size_t i = 0; i < from_c.size(); ++i) {
    const ExprId choice = condition.ints[from_c[i]];
    const auto number = known(choice);
    if (!is_real(a.dtype))
      out.ints.push_back(
          number ? (*number ? a.ints[from_a[i]] : b.ints[from_b[i]])
                 : exprs_.make(ExprKind::select, choice, a.ints[from_a[i]], b.ints[from_b[i]]));
    else if (number)
      out.reals.push_back(*number ? a.reals[from_a[i]] : b.reals[from_b[i]]);
    else
      return std::nullopt;
  }
  return out;
}

std::optional<KnownTensor> KnownOps::combined(Op op, const Tensor &x, size_t axis) {
  std::optional<Tensor> all;
  for (int64_t i = 0; i < x.dims.at(axis) && (i == 0 || all); ++i) {
    const std::optional<Tensor> next = gather(x, {i}, {}, axis);
    all = i && next ? binary(op, *all, *next) : next;
  }
  return all;
}

std::optional<KnownTensor> KnownOps::range(const Tensor &start, const Tensor &limit,
                                           const Tensor &step) {
  if (limit.dtype != start.dtype || step.dtype != start.dtype)
    return std::nullopt;
  Tensor out{start.dtype, {0}, {}, {}};
  if (is_real(start.dtype)) {
    const double first = start.reals.at(0), by = step.reals.at(0),
                 count = std::ceil((limit.reals.at(0) - first) / by);
    if (!(count <= double(kMostKnownElements)))
      return std::nullopt;
    for (double i = 0; i < count; ++i)
      out.reals.push_back(rounded_to(start.dtype, first + i * by));
  } else {
    const auto first = known(start.ints.at(0)), last = known(limit.ints.at(0)),
               by = known(step.ints.at(0));
    if (!first || !last || !by || *by == 0 ||
        std::fabs(double(*last) - double(*first)) / std::fabs(double(*by)) > kMostKnownElements)
      return std::nullopt;
    int64_t i = *first;
    bool more = true;
    while (more && (*by > 0 ? i < *last : i > *last)) {
      out.ints.push_back(constant(i));
      more = !__builtin_add_overflow(i, *by, &i);
    }
  }
  out.dims = {static_cast<int64_t>(out.size())};
  return out;
}

std::optional<KnownTensor> KnownOps::full(const Ints &dims, const Tensor &value) {
  if (is_too_large(dims))
    return std::nullopt;
  const size_t count = static_cast<size_t>(*element_count(dims));
  Tensor out{value.dtype, dims, {}, {}};
  if (is_real(value.dtype))
    out.reals.assign(count, value.reals.at(0));
  else
    out.ints.assign(count, value.ints.at(0));
  return out;
}

} // namespace cugrt::ir
