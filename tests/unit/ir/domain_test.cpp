// Joint limits: what they leave of symbols and of sums of products. The reference is every value
// that the symbols may have.
#include "support/catch.h"

#include "base/expr/expr.h"

#include <random>

using namespace cugrt;
using namespace cugrt::ir;

namespace {

struct DomainSymbols {
  ExprPool pool;
  ExprId b = pool.symbol({0}), s = pool.symbol({1}), h = pool.symbol({2});
  ExprId c(int64_t value) { return pool.constant(value); }
  JointLimit limit(ExprId expr, int64_t most) {
    auto made = pool.joint_limit({expr, most});
    REQUIRE(made.ok());
    return std::move(*made);
  }
};

/// Calls visit(point) with every point of the domain.
template <class Visit> void for_points(const Domain &domain, const Visit &visit) {
  std::vector<int64_t> point;
  for (const Interval &bounds : domain.box)
    point.push_back(bounds.lower);
  for (;;) {
    if (keeps(domain.limits, point))
      visit(point);
    size_t i = 0;
    while (i < point.size() && point[i] == domain.box[i].upper)
      point[i] = domain.box[i].lower, ++i;
    if (i == point.size())
      return;
    ++point[i];
  }
}

class DrawDomain {
public:
  explicit DrawDomain(uint32_t seed) : random_(seed) {}
  int64_t from(int64_t low, int64_t high) {
    return low + int64_t(random_() % uint32_t(high - low + 1));
  }
  ExprId symbol(DomainSymbols &s) { return std::array{s.b, s.s, s.h}[size_t(from(0, 2))]; }
  ExprId product(DomainSymbols &s, int64_t most_factors) {
    ExprId product = s.c(from(1, 4));
    for (int64_t i = from(1, most_factors); i > 0; --i)
      product = s.pool.mul(product, symbol(s));
    return product;
  }
  ExprId limited(DomainSymbols &s) {
    ExprId sum = product(s, 3);
    for (int64_t i = from(0, 2); i > 0; --i)
      sum = s.pool.add(sum, product(s, 2));
    return sum;
  }
  ExprId expr(DomainSymbols &s, int depth) {
    if (depth == 0)
      return from(0, 5) == 0 ? s.c(from(-6, 9)) : symbol(s);
    const ExprId a = expr(s, depth - 1), b = expr(s, depth - 1);
    switch (from(0, 6)) {
    case 0:
      return s.pool.sub(a, b);
    case 1:
      return s.pool.ceildiv(a, s.c(from(1, 5)));
    case 2:
      return s.pool.floordiv(a, s.c(from(1, 5)));
    case 3:
      return s.pool.max(a, b);
    case 4:
      return s.pool.add(a, b);
    default:
      return s.pool.mul(a, b);
    }
  }

private:
  std::mt19937 random_;
};

} // namespace

TEST_CASE("a product's limit bounds what it divides, and what divides it") {
  DomainSymbols s;
  const SymbolDomain d({{1, 64}, {1, 4096}, {1, 8}}, {s.limit(s.pool.mul(s.b, s.s), 4096)});
  const ExprId bs = s.pool.mul(s.b, s.s);
  CHECK(s.pool.range(bs, d).upper == 4096);
  CHECK(s.pool.range(s.pool.mul(bs, s.c(12)), d).upper == 12 * 4096);
  CHECK(s.pool.range(s.pool.mul(bs, s.h), d).upper == 8 * 4096);
  // b = s = 64: the sum of both bounds is reached
  CHECK(s.pool.range(s.pool.add(s.pool.mul(bs, s.c(4)), s.pool.mul(s.b, s.c(8))), d).upper ==
        4 * 4096 + 8 * 64);
  CHECK(s.pool.range(s.pool.sub(s.c(5000), bs), d) == Interval{904, 4999});
}

TEST_CASE("a symbol without an upper bound has one where the others have lower bounds") {
  DomainSymbols s;
  const std::vector<JointLimit> limits{s.limit(s.pool.mul(s.b, s.s), 100)};
  CHECK(SymbolDomain({{1, INT64_MAX}, {4, INT64_MAX}, {0, 3}}, limits)[0] == Interval{1, 25});
  CHECK(SymbolDomain({{1, INT64_MAX}, {0, INT64_MAX}, {0, 3}}, limits)[0].upper == INT64_MAX);
  const std::vector<JointLimit> square{s.limit(s.pool.mul(s.b, s.b), 101)};
  CHECK(SymbolDomain({{0, INT64_MAX}, {0, 1}, {0, 1}}, square)[0] == Interval{0, 10});
}

