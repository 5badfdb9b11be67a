// Symbolic expressions against arithmetic done beside them.
#include "support/catch.h"

#include "base/expr/expr.h"

#include <random>

using namespace cugrt;
using namespace cugrt::ir;

namespace {

// An expression tree as drawn, before the pool rewrites it, with its own arithmetic in 128 bits.
__extension__ typedef __int128 Wide;

struct Tree {
  ExprKind kind;
  int64_t value = 0;
  std::vector<Tree> operands;
};

std::optional<Wide> reference(const Tree &t, std::span<const int64_t> symbols) {
  if (t.kind == ExprKind::constant)
    return t.value;
  if (t.kind == ExprKind::symbol)
    return symbols[static_cast<size_t>(t.value)];
  auto a = reference(t.operands[0], symbols), b = reference(t.operands[1], symbols);
  if (t.kind == ExprKind::select) {
    auto c = reference(t.operands[2], symbols);
    return a && b && c ? std::optional(*a != 0 ? *b : *c) : std::nullopt;
  }
  if (!a || !b)
    return std::nullopt;
  Wide x = *a, y = *b;
  auto floor = [](Wide p, Wide q) { // by stepping to the definition, not by the code's formula
    Wide r = p / q;
    while (r * q > p && q > 0)
      --r;
    while (r * q < p && q < 0)
      --r;
    return r;
  };
  switch (t.kind) {
  case ExprKind::add:
    return x + y;
  case ExprKind::sub:
    return x - y;
  case ExprKind::mul:
    return x * y;
  case ExprKind::floordiv:
    return y == 0 ? std::nullopt : std::optional(floor(x, y));
  case ExprKind::ceildiv:
    return y == 0 ? std::nullopt : std::optional(-floor(-x, y));
  case ExprKind::mod:
    return y == 0 ? std::nullopt : std::optional(x - y * floor(x, y));
  case ExprKind::min:
    return x < y ? x : y;
  case ExprKind::max:
    return x < y ? y : x;
  case ExprKind::eq:
    return Wide(x == y);
  case ExprKind::ne:
    return Wide(x != y);
  case ExprKind::lt:
    return Wide(x < y);
  case ExprKind::le:
    return Wide(x <= y);
  default:
    return std::nullopt;
  }
}

class DrawTree {
public:
  explicit DrawTree(uint32_t seed) : random_(seed) {}

  Tree tree(int depth) {
    if (depth == 0 || below(6) == 0) {
      if (below(2))
        return {ExprKind::symbol, below(3), {}};
      return {ExprKind::constant, below(9) - 4, {}};
    }
    auto kind = static_cast<ExprKind>(int(ExprKind::add) + below(13));
    if (below(3)) // mostly sums and products, where the rewriting is
      kind = static_cast<ExprKind>(int(ExprKind::add) + below(3));
    Tree t{kind, 0, {}};
    for (int i = 0; i < (kind == ExprKind::select ? 3 : 2); ++i)
      t.operands.push_back(tree(depth - 1));
    return t;
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

private:
  std::mt19937 random_;
};

ExprId build(ExprPool &pool, const Tree &t) {
  if (t.kind == ExprKind::constant)
    return pool.constant(t.value);
  if (t.kind == ExprKind::symbol)
    return pool.symbol({static_cast<uint32_t>(t.value)});
  ExprId a = build(pool, t.operands[0]), b = build(pool, t.operands[1]);
  ExprId c = t.kind == ExprKind::select ? build(pool, t.operands[2]) : ExprId();
  return pool.make(t.kind, a, b, c);
}

struct Symbols {
  ExprPool pool;
  ExprId n = pool.symbol({0}), m = pool.symbol({1}), k = pool.symbol({2});
  std::vector<std::string> names{"n", "m", "k"};
  ExprId c(int64_t v) { return pool.constant(v); }
  std::string text(ExprId e) { return pool.to_string(e, names); }
};

} // namespace

TEST_CASE("random expressions evaluate to what plain arithmetic gives") {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    DrawTree draw(seed);
    Tree tree = draw.tree(5);
    ExprPool pool;
    ExprId id = build(pool, tree);
    for (int round = 0; round < 4; ++round) {
      int64_t symbols[] = {draw.below(11) - 5, draw.below(11) - 5, draw.below(11) - 5};
      auto expected = reference(tree, symbols);
      auto got = pool.evaluate(id, symbols);
      // Where the tree divides by zero the rewritten form may still have a value (0 * (1 / 0)).
      if (expected && *expected >= INT64_MIN && *expected <= INT64_MAX) {
        INFO("seed " << seed << " " << pool.to_string(id, {}));
        REQUIRE(got.ok());
        REQUIRE(*got == static_cast<int64_t>(*expected));
      }
    }
  }
}

