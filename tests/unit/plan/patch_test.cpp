// Policy `patch`: calls planned through, and steps moved above what ended a region.
#include "compiler/planner/lower/planner.h"
#include "compiler/planner/rewrite/inline_calls.h"

#include "ir/text/text.h"
#include "plan/validate/validate.h"
#include "support/inlined.h"

#include <algorithm>

using namespace cugrt;
using namespace cugrt::plan;
using cugrt::test::contains;
using cugrt::test::must;
using cugrt::test::refused;

namespace {

const char *const kUpdateKernels = R"(cugrt 1
kernel @k {
  inline "k"
  entry "k"
  params (x: in f32, y: out f32)
  launch { grid (1, 1, 1) block (32, 1, 1) }
}
kernel @update {
  inline "update"
  entry "update"
  params (y: inout f32)
  launch { grid (1, 1, 1) block (32, 1, 1) }
}
)";

struct ReportedPlan {
  Plan plan;
  PlanReport report;

  const Function &main() const { return *plan.find_function("main"); }
  /// Steps of each region of @main, by the tensor that they write.
  std::vector<std::vector<std::string>> regions() const {
    std::vector<std::vector<std::string>> out;
    for (const Region &region : main().regions) {
      out.emplace_back();
      for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s)
        out.back().push_back(main().steps[s].name.substr(main().steps[s].name.find('%')));
    }
    return out;
  }
  bool says(const std::string &text) const {
    for (const BindingNote &note : report.bindings)
      if (note.reason.find(text) != std::string::npos)
        return true;
    return false;
  }
};

using Regions = std::vector<std::vector<std::string>>;

ReportedPlan plan_with_report(const ir::Module &module, PlannerOptions options) {
  ReportedPlan out;
  auto plan = must(make_plan(module, options, &out.report));
  REQUIRE(validate(plan).ok());
  out.plan = std::move(plan);
  return out;
}

ReportedPlan plan_with_report(const std::string &functions, PlannerOptions options = {}) {
  return plan_with_report(must(ir::parse_and_verify(kUpdateKernels + functions, "test")), options);
}

ReportedPlan plan_inlined(const std::string &functions) {
  return plan_with_report(cugrt::test::inlined_and_stored(
                              must(ir::parse_and_verify(kUpdateKernels + functions, "test"))),
                          {});
}

const std::string kLeaf = R"(
private func @leaf(%u: tensor<[8], f32>) -> (tensor<[8], f32>) {
  %r = alloc : tensor<[8], f32>
  launch @k(%u, %r)
  return %r
}
)";

/// @main with two planned tensors %a and %b, a result %y, and `body` between.
std::string main_with(const std::string &body, const std::string &more_params = "") {
  return "func @main(%x: tensor<[8], f32>" + more_params + R"() -> (tensor<[8], f32>) {
  %sa = alloc_storage "global", 32
  %sb = alloc_storage "global", 32
  %sc = alloc_storage "global", 32
  %a = alloc_tensor %sa, 0 : tensor<[8], f32>
  %b = alloc_tensor %sb, 0 : tensor<[8], f32>
  %c = alloc_tensor %sc, 0 : tensor<[8], f32>
  %y = alloc : tensor<[8], f32>
)" + body +
         "  return %y\n}\n";
}

} // namespace

TEST_CASE("a callee's steps join the caller's region, and those of what it calls") {
  const std::string twice = R"(
private func @twice(%u: tensor<[8], f32>) -> (tensor<[8], f32>) {
  %o = call @leaf(%u)
  %p = call @leaf(%o)
  return %p
}
)";
  auto calling = [&](const std::string &callee) {
    return plan_inlined(
        kLeaf + twice +
        main_with("  launch @k(%x, %a)\n  %o = call @" + callee + "(%a)\n  launch @k(%o, %y)\n"));
  };
  const ReportedPlan leaf = calling("leaf");
  CHECK(leaf.regions() == Regions{{"%a", "%r", "%y"}});
  CHECK(leaf.says("planned through: its 1 step is"));
  const ReportedPlan both = calling("twice");
  REQUIRE(both.main().regions.size() == 1);
  CHECK(both.main().regions[0].steps.count == 4);
}

