// Graphs of regions, against the definitions of hazards and of their transitive reduction.
#include "plan/region_graph.h"

#include "support/catch.h"

#include <random>

using namespace cugrt;
using namespace cugrt::plan;

namespace {

/// A function whose steps touch byte ranges [begin, end) of arena 0.
struct Steps {
  Plan plan;
  Function function;

  Steps() { plan.arenas.push_back({"global", 1 << 20, 0, 0}); }
  uint32_t buffer(int64_t begin, int64_t end, BufferBase base = BufferBase::arena,
                  uint32_t index = 0) {
    Buffer b;
    b.name = "b" + std::to_string(function.buffers.size());
    b.base = base;
    b.index = index;
    b.offset_bytes = plan.exprs.constant(begin);
    b.bytes = plan.exprs.constant(end - begin);
    function.buffers.push_back(b);
    return uint32_t(function.buffers.size() - 1);
  }
  void step(std::vector<BufferAccess> accesses, ir::ExprId when = {}) {
    Step s;
    s.when = when;
    s.accesses = {uint32_t(function.accesses.size()), uint32_t(accesses.size())};
    function.accesses.insert(function.accesses.end(), accesses.begin(), accesses.end());
    function.steps.push_back(s);
  }
  RegionGraph graph(const GraphOptions &options = {}) {
    Range all{0, uint32_t(function.steps.size())};
    return make_region_graph(function, all, ByteRanges(plan, function),
                             StepConditions(plan.exprs, function), options);
  }
  /// n > k, or its opposite, for symbol n; within `outer`, if that is valid.
  ir::ExprId above(uint32_t symbol, int64_t k, bool holds, ir::ExprId outer = {}) {
    ir::ExprId n = plan.exprs.symbol({symbol}), limit = plan.exprs.constant(k);
    ir::ExprId own = holds ? plan.exprs.make(ir::ExprKind::lt, limit, n)
                           : plan.exprs.make(ir::ExprKind::le, n, limit);
    return outer.valid() ? plan.exprs.make(ir::ExprKind::select, outer, own, plan.exprs.constant(0))
                         : own;
  }
  /// Whether both steps run for some values of symbols 0 and 1, below 4, by trying them.
  bool together(uint32_t a, uint32_t b) const {
    for (int64_t values = 0; values < 16; ++values) {
      const std::vector<int64_t> symbols = {values % 4, values / 4};
      auto runs = [&](uint32_t step) {
        ir::ExprId when = function.steps[step].when;
        return !when.valid() || *plan.exprs.evaluate(when, symbols) != 0;
      };
      if (runs(a) && runs(b))
        return true;
    }
    return false;
  }
  /// Between steps, with no empty nodes.
  std::vector<Edge> edges() {
    RegionGraph g = graph({.join_from = 0});
    CHECK(g.nodes.size() == function.steps.size());
    return g.edges;
  }
};

} // namespace

TEST_CASE("a reader waits for the writer, a writer for the readers") {
  Steps s;
  uint32_t a = s.buffer(0, 64);
  s.step({{a, Access::out}});
  s.step({{a, Access::in}});
  s.step({{a, Access::in}});
  s.step({{a, Access::out}});
  CHECK(s.edges() == std::vector<Edge>{{0, 1}, {0, 2}, {1, 3}, {2, 3}});
}

TEST_CASE("two writes in a row keep their order") {
  Steps s;
  uint32_t a = s.buffer(0, 64);
  s.step({{a, Access::out}});
  s.step({{a, Access::out}});
  CHECK(s.edges() == std::vector<Edge>{{0, 1}});
}

TEST_CASE("an update in place reads and writes") {
  Steps s;
  uint32_t a = s.buffer(0, 64);
  for (int i = 0; i < 3; ++i)
    s.step({{a, Access::inout}});
  CHECK(s.edges() == std::vector<Edge>{{0, 1}, {1, 2}});
}

