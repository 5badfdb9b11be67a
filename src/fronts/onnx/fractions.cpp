// Floats that depend on dimensions, as exporters compute sizes by them: a dimension cast, scaled,
// rounded and cast back. Each is an expression by a number, as long as the device's floats would be
// exactly that; floor and ceil make it an expression again, and nothing is emitted.
//
// A dividend below 2^24 by a whole number is rounded by f32 to no whole number that it is not, so
// floor and ceil behind one division are exact, whatever divides. Sums and products are exact where
// the divisors are powers of two.
#include "fronts/onnx/call.h"
#include "fronts/onnx/host_ops.h"

#include <bit>

namespace cugrt::onnx {

namespace {

constexpr int64_t kMostBelow = 1 << 10;

bool is_exact(const Fractions &f) { return std::has_single_bit(uint64_t(f.below)); }

bool fits(Call &c, const Fractions &f) {
  const int64_t most = f.dtype == DType::f64 ? int64_t(1) << 53 : int64_t(1) << 24;
  for (E e : f.above.ints) {
    const ir::Interval range = c.w.range(e);
    if (range.lower <= -most || range.upper >= most)
      return false;
  }
  return true;
}

/// Numbers with few binary digits behind the point.
std::optional<Fractions> of_numbers(Call &c, const Host &host) {
  Fractions f{{DType::i64, host.dims, {}, {}}, 1, host.dtype};
  for (double x : host.reals)
    while (std::fabs(x) < 1e9 && f.below < kMostBelow &&
           x * double(f.below) != std::floor(x * double(f.below)))
      f.below *= 2;
  for (double x : host.reals) {
    const double above = x * double(f.below);
    if (!(std::fabs(above) < double(1 << 24)) || above != std::floor(above))
      return std::nullopt;
    f.above.ints.push_back(c.constant(static_cast<int64_t>(above)));
  }
  return f;
}

/// An input that is such floats; numbers become them.
std::optional<Fractions> input(Call &c, size_t i) {
  const EntryPtr entry = c.entry(i);
  if (!entry)
    return std::nullopt;
  if (entry->fractions)
    return entry->fractions;
  const Host *host = c.host(i);
  const bool real = host && (host->dtype == DType::f32 || host->dtype == DType::f64);
  return real && host->size() <= 64 ? of_numbers(c, *host) : std::nullopt;
}

E scaled(Call &c, E e, int64_t by) { return c.w.exprs().mul(e, c.constant(by)); }

bool cast(Call &c) {
  const auto to = dtype_of(static_cast<int32_t>(c.integer("to", 0)));
  const EntryPtr x = c.entry(0);
  if (!x || !to)
    return false;
  ignore_rounding(c, *to);
  if (!x->fractions) { // of integers
    const Host *host = c.host(0);
    if (!host || is_real(host->dtype) || host->dtype == DType::u64 || host->size() > 64 ||
        (*to != DType::f32 && *to != DType::f64))
      return false;
    Fractions f{*host, 1, *to};
    f.above.dtype = DType::i64;
    if (!fits(c, f))
      return false;
    c.result(std::move(f));
    return true;
  }
  Fractions f = *x->fractions;
  if (*to == DType::f32 || *to == DType::f64) {
    if (*to != f.dtype && !is_exact(f))
      return false;
    f.dtype = *to;
    if (!fits(c, f))
      return false;
    c.result(std::move(f));
    return true;
  }
  if (*to != DType::i64 && *to != DType::i32)
    return false;
  Host out = f.above;
  out.dtype = *to;
  for (E &e : out.ints) {
    if (c.w.range(e).lower < 0)
      return false; // truncation is no floor
    e = c.w.exprs().floordiv(e, c.constant(f.below));
  }
  c.result(std::move(out));
  return true;
}

/// The quotient by a whole number, or by what is one over a power of two.
std::optional<Fractions> divided(Call &c, Fractions a, const Fractions &b) {
  if (b.above.size() != 1 || a.above.dims.size() < b.above.dims.size())
    return std::nullopt;
  const auto by = c.known(b.above.ints[0]);
  if (!by || *by <= 0 || *by > kMostBelow || (!is_exact(a) && *by != 1))
    return std::nullopt;
  for (E &e : a.above.ints)
    e = scaled(c, e, b.below);
  if (!fits(c, a))
    return std::nullopt;
  a.below *= *by;
  const auto multiple = [&](E e) {
    const auto number = c.known(e);
    return number && *number % a.below == 0;
  };
  if (std::all_of(a.above.ints.begin(), a.above.ints.end(), multiple)) {
    for (E &e : a.above.ints)
      e = c.constant(*c.known(e) / a.below);
    a.below = 1;
  }
  return a.below <= kMostBelow ? std::optional(std::move(a)) : std::nullopt;
}

std::optional<Fractions> two(Call &c, const Fractions &a, const Fractions &b) {
  const std::string_view op = c.node.op;
  if (a.dtype != b.dtype)
    return std::nullopt;
  if (op == "Div")
    return divided(c, a, b);
  const auto dims = host::broadcast(a.above.dims, b.above.dims);
  if (!dims || !is_exact(a) || !is_exact(b))
    return std::nullopt;
  Fractions y{{DType::i64, *dims, {}, {}}, 1, a.dtype};
  const auto from_a = host::stretched(a.above.dims, *dims),
             from_b = host::stretched(b.above.dims, *dims);
  y.below = op == "Mul" ? a.below * b.below : std::max(a.below, b.below);
  if (y.below > kMostBelow)
    return std::nullopt;
  ir::ExprPool &exprs = c.w.exprs();
  for (size_t i = 0; i < from_a.size(); ++i) {
    E p = a.above.ints[from_a[i]], q = b.above.ints[from_b[i]];
    if (op != "Mul")
      p = scaled(c, p, y.below / a.below), q = scaled(c, q, y.below / b.below);
    y.above.ints.push_back(op == "Mul"   ? exprs.mul(p, q)
                           : op == "Add" ? exprs.add(p, q)
                                         : exprs.sub(p, q));
  }
  return fits(c, y) ? std::optional(std::move(y)) : std::nullopt;
}

bool rounded(Call &c) {
  const auto x = input(c, 0);
  if (!x)
    return false;
  Fractions y = *x;
  for (E &e : y.above.ints)
    e = c.node.op == "Floor" ? c.w.exprs().floordiv(e, c.constant(x->below))
                             : c.w.exprs().ceildiv(e, c.constant(x->below));
  y.below = 1;
  c.result(std::move(y));
  return true;
}

/// What only chooses elements does so with what is above the line.
bool moved(Call &c) {
  std::vector<Fractions> parts;
  std::vector<const Host *> in;
  const size_t of_floats = c.node.op == "Concat" ? c.input_count() : 1;
  int64_t below = 1;
  for (size_t i = 0; i < of_floats; ++i) {
    const auto part = input(c, i);
    if (!part || part->dtype != (parts.empty() ? *part : parts[0]).dtype)
      return false;
    parts.push_back(*part);
    below = std::max(below, part->below);
  }
  for (Fractions &part : parts) {
    if (below % part.below != 0)
      return false;
    for (E &e : part.above.ints)
      e = scaled(c, e, below / part.below);
    in.push_back(&part.above);
  }
  for (size_t i = of_floats; i < c.input_count(); ++i)
    in.push_back(c.has(i) ? c.host(i) : nullptr);
  auto chosen = host::moved(c, in);
  if (!chosen)
    return false;
  for (size_t i = 0; i < chosen->size(); ++i)
    c.result(Fractions{std::move((*chosen)[i]), below, parts[0].dtype}, i);
  return true;
}

} // namespace

std::optional<Fractions> fraction(Call &call, size_t i) {
  auto f = input(call, i);
  return f && f->above.size() == 1 ? f : std::nullopt;
}

bool evaluate_fractions(Call &c) {
  if (!c.node.domain.empty() || c.failed())
    return false;
  const std::string_view op = c.node.op;
  if (op == "Cast")
    return cast(c);
  bool any = false;
  for (size_t i = 0; i < c.input_count(); ++i)
    any = any || (c.has(i) && c.entry(i)->fractions);
  if (!any)
    return false;
  if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div") {
    const auto a = input(c, 0), b = input(c, 1);
    auto y = a && b ? two(c, *a, *b) : std::nullopt;
    if (!y)
      return false;
    c.result(std::move(*y));
    return true;
  }
  if (op == "Floor" || op == "Ceil")
    return rounded(c);
  return host::moves(op) && moved(c);
}

} // namespace cugrt::onnx