TEST_CASE("the range of a random expression holds every value it takes") {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    DrawTree draw(seed);
    Tree tree = draw.tree(4);
    ExprPool pool;
    ExprId id = build(pool, tree);
    std::vector<Interval> bounds;
    for (int i = 0; i < 3; ++i) {
      int64_t lower = draw.below(7) - 3;
      bounds.push_back({lower, lower + draw.below(4)});
    }
    Interval range = pool.range(id, bounds);
    for (int64_t a = bounds[0].lower; a <= bounds[0].upper; ++a)
      for (int64_t b = bounds[1].lower; b <= bounds[1].upper; ++b)
        for (int64_t c = bounds[2].lower; c <= bounds[2].upper; ++c) {
          int64_t symbols[] = {a, b, c};
          auto value = reference(tree, symbols);
          if (!value)
            continue;
          INFO("seed " << seed << " " << pool.to_string(id, {}));
          REQUIRE(*value >= range.lower);
          REQUIRE(*value <= range.upper);
        }
  }
}

TEST_CASE("the range is exact for monotone expressions that use each symbol once") {
  Symbols s;
  ExprId e = s.pool.add(s.pool.mul(s.n, s.c(4)), s.pool.ceildiv(s.m, s.c(3)));
  std::vector<Interval> bounds{{1, 10}, {0, 7}};
  CHECK(s.pool.range(e, bounds) == Interval{4, 43});
  CHECK(s.pool.range(s.pool.make(ExprKind::lt, s.n, s.c(11)), bounds) == Interval{1, 1});
  CHECK(s.pool.range(s.pool.make(ExprKind::mod, s.m, s.c(8)), bounds) == Interval{0, 7});
}

TEST_CASE("an unbounded symbol leaves the range unbounded") {
  Symbols s;
  std::vector<Interval> bounds{{0, INT64_MAX}};
  CHECK(s.pool.range(s.pool.sub(s.n, s.c(1)), bounds) == Interval{-1, INT64_MAX});
  CHECK(s.pool.range(s.pool.mul(s.n, s.c(-2)), bounds) == Interval{INT64_MIN, 0});
  CHECK(s.pool.range(s.pool.floordiv(s.n, s.c(1000)), bounds) == Interval{0, INT64_MAX});
  CHECK(s.pool.range(s.pool.min(s.n, s.c(8)), bounds) == Interval{0, 8});
}

TEST_CASE("expressions that are equal as sums and products have equal ids") {
  Symbols s;
  ExprPool &p = s.pool;
  CHECK(p.mul(p.mul(s.c(4), s.n), s.c(64)) == p.mul(s.c(256), s.n));
  CHECK(p.mul(s.c(4), p.add(s.n, s.c(1))) == p.add(p.mul(s.n, s.c(4)), s.c(4)));
  CHECK(p.mul(p.mul(s.n, s.m), s.k) == p.mul(s.n, p.mul(s.k, s.m)));
  CHECK(p.sub(p.add(s.n, s.m), s.n) == s.m);
  CHECK(p.add(p.sub(s.n, s.c(1)), s.c(1)) == s.n);
  CHECK(p.add(s.n, s.n) == p.mul(s.n, s.c(2)));
  CHECK(p.floordiv(p.mul(s.n, s.c(64)), s.c(64)) == s.n);
  for (int64_t alone : {1, -1}) { // of 2 n + 1 and 2 n - 1
    const ExprId odd = p.add(p.mul(s.n, s.c(2)), s.c(alone));
    CHECK(p.floordiv(odd, s.c(2)) == p.add(s.n, s.c(alone == 1 ? 0 : -1)));
    CHECK(p.ceildiv(odd, s.c(2)) == p.add(s.n, s.c(alone == 1 ? 1 : 0)));
    CHECK(p.make(ExprKind::mod, odd, s.c(2)) == s.c(1));
  }
  CHECK(p.make(ExprKind::mod, p.mul(s.n, s.c(64)), s.c(16)) == s.c(0));
  CHECK(p.min(s.n, s.n) == s.n);
  CHECK(p.make(ExprKind::eq, s.m, s.n) == p.make(ExprKind::eq, s.n, s.m));
  CHECK(p.floordiv(s.n, s.n) != s.c(1)); // undefined for n = 0
}