TEST_CASE("ranges that only touch are independent, ranges that share one byte are not") {
  Steps s;
  s.step({{s.buffer(0, 64), Access::out}});
  s.step({{s.buffer(64, 128), Access::out}});
  s.step({{s.buffer(63, 65), Access::in}});
  CHECK(s.edges() == std::vector<Edge>{{0, 2}, {1, 2}});
}

TEST_CASE("a partial write leaves the rest to the earlier writer") {
  Steps s;
  uint32_t whole = s.buffer(0, 100), middle = s.buffer(40, 60);
  s.step({{whole, Access::out}});
  s.step({{middle, Access::out}});
  s.step({{s.buffer(0, 40), Access::in}});
  s.step({{middle, Access::in}});
  s.step({{whole, Access::out}});
  CHECK(s.edges() == std::vector<Edge>{{0, 1}, {0, 2}, {1, 3}, {2, 4}, {3, 4}});
}

TEST_CASE("different slots, weights and arenas never conflict") {
  Steps s;
  s.function.slots.resize(2);
  s.step({{s.buffer(0, 64, BufferBase::slot, 0), Access::out}});
  s.step({{s.buffer(0, 64, BufferBase::slot, 1), Access::out}});
  s.step({{s.buffer(0, 64, BufferBase::weight, 0), Access::in}});
  s.step({{s.buffer(0, 64), Access::out}});
  CHECK(s.edges().empty());
}

TEST_CASE("readers of what nobody writes do not wait") {
  Steps s;
  uint32_t weight = s.buffer(0, 64, BufferBase::weight, 0);
  for (int i = 0; i < 100; ++i)
    s.step({{weight, Access::in}});
  CHECK(s.edges().empty());
}

TEST_CASE("a size without an upper bound reaches to the end of its slot") {
  Steps s;
  s.function.slots.resize(1);
  s.function.symbols.push_back({"n", ir::SymbolSource::parameter, {0, INT64_MAX}});
  uint32_t open = s.buffer(0, 8, BufferBase::slot, 0);
  s.function.buffers[open].bytes =
      s.plan.exprs.mul(s.plan.exprs.symbol({0}), s.plan.exprs.constant(4));
  s.step({{open, Access::out}});
  s.step({{s.buffer(1 << 30, (1 << 30) + 4, BufferBase::slot, 0), Access::in}});
  CHECK(s.edges() == std::vector<Edge>{{0, 1}});
}

TEST_CASE("buffers next to each other at symbolic offsets are told apart") {
  Steps s;
  std::vector<ir::Interval> bounds = {{1, 64}};
  ir::ExprId n = s.plan.exprs.symbol({0}), half = s.plan.exprs.mul(n, s.plan.exprs.constant(4));
  Buffer low{}, high{};
  low.offset_bytes = s.plan.exprs.constant(0);
  low.bytes = high.bytes = high.offset_bytes = half;
  CHECK_FALSE(may_overlap(s.plan.exprs, low, high, bounds));
  high.offset_bytes = s.plan.exprs.sub(half, s.plan.exprs.constant(1));
  CHECK(may_overlap(s.plan.exprs, low, high, bounds));
}

namespace {

using Matrix = std::vector<std::vector<bool>>;

/// Paths between nodes, by Warshall.
Matrix closure(size_t n, const std::vector<Edge> &edges) {
  Matrix path(n, std::vector<bool>(n, false));
  for (const Edge &e : edges)
    path[e.from][e.to] = true;
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; path[i][k] && j < n; ++j)
        path[i][j] = path[i][j] || path[k][j];
  return path;
}

