// Steps over byte ranges, and what the definition of hazards says of them.
#pragma once

#include "compiler/planner/edges/region_nodes.h"

#include "support/catch.h"

#include <numeric>
#include <random>

namespace cugrt::test {

using namespace cugrt::plan;

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
    std::vector<uint32_t> all(function.steps.size());
    std::iota(all.begin(), all.end(), 0);
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

using Matrix = std::vector<std::vector<bool>>;

/// Paths between nodes, by Warshall.
inline Matrix closure(size_t n, const std::vector<Edge> &edges) {
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
inline Matrix required(const Steps &s) {
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
inline Matrix between_steps(const RegionGraph &graph, size_t steps) {
  Matrix all = closure(graph.nodes.size(), graph.edges), path(steps, std::vector<bool>(steps));
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (size_t j = 0; j < graph.nodes.size(); ++j)
      if (graph.nodes[i] != kNone && graph.nodes[j] != kNone)
        path[graph.nodes[i]][graph.nodes[j]] = all[i][j];
  return path;
}

inline bool any_implied(const RegionGraph &graph) {
  Matrix path = closure(graph.nodes.size(), graph.edges);
  for (const Edge &e : graph.edges)
    for (size_t k = 0; k < graph.nodes.size(); ++k)
      if (path[e.from][k] && path[k][e.to])
        return true;
  return false;
}

inline void check_order(const RegionGraph &graph, size_t steps) {
  uint32_t next = 0;
  for (uint32_t node : graph.nodes)
    if (node != kNone)
      CHECK(node == next++);
  CHECK(next == steps);
  CHECK(std::is_sorted(graph.edges.begin(), graph.edges.end()));
  for (const Edge &e : graph.edges)
    REQUIRE((e.from < e.to && e.to < graph.nodes.size()));
}

/// Paths are those of the hazards and no edge is implied by others, with empty nodes or without.
inline void check_edges(Steps s) {
  const size_t n = s.function.steps.size();
  const Matrix expected = required(s);
  for (uint32_t join_from : {0, 2, 4}) {
    INFO("join_from " << join_from);
    RegionGraph graph = s.graph({.join_from = join_from});
    check_order(graph, n);
    REQUIRE(between_steps(graph, n) == expected);
    REQUIRE_FALSE(any_implied(graph));
  }
}

inline size_t empty_nodes(const RegionGraph &graph) {
  return size_t(std::count(graph.nodes.begin(), graph.nodes.end(), kNone));
}

/// A condition for each step: runs of steps are in both branches, one after the other, of an `if`
/// over one of two symbols, now and then with an `if` over the other within. Every pair of them
/// that is exclusive has an opposite: the thresholds are one to a symbol.
inline std::vector<ir::ExprId> random_whens(Steps &s, uint32_t count, std::mt19937 &random) {
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
inline Steps random_steps(uint32_t seed, bool branches = false) {
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

} // namespace cugrt::test