static std::string line_of(const std::string &text, const std::string &what) {
  const std::string before = text.substr(0, text.find(what));
  return std::to_string(1 + std::count(before.begin(), before.end(), '\n')) + ":3";
}

TEST_CASE("calls beyond the limit of steps stay calls, and their caller knows why") {
  std::string text = kUpdateKernels;
  text += "private func @many(%u: tensor<[8], f32>) -> (tensor<[8], f32>) {\n"
          "  %r = alloc : tensor<[8], f32>\n";
  for (int i = 0; i < 40000; ++i)
    text += "  launch @k(%u, %r)\n";
  text += "  return %r\n}\nfunc @main(%x: tensor<[8], f32>) -> (tensor<[8], f32>) {\n"
          "  %o = call @many(%x)\n  %p = call @many(%o)\n  return %p\n}\n";
  const auto module = must(ir::parse_and_verify(text, "test"));
  const auto inlined = must(inline_calls(module, false));
  const ir::Function &main = *inlined->find_function("main");
  CHECK(main.body().bindings.size() == 40002);
  REQUIRE(main.kept_calls.size() == 1);
  CHECK(contains(main.kept_calls[0], "the caller would have more than 65536"));

  const Status strict = refused(inline_calls(module, true));
  CHECK(strict.code() == cugrt::Code::out_of_range);
  CHECK(contains(strict.message(),
                 "the call of @many cannot be inlined: with its 40000 steps the caller would "
                 "have more than 65536"));
  CHECK(strict.location() == line_of(text, "%p = call @many"));
}

TEST_CASE("a call stays where the run checks something that inlining would lose") {
  struct Case {
    const char *callee, *call, *reason;
  };
  for (const Case &c : {
           Case{R"(
private func @f(%u: tensor<[n], f32>) attributes {upper_bounds = {n = 4}} {
  return
}
func @g(%u: tensor<[k], f32>) attributes {upper_bounds = {k = 8}} {
  call @f(%u)
  return
}
)",
                "", "the bounds of its symbol n are narrower"},
           Case{R"(
private func @f(%u: inout tensor<[8], f32>, %v: tensor<[8], f32>) {
  launch @update(%u)
  return
}
)",
                "  %view = view %a, 0 : tensor<[8], f32>\n  call @f(%a, %b)\n", ""},
       }) {
    INFO(c.reason);
    ReportedPlan p = plan_inlined(
        c.callee + main_with(std::string("  launch @k(%x, %a)\n  launch @k(%x, %b)\n") + c.call +
                             "  launch @k(%a, %y)\n"));
    CHECK((*c.reason ? p.says(c.reason) : p.says("planned through")));
  }
}