/// Which steps must follow which: every pair of accesses that share a byte and of which one writes,
/// but for steps that no values of the symbols let run in one launch.
Matrix required(const Steps &s) {
  size_t n = s.function.steps.size();
  std::vector<Edge> edges;
  auto conflict = [&](const BufferAccess &x, const BufferAccess &y) {
    const Buffer &p = s.function.buffers[x.buffer], &q = s.function.buffers[y.buffer];
    int64_t pb = *s.plan.exprs.as_constant(p.offset_bytes),
            pe = pb + *s.plan.exprs.as_constant(p.bytes);
    int64_t qb = *s.plan.exprs.as_constant(q.offset_bytes),
            qe = qb + *s.plan.exprs.as_constant(q.bytes);
    return (ir::writes(x.access) || ir::writes(y.access)) && p.base == q.base &&
           p.index == q.index && pb < qe && qb < pe;
  };
  for (uint32_t i = 0; i < n; ++i)
    for (uint32_t j = i + 1; j < n; ++j) {
      if (!s.together(i, j))
        continue;
      Range a = s.function.steps[i].accesses, b = s.function.steps[j].accesses;
      bool any = false;
      for (uint32_t x = a.begin; x < a.end(); ++x)
        for (uint32_t y = b.begin; y < b.end(); ++y)
          any = any || conflict(s.function.accesses[x], s.function.accesses[y]);
      if (any)
        edges.push_back({i, j});
    }
  return closure(n, edges);
}

/// Paths between steps of a graph that may have empty nodes, numbered as steps.
Matrix between_steps(const RegionGraph &graph, size_t steps) {
  Matrix all = closure(graph.nodes.size(), graph.edges), path(steps, std::vector<bool>(steps));
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (size_t j = 0; j < graph.nodes.size(); ++j)
      if (graph.nodes[i] != kNone && graph.nodes[j] != kNone)
        path[graph.nodes[i]][graph.nodes[j]] = all[i][j];
  return path;
}

bool any_implied(const RegionGraph &graph) {
  Matrix path = closure(graph.nodes.size(), graph.edges);
  for (const Edge &e : graph.edges)
    for (size_t k = 0; k < graph.nodes.size(); ++k)
      if (path[e.from][k] && path[k][e.to])
        return true;
  return false;
}

void check_order(const RegionGraph &graph, size_t steps) {
  uint32_t next = 0;
  for (uint32_t node : graph.nodes)
    if (node != kNone)
      CHECK(node == next++);
  CHECK(next == steps);
  CHECK(std::is_sorted(graph.edges.begin(), graph.edges.end()));
  for (const Edge &e : graph.edges)
    REQUIRE((e.from < e.to && e.to < graph.nodes.size()));
}

size_t empty_nodes(const RegionGraph &graph) {
  return size_t(std::count(graph.nodes.begin(), graph.nodes.end(), kNone));
}

/// A condition for each step: runs of steps are in both branches, one after the other, of an `if`
/// over one of two symbols, now and then with an `if` over the other within. Every pair of them
/// that is exclusive has an opposite: the thresholds are one to a symbol.
std::vector<ir::ExprId> random_whens(Steps &s, uint32_t count, std::mt19937 &random) {
  std::vector<ir::ExprId> whens;
  while (whens.size() < count) {
    for (uint32_t i = random() % 4; i > 0; --i)
      whens.emplace_back();
    const uint32_t symbol = random() % 2;
    for (bool holds : {true, false}) {
      const ir::ExprId when = s.above(symbol, 1, holds);
      for (uint32_t i = random() % 5; i > 0; --i)
        whens.push_back(when);
      for (bool inner : {true, false})
        for (uint32_t i = random() % 3 == 0 ? random() % 3 : 0; i > 0; --i)
          whens.push_back(s.above(1 - symbol, 1, inner, when));
      for (uint32_t i = random() % 3; i > 0; --i)
        whens.push_back(when);
    }
  }
  whens.resize(count);
  return whens;
}

