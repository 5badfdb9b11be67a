// Liveness over nested blocks: times are counted by hand as analysis/liveness.h lays them out.
#include "compiler/planner/analysis/liveness.h"
#include "compiler/planner/storage/memory_plan.h"

#include "support/must.h"
#include "support/plan_module.h"

using namespace cugrt;
using namespace cugrt::plan;
using cugrt::test::must;
using ir::BindingKind;
using ir::FunctionBuilder;
using ir::Operand;
using ir::ValueId;
using test::PlanModule;

namespace {

Liveness analyze(const PlanModule &m, uint32_t function = 0) {
  auto summaries = must(summarize_called(m.module));
  return must(analyze_liveness(m.module, m.module.functions[function], summaries));
}

std::pair<uint32_t, uint32_t> life(const Liveness &live, ValueId value) {
  const Origin &o = live.origins[live.origin(value)];
  return {o.begin, o.end};
}
using Life = std::pair<uint32_t, uint32_t>;

/// if %flag { body } else { body }, or a loop, with the blocks' contents as callbacks.
template <class Then, class Else>
ValueId add_if(PlanModule &m, FunctionBuilder &b, ValueId flag, ir::TypeId type, Then then,
               Else otherwise, std::vector<ValueId> captures = {}) {
  ir::Binding binding{};
  binding.kind = BindingKind::if_;
  binding.blocks = {b.begin_block(), 2};
  Operand r = Operand::of(then());
  b.end_block({&r, 1});
  b.begin_block();
  r = Operand::of(otherwise());
  b.end_block({&r, 1});
  std::vector<Operand> operands = {Operand::of(flag)};
  for (ValueId capture : captures)
    operands.push_back(Operand::of(capture));
  return b.bind(binding, operands, {}, {}, std::vector<std::string>{"r"}, {&type, 1});
}

/// A loop while the host says so.
template <class Body>
ValueId add_while(PlanModule &m, FunctionBuilder &b, ValueId initial, Body body,
                  std::vector<ValueId> captures = {}) {
  ir::TypeId type = b.function().value(initial).type;
  ir::Binding binding{};
  binding.kind = BindingKind::while_;
  binding.carried_count = 1;
  uint32_t first = b.begin_block({&type, 1}, std::vector<std::string>{"c"});
  binding.blocks = {first, 2};
  Operand r = Operand::of(m.simple(b, BindingKind::host_call, "go", {b.block_param(first, 0)},
                                   {m.module.types.scalar(ir::ScalarKind::boolean)},
                                   b.callee_name("more")));
  b.end_block({&r, 1});
  uint32_t second = b.begin_block({&type, 1}, std::vector<std::string>{"d"});
  r = Operand::of(body(b.block_param(second, 0)));
  b.end_block({&r, 1});
  std::vector<Operand> operands = {Operand::of(initial)};
  for (ValueId capture : captures)
    operands.push_back(Operand::of(capture));
  return b.bind(binding, operands, {}, {}, std::vector<std::string>{"w"}, {&type, 1});
}

} // namespace

TEST_CASE("a tensor lives from its first touch to its last, through views and aliases") {
  PlanModule m;
  FunctionBuilder b(m.module, "f");
  ValueId x = b.param("x", m.floats(64));
  ValueId a = b.alloc("a", m.floats(64));                                  // time 0
  m.launch(b, "io", {x, a});                                               // 1
  ValueId v = b.view("v", a, m.constant(128), m.floats(32));               // 2
  ValueId c = b.alloc("c", m.floats(64));                                  // 3
  m.launch(b, "io", {x, c});                                               // 4
  ValueId al = m.simple(b, BindingKind::alias, "al", {v}, {m.floats(32)}); // 5
  m.launch(b, "io", {al, c});                                              // 6
  m.finish(b);
  Liveness live = analyze(m);
  CHECK(life(live, a) == Life(1, 7));
  CHECK(live.origin(al) == live.origin(a));
  CHECK_FALSE(live.whole[v.index]);
  CHECK(life(live, c) == Life(4, 7));
}