TEST_CASE(
    "a call with types that are known less or more exactly is planned through, with a match") {
  struct Case {
    const char *title, *callee, *params, *results, *body, *match;
  };
  const char *const kWide = R"(
private func @f(%u: tensor<?, f32>) -> (tensor<?, f32>) {
  %v = match %u : tensor<[m, 64], f32>
  %r = alloc : tensor<[m, 64], f32>
  launch @k(%v, %r)
  return %r
}
)";
  for (const Case &c : {
           Case{"the argument has another dimension, which is checked", R"(
private func @f(%u: tensor<[m, 64], f32>) -> (tensor<[m, 64], f32>) {
  %r = alloc : tensor<[m, 64], f32>
  launch @k(%u, %r)
  return %r
}
)",
                "%x: tensor<[n, k], f32>", "tensor<[n, 64], f32>", R"(
  %b = call @f(%x)
  %y = alloc : tensor<[n, 64], f32>
  launch @k(%b, %y)
)",
                "= match %x : tensor<[n, 64], f32>"},
           Case{"a symbol stands in two dimensions and two parameters", R"(
private func @f(%u: tensor<[m, m], f32>, %v: tensor<[m], f32>) -> (tensor<[m, m], f32>) {
  %r = alloc : tensor<[m, m], f32>
  launch @k(%u, %r)
  return %r
}
)",
                "%x: tensor<[n, k], f32>, %z: tensor<[j], f32>", "tensor<[n, n], f32>", R"(
  %b = call @f(%x, %z)
  %y = alloc : tensor<[n, n], f32>
  launch @k(%b, %y)
)",
                "= match %z : tensor<[n], f32>"},
           Case{"a dimension is checked of what a tuple holds", R"(
private func @f(%u: tensor<[m], f32>, %t: tuple<tensor<[m], f32>, shape<[m]>>)
    -> (tensor<[m], f32>) {
  %v = get %t, 0
  %r = alloc : tensor<[m], f32>
  launch @k(%v, %r)
  return %r
}
)",
                "%x: tensor<[n], f32>, %z: tensor<[j], f32>", "tensor<[n], f32>", R"(
  %s = shape [n]
  %t = tuple(%z, %s)
  %b = call @f(%x, %t)
  %y = alloc : tensor<[n], f32>
  launch @k(%b, %y)
)",
                ": tensor<[n], f32>"},
           Case{"the callee knows neither its parameter's nor its result's dimensions", kWide,
                "%x: tensor<[n, 64], f32>", "tensor<[n, 64], f32>", R"(
  %b = call @f(%x)
  %c = alias %b
  %d = match %c : tensor<[n, 64], f32>
  %y = alloc : tensor<[n, 64], f32>
  launch @k(%d, %y)
)",
                "match %x : tensor<[n, 64], f32>"},
           Case{"what one callee gives another takes", kWide, "%x: tensor<[n, 64], f32>",
                "tensor<?, f32>", R"(
  %b = call @f(%x)
  %y = call @f(%b)
)",
                "match %r : tensor<[n, 64], f32>"},
           Case{"an argument is given back", R"(
private func @f(%u: tensor<?, f32>) -> (tensor<?, f32>) {
  return %u
}
)",
                "%x: tensor<[n, 64], f32>", "tensor<[n, 64], f32>", R"(
  %b = call @f(%x)
  %d = match %b : tensor<[n, 64], f32>
  %y = alloc : tensor<[n, 64], f32>
  launch @k(%d, %y)
)",
                "match %x : tensor<[n, 64], f32>"},
       }) {
    INFO(c.title);
    const bool k = std::string_view(c.params).find('k') != std::string_view::npos;
    const bool j = std::string_view(c.params).find('j') != std::string_view::npos;
    ReportedPlan p =
        plan_inlined(std::string(c.callee) + "func @main(" + c.params + ") -> (" + c.results +
                     ") attributes {upper_bounds = {n = 8" + (k ? ", k = 64" : "") +
                     (j ? ", j = 8" : "") + "}} {" + c.body + "  return %y\n}\n");
    CHECK(p.says("planned through"));
    CHECK(p.main().regions.size() <= 1);
    CHECK(p.main().dynamic_count == 0);
    bool matched = false;
    for (const BindingNote &note : p.report.bindings)
      matched |= note.binding.find(c.match) != std::string::npos &&
                 note.binding.find("match") != std::string::npos;
    CHECK(matched);
  }
}