/// Steps that touch up to three random ranges of a few kinds of memory: whole, parts, neighbours.
Steps random_steps(uint32_t seed, bool branches = false) {
  std::mt19937 random(seed);
  Steps s;
  s.function.slots.resize(1);
  uint32_t count = 2 + random() % 70, kinds = 1 + random() % 6, cells = 1 + random() % 24;
  std::vector<ir::ExprId> whens(count);
  if (branches)
    whens = random_whens(s, count, random);
  for (uint32_t i = 0; i < count; ++i) {
    std::vector<BufferAccess> accesses;
    for (uint32_t a = 0, n = 1 + random() % 3; a < n; ++a) {
      uint32_t begin = random() % cells, length = 1 + random() % (random() % kinds ? 2 : cells);
      bool slot = random() % 4 == 0;
      accesses.push_back(
          {s.buffer(begin * 8, (begin + length) * 8, slot ? BufferBase::slot : BufferBase::arena),
           Access(random() % 3 ? 0 : 1 + random() % 2)});
    }
    s.step(accesses, whens[i]);
  }
  return s;
}

} // namespace

TEST_CASE("paths between steps are those of the hazards, and no edge is implied by others") {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Steps s = random_steps(seed);
    size_t n = s.function.steps.size();
    Matrix expected = required(s);
    for (uint32_t join_from : {0, 2, 4}) {
      INFO("seed " << seed << " join_from " << join_from);
      RegionGraph graph = s.graph({.join_from = join_from});
      check_order(graph, n);
      REQUIRE(between_steps(graph, n) == expected);
      REQUIRE_FALSE(any_implied(graph));
    }
  }
}

TEST_CASE(
    "steps of the two branches of an if do not wait for each other, those behind it for both") {
  Steps s;
  uint32_t a = s.buffer(0, 64), b = s.buffer(64, 128), c = s.buffer(128, 192);
  ir::ExprId then = s.above(0, 1, true), other = s.above(0, 1, false);
  s.step({{a, Access::out}});
  s.step({{a, Access::in}, {b, Access::out}}, then);  // 1
  s.step({{b, Access::in}, {c, Access::out}}, then);  // 2
  s.step({{a, Access::in}, {b, Access::out}}, other); // 3: b is 1's and 2's, too
  s.step({{b, Access::in}, {c, Access::out}}, other); // 4
  s.step({{c, Access::in}, {a, Access::out}});        // 5
  CHECK(s.edges() == std::vector<Edge>{{0, 1}, {0, 3}, {1, 2}, {2, 5}, {3, 4}, {4, 5}});
}

TEST_CASE("a write of one branch hides nothing from the other") {
  Steps s;
  uint32_t a = s.buffer(0, 64), half = s.buffer(0, 32);
  ir::ExprId then = s.above(0, 1, true), other = s.above(0, 1, false);
  s.step({{a, Access::out}});
  s.step({{a, Access::in}});
  s.step({{half, Access::out}}, then); // waits for 1
  s.step({{a, Access::out}}, other);   // waits for 1, not for 2
  s.step({{a, Access::in}}, other);
  s.step({{a, Access::in}}, then); // for 0 as well, but 2 has waited for 1, and that for 0
  s.step({{a, Access::out}});
  s.step({{a, Access::in}}, other); // of the last write alone
  CHECK(s.edges() ==
        std::vector<Edge>{{0, 1}, {1, 2}, {1, 3}, {2, 5}, {3, 4}, {4, 6}, {5, 6}, {6, 7}});
}

TEST_CASE("a branch within a branch is exclusive to all of the other one, and may meet its like") {
  Steps s;
  uint32_t a = s.buffer(0, 64);
  ir::ExprId then = s.above(0, 1, true), other = s.above(0, 1, false);
  s.step({{a, Access::out}}, s.above(1, 2, true, then)); // 0
  s.step({{a, Access::out}}, s.above(1, 2, false, then));
  s.step({{a, Access::out}}, other);
  s.step({{a, Access::out}}, then);                 // waits for 0 and 1
  s.step({{a, Access::out}}, s.above(1, 2, true));  // for 2 and 3, and through it for 0
  s.step({{a, Access::out}}, s.above(1, 2, false)); // likewise, and for 1
  s.step({{a, Access::out}}, s.above(0, 1, true));  // for 4 and 5
  CHECK(s.edges() ==
        std::vector<Edge>{{0, 3}, {1, 3}, {2, 4}, {2, 5}, {3, 4}, {3, 5}, {4, 6}, {5, 6}});
}