TEST_CASE("text of expressions has the fewest parentheses") {
  Symbols s;
  ExprPool &p = s.pool;
  CHECK(s.text(p.mul(p.mul(s.c(4), s.n), s.c(64))) == "256*n");
  CHECK(s.text(p.mul(p.mul(s.n, s.m), s.c(4))) == "4*n*m");
  CHECK(s.text(p.mul(p.add(s.n, s.c(1)), s.m)) == "m*(n + 1)");
  // What the terms of a sum have in common is taken out of it beside other factors.
  CHECK(s.text(p.mul(p.add(p.mul(s.c(32), s.n), s.c(48)), s.m)) == "16*m*(2*n + 3)");
  CHECK(p.mul(p.add(p.mul(s.c(32), s.n), s.c(32)), s.m) ==
        p.mul(p.mul(s.m, s.c(32)), p.add(s.n, s.c(1))));
  CHECK(s.text(p.mul(p.sub(s.c(6), p.mul(s.c(4), s.n)), s.m)) == "2*m*(3 - 2*n)");
  CHECK(s.text(p.sub(s.n, s.c(1))) == "n - 1");
  CHECK(s.text(p.sub(s.c(0), s.n)) == "-n");
  CHECK(s.text(p.sub(s.c(7), p.mul(s.n, s.c(2)))) == "7 - 2*n");
  CHECK(s.text(p.make(ExprKind::lt, p.add(s.n, s.m), s.c(8))) == "n + m < 8");
  CHECK(s.text(p.make(ExprKind::select, p.make(ExprKind::eq, s.n, s.c(0)), s.c(1), s.m)) ==
        "select(n == 0, 1, m)");
  CHECK(s.text(p.constant(INT64_MIN)) == "-9223372036854775808");
  CHECK(p.to_string(s.m, {}) == "s1");
}

TEST_CASE("evaluation reports overflow, division by zero and missing symbols, and never wraps") {
  Symbols s;
  ExprPool &p = s.pool;
  int64_t huge[] = {INT64_MAX, 0, 1};
  CHECK(p.evaluate(p.add(s.n, s.c(1)), huge).status().code() == Code::out_of_range);
  CHECK(p.evaluate(p.mul(s.n, s.n), huge).status().code() == Code::out_of_range);
  CHECK(p.evaluate(p.floordiv(s.n, s.m), huge).status().code() == Code::out_of_range);
  CHECK(p.evaluate(s.k, std::span(huge, 1)).status().code() == Code::out_of_range);
  // A constant that would overflow when folded stays an expression.
  CHECK_FALSE(p.as_constant(p.mul(s.c(INT64_MAX), s.c(2))).has_value());
  // select evaluates only what it chooses.
  ExprId guarded =
      p.make(ExprKind::select, p.make(ExprKind::eq, s.m, s.c(0)), s.c(5), p.floordiv(s.n, s.m));
  CHECK(*p.evaluate(guarded, huge) == 5);
}

