// Hazards and their reduction, against the definitions.
#include "plan/hazards.h"

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
  void step(std::vector<BufferAccess> accesses) {
    Step s;
    s.accesses = {uint32_t(function.accesses.size()), uint32_t(accesses.size())};
    function.accesses.insert(function.accesses.end(), accesses.begin(), accesses.end());
    function.steps.push_back(s);
  }
  std::vector<Edge> edges() {
    std::vector<Edge> out;
    Range all{0, uint32_t(function.steps.size())};
    for (const Hazard &h : find_hazards(function, all, byte_ranges(plan, function)))
      out.push_back({h.from, h.to});
    return transitive_reduction(all.count, out);
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

/// The closure by Warshall, and the reduction by its definition: an edge is kept unless a longer
/// path joins its ends.
std::vector<Edge> reference_reduction(uint32_t n, const std::vector<Edge> &edges) {
  std::vector<std::vector<bool>> path(n, std::vector<bool>(n, false));
  for (const Edge &e : edges)
    path[e.from][e.to] = true;
  for (uint32_t k = 0; k < n; ++k)
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t j = 0; j < n; ++j)
        path[i][j] = path[i][j] || (path[i][k] && path[k][j]);
  std::vector<Edge> kept;
  for (uint32_t i = 0; i < n; ++i)
    for (uint32_t j = 0; j < n; ++j) {
      bool direct = path[i][j];
      for (uint32_t k = 0; k < n && direct; ++k)
        direct = !(path[i][k] && path[k][j]);
      if (direct)
        kept.push_back({i, j});
    }
  return kept;
}

} // namespace

TEST_CASE("the reduction equals its definition on random graphs, narrow and wide") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    uint32_t n = 2 + random() % 60, density = 1 + random() % 12;
    std::vector<Edge> edges;
    for (uint32_t j = 1; j < n; ++j)
      for (uint32_t i = 0; i < j; ++i)
        if (random() % density == 0)
          edges.push_back({i, j});
    CHECK(transitive_reduction(n, edges) == reference_reduction(n, edges));
  }
}

TEST_CASE("the reduction is exact beyond 32 parallel steps") {
  // 40 steps side by side, all read by one, with an implied edge from the first root.
  std::vector<Edge> edges;
  for (uint32_t i = 1; i <= 40; ++i) {
    edges.push_back({0, i});
    edges.push_back({i, 41});
  }
  edges.push_back({0, 41});
  std::vector<Edge> kept = transitive_reduction(42, edges);
  CHECK(kept.size() == 80);
  CHECK(std::find(kept.begin(), kept.end(), Edge{0, 41}) == kept.end());
}

TEST_CASE("a chain of many steps with all implied edges to the root is reduced to the chain") {
  std::vector<Edge> edges;
  for (uint32_t i = 1; i < 5000; ++i) {
    edges.push_back({i - 1, i});
    edges.push_back({0, i});
  }
  CHECK(transitive_reduction(5000, edges).size() == 4999);
}