TEST_CASE("a call that stays gives tensors whose dimensions only the callee's parameters say") {
  const std::string callee = R"(
private func @f(%u: tensor<[m, 64], f32>) -> (tensor<?, f32>, tensor<?, f32>) {
  %r = alloc : tensor<[m, 64], f32>
  launch @k(%u, %r)
  return %r, %u
}
func @main(%x: tensor<[n, 64], f32>) -> (tensor<[n, 64], f32>) attributes {upper_bounds = {n = 8}} {
  %b, %u = call @f(%x)
  %c = match %b : tensor<[n, 64], f32>
  %d = match %u : tensor<[n, 64], f32>
  %y = alloc : tensor<[n, 64], f32>
  launch @k(%c, %y)
  return %y
}
)";
  ReportedPlan p = plan_with_report(callee);
  REQUIRE(p.says("a call of @f"));
  uint32_t sized = 0;
  for (const Item &item : p.main().blocks[0].items)
    if (item.kind == ItemKind::match)
      sized += p.main().buffers[item.operands[0].index].dims.size() == 2;
  CHECK(sized == 2);

  auto unknown = must(ir::parse_and_verify(std::string(kUpdateKernels) + R"(
private func @f(%u: tensor<?, f32>) -> (tensor<?, f32>) {
  %v = match %u : tensor<[m], f32>
  %r = alloc : tensor<[m], f32>
  launch @k(%v, %r)
  return %r
}
func @main(%x: tensor<[8], f32>) -> (tensor<?, f32>) {
  %b = call @f(%x)
  return %b
}
)",
                                           "test"));
  CHECK(contains(refused(make_plan(unknown, {})).message(),
                 "only a run of @f knows the shape of its result 0"));
}

TEST_CASE("a symbol that a match of planned storage defines is bounded by what it is matched to") {
  ReportedPlan p = plan_with_report(R"(
func @main(%x: tensor<[n, 64], f32>) -> (tensor<[n, 64], f32>) attributes {upper_bounds = {n = 8}} {
  %s = alloc_storage "global", 2048
  %t = alloc_storage "global", 2048
  %a = alloc_tensor %s, 0 : tensor<[n, 64], f32>
  launch @k(%x, %a)
  %b = match %a : tensor<[k, 64], f32>
  %c = alloc_tensor %t, 0 : tensor<[n, 64], f32>
  launch @k(%b, %c)
  %y = alloc : tensor<[n, 64], f32>
  launch @k(%c, %y)
  return %y
}
)");
  CHECK(p.main().regions.size() == 1);
  CHECK(p.main().symbols[1].bounds.upper == 8);
}

TEST_CASE("the report names the symbol without a bound that keeps steps out of regions") {
  const std::string function = R"(
func @main(%x: tensor<?, f32>) -> (tensor<?, f32>) {
  %u = match %x : tensor<[k, 64], f32>
  %a = alloc : tensor<[k, 64], f32>
  launch @k(%u, %a)
  %y = alloc : tensor<[k, 64], f32>
  launch @k(%a, %y)
  return %y
}
)";
  const std::string why = "; symbol k, defined in line " +
                          line_of(kUpdateKernels + function, "%u = match").substr(0, 2) +
                          ", has no upper bound; add `upper_bounds = {k = ...}`";
  for (Policy policy : {Policy::patch, Policy::published}) {
    ReportedPlan p = plan_with_report(function, {.policy = policy});
    INFO(why);
    for (const BindingNote &note : p.report.bindings)
      UNSCOPED_INFO(note.binding << ": " << note.reason);
    CHECK(p.says((policy == Policy::patch ? "only during the run" : "fresh in each run") + why));
    if (policy == Policy::patch)
      CHECK(
          p.says("touches %a, which is unplanned: its address is known only during the run" + why));
  }
}

TEST_CASE("a step that does not depend on a branch moves above it") {
  ReportedPlan p = plan_with_report(main_with(R"(  launch @k(%x, %a)
  if %flag using (%b, %x) {
    launch @k(%x, %b)
    yield
  } else {
    yield
  }
  launch @k(%x, %c)
  launch @k(%c, %y)
)",
                                              ", %flag: bool"));
  CHECK(p.regions() == Regions{{"%a", "%c", "%y"}, {"%b"}});
  CHECK(p.says("moved above the branches in line"));
}