TEST_CASE("a product that no symbol alone bounds is bounded by its limit") {
  DomainSymbols s;
  const SymbolDomain d({{0, INT64_MAX}, {0, INT64_MAX}, {0, 3}},
                       {s.limit(s.pool.mul(s.b, s.s), 100)});
  CHECK(s.pool.range(s.pool.mul(s.b, s.s), d) == Interval{0, 100});
  CHECK(s.pool.range(s.pool.mul(s.pool.mul(s.b, s.s), s.h), d) == Interval{0, 300});
  CHECK(s.pool.range(s.b, d).upper == INT64_MAX);
}

TEST_CASE("a limit of several terms bounds sums as a whole") {
  DomainSymbols s;
  const SymbolDomain d({{0, 600}, {0, 600}, {0, 3}}, {s.limit(s.pool.add(s.b, s.s), 600)});
  auto most = [&](int64_t b, int64_t t) {
    return s.pool.range(s.pool.add(s.pool.mul(s.b, s.c(b)), s.pool.mul(s.s, s.c(t))), d).upper;
  };
  CHECK(most(1, 1) == 600);
  CHECK(most(4, 2) == 2400);
  CHECK(most(2, 5) == 3000);
  CHECK(most(4, -2) == 2400);
}

TEST_CASE("a part of a dimension ends within it, however min and max say where") {
  DomainSymbols s;
  const SymbolDomain d({{0, 16}, {0, 4096}, {0, 8}}, {});
  ExprPool &p = s.pool;
  const auto min8 = p.min(s.b, s.c(8)), min1 = p.min(s.b, s.c(1));
  const auto less3 = p.max(p.sub(s.b, s.c(3)), s.c(0));
  const auto between = p.max(p.sub(min8, min1), s.c(0));
  CHECK(p.never_negative(p.sub(s.b, min8), d));
  CHECK(p.never_negative(p.sub(s.b, less3), d));
  CHECK(p.never_negative(p.sub(s.b, p.add(min1, between)), d));
  // of rows of s elements
  CHECK(p.never_negative(p.sub(p.mul(s.b, s.s), p.mul(p.add(min1, between), s.s)), d));
  // The last two: from 2 before the end, of as many as there are, in whichever order they are made.
  const auto from2 = p.max(p.sub(s.h, s.c(2)), s.c(0)), two = p.min(s.h, s.c(2));
  CHECK(p.never_negative(p.sub(s.h, p.add(from2, two)), d));
  const auto three = p.min(s.b, s.c(3));
  CHECK(p.never_negative(p.sub(s.b, p.add(less3, three)), d));
  CHECK(p.never_negative(p.sub(p.mul(s.b, s.s), p.mul(p.add(less3, three), s.s)), d));
  CHECK_FALSE(p.never_negative(p.sub(s.b, p.add(less3, p.min(s.b, s.c(4)))), d));
  CHECK_FALSE(p.never_negative(p.sub(min8, s.b), d));
  CHECK_FALSE(p.never_negative(p.sub(less3, min1), d));
  CHECK_FALSE(p.never_negative(p.sub(p.sub(s.b, between), s.c(1)), d));
  // A square falls where its root is negative: b < 3.
  const auto root = p.min(p.sub(s.b, s.c(3)), s.c(0));
  CHECK_FALSE(p.never_negative(p.sub(s.c(8), p.mul(root, root)), d));
  CHECK(p.never_negative(p.sub(s.c(9), p.mul(root, root)),
                         SymbolDomain({{3, 16}, {0, 1}, {0, 1}}, {})));
}

TEST_CASE("quotients within products are bounded too, but for their rounding") {
  DomainSymbols s;
  const SymbolDomain d({{1, 64}, {1, 4096}, {1, 8}}, {s.limit(s.pool.mul(s.b, s.s), 4096)});
  const ExprId blocks = s.pool.mul(s.b, s.pool.ceildiv(s.s, s.c(32)));
  CHECK(s.pool.range(blocks, d).upper == (4096 + 31 * 64) / 32);
  const ExprId dims[] = {s.b, s.s};
  CHECK(s.pool.product_upper(dims, 32, d) == (4096 + 31 * 64) / 32);
  CHECK(s.pool.product_upper(dims, 1, d) == 4096);
}

TEST_CASE("constraints that are no limits say why") {
  DomainSymbols s;
  ExprPool &p = s.pool;
  ExprId eight_terms = s.c(0), power = s.b;
  for (int i = 0; i < 9; ++i)
    eight_terms = p.add(eight_terms, p.mul(power, s.s)), power = p.mul(power, s.b);
  const struct {
    ExprId expr;
    const char *why;
  } rows[] = {
      {p.sub(s.b, s.s), "has a negative coefficient"},
      {p.mul(s.b, s.c(-2)), "has a negative coefficient"},
      {p.ceildiv(s.b, s.c(2)), "is no sum of products of symbols"},
      {s.c(3), "names no symbol"},
      {power, "has a product of too many symbols"},
      {eight_terms, "has a product of too many symbols"},
      {p.mul(p.add(p.add(s.b, s.s), p.add(s.h, s.c(1))),
             p.add(p.add(s.b, s.s), p.add(s.h, s.c(1)))),
       "has too many terms"},
      {p.mul(p.mul(s.b, s.c(INT64_MAX / 2)), p.add(s.s, s.c(3))),
       "has a coefficient of more than 63 bits"},
  };
  for (const auto &row : rows) {
    INFO(p.to_string(row.expr, {}));
    CHECK(p.joint_limit({row.expr, 10}).status().message() == row.why);
  }
}