TEST_CASE("what a branch or a loop names for its blocks is used where a block uses it") {
  PlanModule m;
  FunctionBuilder b(m.module, "f");
  ValueId flag = b.param("flag", m.module.types.scalar(ir::ScalarKind::boolean));
  ValueId x = b.param("x", m.floats(8));
  ValueId named = b.alloc("named", m.floats(8)), used = b.alloc("used", m.floats(8)); // 0, 1
  m.launch(b, "io", {x, named});                                                      // 2
  m.launch(b, "io", {x, used});                                                       // 3
  auto use = [&] {
    m.launch(b, "io", {x, used});
    return x;
  };
  add_if(m, b, flag, m.floats(8), use, [&] { return x; }, {named, used}); // 4
  ValueId looped = b.alloc("looped", m.floats(8));
  m.launch(b, "io", {x, looped});
  add_while(m, b, x, [&](ValueId) { return x; }, {named, looped});
  m.finish(b);
  Liveness live = analyze(m);
  CHECK(life(live, named) == Life(2, 3));
  CHECK(life(live, used).second > 4);
  CHECK(life(live, looped).second == life(live, looped).first + 1);
}

TEST_CASE("a reshape names all of its tensor, a part does not") {
  PlanModule m;
  FunctionBuilder b(m.module, "f");
  b.symbol({.name = "n"});
  ir::ExprId n = m.module.exprs.symbol({0});
  ValueId x = b.alloc("x", m.floats({n, m.constant(8), m.constant(4)}));
  ValueId same = b.view("same", x, m.constant(0), m.floats({n, m.constant(32)}));
  ValueId other = b.view("other", x, m.constant(0), m.floats({n, m.constant(31)}));
  m.finish(b);
  Liveness live = analyze(m);
  CHECK(live.whole[same.index]);
  CHECK_FALSE(live.whole[other.index]);
}

static std::vector<Life> gaps(const Liveness &live, ValueId value) {
  std::vector<Life> list;
  for (const LifeGap &gap : live.gaps_of(live.origin(value)))
    list.push_back({gap.begin, gap.end});
  return list;
}

TEST_CASE("what is written anew is not needed since it was read last") {
  PlanModule m;
  FunctionBuilder b(m.module, "f");
  ValueId x = b.param("x", m.floats(8)), y = b.param("y", m.floats(8), ir::Access::out);
  ValueId a = b.alloc("a", m.floats(8)), c = b.alloc("c", m.floats(8)); // 0, 1
  ValueId part = b.view("part", a, m.constant(16), m.floats(4));        // 2
  m.launch(b, "io", {x, a});                                            // 3
  m.launch(b, "io", {a, c});                                            // 4
  m.launch(b, "io", {c, y});                                            // 5
  m.launch(b, "io", {c, a});                                            // 6: all of a
  m.launch(b, "io", {a, y});                                            // 7
  m.launch(b, "io", {x, part});                                         // 8: half of a
  m.launch(b, "io", {x, c});                                            // 9
  m.launch(b, "b", {a});                                                // 10: reads it
  m.launch(b, "io", {a, y});                                            // 11
  m.launch(b, "io", {x, y});                                            // 12
  m.launch(b, "o", {a});                                                // 13
  m.finish(b);
  Liveness live = analyze(m);
  CHECK(life(live, a) == Life(3, 14));
  CHECK(gaps(live, a) == std::vector<Life>{{5, 6}, {12, 13}});
  CHECK(gaps(live, c) == std::vector<Life>{{7, 9}});
  CHECK(gaps(live, x).empty());
  CHECK(gaps(live, y).empty()); // the caller's
}

