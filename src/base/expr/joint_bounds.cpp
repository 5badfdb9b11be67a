// How a sum of products is bounded, b*s <= N being the limit:
//
//   4*b*s*h + 8*b   expanded into terms; each is bounded by itself and the bounds are added:
//   4*b*s*h         the limit's b*s divides it: at most 4 * N * max(h); or by the box alone
//   8*b             b*s = b * (a rest of at least min(s)): at most 8 * floor(N / min(s))
//
// A limit of several terms, b + s <= N, says more of several terms at once: 4*b + 2*s is
// 4*(b + s) - 2*s, at most 4*N - 2*min(s), or 2*(b + s) + 2*b. Each term of a limit is taken away
// in turn, and the least of all these bounds counts. A quotient is at most the same without
// rounding: b*ceildiv(s, 32) <= (b*s + 31*b) / 32. The least of two is at most each of them:
// min(s, 8) - s <= 0.
//
// All of it holds for every value of the domain, so the order and the number of steps, which is
// bounded, decide how narrow a bound is, not whether it is one.
#include "base/expr/joint_bounds.h"

#include "base/checked_math.h"

#include <iterator>
#include <numeric>

namespace cugrt::ir {

constexpr size_t kMostTerms = 24;

/// The largest number whose power is at most `of`, which is not negative.
static int64_t root(int64_t of, size_t power) {
  if (power == 1 || of < 2)
    return of;
  auto fits = [&](int64_t base) {
    std::optional<int64_t> product = 1;
    for (size_t i = 0; i < power && product; ++i)
      product = checked_mul(*product, base);
    return product && *product <= of;
  };
  int64_t low = 1, high = int64_t(1) << 32; // a root of 63 bits is smaller
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

static Wide sum_bound(Wide a, Wide b) {
  if (infinite(a) || infinite(b))
    return a >= kInfinity || b >= kInfinity ? kInfinity : -kInfinity;
  return clamp(a + b);
}

static bool is_small(Wide coefficient) { return !infinite(clamp(coefficient)); }

// --- Boxes ---------------------------------------------------------------------------------------

/// The least value of a monomial; none where a symbol may be negative or has no bounds.
static std::optional<Wide> least(const std::vector<Interval> &box, const Monomial &term) {
  Wide product = term.coefficient;
  for (uint32_t symbol : term.symbols) {
    if (symbol >= box.size() || box[symbol].lower < 0)
      return std::nullopt;
    product = mul_bound(product, box[symbol].lower);
  }
  return product;
}

/// The least value of a limit's sum, on the same terms.
static std::optional<Wide> least(const std::vector<Interval> &box, const JointLimit &limit) {
  Wide sum = 0;
  for (const Monomial &term : limit.terms) {
    const std::optional<Wide> value = least(box, term);
    if (!value)
      return std::nullopt;
    sum = sum_bound(sum, *value);
  }
  return sum;
}

bool tighten(std::vector<Interval> &box, std::span<const JointLimit> limits) {
  std::vector<Interval> tight = box;
  for (const JointLimit &limit : limits) {
    const std::optional<Wide> sum = least(box, limit);
    if (!sum)
      continue;
    if (*sum > limit.most)
      return false;
    for (const Monomial &term : limit.terms) {
      const Wide room = limit.most - (*sum - *least(box, term));
      for (size_t i = 0; i < term.symbols.size(); ++i) {
        const uint32_t symbol = term.symbols[i];
        if (i != 0 && term.symbols[i - 1] == symbol)
          continue;
        Monomial others{term.coefficient, {}};
        for (uint32_t other : term.symbols)
          if (other != symbol)
            others.symbols.push_back(other);
        const Wide factor = *least(box, others);
        if (factor == 0)
          continue;
        const int64_t most =
            root(int64_t(room / factor), term.symbols.size() - others.symbols.size());
        tight[symbol].upper = std::min(tight[symbol].upper, most);
      }
    }
  }
  for (const Interval &bounds : tight)
    if (bounds.lower > bounds.upper)
      return false;
  box = std::move(tight);
  return true;
}

// --- Terms ---------------------------------------------------------------------------------------

bool JointBounds::spend(size_t steps) {
  const bool enough = steps <= work_;
  work_ = enough ? work_ - static_cast<uint32_t>(steps) : 0;
  return enough;
}

/// False where the expression has too many terms to be looked at.
bool JointBounds::expand(ExprId expr, Terms &out) {
  out.clear();
  const ExprNode &node = exprs_[expr];
  if (node.kind == ExprKind::constant) {
    if (node.value != 0)
      out.push_back({node.value, {}});
    return is_small(node.value);
  }
  if (!spend(1))
    return false;
  if (node.kind == ExprKind::symbol && static_cast<uint64_t>(node.value) < kWhole) {
    out.push_back({1, {static_cast<uint32_t>(node.value)}});
    return true;
  }
  if (node.kind == ExprKind::add || node.kind == ExprKind::sub || node.kind == ExprKind::mul) {
    Terms a, b;
    if (!expand(node.a, a) || !expand(node.b, b))
      return false;
    if (node.kind == ExprKind::mul)
      return multiply(a, b, out);
    out = std::move(a);
    return add_scaled(out, b, node.kind == ExprKind::sub ? -1 : 1);
  }
  if (expr.index >= kWhole)
    return false;
  out.push_back({1, {kWhole | expr.index}});
  return true;
}

bool JointBounds::multiply(const Terms &a, const Terms &b, Terms &out) {
  out.clear();
  if (!spend(a.size() * b.size()))
    return false;
  for (const Term &x : a)
    for (const Term &y : b) {
      if (x.atoms.size() + y.atoms.size() > kMostAtoms)
        return false;
      Term product{x.coefficient * y.coefficient, {}};
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(),
                 std::back_inserter(product.atoms));
      if (!add_scaled(out, {std::move(product)}, 1))
        return false;
    }
  return true;
}

/// False where there would be too many terms, or coefficients of more than 63 bits.
bool JointBounds::add_scaled(Terms &to, const Terms &from, Wide scale) {
  for (const Term &term : from) {
    if (!is_small(term.coefficient))
      return false;
    const Wide coefficient = term.coefficient * scale;
    auto same = std::find_if(to.begin(), to.end(),
                             [&](const Term &other) { return other.atoms == term.atoms; });
    if (same == to.end())
      to.push_back({coefficient, term.atoms});
    else if ((same->coefficient += coefficient) == 0)
      to.erase(same);
  }
  return to.size() <= kMostTerms && std::all_of(to.begin(), to.end(), [](const Term &term) {
           return is_small(term.coefficient);
         });
}

WideInterval JointBounds::atom(uint32_t atom) {
  if (atom >= kWhole)
    return range_of_({atom - kWhole});
  return atom < domain_.box.size() ? widen(domain_.box[atom]) : widen(Interval{});
}

/// Bounds of a product without the limits.
WideInterval JointBounds::plain(const Atoms &atoms) {
  WideInterval product{1, 1};
  for (uint32_t a : atoms)
    product = mul_interval(product, atom(a));
  return product;
}

bool JointBounds::never_negative(const Atoms &atoms) {
  return std::all_of(atoms.begin(), atoms.end(), [&](uint32_t a) { return atom(a).lower >= 0; });
}

/// The least product of symbols that a limit names; negative where one may be.
Wide JointBounds::lowest(std::span<const uint32_t> symbols) {
  Wide product = 1;
  for (uint32_t symbol : symbols) {
    const WideInterval bounds = atom(symbol);
    if (bounds.lower < 0)
      return -1;
    product = mul_bound(product, bounds.lower);
  }
  return product;
}

Wide JointBounds::lowest(const Monomial &term) {
  return mul_bound(term.coefficient, lowest(term.symbols));
}

// --- Upper bounds --------------------------------------------------------------------------------

/// The upper bound of a product.
Wide JointBounds::upper(const Atoms &atoms) {
  Wide best = plain(atoms).upper;
  if (atoms.empty() || !never_negative(atoms))
    return best;
  for (const JointLimit &limit : domain_.limits)
    for (const Monomial &term : limit.terms) {
      if (!spend(limit.terms.size()))
        return best;
      Atoms common, rest, missing;
      std::set_intersection(atoms.begin(), atoms.end(), term.symbols.begin(), term.symbols.end(),
                            std::back_inserter(common));
      if (common.empty())
        continue;
      std::set_difference(atoms.begin(), atoms.end(), common.begin(), common.end(),
                          std::back_inserter(rest));
      std::set_difference(term.symbols.begin(), term.symbols.end(), common.begin(), common.end(),
                          std::back_inserter(missing));
      const Wide least_missing = lowest(missing);
      Wide room = limit.most;
      for (const Monomial &other : limit.terms) {
        const Wide least_other = &other == &term ? 0 : lowest(other);
        room = least_other < 0 || infinite(room) ? kInfinity : room - least_other;
      }
      if (least_missing <= 0 || infinite(room) || !never_negative(common))
        continue;
      const Wide most =
          div_bound(std::max<Wide>(room, 0), mul_bound(least_missing, term.coefficient), false);
      best = std::min(best, mul_bound(most, upper(rest)));
    }
  return best;
}

Wide JointBounds::upper(const Term &term) {
  return mul_bound(term.coefficient,
                   term.coefficient < 0 ? plain(term.atoms).lower : upper(term.atoms));
}

Wide JointBounds::upper(const Terms &terms) {
  Wide best = 0;
  for (const Term &term : terms)
    best = sum_bound(best, upper(term));
  best = std::min(best, std::min(upper_by_quotient(terms), upper_by_choice(terms)));
  // A limit of one term already counts in the bound of each term.
  for (const JointLimit &limit : domain_.limits)
    if (limit.terms.size() > 1)
      for (const Monomial &monomial : limit.terms)
        for (const Term &term : terms)
          if (term.coefficient > 0 && spend(1))
            best = std::min(best, upper_by_limit(terms, term, limit, monomial));
  return best;
}

/// Subtracts the limit so often that `term` is gone. The subtracted part is at most the limit's
/// most, times the factors of `term` beyond `monomial`.
Wide JointBounds::upper_by_limit(const Terms &terms, const Term &term, const JointLimit &limit,
                                 const Monomial &monomial) {
  if (!std::includes(term.atoms.begin(), term.atoms.end(), monomial.symbols.begin(),
                     monomial.symbols.end()))
    return kInfinity;
  Atoms times;
  std::set_difference(term.atoms.begin(), term.atoms.end(), monomial.symbols.begin(),
                      monomial.symbols.end(), std::back_inserter(times));
  for (const Monomial &other : limit.terms)
    if (lowest(other) < 0)
      return kInfinity;
  if (!never_negative(times))
    return kInfinity;
  const Wide common = std::gcd(int64_t(term.coefficient), monomial.coefficient);
  const Wide scale = monomial.coefficient / common, taken = term.coefficient / common;
  Terms limit_terms, product, rest;
  for (const Monomial &other : limit.terms)
    limit_terms.push_back({other.coefficient, Atoms(other.symbols.begin(), other.symbols.end())});
  if (!multiply(limit_terms, {{taken, times}}, product) || !add_scaled(rest, terms, scale) ||
      !add_scaled(rest, product, -1))
    return kInfinity;
  const Wide most = mul_bound(mul_bound(taken, limit.most), upper(times));
  return div_bound(sum_bound(most, upper(rest)), scale, false);
}

/// Writes the first quotient by a constant without its rounding.
Wide JointBounds::upper_by_quotient(const Terms &terms) {
  for (const Term &term : terms)
    for (uint32_t quotient : term.atoms) {
      if (quotient < kWhole)
        continue;
      const ExprNode &node = exprs_[{quotient - kWhole}];
      const std::optional<int64_t> divisor =
          node.kind == ExprKind::ceildiv || node.kind == ExprKind::floordiv
              ? exprs_.as_constant(node.b)
              : std::nullopt;
      Terms dividend, whole;
      if (!divisor || *divisor < 1 || !expand(node.a, dividend))
        continue;
      for (const Term &other : terms) {
        Term rest = other;
        auto found = std::find(rest.atoms.begin(), rest.atoms.end(), quotient);
        if (found == rest.atoms.end()) {
          if (!add_scaled(whole, {rest}, *divisor))
            return kInfinity;
          continue;
        }
        rest.atoms.erase(found);
        // Rounding adds, or takes away, less than one.
        const bool up = node.kind == ExprKind::ceildiv;
        const Wide rounding =
            other.coefficient > 0 ? (up ? *divisor - 1 : 0) : (up ? 0 : 1 - *divisor);
        Terms product, numerator = dividend;
        if (!never_negative(rest.atoms) || !add_scaled(numerator, {{rounding, {}}}, 1) ||
            !multiply(numerator, {rest}, product) || !add_scaled(whole, product, 1))
          return kInfinity;
      }
      return div_bound(upper(whole), *divisor, false);
    }
  return kInfinity;
}

/// Whether either operand of that min or max bounds the sum: where it grows with a min, or falls
/// with a max.
bool JointBounds::either_bounds(const Terms &terms, uint32_t chosen) {
  const bool is_min = exprs_[{chosen - kWhole}].kind == ExprKind::min;
  return std::all_of(terms.begin(), terms.end(), [&](const Term &term) {
    Atoms rest = term.atoms;
    auto found = std::find(rest.begin(), rest.end(), chosen);
    if (found == rest.end())
      return true;
    rest.erase(found);
    return never_negative(rest) && (term.coefficient > 0) == is_min &&
           std::find(rest.begin(), rest.end(), chosen) == rest.end();
  });
}

/// Writes out the outermost min or max, the one made last. If either of its operands bounds the
/// sum, the better one depends on the other choices: then one first for which the worse operand
/// counts.
Wide JointBounds::upper_by_choice(const Terms &terms) {
  uint32_t last = 0, last_that_varies = 0;
  for (const Term &term : terms)
    for (uint32_t a : term.atoms)
      if (a >= kWhole && a > last_that_varies)
        if (const ExprKind kind = exprs_[{a - kWhole}].kind;
            kind == ExprKind::min || kind == ExprKind::max) {
          last = std::max(last, a);
          if (!either_bounds(terms, a))
            last_that_varies = a;
        }
  const Wide best = last == 0 ? kInfinity : upper_by_choice(terms, last);
  return last_that_varies == 0 || last_that_varies == last
             ? best
             : std::min(best, upper_by_choice(terms, last_that_varies));
}

/// Writes a min or max as its first operand and as its second: it is one of them.
Wide JointBounds::upper_by_choice(const Terms &terms, uint32_t chosen) {
  const ExprNode &node = exprs_[{chosen - kWhole}];
  Wide uppers[2];
  for (size_t side = 0; side < 2; ++side) {
    Terms operand, whole;
    if (!expand(side == 0 ? node.a : node.b, operand))
      return kInfinity;
    for (const Term &term : terms) {
      Term rest = term;
      auto found = std::find(rest.atoms.begin(), rest.atoms.end(), chosen);
      Terms product{rest};
      if (found != rest.atoms.end()) {
        rest.atoms.erase(found);
        if (!multiply(operand, {rest}, product))
          return kInfinity;
      }
      if (!add_scaled(whole, product, 1))
        return kInfinity;
    }
    uppers[side] = upper(whole);
  }
  return either_bounds(terms, chosen) ? std::min(uppers[0], uppers[1])
                                      : std::max(uppers[0], uppers[1]);
}

// --- Bounds of expressions -----------------------------------------------------------------------

WideInterval JointBounds::range(ExprId expr) {
  Terms terms, negated;
  if (!expand(expr, terms) || !add_scaled(negated, terms, -1))
    return {-kInfinity, kInfinity};
  const uint32_t for_least = work_ / 2;
  work_ -= for_least;
  const Wide most = upper(terms);
  work_ += for_least;
  const Wide least = upper(negated);
  return {infinite(least) ? -kInfinity : -least, most >= kInfinity ? kInfinity : most};
}

Wide JointBounds::upper_of_product(std::span<const ExprId> factors, int64_t divisor) {
  Terms product{{1, {}}};
  for (size_t i = 0; i < factors.size(); ++i) {
    Terms factor, next;
    if (!expand(factors[i], factor))
      return kInfinity;
    if (i + 1 == factors.size() && divisor != 1) {
      if (const std::optional<int64_t> constant = exprs_.as_constant(factors[i])) {
        const Wide blocks = div_bound(*constant, divisor, true);
        factor.clear();
        if (blocks != 0)
          factor.push_back({blocks, {}});
        divisor = 1;
      } else if (!add_scaled(factor, {{divisor - 1, {}}}, 1)) {
        return kInfinity;
      }
    }
    if (!multiply(product, factor, next))
      return kInfinity;
    product = std::move(next);
  }
  const Wide most = upper(product);
  return most >= kInfinity ? kInfinity : div_bound(most, divisor, false);
}

} // namespace cugrt::ir
