// make_plan: options, regions, calling convention, literals. What text shows better is in
// golden_plan.
#include "compiler/planner/lower/context.h"
#include "compiler/planner/lower/planner.h"
#include "compiler/planner/rewrite/inline_calls.h"

#include "ir/text/text.h"
#include "plan/validate/validate.h"
#include "support/must.h"
#include "support/plan_module.h"

using namespace cugrt;
using namespace cugrt::plan;
using cugrt::test::must;
using cugrt::test::refused;
using ir::FunctionBuilder;
using ir::ValueId;
using test::PlanModule;

namespace {

Plan planned(const PlanModule &m, PlannerOptions options = {}, PlanReport *report = nullptr) {
  auto plan = must(make_plan(m.module, options, report));
  Status valid = validate(plan);
  INFO(valid.to_string());
  REQUIRE(valid.ok());
  return plan;
}

/// A chain of `n` launches from %x to %y through planned tensors.
PlanModule chain(uint32_t n) {
  PlanModule m;
  FunctionBuilder b(m.module, "main");
  ValueId at = b.param("x", m.floats(64)), y = b.param("y", m.floats(64), ir::Access::out);
  for (uint32_t i = 0; i + 1 < n; ++i) {
    ValueId next = m.planned(b, "t" + std::to_string(i), 64);
    m.launch(b, "io", {at, next});
    at = next;
  }
  m.launch(b, "io", {at, y});
  m.finish(b);
  return m;
}

} // namespace

TEST_CASE("a chain of launches is one region that needs two tensors' bytes") {
  Plan plan = planned(chain(100));
  const Function &f = plan.functions[0];
  REQUIRE(f.regions.size() == 1);
  CHECK(f.regions[0].steps == Range{0, 100});
  CHECK(f.regions[0].edges.size() == 99);
  REQUIRE(plan.arenas.size() == 1);
  CHECK(plan.arenas[0].bytes == 512);
  CHECK(plan.arenas[0].lower_bound_bytes == 512);
  CHECK(plan.arenas[0].tensor_bytes == 99 * 256);
}

TEST_CASE("calls that double with each function are planned through up to a number of bindings") {
  const std::string type = "tensor<[4], f32>", head = "(%x: " + type + ") -> (" + type + ") {\n";
  std::string text = "cugrt 1\nprivate func @f0" + head + " %y = relu(%x)\n return %y\n}\n";
  for (int i = 1; i < 40; ++i) {
    const std::string callee = " = call @f" + std::to_string(i - 1);
    text += "private func @f" + std::to_string(i) + head + " %a" + callee + "(%x)\n %y" + callee +
            "(%a)\n return %y\n}\n";
  }
  text += "func @main" + head + " %y = call @f39(%x)\n return %y\n}\n";
  const auto module = must(ir::parse_and_verify(text, "m"));
  const auto inlined = must(inline_calls(module, false));
  REQUIRE(inlined.has_value());
  size_t bindings = 0; // that come from calls, and the calls
  std::string reasons;
  for (const ir::Function &function : inlined->functions) {
    for (const ir::Binding &b : function.body().bindings)
      bindings += b.call_site != UINT32_MAX;
    bindings += function.call_sites.size();
    for (const std::string &reason : function.kept_calls)
      reasons += reason + "\n";
  }
  CHECK(bindings > kMaxModuleBindings / 4); // as many as may be are
  CHECK(bindings <= kMaxModuleBindings);
  CHECK(reasons.find("more than 65536 bindings that come from calls") != std::string::npos);
}

TEST_CASE("regions are split at the stated number of nodes") {
  PlanReport report;
  Plan plan = planned(chain(25), {.max_region_nodes = 10}, &report);
  std::vector<uint32_t> sizes;
  for (const Region &region : plan.functions[0].regions)
    sizes.push_back(region.steps.count);
  CHECK(sizes == std::vector<uint32_t>{10, 10, 5});
  CHECK(std::count_if(report.bindings.begin(), report.bindings.end(), [](const BindingNote &note) {
          return note.reason.ends_with("the region ends here, as one may have 10 steps");
        }) == 2);
  PlanModule m = chain(2);
  for (uint32_t limit : {0u, kMaxRegionNodes + 1})
    CHECK(make_plan(m.module, {.max_region_nodes = limit}).status().code() ==
          cugrt::Code::invalid_argument);
}

TEST_CASE("with regions switched off every step is run eagerly, and the report says so") {
  PlanReport report;
  Plan plan = planned(chain(3), {.regions = false}, &report);
  CHECK(plan.functions[0].regions.empty());
  std::vector<ItemKind> kinds;
  for (const Item &item : plan.functions[0].blocks[0].items)
    kinds.push_back(item.kind);
  CHECK(kinds == std::vector<ItemKind>(3, ItemKind::step));
  for (const BindingNote &note : report.bindings) {
    CHECK(note.region == kNone);
    CHECK_FALSE(note.reason.empty());
  }
}

TEST_CASE("every binding has a note with a reason, every edge an explanation") {
  PlanReport report;
  PlanModule m = chain(4);
  Plan plan = planned(m, {}, &report);
  CHECK(report.bindings.size() == m.module.functions[0].body().bindings.size());
  CHECK(report.edges.size() == plan.functions[0].regions[0].edges.size());
  CHECK(report.storage_before_bytes == 3 * 256);
  CHECK(report.storages.size() == 3);
}

