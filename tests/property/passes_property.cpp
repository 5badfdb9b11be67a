// Properties of PlanMemory and RewriteCudaGraph over random modules. CUGRT_PROPERTY_SEEDS sets how
// many (200).
#include "plan_random.h"
#include "plan_run.h"
#include "seed_random.h"

#include "compiler/passes/pass.h"
#include "compiler/planner/lower/planner.h"
#include "compiler/planner/storage/memory_plan.h"
#include "ir/text/text.h"
#include "plan/validate/validate.h"
#include "support/describe_plan.h"

#include <cstdlib>

using namespace cugrt;
using namespace cugrt::test;
using plan::Plan;
using plan::Policy;

static uint32_t seeds() {
  const char *text = std::getenv("CUGRT_PROPERTY_SEEDS");
  return text ? uint32_t(std::strtoul(text, nullptr, 10)) : 200;
}

namespace {

ir::Module verified(const std::string &text) {
  Result<ir::Module> module = ir::parse_and_verify(text, "module");
  INFO(text << (module.ok() ? "" : module.status().message()));
  REQUIRE(module.ok());
  return std::move(*module);
}

ir::Module rewritten(const ir::Module &module) {
  Result<ir::Module> result =
      passes::find_pass("RewriteCudaGraph")->run(module, passes::PassContext());
  REQUIRE(result.ok());
  return std::move(*result);
}

struct Outcome {
  std::vector<Words> tensors;
  std::vector<uint32_t> trace;
  friend bool operator==(const Outcome &, const Outcome &) = default;
};

/// Runs main twice with the same state, as a session would. `has_turns`: main counts its loops'
/// turns in device memory, as a RandomModule's does.
template <class Run>
Outcome outcome(Run &run, Host &host, uint32_t main, size_t n, bool flag, bool has_turns) {
  Outcome out;
  View x = fresh(n * 4, 1), state = fresh(16, 2), y = fresh(n * 4, 3), turns = fresh(1, 5),
       w = fresh(16, 4);
  for (int round = 0; round < 2; ++round) {
    host.turns = 4;
    std::vector<View> arguments = {x, state, y, View{}, w};
    if (has_turns)
      arguments.insert(arguments.end() - 1, turns);
    std::vector<View> results = run.call(main, arguments, flag);
    results.push_back(state);
    results.push_back(y);
    results.push_back(turns);
    for (const View &view : results)
      out.tensors.emplace_back(view.memory->begin() + ptrdiff_t(view.begin),
                               view.memory->begin() + ptrdiff_t(view.begin + view.count));
  }
  out.trace = host.trace;
  return out;
}

/// Names of the steps in regions, region by region.
std::vector<std::vector<std::string>> region_steps(const Plan &plan) {
  std::vector<std::vector<std::string>> out;
  for (const plan::Function &function : plan.functions)
    for (const plan::Region &region : function.regions) {
      out.emplace_back();
      for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s)
        out.back().push_back(function.steps[s].name);
    }
  return out;
}

} // namespace

