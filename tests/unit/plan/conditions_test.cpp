// Graphs of regions with branches on symbols: steps that never run together.
#include "steps.h"
#include "support/must.h"

#include "compiler/planner/lower/planner.h"
#include "ir/text/text.h"
#include "plan/validate/validate.h"

using namespace cugrt;
using namespace cugrt::plan;
using namespace cugrt::test;

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

TEST_CASE("edges of branches are those of the hazards between steps that can run together",
          "[long]") {
  size_t exclusive = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Steps s = random_steps(seed, true);
    size_t n = s.function.steps.size();
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t j = 0; j < i; ++j)
        exclusive += !s.together(i, j);
    INFO("seed " << seed);
    check_edges(std::move(s));
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

TEST_CASE(
    "the validator asks for every edge that a plan with branches on symbols has, and for none "
    "between the branches") {
  auto module = must(ir::parse_and_verify(R"(cugrt 1
kernel @step {
  inline "step"
  entry "step"
  params (x: in f32, y: out f32)
  launch { grid (1, 1, 1) block (64, 1, 1) }
}
func @main(%x: tensor<[n, 4], f32>, %y: out tensor<[64, 4], f32>) attributes {upper_bounds = {n = 64}} {
  %s = alloc_storage "global", 3072
  %a = alloc_tensor %s, 0 : tensor<[64, 4], f32>
  %b = alloc_tensor %s, 1024 : tensor<[64, 4], f32>
  %c = alloc_tensor %s, 2048 : tensor<[64, 4], f32>
  launch @step(%x, %a)
  if n > 8 using (%a, %b, %c) {
    launch @step(%a, %b)
    launch @step(%b, %c)
    yield
  } else {
    launch @step(%a, %c)
    launch @step(%c, %b)
    yield
  }
  launch @step(%b, %y)
  launch @step(%c, %a)
  return
}
)",
                                          "test"));
  auto plan = must(make_plan(module, PlannerOptions()));
  REQUIRE(validate(plan).ok());
  const Function &f = plan.functions[0];
  REQUIRE(f.regions.size() == 1);
  const std::vector<Edge> &edges = f.regions[0].edges;
  // 1 and 2 are the one branch, 3 and 4 the other. 5 waits for those that write %b, 6 for those
  // that write %c, and through them for all that read %a.
  CHECK(edges == std::vector<Edge>{{0, 1}, {0, 3}, {1, 2}, {1, 5}, {2, 6}, {3, 4}, {3, 6}, {4, 5}});
  for (size_t e = 0; e < edges.size(); ++e) {
    const Step &from = f.steps[f.regions[0].steps.begin + edges[e].from];
    const Step &to = f.steps[f.regions[0].steps.begin + edges[e].to];
    CHECK((!from.when.valid() || !to.when.valid() || from.when == to.when));
    Plan damaged = plan;
    Region &region = damaged.functions[0].regions[0];
    region.edges.erase(region.edges.begin() + ptrdiff_t(e));
    region.programmatic.clear();
    const Status status = validate(damaged);
    REQUIRE_FALSE(status.ok());
    CHECK(status.message().find("no path") != std::string::npos);
  }
}