TEST_CASE("conditions are exclusive where the values that they leave are apart") {
  using ir::ExprKind;
  Plan plan;
  Function function;
  auto c = [&](int64_t value) { return plan.exprs.constant(value); };
  const ir::ExprId n = plan.exprs.symbol({0}), m = plan.exprs.symbol({1});
  const std::pair<ir::ExprId, ir::ExprId> apart[] = {
      {plan.exprs.make(ExprKind::lt, n, c(8)), plan.exprs.make(ExprKind::le, c(8), n)},
      {plan.exprs.make(ExprKind::lt, n, c(8)), plan.exprs.make(ExprKind::lt, c(7), n)},
      {plan.exprs.make(ExprKind::le, n, c(8)), plan.exprs.make(ExprKind::eq, n, c(9))},
      {plan.exprs.make(ExprKind::eq, n, c(8)), plan.exprs.make(ExprKind::eq, n, c(9))},
      {plan.exprs.make(ExprKind::eq, n, m), plan.exprs.make(ExprKind::ne, m, n)},
      {plan.exprs.make(ExprKind::lt, n, m), plan.exprs.make(ExprKind::le, m, n)}};
  const std::pair<ir::ExprId, ir::ExprId> together[] = {
      {plan.exprs.make(ExprKind::le, n, c(8)), plan.exprs.make(ExprKind::le, c(8), n)},
      {plan.exprs.make(ExprKind::lt, n, c(8)), plan.exprs.make(ExprKind::lt, c(6), n)},
      {plan.exprs.make(ExprKind::lt, n, c(8)), plan.exprs.make(ExprKind::lt, c(9), m)},
      {plan.exprs.make(ExprKind::eq, n, c(8)), plan.exprs.make(ExprKind::ne, n, c(9))},
      {plan.exprs.make(ExprKind::le, n, m), plan.exprs.make(ExprKind::le, m, n)}};
  auto exclusive = [&](std::pair<ir::ExprId, ir::ExprId> whens) {
    function.steps.resize(2);
    function.steps[0].when = whens.first;
    function.steps[1].when = whens.second;
    const StepConditions conditions(plan.exprs, function);
    CHECK(conditions.exclusive(conditions[0], conditions[1]) ==
          conditions.exclusive(conditions[1], conditions[0]));
    return conditions.exclusive(conditions[0], conditions[1]);
  };
  for (size_t i = 0; i < std::size(apart); ++i) {
    INFO(i);
    CHECK(exclusive(apart[i]));
  }
  for (size_t i = 0; i < std::size(together); ++i) {
    INFO(i);
    CHECK_FALSE(exclusive(together[i]));
  }
}

TEST_CASE("edges of branches are those of the hazards between steps that can run together") {
  size_t exclusive = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Steps s = random_steps(seed, true);
    size_t n = s.function.steps.size();
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t j = 0; j < i; ++j)
        exclusive += !s.together(i, j);
    Matrix expected = required(s);
    for (uint32_t join_from : {0, 2, 4}) {
      INFO("seed " << seed << " join_from " << join_from);
      RegionGraph graph = s.graph({.join_from = join_from});
      check_order(graph, n);
      REQUIRE(between_steps(graph, n) == expected);
      REQUIRE_FALSE(any_implied(graph));
    }
  }
  CHECK(exclusive > 10'000);
}