TEST_CASE("a rewritten module does what the module did, and its graphs are the planner's regions") {
  size_t regions = 0, shared = 0;
  for (uint32_t seed = 0; seed < seeds(); ++seed) {
    INFO("seed " << seed);
    RandomSeedModule random(seed);
    ir::Module module = verified(random.text());
    ir::Module result = rewritten(module);
    std::string text = ir::print(result);
    ir::Module again = verified(text);
    REQUIRE(ir::print(again) == text);
    REQUIRE(ir::print(rewritten(again)) == text); // there is nothing left to lift
    shared += result.functions.size() > module.functions.size();
    for (Policy policy : {Policy::published, Policy::patch}) {
      Result<Plan> before = plan::make_plan(module, {.policy = policy});
      Result<Plan> plan = plan::make_plan(again, {.policy = policy});
      INFO((before.ok() ? "" : before.status().to_string()));
      REQUIRE(before.ok());
      INFO(text << (plan.ok() ? "" : plan.status().to_string()));
      REQUIRE(plan.ok());
      Status valid = plan::validate(*plan);
      INFO(valid.to_string() << "\n" << plan::describe(*plan));
      REQUIRE(valid.ok());
      if (policy == Policy::published) {
        REQUIRE(region_steps(*plan) == region_steps(*before));
        regions += region_steps(*plan).size();
      }
      auto main = uint32_t(plan->find_function("main") - plan->functions.data());
      auto source_main = uint32_t(module.find_function("main") - module.functions.data());
      for (size_t n : {1, 8})
        for (bool flag : {false, true}) {
          Host ir_host, plan_host;
          IrRun reference(module, ir_host);
          PlanRun run(*plan, plan_host, seed);
          Outcome expected = outcome(reference, ir_host, source_main, n, flag, false);
          REQUIRE((outcome(run, plan_host, main, n, flag, false) == expected));
        }
    }
  }
  CHECK(regions > seeds()); // the modules are not trivial
  CHECK(shared > seeds() / 2);
}

TEST_CASE("a module whose storage is planned, by either policy, does what the module did") {
  size_t planned[2] = {0, 0};
  for (uint32_t seed = 0; seed < seeds(); ++seed) {
    RandomModule random(seed);
    const ir::Module &module = random.m.module;
    auto main = uint32_t(module.functions.size() - 1);
    for (const char *storage_policy : {"packed", "slots"}) {
      INFO("seed " << seed << " policy " << storage_policy);
      passes::PassContext context;
      REQUIRE(context.set("memory.storage_policy", storage_policy).ok());
      Result<ir::Module> result = passes::find_pass("PlanMemory")->run(module, context);
      INFO((result.ok() ? "" : result.status().to_string()));
      REQUIRE(result.ok());
      for (const ir::Function &function : result->functions)
        for (const ir::Block &block : function.blocks)
          for (const ir::Binding &b : block.bindings)
            planned[storage_policy[0] == 's'] += b.kind == ir::BindingKind::alloc_tensor;
      Result<Plan> plan = plan::make_plan(*result, {});
      INFO((plan.ok() ? "" : plan.status().to_string()));
      REQUIRE(plan.ok());
      Status valid = plan::validate(*plan);
      INFO(valid.to_string() << "\n" << plan::describe(*plan));
      REQUIRE(valid.ok());
      for (bool flag : {false, true}) {
        Host ir_host, plan_host;
        IrRun reference(module, ir_host);
        PlanRun run(*plan, plan_host, seed);
        Outcome expected = outcome(reference, ir_host, main, 8, flag, true);
        auto planned_main = uint32_t(plan->find_function("main") - plan->functions.data());
        REQUIRE((outcome(run, plan_host, planned_main, 8, flag, true) == expected));
      }
    }
  }
  CHECK(planned[0] > seeds()); // the modules are not trivial
  CHECK(planned[1] > seeds());
}

namespace {

/// Launches on tensors of two sizes, each of which is written once; half of the kernels may write
/// over what they read.
ir::Module elementwise_module(uint32_t seed) {
  std::mt19937 random(seed);
  PlanModule m;
  ir::FunctionBuilder b(m.module, "main");
  std::vector<std::pair<ir::ValueId, int64_t>> tensors;
  tensors.push_back({b.param("x", m.floats(16)), 16});
  auto read = [&] {
    return tensors[tensors.size() - 1 - random() % std::min<size_t>(tensors.size(), 3)];
  };
  for (uint32_t i = 0, steps = 3 + random() % 12; i < steps; ++i) {
    const int64_t size = random() % 4 ? 16 : 80;
    const ir::ValueId out = b.alloc("t", m.floats(size));
    if (random() % 2)
      m.launch(b, random() % 4 ? "iO" : "io", {read().first, out});
    else
      m.launch(b, random() % 4 ? "iiO" : "iio", {read().first, read().first, out});
    tensors.push_back({out, size});
  }
  const ir::ValueId result = b.alloc("r", m.floats(16));
  m.launch(b, "iio", {read().first, tensors.back().first, result});
  m.finish(b, {result});
  return std::move(m.module);
}

/// Bytes of the one scope.
int64_t peak_of(const ir::Module &module) {
  Result<std::vector<plan::FunctionSummary>> summaries = plan::summarize_called(module);
  REQUIRE(summaries.ok());
  Result<plan::MemoryPlan> memory = plan::plan_memory(module, module.functions[0], *summaries);
  REQUIRE(memory.ok());
  REQUIRE(memory->scopes.size() == 1);
  CHECK(memory->scopes[0].lower_bound_bytes <= memory->scopes[0].peak_bytes);
  return memory->scopes[0].peak_bytes;
}

} // namespace