TEST_CASE("a constant of a constraint is taken from its limit") {
  DomainSymbols s;
  const JointLimit limit = s.limit(s.pool.add(s.pool.mul(s.b, s.c(2)), s.c(6)), 20);
  CHECK(limit == JointLimit{{{2, {0}}}, 14});
}

TEST_CASE("ranges hold every value of a domain, and products reach what limits them") {
  size_t narrower = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    DomainSymbols s;
    DrawDomain draw(seed);
    std::vector<Interval> box;
    for (int i = 0; i < 3; ++i) {
      const int64_t low = draw.from(0, 3);
      box.push_back({low, low + draw.from(0, 7)});
    }
    std::vector<JointLimit> limits;
    std::vector<int64_t> inside;
    for (const Interval &bounds : box)
      inside.push_back(draw.from(bounds.lower, bounds.upper));
    std::vector<ExprId> limited;
    for (int64_t i = draw.from(1, 2); i > 0; --i) { // reached at a point that keeps them all
      limited.push_back(draw.limited(s));
      limits.push_back(s.limit(limited.back(), *s.pool.evaluate(limited.back(), inside)));
    }
    const SymbolDomain domain(box, limits);
    std::vector<ExprId> exprs{limited[0], draw.product(s, 4), draw.expr(s, 2), draw.expr(s, 3)};
    for (ExprId expr : exprs) {
      const Interval range = s.pool.range(expr, domain), wide = s.pool.range(expr, box);
      narrower += range != wide;
      INFO("seed " << seed << " " << s.pool.to_string(expr, {}));
      CHECK(range.lower >= wide.lower);
      CHECK(range.upper <= wide.upper);
      for_points({box, limits}, [&](const std::vector<int64_t> &point) {
        const int64_t value = *s.pool.evaluate(expr, point);
        REQUIRE(value >= range.lower);
        REQUIRE(value <= range.upper);
      });
    }
    // What is limited reaches its limit at `inside`.
    CHECK(s.pool.range(limited[0], domain).upper == *s.pool.evaluate(limited[0], inside));
    const ExprId factors[] = {draw.symbol(s), draw.symbol(s), draw.symbol(s)};
    const int64_t divisor = draw.from(1, 4), most = s.pool.product_upper(factors, divisor, domain);
    for_points({box, limits}, [&](const std::vector<int64_t> &point) {
      const int64_t value = *s.pool.evaluate(
          s.pool.mul(s.pool.mul(factors[0], factors[1]), s.pool.ceildiv(factors[2], s.c(divisor))),
          point);
      REQUIRE(value <= most);
    });
    for (bool last_first : {false, true}) {
      const std::vector<int64_t> highest = highest_point(domain, last_first);
      CHECK(keeps(limits, highest));
      for (size_t i = 0; i < box.size(); ++i) {
        std::vector<int64_t> beyond = highest;
        ++beyond[i];
        CHECK((highest[i] == domain[i].upper || !keeps(limits, beyond)));
      }
    }
  }
  CHECK(narrower > 500);
}

TEST_CASE("what limits leave empty is left as it was") {
  DomainSymbols s;
  std::vector<Interval> box{{3, 9}, {4, 9}, {0, 0}};
  const std::vector<JointLimit> limits{s.limit(s.pool.mul(s.b, s.s), 11)};
  CHECK_FALSE(tighten(box, limits));
  CHECK(box[0] == Interval{3, 9});
  CHECK(highest_point({box, limits}, false) == std::vector<int64_t>{3, 4, 0});
}

TEST_CASE("bounds of large numbers under limits do not wrap") {
  DomainSymbols s;
  const SymbolDomain d({{1, INT64_MAX - 1}, {1, INT64_MAX - 1}, {1, INT64_MAX - 1}},
                       {s.limit(s.pool.mul(s.b, s.s), INT64_MAX - 1)});
  CHECK(s.pool.range(s.pool.mul(s.b, s.s), d) == Interval{1, INT64_MAX - 1});
  CHECK(s.pool.range(s.pool.mul(s.pool.mul(s.b, s.s), s.h), d).upper == INT64_MAX);
  CHECK(s.pool.range(s.pool.mul(s.pool.mul(s.b, s.s), s.c(INT64_MAX)), d).upper == INT64_MAX);
  CHECK(s.pool.range(s.pool.sub(s.c(0), s.pool.mul(s.pool.mul(s.b, s.h), s.h)), d).lower ==
        INT64_MIN);
}
