// Properties of plans over random modules. CUGRT_PROPERTY_SEEDS sets how many (200).
#include "plan_random.h"
#include "plan_run.h"
#include "seed_random.h"

#include "compiler/planner/analysis/liveness.h"
#include "compiler/planner/lower/planner.h"
#include "compiler/planner/published/chunks.h"
#include "ir/text/text.h"
#include "plan/bytes/serialize.h"
#include "plan/validate/validate.h"
#include "support/describe_plan.h"
#include "support/inlined.h"

#include <cstdlib>
#include <map>

using namespace cugrt;
using namespace cugrt::test;
using plan::Plan;
using plan::PlannerOptions;
using plan::Policy;

static uint32_t seeds() {
  const char *text = std::getenv("CUGRT_PROPERTY_SEEDS");
  return text ? uint32_t(std::strtoul(text, nullptr, 10)) : 200;
}

/// With other names for everything but symbols.
static ir::Module renamed(ir::Module module) {
  for (ir::Function &f : module.functions) {
    f.name = "z" + f.name;
    for (ir::Value &value : f.values)
      value.name = "q" + value.name;
  }
  for (ir::Kernel &kernel : module.kernels)
    kernel.name += "_k";
  return module;
}

/// With functions and kernels in the opposite order.
static ir::Module reversed(ir::Module module) {
  std::reverse(module.functions.begin(), module.functions.end());
  std::reverse(module.kernels.begin(), module.kernels.end());
  for (ir::Function &f : module.functions)
    for (ir::Block &block : f.blocks)
      for (ir::Binding &b : block.bindings)
        if (b.kind == ir::BindingKind::call)
          b.callee = uint32_t(module.functions.size()) - 1 - b.callee;
        else if (b.kind == ir::BindingKind::launch)
          b.callee = uint32_t(module.kernels.size()) - 1 - b.callee;
  return module;
}

/// One module for the planner alone, and one of those that are rewritten for graphs.
static std::vector<ir::Module> modules_of(uint32_t seed) {
  std::vector<ir::Module> modules;
  modules.push_back(RandomModule(seed).m.module);
  auto text = ir::parse_and_verify(RandomSeedModule(seed).text(), "module");
  REQUIRE(text.ok());
  modules.push_back(std::move(*text));
  return modules;
}

/// With calls as the policy has them.
static Plan planned(const ir::Module &module, PlannerOptions options = {}) {
  auto plan =
      plan::make_plan(plan::choices_of(options).inlines_calls ? inlined(module) : module, options);
  INFO((plan.ok() ? "" : plan.status().to_string()));
  REQUIRE(plan.ok());
  return std::move(*plan);
}