TEST_CASE("steps of more conditions than are told apart keep their hazards") {
  Steps s;
  uint32_t a = s.buffer(0, 64);
  for (int64_t k = 0; k < 100; ++k)
    for (bool holds : {true, false})
      s.step({{a, Access::out}}, s.above(0, k, holds));
  Matrix path = between_steps(s.graph(), 200);
  size_t apart = 0;
  for (uint32_t i = 0; i < 200; ++i)
    for (uint32_t j = i + 1; j < 200; ++j) {
      // even steps run where n is above i / 2, odd ones elsewhere
      const bool exclusive = i % 2 == 0 ? j % 2 == 1 && j / 2 <= i / 2 : j % 2 == 0;
      REQUIRE((exclusive || path[i][j]));
      apart += exclusive && !path[i][j];
    }
  CHECK(apart > 0);
}

TEST_CASE("many readers and then writers of parts meet in one empty node") {
  for (uint32_t n : {4u, 10u, 100u}) {
    Steps s;
    uint32_t whole = s.buffer(0, 8 * n);
    s.step({{whole, Access::out}});
    for (uint32_t i = 0; i < n; ++i)
      s.step({{whole, Access::in}});
    for (uint32_t i = 0; i < n; ++i)
      s.step({{s.buffer(8 * i, 8 * i + 8), Access::out}});
    RegionGraph graph = s.graph();
    check_order(graph, 2 * n + 1);
    CHECK(empty_nodes(graph) == 1);
    CHECK(graph.nodes[n + 1] == kNone); // after the readers
    CHECK(graph.edges.size() == 3 * n); // to the readers, to the node, from it
    CHECK(between_steps(graph, 2 * n + 1) == required(s));
  }
}

TEST_CASE("many writers of parts and then readers of the whole meet in one empty node") {
  constexpr uint32_t n = 50;
  Steps s;
  uint32_t whole = s.buffer(0, 8 * n);
  for (uint32_t i = 0; i < n; ++i)
    s.step({{s.buffer(8 * i, 8 * i + 8), Access::out}});
  for (uint32_t i = 0; i < n; ++i) // each with something of its own, too
    s.step({{whole, Access::in}, {s.buffer(1000 + 8 * i, 1008 + 8 * i), Access::out}});
  RegionGraph graph = s.graph();
  CHECK(empty_nodes(graph) == 1);
  CHECK(graph.edges.size() == 2 * n);
  CHECK(between_steps(graph, 2 * n) == required(s));
}

TEST_CASE("steps that each read all of many tensors meet in one empty node") {
  constexpr uint32_t n = 20;
  Steps s;
  std::vector<BufferAccess> all;
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t tensor = s.buffer(64 * i, 64 * i + 8);
    s.step({{tensor, Access::out}});
    all.push_back({tensor, Access::in});
  }
  for (uint32_t i = 0; i < n; ++i) {
    std::vector<BufferAccess> accesses = all;
    accesses.push_back({s.buffer(10'000 + 8 * i, 10'008 + 8 * i), Access::out});
    s.step(accesses);
  }
  RegionGraph graph = s.graph();
  CHECK(empty_nodes(graph) == 1);
  CHECK(graph.edges.size() == 2 * n);
}

TEST_CASE("one step that waits for many has edges and no empty node") {
  Steps s;
  uint32_t a = s.buffer(0, 8);
  s.step({{a, Access::out}});
  for (int i = 0; i < 40; ++i)
    s.step({{a, Access::in}});
  s.step({{a, Access::out}});
  RegionGraph graph = s.graph();
  CHECK(empty_nodes(graph) == 0);
  CHECK(graph.edges.size() == 80);
}