TEST_CASE("weights are parameters from num_inputs on, and may not be written") {
  PlanModule m;
  FunctionBuilder b(m.module, "main");
  ValueId x = b.param("x", m.floats(4)), w = b.param("w", m.floats(4));
  ValueId y = b.param("y", m.floats(4), ir::Access::out);
  b.function().params[1].access = ir::Access::in;
  std::swap(b.function().params[1], b.function().params[2]);
  b.function().num_inputs = 2;
  m.launch(b, "iio", {x, w, y});
  m.finish(b);
  Plan plan = planned(m);
  const Function &f = plan.functions[0];
  CHECK(f.params[2].kind == ParamKind::weight);
  CHECK(f.params[2].slot == kNone);
  CHECK(f.slots.size() == 2);
  CHECK(f.regions[0].slots == std::vector<uint32_t>{0, 1});
}

TEST_CASE("slots keep declared alignment, or that of the dtype") {
  PlanModule m;
  FunctionBuilder b(m.module, "main");
  b.param("a", m.floats(4), ir::Access::in, 64);
  b.param("b", m.module.types.tensor(ir::DType::f16, {m.constant(4)}));
  b.param("q", m.module.types.tensor(ir::DType::q4_0, {m.constant(32)}));
  m.finish(b);
  Plan plan = planned(m);
  CHECK(plan.functions[0].slots[0].alignment_bytes == 64);
  CHECK(plan.functions[0].slots[1].alignment_bytes == 2);
  CHECK(plan.functions[0].slots[2].alignment_bytes == 2); // blocks of 18 bytes
}

TEST_CASE("kernels with the same code share one unit of it; unused kernels are left out") {
  PlanModule m = chain(3);
  m.kernel("iio");
  Plan plan = planned(m);
  CHECK(plan.kernels.size() == 1);
  CHECK(plan.codes.size() == 1);
  CHECK(plan.codes[0].text == "// io");
}

TEST_CASE("storage scopes have arenas of their own, in the order of their names") {
  PlanModule m;
  FunctionBuilder b(m.module, "main");
  for (const char *scope : {"shared", "global", "ipc"}) {
    ValueId s = b.alloc_storage("s", scope, m.constant(100));
    ir::TypeId type =
        m.module.types.tensor(ir::DType::f32, {m.constant(25)}, m.module.types.scope(scope));
    m.launch(b, "o", {b.alloc_tensor("t", s, m.constant(0), type)});
  }
  m.finish(b);
  Plan plan = planned(m);
  std::vector<std::string> scopes;
  for (const Arena &arena : plan.arenas) {
    scopes.push_back(arena.scope);
    CHECK(arena.bytes == 100);
  }
  CHECK(scopes == std::vector<std::string>{"global", "ipc", "shared"});
}

TEST_CASE("a callee that writes an operand twice, or a lent one, is refused") {
  for (bool lent : {false, true}) {
    PlanModule m;
    FunctionBuilder leaf(m.module, "leaf");
    leaf.function().is_private = true;
    ValueId u = leaf.param("u", m.floats(4)), v = leaf.param("v", m.floats(4), ir::Access::inout);
    m.launch(leaf, "ib", {u, v});
    m.finish(leaf);
    FunctionBuilder b(m.module, "main");
    ValueId x = b.param("x", m.floats(4)), y = b.param("y", m.floats(4), ir::Access::inout);
    lent ? m.call(b, 0, {y, x}) : m.call(b, 0, {y, y});
    m.finish(b);
    CHECK(refused(make_plan(m.module, {})).message().find(lent ? "an input" : "overlap") !=
          std::string::npos);
  }
}

TEST_CASE("sizes that overflow are errors that say so") {
  PlanModule m;
  FunctionBuilder b(m.module, "main");
  b.symbol({.name = "n", .bounds = {0, int64_t(1) << 61}});
  ir::ExprId n = m.module.exprs.symbol({0});
  b.param("x", m.floats({n}));
  b.alloc_storage("s", "global", m.module.exprs.mul(n, m.constant(8)));
  m.finish(b);
  CHECK(refused(make_plan(m.module, {})).message().find("overflow") != std::string::npos);
}

TEST_CASE("literals become the bits of their parameter's dtype, or are refused") {
  auto argument = [](ir::DType dtype, ir::AttributeValue literal) {
    PlanModule m;
    ir::Kernel &kernel = m.module.kernels[m.kernel("io")];
    ir::KernelParam scalar;
    scalar.name = "scalar";
    scalar.kind = ir::KernelParamKind::scalar;
    scalar.dtype = dtype;
    kernel.params.push_back(scalar);
    FunctionBuilder b(m.module, "main");
    ValueId x = b.param("x", m.floats(4)), y = b.param("y", m.floats(4), ir::Access::out);
    m.module.literals.push_back(std::move(literal));
    const ir::Operand operands[] = {ir::Operand::of(x), ir::Operand::of(y),
                                    ir::Operand::of_literal(0)};
    b.launch(0, operands);
    m.finish(b);
    return make_plan(m.module, {});
  };
  auto bits = [&](ir::DType dtype, ir::AttributeValue literal) {
    auto plan = argument(dtype, std::move(literal));
    INFO((plan.ok() ? "" : plan.status().to_string()));
    REQUIRE(plan.ok());
    const plan::Argument &last = plan->functions[0].arguments.back();
    CHECK(last.kind == ArgumentKind::bits);
    return last.bits;
  };
  CHECK(bits(ir::DType::f32, 1.5) == 0x3fc00000u);
  CHECK(bits(ir::DType::bf16, 1 + 0x1p-8 + 0x1p-30) == 0x3f81u); // above the tie: rounded once
  CHECK(bits(ir::DType::boolean, true) == 1u);
  CHECK(bits(ir::DType::i8, int64_t(-1)) == 0xffu);
  for (ir::DType dtype : {ir::DType::u8, ir::DType::u64}) {
    CHECK(refused(argument(dtype, int64_t(-1))).message().find("does not fit into u") !=
          std::string::npos);
  }
}