TEST_CASE("nothing is free before a write that may not run, or that others could see through") {
  PlanModule m;
  FunctionBuilder b(m.module, "f");
  ValueId flag = b.param("flag", m.module.types.scalar(ir::ScalarKind::boolean));
  ValueId x = b.param("x", m.floats(8));
  ValueId branched = b.alloc("branched", m.floats(8)), looped = b.alloc("looped", m.floats(8)),
          shown = b.alloc("shown", m.floats(8)), twice = b.alloc("twice", m.floats(8)),
          unwritten = b.alloc("unwritten", m.floats(8)), r = b.alloc("r", m.floats(8));
  for (ValueId value : {branched, looped, shown, twice, r})
    m.launch(b, "io", {x, value});
  m.launch(b, "i", {unwritten});
  m.simple(b, BindingKind::host_call, "", {shown}, {}, b.callee_name("look"));
  ValueId inner;
  add_if(
      m, b, flag, m.floats(8),
      [&] {
        m.launch(b, "io", {x, branched});
        return r;
      },
      [&] { return r; });
  add_while(m, b, r, [&](ValueId d) {
    m.launch(b, "io", {x, looped});
    inner = b.alloc("inner", m.floats(8));
    m.launch(b, "io", {d, inner});
    m.launch(b, "i", {inner});
    m.launch(b, "i", {x});
    m.launch(b, "io", {looped, inner}); // in each round anew
    return inner;
  });
  m.launch(b, "i", {x});
  m.launch(b, "o", {shown});
  m.launch(b, "io", {twice, twice});
  m.launch(b, "o", {unwritten});
  m.launch(b, "iii", {branched, looped, shown});
  m.finish(b);
  Liveness live = analyze(m);
  for (ValueId value : {branched, looped, shown, twice, unwritten})
    CHECK(gaps(live, value).empty());
  REQUIRE(gaps(live, inner).size() == 1);
  CHECK(gaps(live, inner)[0].second == gaps(live, inner)[0].first + 1); // the launch between
}

TEST_CASE("a storage is free when no tensor in it is alive that was written first") {
  for (bool written_first : {true, false}) {
    PlanModule m;
    FunctionBuilder b(m.module, "f");
    ValueId x = b.param("x", m.floats(8));
    ValueId s = b.alloc_storage("s", "global", m.constant(64));          // 0
    ValueId t = b.alloc_tensor("t", s, m.constant(0), m.floats(8));      // 1
    ValueId u = b.alloc_tensor("u", s, m.constant(0), m.floats(8));      // 2
    ValueId other = b.alloc_tensor("o", s, m.constant(32), m.floats(8)); // 3
    m.launch(b, "io", {x, t});                                           // 4
    m.launch(b, "i", {t});                                               // 5
    m.launch(b, "i", {x});                                               // 6
    m.launch(b, written_first ? "o" : "b", {u});                         // 7
    m.launch(b, "o", {other});                                           // 8
    m.launch(b, "i", {x});                                               // 9
    m.launch(b, "o", {t});                                               // 10
    m.finish(b);
    std::vector<Life> list;
    for (const LifeGap &gap : storage_gaps(analyze(m)))
      list.push_back({gap.begin, gap.end});
    CHECK(list ==
          (written_first ? std::vector<Life>{{6, 7}, {9, 10}} : std::vector<Life>{{9, 10}}));
  }
}

TEST_CASE("fields of tuples keep their tensors alive") {
  PlanModule m;
  FunctionBuilder b(m.module, "f");
  ValueId a = b.alloc("a", m.floats(4)), c = b.alloc("c", m.floats(4)); // 0, 1
  ir::TypeId pair = m.module.types.tuple({m.floats(4), m.floats(4)});
  ValueId t = m.simple(b, BindingKind::tuple, "t", {a, c}, {pair}); // 2
  m.launch(b, "o", {a});                                            // 3
  ValueId g = m.simple(b, BindingKind::tuple_element, "g", {t}, {m.floats(4)}, UINT32_MAX,
                       {m.constant(1)});                                   // 4
  m.launch(b, "i", {g});                                                   // 5
  m.simple(b, BindingKind::host_call, "", {t}, {}, b.callee_name("look")); // 6
  m.finish(b);
  Liveness live = analyze(m);
  CHECK(live.alias_of[g.index] == c);
  CHECK(life(live, a) == Life(3, 7));
  CHECK(life(live, c) == Life(5, 7));
  CHECK(live.origins[live.origin(a)].passed_to_host);
}

TEST_CASE("what is live into a loop and used in it lives to the loop's end") {
  PlanModule m;
  FunctionBuilder b(m.module, "f");
  ValueId x = b.param("x", m.floats(8));
  ValueId a = b.alloc("a", m.floats(8)); // 0
  m.launch(b, "io", {x, a});             // 1
  ValueId inner;
  ValueId w = add_while( // 2
      m, b, a,           // 3: host, 4: yield
      [&](ValueId d) {
        inner = b.alloc("inner", m.floats(8)); // 5
        m.launch(b, "iio", {a, d, inner});     // 6
        return inner;                          // 7: yield; the loop is [2, 8)
      });
  ValueId after = b.alloc("after", m.floats(8)); // 8
  m.launch(b, "io", {w, after});                 // 9
  m.finish(b);
  Liveness live = analyze(m);
  CHECK(life(live, a) == Life(1, 8));
  CHECK(life(live, inner) == Life(6, 8));
  CHECK(life(live, w) == Life(2, 10));
  CHECK(life(live, after) == Life(9, 10));
  CHECK(live.origins[live.origin(w)].kind == OriginKind::carried);
}