TEST_CASE("the reduction is exact beyond 32 parallel steps") {
  // 40 steps side by side, all read by one that also reads what the first step of all wrote.
  Steps s;
  uint32_t root = s.buffer(0, 8);
  s.step({{root, Access::out}});
  std::vector<BufferAccess> all = {{root, Access::in}};
  for (uint32_t i = 1; i <= 40; ++i) {
    uint32_t own = s.buffer(8 * i, 8 * i + 8);
    s.step({{root, Access::in}, {own, Access::out}});
    all.push_back({own, Access::in});
  }
  s.step(all);
  std::vector<Edge> kept = s.edges();
  CHECK(kept.size() == 80);
  CHECK(std::find(kept.begin(), kept.end(), Edge{0, 41}) == kept.end());
}

TEST_CASE("in large regions with more than 32 parallel steps edges are sound") {
  // 50 chains side by side, 100 steps each, that look at their neighbour's last value.
  constexpr uint32_t chains = 50, length = 100;
  Steps s;
  for (uint32_t c = 0; c < chains; ++c)
    s.buffer(8 * c, 8 * c + 8);
  for (uint32_t i = 0; i < length; ++i)
    for (uint32_t c = 0; c < chains; ++c)
      s.step({{(c + 1) % chains, Access::in}, {c, Access::inout}});
  RegionGraph graph = s.graph();
  check_order(graph, chains * length);
  // Every hazard is between steps at most two rounds apart: paths of that length suffice.
  std::vector<std::vector<uint32_t>> before(chains * length);
  for (const Edge &e : graph.edges)
    before[e.to].push_back(e.from);
  auto reaches = [&](uint32_t from, uint32_t to) {
    std::vector<uint32_t> open = {to};
    std::vector<bool> seen(chains * length, false);
    while (!open.empty()) {
      uint32_t node = open.back();
      open.pop_back();
      if (node == from)
        return true;
      for (uint32_t b : before[node])
        if (b >= from && !seen[b]) {
          seen[b] = true;
          open.push_back(b);
        }
    }
    return false;
  };
  for (uint32_t i = 2; i < length; ++i)
    for (uint32_t c = 0; c < chains; c += 7) {
      uint32_t to = i * chains + c, neighbour = (c + 1) % chains;
      REQUIRE(reaches(to - chains, to));
      uint32_t last = neighbour > c ? (i - 1) * chains + neighbour : i * chains + neighbour;
      REQUIRE(reaches(last, to));
    }
}

TEST_CASE("a chain of many steps that all read the first one's output is a chain") {
  Steps s;
  uint32_t first = s.buffer(0, 8), rest = s.buffer(8, 16);
  s.step({{first, Access::out}, {rest, Access::out}});
  for (uint32_t i = 1; i < 5000; ++i)
    s.step({{first, Access::in}, {rest, Access::inout}});
  CHECK(s.edges().size() == 4999);
}

TEST_CASE("a limit of lanes bounds how many steps run side by side, and keeps the hazards") {
  for (uint32_t seed = 0; seed < 100; ++seed)
    for (uint32_t lanes : {1u, 2u, 5u, 32u}) {
      INFO("seed " << seed << " lanes " << lanes);
      Steps s = random_steps(seed);
      size_t n = s.function.steps.size();
      RegionGraph graph = s.graph({.max_lanes = lanes});
      check_order(graph, n);
      Matrix path = between_steps(graph, n), hazards = required(s);
      for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < n; ++j)
          REQUIRE((!hazards[i][j] || path[i][j]));
      // The most steps without a path between any two are n less a largest matching of the closure
      // (Dilworth).
      std::vector<size_t> matched(n, n);
      size_t matching = 0;
      for (size_t i = 0; i < n; ++i) {
        std::vector<bool> seen(n, false);
        auto augment = [&](auto &&self, size_t from) -> bool {
          for (size_t to = 0; to < n; ++to)
            if (path[from][to] && !seen[to]) {
              seen[to] = true;
              if (matched[to] == n || self(self, matched[to])) {
                matched[to] = from;
                return true;
              }
            }
          return false;
        };
        matching += augment(augment, i);
      }
      REQUIRE(n - matching <= lanes);
    }
}