TEST_CASE("what a comparison with itself chooses is bounded by its outcome") {
  Symbols s;
  ExprPool &p = s.pool;
  const std::vector<Interval> box = {{-9, 20}, {3, 5}};
  const auto chosen = [&](ExprKind test, ExprId a, ExprId b, ExprId yes, ExprId no) {
    return p.range(p.make(ExprKind::select, p.make(test, a, b), yes, no), box);
  };
  // n is from -9 to 20, m from 3 to 5: whichever test chooses n keeps it above or below m.
  const ExprId four = s.c(4);
  CHECK(chosen(ExprKind::lt, s.n, s.m, four, s.n) == Interval{3, 20});
  CHECK(chosen(ExprKind::lt, s.n, s.m, s.n, four) == Interval{-9, 4});
  CHECK(chosen(ExprKind::lt, s.m, s.n, s.n, four) == Interval{4, 20});
  CHECK(chosen(ExprKind::lt, s.m, s.n, four, s.n) == Interval{-9, 5});
  CHECK(chosen(ExprKind::le, s.n, s.m, four, s.n) == Interval{4, 20});
  CHECK(chosen(ExprKind::le, s.n, s.m, s.n, four) == Interval{-9, 5});
  CHECK(chosen(ExprKind::le, s.m, s.n, s.n, four) == Interval{3, 20});
  CHECK(chosen(ExprKind::le, s.m, s.n, four, s.n) == Interval{-9, 4});
  // Neither is negative, which the range of a difference does not show.
  const ExprId rest = p.sub(s.m, p.min(s.m, s.n)), is_four = p.make(ExprKind::eq, s.n, four);
  CHECK(p.never_negative(p.make(ExprKind::select, is_four, rest, s.m), box));
  CHECK_FALSE(p.never_negative(p.make(ExprKind::select, is_four, rest, s.n), box));
}

TEST_CASE("copying and substituting replace symbols") {
  Symbols s;
  ExprPool &p = s.pool;
  ExprId e = p.add(p.mul(s.n, s.c(4)), p.ceildiv(s.m, s.c(3)));
  ExprId swap[] = {s.m, s.n, s.k};
  CHECK(s.text(p.substitute(e, swap)) == "4*m + ceildiv(n, 3)");
  ExprPool other;
  other.constant(99);
  ExprId values[] = {other.constant(2), other.constant(7)};
  CHECK(*other.as_constant(p.copy_to(other, e, values)) == 11);
  std::vector<SymbolId> symbols;
  p.collect_symbols(e, symbols);
  CHECK(symbols == std::vector<SymbolId>{{0}, {1}});
}

TEST_CASE("copying to another pool keeps the form, whatever that pool already holds") {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    DrawTree draw(seed);
    ExprPool a, b;
    build(b, draw.tree(5));
    ExprId id = build(a, draw.tree(6));
    ExprId symbols[] = {b.symbol({0}), b.symbol({1}), b.symbol({2})};
    CHECK(b.to_string(a.copy_to(b, id, symbols), {}) == a.to_string(id, {}));
    ExprId same[] = {a.symbol({0}), a.symbol({1}), a.symbol({2})};
    CHECK(a.substitute(id, same) == id); // a node built again from its operands is itself
  }
}

TEST_CASE("shared expressions are walked once, not once for each path") {
  ExprPool pool;
  ExprId n = pool.symbol({0}), e = n;
  for (int i = 0; i < 100; ++i) // written out: 2^100 nodes
    e = pool.min(pool.floordiv(e, pool.constant(3)), pool.add(e, pool.constant(1)));
  int64_t value[] = {0};
  CHECK(*pool.evaluate(e, value) == 0);
  std::vector<Interval> bounds{{0, 9}};
  CHECK(pool.range(e, bounds).lower == 0);
  ExprId same[] = {n};
  CHECK(pool.substitute(e, same) == e);
  std::vector<SymbolId> symbols;
  pool.collect_symbols(e, symbols);
  CHECK(symbols.size() == 1);
  CHECK(pool.to_string(e, {}).size() < 100);
}

TEST_CASE("long chains are built in linear time and stay what they are") {
  ExprPool pool;
  ExprId sum = pool.symbol({0});
  for (uint32_t i = 1; i < 200000; ++i)
    sum = pool.add(sum, pool.symbol({i}));
  CHECK(pool.size() < 500000);
  CHECK(pool.depth(sum) > ExprPool::kMaxDepth);
}
