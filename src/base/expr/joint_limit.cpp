// From constraints to limits: products are multiplied out, like terms joined.
#include "base/checked_math.h"
#include "base/expr/symbols.h"

#include <algorithm>

namespace cugrt::ir {

namespace {

/// Written out, the largest limit that is allowed has fewer nodes.
constexpr uint32_t kMostNodes = 512;

class LimitBuilder {
public:
  explicit LimitBuilder(const ExprPool &exprs) : exprs_(exprs) {}

  const char *why = nullptr; // it is none

  bool build(ExprId expr, std::vector<Monomial> &out) {
    const ExprNode &node = exprs_[expr];
    if (node.kind == ExprKind::constant) {
      if (node.value < 0)
        return fail("has a negative coefficient");
      if (node.value > 0)
        out.push_back({node.value, {}});
      return true;
    }
    if (node.kind == ExprKind::symbol) {
      out.push_back({1, {static_cast<uint32_t>(node.value)}});
      return true;
    }
    if (node.kind == ExprKind::sub)
      return fail("has a negative coefficient");
    if (node.kind != ExprKind::add && node.kind != ExprKind::mul)
      return fail("is no sum of products of symbols");
    std::vector<Monomial> a, b;
    if (!build(node.a, a) || !build(node.b, b))
      return false;
    if (node.kind == ExprKind::mul)
      return multiply(a, b, out);
    out = std::move(a);
    return std::all_of(b.begin(), b.end(), [&](Monomial &term) { return add(out, term); });
  }

private:
  bool fail(const char *because) {
    why = because;
    return false;
  }

  bool multiply(const std::vector<Monomial> &a, const std::vector<Monomial> &b,
                std::vector<Monomial> &out) {
    for (const Monomial &x : a)
      for (const Monomial &y : b) {
        const auto coefficient = checked_mul(x.coefficient, y.coefficient);
        if (!coefficient)
          return fail("has a coefficient of more than 63 bits");
        if (x.symbols.size() + y.symbols.size() > kMaxConstraintDegree)
          return fail("has a product of too many symbols");
        Monomial product{*coefficient, {}};
        std::merge(x.symbols.begin(), x.symbols.end(), y.symbols.begin(), y.symbols.end(),
                   std::back_inserter(product.symbols));
        if (!add(out, product))
          return false;
      }
    return true;
  }

  bool add(std::vector<Monomial> &to, Monomial &term) {
    for (Monomial &other : to)
      if (other.symbols == term.symbols) {
        const auto sum = checked_add(other.coefficient, term.coefficient);
        other.coefficient = sum.value_or(0);
        return sum || fail("has a coefficient of more than 63 bits");
      }
    to.push_back(std::move(term));
    return to.size() <= kMaxConstraintTerms || fail("has too many terms");
  }

  const ExprPool &exprs_;
};

} // namespace

bool keeps(std::span<const JointLimit> limits, std::span<const int64_t> values) {
  for (const JointLimit &limit : limits) {
    std::optional<int64_t> sum = 0;
    for (const Monomial &term : limit.terms) {
      std::optional<int64_t> product = term.coefficient;
      for (uint32_t symbol : term.symbols)
        product = product ? checked_mul(*product, values[symbol]) : product;
      sum = sum && product ? checked_add(*sum, *product) : std::nullopt;
    }
    if (!sum || *sum > limit.most)
      return false;
  }
  return true;
}

std::vector<int64_t> highest_point(const Domain &domain, bool last_first) {
  std::vector<int64_t> point;
  for (const Interval &bounds : domain.box)
    point.push_back(bounds.lower);
  if (!keeps(domain.limits, point))
    return point;
  for (size_t i = 0; i < point.size(); ++i) {
    const size_t symbol = last_first ? point.size() - 1 - i : i;
    int64_t low = domain.box[symbol].lower, high = domain.box[symbol].upper;
    point[symbol] = high;
    if (keeps(domain.limits, point))
      continue;
    while (high - low > 1) { // no symbol of a limit is negative
      point[symbol] = low + (high - low) / 2;
      (keeps(domain.limits, point) ? low : high) = point[symbol];
    }
    point[symbol] = low;
  }
  return point;
}

Result<JointLimit> ExprPool::joint_limit(const Constraint &constraint) const {
  auto refuse = [](const char *why) { return Status::error(Code::verify_error, why); };
  if (tree_size(constraint.expr) > kMostNodes)
    return refuse("has too many terms");
  LimitBuilder builder(*this);
  JointLimit limit{{}, constraint.most};
  if (!builder.build(constraint.expr, limit.terms))
    return refuse(builder.why);
  std::erase_if(limit.terms, [&](const Monomial &term) {
    if (!term.symbols.empty())
      return false;
    limit.most = checked_sub(limit.most, term.coefficient).value_or(INT64_MIN);
    return true;
  });
  if (limit.terms.empty())
    return refuse("names no symbol");
  return limit;
}

} // namespace cugrt::ir