TEST_CASE("launches that write in place change no bytes, and the peak only for less") {
  size_t smaller = 0;
  for (uint32_t seed = 0; seed < 2 * seeds(); ++seed) {
    INFO("seed " << seed);
    const ir::Module module = elementwise_module(seed);
    ir::Module undeclared = module;
    for (ir::Kernel &kernel : undeclared.kernels)
      for (ir::KernelParam &param : kernel.params)
        param.over.clear();
    const int64_t with = peak_of(module), without = peak_of(undeclared);
    REQUIRE(with <= without);
    smaller += with < without;
    Result<ir::Module> packed = passes::find_pass("PlanMemory")->run(module, {});
    REQUIRE(packed.ok());
    Result<Plan> plan = plan::make_plan(*packed, {});
    INFO((plan.ok() ? "" : plan.status().to_string()));
    REQUIRE(plan.ok());
    Status valid = plan::validate(*plan);
    INFO(valid.to_string() << "\n" << plan::describe(*plan));
    REQUIRE(valid.ok());
    REQUIRE(plan->arenas.size() == 1);
    CHECK(plan->arenas[0].bytes == with);
    Host host;
    IrRun reference(module, host);
    PlanRun run(*plan, host, seed);
    const View expected = reference.call(0, {fresh(16, 1)}, false)[0];
    const View actual = run.call(0, {fresh(16, 1)}, false)[0];
    for (size_t i = 0; i < 16; ++i)
      REQUIRE(actual[i] == expected[i]);
  }
  CHECK(smaller > seeds() / 8); // it pays in many
}

TEST_CASE("a module whose calls were inlined does what it did") {
  size_t inlined = 0;
  for (uint32_t seed = 0; seed < seeds(); ++seed) {
    INFO("seed " << seed);
    RandomModule random(seed);
    const ir::Module &module = random.m.module;
    const passes::Pass *const pipeline[] = {passes::find_pass("InlineFunctions"),
                                            passes::find_pass("EliminateDeadFunctions"),
                                            passes::find_pass("PlanMemory")};
    Result<ir::Module> result = passes::run_passes(module, pipeline, {});
    INFO((result.ok() ? "" : result.status().to_string()));
    REQUIRE(result.ok());
    inlined += !result->find_function("main")->call_sites.empty();
    Result<Plan> plan = plan::make_plan(*result, {});
    INFO((plan.ok() ? "" : plan.status().to_string()));
    REQUIRE(plan.ok());
    REQUIRE(plan::validate(*plan).ok());
    auto source_main = uint32_t(module.find_function("main") - module.functions.data());
    auto main = uint32_t(plan->find_function("main") - plan->functions.data());
    for (bool flag : {false, true}) {
      Host ir_host, plan_host;
      IrRun reference(module, ir_host);
      PlanRun run(*plan, plan_host, seed);
      Outcome expected = outcome(reference, ir_host, source_main, 8, flag, true);
      REQUIRE((outcome(run, plan_host, main, 8, flag, true) == expected));
    }
  }
  CHECK(inlined > seeds() / 8);
}