TEST_CASE("results of branches are written where the branches yield") {
  PlanModule m;
  FunctionBuilder b(m.module, "f");
  ValueId flag = b.param("flag", m.module.types.scalar(ir::ScalarKind::boolean));
  ValueId x = b.param("x", m.floats(8));
  ValueId in_then, in_else;
  ValueId r = add_if(
      m, b, flag, m.floats(8), // 0
      [&] {
        in_then = b.alloc("t", m.floats(8)); // 1
        m.launch(b, "io", {x, in_then});     // 2
        return in_then;                      // 3
      },
      [&] {
        in_else = b.alloc("e", m.floats(8)); // 4
        m.launch(b, "io", {x, in_else});     // 5
        return in_else;                      // 6
      });
  m.launch(b, "i", {r}); // 7
  m.finish(b);
  Liveness live = analyze(m);
  CHECK(life(live, in_then) == Life(2, 4));
  CHECK(life(live, in_else) == Life(5, 7));
  CHECK(life(live, r) == Life(3, 8));
  CHECK(exclusive(m.module.functions[0], live, 1, 2));
  CHECK_FALSE(exclusive(m.module.functions[0], live, 0, 1));
}

TEST_CASE("a use after a kill is refused, one in the other branch is not") {
  for (bool other_branch : {false, true}) {
    PlanModule m;
    FunctionBuilder b(m.module, "f");
    ValueId flag = b.param("flag", m.module.types.scalar(ir::ScalarKind::boolean));
    ValueId a = b.alloc("a", m.floats(8)), c = b.alloc("c", m.floats(8));
    add_if(
        m, b, flag, m.floats(8),
        [&] {
          b.kill(a);
          return c;
        },
        [&] {
          if (other_branch)
            m.launch(b, "o", {a});
          return c;
        });
    if (!other_branch)
      m.launch(b, "o", {a});
    m.finish(b);
    auto live = analyze_liveness(m.module, m.module.functions[0], {});
    CHECK(live.ok() == other_branch);
    if (!live.ok())
      CHECK(live.status().message().find("%a is used after its kill") != std::string::npos);
  }
}

TEST_CASE("functions stand after their callees, and recursion is refused") {
  PlanModule m;
  FunctionBuilder leaf(m.module, "leaf");
  m.finish(leaf);
  m.module.functions.emplace_back(); // replaced below: calls leaf, and in the second round itself
  for (bool recursive : {false, true}) {
    FunctionBuilder b(m.module, "top");
    m.call(b, 0, {});
    if (recursive)
      m.call(b, 1, {});
    m.module.functions[1] = b.finish({});
    auto order = callees_first(m.module);
    CHECK(order.ok() == !recursive);
    if (order.ok())
      CHECK(*order == std::vector<uint32_t>{0, 1});
    else
      CHECK(order.status().message().find("recursive") != std::string::npos);
  }
}

TEST_CASE("summaries tell which results lie in parameters, constants and other results") {
  using Kind = FunctionSummary::SourceKind;
  PlanModule m;
  m.module.constants.push_back({"k", m.floats(4), std::string(16, '\0'), {}});
  FunctionBuilder b(m.module, "f");
  ValueId x = b.param("x", m.floats(4));
  ValueId a = b.alloc("a", m.floats(4)), c = b.alloc("c", m.floats(4));
  ValueId part_a = b.view("part_a", a, m.constant(4), m.floats(2));
  ValueId part_c = b.view("part_c", c, m.constant(4), m.floats(2));
  ValueId k = m.simple(b, BindingKind::constant, "kk", {}, {m.floats(4)}, 0);
  m.finish(b, {x, part_a, a, part_c, k, a});
  const FunctionSummary summary = summarize(m.module.functions[0], analyze(m));
  std::vector<Kind> kinds;
  for (const FunctionSummary::Source &source : summary.results)
    kinds.push_back(source.kind);
  CHECK(kinds == std::vector<Kind>{Kind::parameter, Kind::result, Kind::fresh, Kind::fresh,
                                   Kind::constant, Kind::result});
  CHECK(summary.results[1].index == 2);
  CHECK(summary.results[5].index == 2);
}