namespace {

uint32_t number(const Plan &plan, const std::string &name) {
  return uint32_t(plan.find_function(name) - plan.functions.data());
}

struct Outcome {
  std::vector<Words> tensors;
  std::vector<uint32_t> trace;
  friend bool operator==(const Outcome &, const Outcome &) = default;
};

/// Runs main twice with the same state, as a session would.
template <class Run> Outcome outcome(Run &run, Host &host, uint32_t main, size_t n, bool flag) {
  Outcome out;
  View x = fresh(n * 4, 1), state = fresh(16, 2), y = fresh(n * 4, 3), turns = fresh(1, 5),
       w = fresh(16, 4);
  for (int round = 0; round < 2; ++round) {
    host.turns = 4;
    std::vector<View> results = run.call(main, {x, state, y, View{}, turns, w}, flag);
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

} // namespace

/// How many bodies a plan has in its regions.
static size_t bodies_of(const Plan &plan) {
  size_t bodies = 0;
  for (const plan::Function &f : plan.functions)
    for (const plan::Conditional &conditional : f.conditionals)
      bodies += conditional.bodies.size();
  return bodies;
}

TEST_CASE("a plan, run in any order that its edges allow, does what the module says") {
  const auto conditions =
      GENERATE(RandomModule::Conditions::host, RandomModule::Conditions::device);
  size_t bodies = 0, on_symbols = 0;
  for (uint32_t seed = 0; seed < seeds(); ++seed) {
    RandomModule random(seed, 24, conditions);
    const ir::Module &module = random.m.module;
    auto main = uint32_t(module.functions.size() - 1);
    for (Policy policy : {Policy::patch, Policy::published}) {
      INFO("seed " << seed << (policy == Policy::published ? " policy seed" : ""));
      Plan plan = planned(module, {.policy = policy});
      Status valid = plan::validate(plan);
      INFO(valid.to_string() << "\n" << plan::describe(plan));
      REQUIRE(valid.ok());
      for (size_t n : {1, 5, 8})
        for (bool flag : {false, true}) {
          Host ir_host, plan_host;
          IrRun reference(module, ir_host);
          PlanRun run(plan, plan_host, seed);
          Outcome expected = outcome(reference, ir_host, main, n, flag);
          REQUIRE((outcome(run, plan_host, number(plan, "main"), n, flag) == expected));
        }
      bodies += bodies_of(plan);
      for (const plan::Function &f : plan.functions)
        for (const plan::Step &step : f.steps)
          on_symbols += step.when.valid();
    }
  }
  CHECK((bodies > seeds() / 2) == (conditions == RandomModule::Conditions::device));
  CHECK((on_symbols > seeds()) == (conditions == RandomModule::Conditions::device));
}

namespace {

/// For how many symbol values, up to a most one, only the one of two steps runs, the other, or
/// both.
struct Runs {
  int first = 0, second = 0, both = 0;
};
Runs runs_of(const Plan &plan, const plan::Function &f, const plan::Step &a, const plan::Step &b,
             int64_t most) {
  Runs counts;
  for (int64_t n = 1; n <= most; ++n) {
    const std::vector<int64_t> symbols(f.symbols.size(), n);
    auto runs = [&](const plan::Step &step) {
      return !step.when.valid() || *plan.exprs.evaluate(step.when, symbols) != 0;
    };
    counts.first += runs(a) && !runs(b);
    counts.second += runs(b) && !runs(a);
    counts.both += runs(a) && runs(b);
  }
  return counts;
}

/// Whether two accesses of a region can conflict for some symbol value, by trying them all.
bool conflict(const Plan &plan, const plan::Function &f, const plan::BufferAccess &a,
              const plan::BufferAccess &b) {
  const plan::Buffer &x = f.buffers[a.buffer], &y = f.buffers[b.buffer];
  if (x.base != y.base || x.index != y.index ||
      (a.access == plan::Access::in && b.access == plan::Access::in))
    return false;
  for (int64_t n = 1; n <= 8; ++n) {
    std::vector<int64_t> symbols(f.symbols.size(), n);
    int64_t xb = *plan.exprs.evaluate(x.offset_bytes, symbols),
            yb = *plan.exprs.evaluate(y.offset_bytes, symbols);
    int64_t xe = xb + *plan.exprs.evaluate(x.bytes, symbols),
            ye = yb + *plan.exprs.evaluate(y.bytes, symbols);
    if (xb < ye && yb < xe)
      return true;
  }
  return false;
}

} // namespace

TEST_CASE("every hazard is covered by a path within its graph, and no edge is implied by others") {
  const auto conditions =
      GENERATE(RandomModule::Conditions::host, RandomModule::Conditions::device);
  size_t side_by_side = 0; // pairs of steps of a body
  size_t exclusive = 0;    // pairs of which one runs, whatever n: of the two branches of an if
  for (uint32_t seed = 1000; seed < 1000 + seeds(); ++seed) {
    RandomModule random(seed, 60, conditions);
    Plan plan = planned(random.m.module);
    INFO("seed " << seed);
    for (const plan::Function &f : plan.functions)
      for (const plan::Region &region : f.regions) {
        uint32_t n = region.steps.count;
        std::vector<std::vector<bool>> path(n, std::vector<bool>(n, false));
        for (const plan::Edge &e : region.edges)
          path[e.from][e.to] = true;
        for (uint32_t k = 0; k < n; ++k)
          for (uint32_t i = 0; i < n; ++i)
            for (uint32_t j = 0; path[i][k] && j < n; ++j)
              path[i][j] = path[i][j] || path[k][j];
        for (const plan::Edge &e : region.edges)
          for (uint32_t k = 0; k < n; ++k)
            REQUIRE_FALSE((path[e.from][k] && path[k][e.to]));
        const auto levels = plan::find_region_levels(f, region.steps);
        for (const plan::RegionLevel &level : levels->levels)
          for (size_t x = 0; x < level.steps.size(); ++x)
            for (size_t y = x + 1; y < level.steps.size(); ++y) {
              const uint32_t i = level.steps[x], j = level.steps[y];
              plan::Range a = f.steps[region.steps.begin + i].accesses;
              plan::Range b = f.steps[region.steps.begin + j].accesses;
              bool any = false;
              for (uint32_t p = a.begin; p < a.end(); ++p)
                for (uint32_t q = b.begin; q < b.end(); ++q)
                  any = any || conflict(plan, f, f.accesses[p], f.accesses[q]);
              const plan::Step &from = f.steps[region.steps.begin + i];
              const plan::Step &to = f.steps[region.steps.begin + j];
              if (any && runs_of(plan, f, from, to, 8).both)
                REQUIRE(path[i][j]);
              const Runs far = runs_of(plan, f, from, to, 100);
              const bool branches = far.first && far.second && far.first + far.second == 100;
              if (branches)
                REQUIRE_FALSE(
                    std::binary_search(region.edges.begin(), region.edges.end(), plan::Edge{i, j}));
              exclusive += any && branches;
              side_by_side += level.step != plan::kNone && !path[i][j];
            }
        for (const plan::Edge &e : region.edges) // none from graph to graph
          REQUIRE(levels->level_of[e.from] == levels->level_of[e.to]);
      }
  }
  CHECK((side_by_side > seeds()) == (conditions == RandomModule::Conditions::device));
  CHECK((exclusive > seeds()) == (conditions == RandomModule::Conditions::device));
}

TEST_CASE("steps of seed's regions are in patch's regions, under any limit of lanes") {
  auto in_regions = [](const plan::Function &f) {
    std::map<std::string, int> steps;
    for (const plan::Region &region : f.regions)
      for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s)
        steps[f.steps[s].name] += f.steps[s].kind == plan::StepKind::kernel;
    return steps;
  };
  for (uint32_t seed = 2000; seed < 2000 + seeds(); ++seed) {
    INFO("seed " << seed);
    RandomModule random(seed, 40);
    Plan narrow = planned(random.m.module, {.policy = Policy::published});
    Plan wide = must(plan::make_plan(random.m.module, {.max_lanes = seed % 4}));
    REQUIRE(plan::validate(wide).ok());
    for (const plan::Function &function : narrow.functions) {
      const plan::Function *same = wide.find_function(function.name);
      if (!same)
        continue; // private, and called by none
      std::map<std::string, int> patch = in_regions(*same);
      for (const auto &[name, count] : in_regions(function))
        REQUIRE(count <= patch[name]);
    }
  }
}

TEST_CASE("plans round-trip through bytes and are the same every time") {
  for (uint32_t seed = 0; seed < seeds() / 4; ++seed) {
    INFO("seed " << seed);
    RandomModule random(seed);
    Plan plan = planned(random.m.module);
    const std::string bytes = plan::to_bytes(plan);
    REQUIRE(plan::to_bytes(planned(random.m.module)) == bytes);
    auto again = plan::from_bytes(bytes);
    INFO((again.ok() ? "" : again.status().to_string()));
    REQUIRE(again.ok());
    REQUIRE(again->functions == plan.functions);
    REQUIRE(plan::to_bytes(*again) == bytes);
    REQUIRE(plan::describe(*again) == plan::describe(plan));
  }
}

TEST_CASE("names of functions, kernels and values do not change a plan") {
  for (uint32_t seed = 0; seed < seeds() / 4; ++seed) {
    for (const ir::Module &module : modules_of(seed))
      for (Policy policy : {Policy::patch, Policy::published}) {
        INFO("seed " << seed << " policy " << int(policy));
        Plan a = planned(module, {.policy = policy});
        Plan b = planned(renamed(module), {.policy = policy});
        REQUIRE(a.arenas == b.arenas);
        REQUIRE(a.functions.size() == b.functions.size());
        for (size_t f = 0; f < a.functions.size(); ++f) {
          const plan::Function &x = a.functions[f], &y = b.functions[f];
          REQUIRE(x.accesses == y.accesses);
          REQUIRE(x.launches == y.launches);
          REQUIRE(x.regions.size() == y.regions.size());
          for (size_t r = 0; r < x.regions.size(); ++r) {
            REQUIRE(x.regions[r].edges == y.regions[r].edges);
            REQUIRE(x.regions[r].steps == y.regions[r].steps);
          }
          REQUIRE(x.buffers.size() == y.buffers.size());
          for (size_t i = 0; i < x.buffers.size(); ++i)
            REQUIRE(x.buffers[i].offset_bytes == y.buffers[i].offset_bytes);
        }
      }
  }
}

/// Of each function what its plan says, without the others.
static std::vector<std::string> texts_of(const Plan &plan) {
  std::vector<std::string> texts;
  Plan one; // without what is listed beside functions
  one.exprs = plan.exprs;
  one.arenas = plan.arenas;
  one.constants = plan.constants;
  one.functions = plan.functions;
  const std::string all = plan::describe(one);
  for (const plan::Function &f : plan.functions) {
    size_t at = all.find("function @" + f.name + "\n");
    size_t end = all.find("function @", at + 1);
    std::string text = all.substr(at, end == std::string::npos ? end : end - at);
    if (text.ends_with("private "))
      text.resize(text.size() - 8);
    texts.push_back(std::move(text));
  }
  return texts;
}

TEST_CASE("the order of functions and kernels in the module does not change their plans") {
  for (uint32_t seed = 0; seed < seeds() / 4; ++seed) {
    for (const ir::Module &module : modules_of(seed))
      for (Policy policy : {Policy::patch, Policy::published}) {
        INFO("seed " << seed << " policy " << int(policy));
        Plan a = planned(module, {.policy = policy});
        Plan b = planned(reversed(module), {.policy = policy});
        REQUIRE(a.arenas == b.arenas);
        std::vector<std::string> texts_a = texts_of(a), texts_b = texts_of(b);
        std::reverse(texts_b.begin(), texts_b.end());
        REQUIRE(texts_a == texts_b);
      }
  }
}

TEST_CASE("neither names nor the order of functions change what policy `slots` pairs") {
  uint32_t shared = 0;
  auto pairs = [&](ir::Module module, size_t f) {
    auto plan = plan::plan_chunks(module, module.functions[f]);
    REQUIRE(plan.ok());
    std::vector<std::string> rows;
    for (const plan::ChunkTensor &tensor : plan->tensors)
      rows.push_back(std::to_string(tensor.tensor.index) + " in " + std::to_string(tensor.chunk));
    for (const plan::StorageChunk &chunk : plan->chunks)
      rows.push_back(module.exprs.to_string(chunk.bytes, {}) + " of " +
                     std::to_string(chunk.scope) + " for " +
                     std::to_string(chunk.first_tensor.index));
    shared += plan->tensors.size() > plan->chunks.size();
    return rows;
  };
  for (uint32_t seed = 0; seed < seeds() / 4; ++seed)
    for (const ir::Module &module : modules_of(seed))
      for (size_t f = 0; f < module.functions.size(); ++f) {
        INFO("seed " << seed << " function " << module.functions[f].name);
        const std::vector<std::string> as_written = pairs(module, f);
        REQUIRE(pairs(renamed(module), f) == as_written);
        REQUIRE(pairs(reversed(module), module.functions.size() - 1 - f) == as_written);
      }
  CHECK(shared > seeds() / 4);
}

TEST_CASE("random modules write tensors anew, so that lives have gaps and storage stands free") {
  uint32_t lives = 0, storages = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    RandomModule random(seed);
    auto summaries = plan::summarize_called(random.m.module);
    REQUIRE(summaries.ok());
    bool in_life = false, in_storage = false;
    for (const ir::Function &function : random.m.module.functions) {
      auto live = plan::analyze_liveness(random.m.module, function, *summaries);
      REQUIRE(live.ok());
      in_life |= !live->gaps.empty();
      in_storage |= !plan::storage_gaps(*live).empty();
    }
    lives += in_life;
    storages += in_storage;
  }
  CHECK(lives >= 20);
  CHECK(storages >= 20);
}

TEST_CASE("damaged plans are refused or read, and nothing else happens") {
  std::mt19937 random(5);
  for (uint32_t seed = 0; seed < 6; ++seed) {
    RandomModule source(seed);
    Plan plan = planned(source.m.module);
    const std::string bytes = plan::to_bytes(plan);
    for (int round = 0; round < 240; ++round) {
      std::string damaged = bytes;
      if (round % 4 == 0)
        damaged.resize(random() % damaged.size());
      for (uint32_t i = 0, n = 1 + random() % 3; i < n && !damaged.empty(); ++i)
        damaged[random() % damaged.size()] = char(random());
      auto read = plan::from_bytes(damaged);
      if (!read.ok())
        CHECK((read.status().code() == Code::parse_error ||
               read.status().code() == Code::unsupported));
    }
  }
}
