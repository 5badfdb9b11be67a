// Graphs of regions, against the definitions of hazards and of their transitive reduction.
#include "steps.h"

using namespace cugrt;
using namespace cugrt::plan;
using namespace cugrt::test;

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
  const MatchedSymbols none(s.plan.exprs, 1);
  ir::ExprId n = s.plan.exprs.symbol({0}), half = s.plan.exprs.mul(n, s.plan.exprs.constant(4));
  Buffer low{}, high{};
  low.offset_bytes = s.plan.exprs.constant(0);
  low.bytes = high.bytes = high.offset_bytes = half;
  CHECK_FALSE(may_overlap(s.plan.exprs, low, high, bounds, none));
  high.offset_bytes = s.plan.exprs.sub(half, s.plan.exprs.constant(1));
  CHECK(may_overlap(s.plan.exprs, low, high, bounds, none));
}

TEST_CASE("symbols of matches stand for what they were matched to, but for no endless expression") {
  constexpr uint32_t count = 5000;
  ir::ExprPool exprs;
  MatchedSymbols matched(exprs, count);
  const ir::ExprId one = exprs.constant(1), two = exprs.constant(2);
  auto half = [&](ir::ExprId of) { return exprs.ceildiv(exprs.add(of, one), two); };
  for (uint32_t i = 1; i < count; ++i)
    matched.define({i}, half(exprs.symbol({i - 1})));
  CHECK(matched.same(exprs.symbol({2}), half(half(exprs.symbol({0})))));
  CHECK_FALSE(matched.same(exprs.symbol({2}), half(exprs.symbol({0}))));
  for (uint32_t i = 0; i < count; ++i)
    REQUIRE(exprs.tree_size(matched.resolve(exprs.symbol({i}))) <= 64);
}

TEST_CASE("paths between steps are those of the hazards, and no edge is implied by others",
          "[long]") {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    check_edges(random_steps(seed));
  }
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

TEST_CASE("a limit of lanes bounds how many steps run side by side, and keeps the hazards",
          "[long]") {
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