// --- Storage planning of allocations -------------------------------------------------------------

const TensorPlan &planned(const MemoryPlan &plan, ValueId tensor) {
  const auto found = std::ranges::find(plan.tensors, tensor, &TensorPlan::tensor);
  REQUIRE(found != plan.tensors.end());
  return *found;
}

TEST_CASE("allocations are planned at upper bounds; results and what hosts keep are not") {
  PlanModule m;
  FunctionBuilder b(m.module, "f");
  b.symbol({.name = "n", .bounds = {1, 100}});
  b.symbol({.name = "m", .bounds = {0, INT64_MAX}});
  ir::ExprId n = m.module.exprs.symbol({0}), open = m.module.exprs.symbol({1});
  ValueId x = b.param("x", m.floats({n})), y = b.param("y", m.floats({open}));
  ValueId a = b.alloc("a", m.floats({n})), c = b.alloc("c", m.floats({n}));
  ValueId kept = b.alloc("kept", m.floats(8)), result = b.alloc("result", m.floats({n}));
  ValueId unbounded = b.alloc("unbounded", m.floats({open}));
  m.launch(b, "io", {x, a});
  m.launch(b, "io", {a, c});
  m.launch(b, "io", {c, result});
  m.launch(b, "io", {y, unbounded});
  m.launch(b, "o", {kept});
  m.simple(b, BindingKind::host_call, "", {kept}, {}, b.callee_name("keep"));
  m.finish(b, {result});
  auto summaries = summarize_called(m.module);
  auto plan = must(plan_memory(m.module, m.module.functions[0], *summaries));
  CHECK(planned(plan, a).planned);
  CHECK(planned(plan, a).bytes == 400);
  CHECK(planned(plan, c).planned);
  CHECK(planned(plan, c).offset_bytes % 256 == 0);
  CHECK(planned(plan, result).reason.find("result of the function") != std::string::npos);
  CHECK(planned(plan, kept).reason.find("host builtin") != std::string::npos);
  CHECK(planned(plan, unbounded).reason.find("symbol m has no upper bound") != std::string::npos);
  REQUIRE(plan.scopes.size() == 1);
  CHECK(plan.scopes[0].tensor_bytes == 800);
  CHECK(plan.scopes[0].lower_bound_bytes == 800); // both are alive at the second launch
  CHECK(plan.scopes[0].peak_bytes == 512 + 400);
}

TEST_CASE("a tensor lies in the gap of another, and both where they were") {
  // a and c are alive together at the first launch and the last; d lives only in between, where
  // a's bytes are free: two tensors' bytes are enough for three.
  PlanModule m;
  FunctionBuilder b(m.module, "f");
  ValueId x = b.param("x", m.floats(64)), y = b.param("y", m.floats(64), ir::Access::out);
  ValueId a = b.alloc("a", m.floats(64)), c = b.alloc("c", m.floats(64)),
          d = b.alloc("d", m.floats(64));
  m.launch(b, "io", {x, a});
  m.launch(b, "io", {a, c});
  m.launch(b, "io", {c, d});
  m.launch(b, "io", {d, y});
  m.launch(b, "io", {c, a});
  m.launch(b, "iio", {a, c, y});
  m.finish(b);
  auto summaries = summarize_called(m.module);
  auto plan = plan_memory(m.module, m.module.functions[0], *summaries, {.reuse = Reuse::smallest});
  REQUIRE(plan.ok());
  REQUIRE(plan->scopes.size() == 1);
  CHECK(plan->scopes[0].peak_bytes == 512);
  CHECK(plan->scopes[0].lower_bound_bytes == 512);
  CHECK(planned(*plan, a).offset_bytes == planned(*plan, d).offset_bytes);
  // Where there is memory for it, the launch that writes a anew need not wait for the one that
  // reads d.
  plan = plan_memory(m.module, m.module.functions[0], *summaries, {.reuse = Reuse::balanced});
  REQUIRE(plan.ok());
  CHECK(plan->scopes[0].peak_bytes == 768);
}
