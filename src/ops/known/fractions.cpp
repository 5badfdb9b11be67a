// Floats that depend on dimensions, as exporters compute sizes by them: a dimension cast, scaled,
// rounded and cast back. Each is an expression by a number, as long as the device's floats would be
// exactly that; floor and ceil make it an expression again.
//
// A dividend below 2^24 by a whole number is rounded by f32 to no whole number that it is not, so
// floor and ceil behind one division are exact, whatever divides. Sums and products are exact where
// the divisors are powers of two.
#include "ops/known/known_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cugrt::ir {

constexpr int64_t kMostBelow = 1 << 10;
constexpr size_t kMostFractions = 64;

static bool is_exact(const KnownFractions &f) { return std::has_single_bit(uint64_t(f.below)); }

static bool takes_fractions(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

bool KnownOps::fits(const Fractions &f) {
  const int64_t most = f.dtype == DType::f64 ? int64_t(1) << 53 : int64_t(1) << 24;
  for (ExprId e : f.above.ints) {
    const Interval range = range_(e);
    if (range.lower <= -most || range.upper >= most)
      return false;
  }
  return true;
}

std::optional<KnownFractions> KnownOps::fractions(const Tensor &reals) {
  if (!takes_fractions(reals.dtype) || reals.size() > kMostFractions)
    return std::nullopt;
  Fractions f{{DType::i64, reals.dims, {}, {}}, 1, reals.dtype};
  for (double x : reals.reals)
    while (std::fabs(x) < 1e9 && f.below < kMostBelow &&
           x * double(f.below) != std::floor(x * double(f.below)))
      f.below *= 2;
  for (double x : reals.reals) {
    const double above = x * double(f.below);
    if (!(std::fabs(above) < double(1 << 24)) || above != std::floor(above))
      return std::nullopt;
    f.above.ints.push_back(constant(static_cast<int64_t>(above)));
  }
  return f;
}

std::optional<KnownFractions> KnownOps::fractions(const Tensor &integers, DType to) {
  if (is_real(integers.dtype) || integers.dtype == DType::u64 || integers.size() > kMostFractions ||
      !takes_fractions(to))
    return std::nullopt;
  Fractions f{integers, 1, to};
  f.above.dtype = DType::i64;
  return fits(f) ? std::optional(std::move(f)) : std::nullopt;
}

std::optional<KnownFractions> KnownOps::fractions(Fractions x, DType to) {
  if (!takes_fractions(to) || (to != x.dtype && !is_exact(x)))
    return std::nullopt;
  x.dtype = to;
  return fits(x) ? std::optional(std::move(x)) : std::nullopt;
}

std::optional<KnownTensor> KnownOps::truncated(const Fractions &x, DType to) {
  if (to != DType::i64 && to != DType::i32)
    return std::nullopt;
  Tensor out = x.above;
  out.dtype = to;
  for (ExprId &e : out.ints) {
    if (range_(e).lower < 0)
      return std::nullopt; // truncation is no floor
    e = exprs_.floordiv(e, constant(x.below));
  }
  return out;
}

/// The quotient by a whole number, or by one over a power of two.
std::optional<KnownFractions> KnownOps::divided(Fractions a, const Fractions &b) {
  if (b.above.size() != 1 || a.above.dims.size() < b.above.dims.size())
    return std::nullopt;
  const auto by = known(b.above.ints[0]);
  if (!by || *by <= 0 || *by > kMostBelow || (!is_exact(a) && *by != 1))
    return std::nullopt;
  for (ExprId &e : a.above.ints)
    e = scaled(e, b.below);
  if (!fits(a))
    return std::nullopt;
  a.below *= *by;
  const auto is_multiple = [&](ExprId e) {
    const auto number = known(e);
    return number && *number % a.below == 0;
  };
  if (std::all_of(a.above.ints.begin(), a.above.ints.end(), is_multiple)) {
    for (ExprId &e : a.above.ints)
      e = constant(*known(e) / a.below);
    a.below = 1;
  }
  return a.below <= kMostBelow ? std::optional(std::move(a)) : std::nullopt;
}

std::optional<KnownFractions> KnownOps::binary(Op op, const Fractions &a, const Fractions &b) {
  if (a.dtype != b.dtype)
    return std::nullopt;
  if (op == Op::div)
    return divided(a, b);
  if (op != Op::add && op != Op::sub && op != Op::mul && op != Op::maximum && op != Op::minimum)
    return std::nullopt;
  const auto dims = known_broadcast(a.above.dims, b.above.dims);
  if (!dims || !is_exact(a) || !is_exact(b))
    return std::nullopt;
  Fractions y{{DType::i64, *dims, {}, {}}, 1, a.dtype};
  const auto from_a = known_places(a.above.dims, *dims), from_b = known_places(b.above.dims, *dims);
  y.below = op == Op::mul ? a.below * b.below : std::max(a.below, b.below);
  if (y.below > kMostBelow)
    return std::nullopt;
  for (size_t i = 0; i < from_a.size(); ++i) {
    ExprId p = a.above.ints[from_a[i]], q = b.above.ints[from_b[i]];
    if (op != Op::mul)
      p = scaled(p, y.below / a.below), q = scaled(q, y.below / b.below);
    y.above.ints.push_back(op == Op::mul       ? exprs_.mul(p, q)
                           : op == Op::add     ? exprs_.add(p, q)
                           : op == Op::sub     ? exprs_.sub(p, q)
                           : op == Op::maximum ? exprs_.max(p, q)
                                               : exprs_.min(p, q));
  }
  return fits(y) ? std::optional(std::move(y)) : std::nullopt;
}

std::optional<KnownTensor> KnownOps::compared(Op op, Fractions a, Fractions b) {
  Fractions both[] = {std::move(a), std::move(b)};
  if (both[0].dtype != both[1].dtype || !is_exact(both[0]) || !is_exact(both[1]) ||
      !share_divisor(both))
    return std::nullopt;
  return binary(op, both[0].above, both[1].above);
}

std::optional<KnownFractions> KnownOps::combined(Op op, const Fractions &x, size_t axis) {
  const bool chooses = op == Op::maximum || op == Op::minimum;
  if (!chooses && !(op == Op::add && is_exact(x)))
    return std::nullopt;
  auto above = combined(op, x.above, axis);
  Fractions y{above ? std::move(*above) : Tensor(), x.below, x.dtype};
  return above && fits(y) ? std::optional(std::move(y)) : std::nullopt;
}

KnownFractions KnownOps::rounded(Op op, Fractions x) {
  for (ExprId &e : x.above.ints)
    e = op == Op::floor ? exprs_.floordiv(e, constant(x.below))
                        : exprs_.ceildiv(e, constant(x.below));
  x.below = 1;
  return x;
}

bool KnownOps::share_divisor(std::span<Fractions> all) {
  int64_t below = 1;
  for (const Fractions &one : all)
    below = std::max(below, one.below);
  for (Fractions &one : all) {
    if (below % one.below != 0)
      return false;
    for (ExprId &e : one.above.ints)
      e = scaled(e, below / one.below);
    one.below = below;
  }
  return true;
}

} // namespace cugrt::ir