TEST_CASE("a step that reads what a branch writes, or writes what it reads, stays below it") {
  for (const char *after :
       {"  launch @k(%b, %y)\n", "  launch @k(%x, %a)\n  launch @k(%a, %y)\n"}) {
    INFO(after);
    ReportedPlan p = plan_with_report(main_with(std::string(R"(  launch @k(%x, %a)
  if %flag using (%a, %b) {
    launch @k(%a, %b)
    yield
  } else {
    yield
  }
)") + after,
                                                ", %flag: bool"));
    REQUIRE(p.main().regions.size() == 3);
    CHECK_FALSE(p.says("moved above"));
  }
}

TEST_CASE("nothing moves above a host builtin, nor above a branch that runs one") {
  for (const char *middle : {"  host \"look\"(%a)\n", R"(  if %flag using (%a) {
    host "look"(%a)
    yield
  } else {
    yield
  }
)"}) {
    INFO(middle);
    ReportedPlan p = plan_with_report(main_with(std::string("  launch @k(%x, %a)\n") + middle +
                                                    "  launch @k(%x, %c)\n  launch @k(%c, %y)\n",
                                                ", %flag: bool"));
    CHECK(p.regions() == Regions{{"%a"}, {"%c", "%y"}});
  }
}

TEST_CASE("a step on planned storage moves above a launch on unplanned storage") {
  ReportedPlan p = plan_with_report(main_with(R"(  %d = alloc : tensor<[8], f32>
  launch @k(%x, %a)
  launch @k(%a, %d)
  launch @k(%d, %b)
  launch @k(%a, %c)
  launch @k(%c, %y)
)"));
  CHECK(p.regions() == Regions{{"%a", "%c", "%y"}});
  CHECK(p.says("moved above the launch of @k"));
}

TEST_CASE("a result that is another one, or a part of it, lies where that one does in its slot") {
  ReportedPlan p = plan_with_report(R"(
func @main(%x: tensor<[16], f32>) -> (tensor<[16], f32>, tensor<[16], f32>, tensor<[4], f32>) {
  %s = alloc_storage "global", 128
  %t = alloc_tensor %s, 64 : tensor<[16], f32>
  %v = view %t, 32 : tensor<[4], f32>
  launch @k(%x, %t)
  return %t, %t, %v
}
)");
  const Function &main = p.main();
  REQUIRE(main.results.size() == 3);
  for (const auto &[result, offset] : {std::pair(0, 0), {1, 0}, {2, 32}}) {
    INFO("result " << result);
    const Buffer &buffer = main.buffers[main.results[size_t(result)].buffer];
    CHECK(buffer.base == BufferBase::slot);
    CHECK(buffer.index == main.buffers[main.results[0].buffer].index);
    CHECK(p.plan.exprs.as_constant(buffer.offset_bytes) == offset);
  }
}

TEST_CASE("a loop's condition in an allocation of its own is not given back before it is read") {
  ReportedPlan p = plan_with_report(R"(
kernel @test {
  inline "test"
  entry "test"
  params (x: in f32, go: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
func @main(%x: tensor<[1], f32>) -> (tensor<[1], f32>) {
  %w = while (%l = %x) {
    %go = alloc : tensor<[1], i32>
    %other = alloc : tensor<[1], f32>
    launch @test(%l, %go)
    launch @k(%l, %other)
    yield %go
  } do {
    yield %l
  }
  return %w
}
)");
  const Function &main = p.main();
  std::vector<std::string> allocated, released;
  for (const Block &block : main.blocks)
    for (const Item &item : block.items) {
      if (item.kind == ItemKind::allocate)
        allocated.push_back(main.buffers[item.index].name);
      if (item.kind == ItemKind::release)
        released.push_back(main.buffers[item.index].name);
    }
  CHECK(allocated == std::vector<std::string>{"go", "other"});
  CHECK(released == std::vector<std::string>{"other"});
}
