// runtime: the constants of the instance policy, given and measured; differences between keys; and
// to whom failures of the driver are put down.
#include "chain.h"

#include "device/context/cost_model.h"
#include "library/report/module_report.h"

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

TEST_CASE("a line through two points has what is constant and what comes with each step") {
  Line line = line_through(10, 250, 110, 2250);
  CHECK(line.slope == 20);
  CHECK(line.constant == 50);
  CHECK(line_through(10, 300, 110, 200).slope == 0); // noise
  CHECK(line_through(10, 300, 110, 200).constant == 300);
  CHECK(line_through(10, 100, 110, 2100).constant == 0); // never negative
}

TEST_CASE("with costs given, a key earns its instance when patching has cost as much as building") {
  SessionOptions options;
  options.cache.policy.class_pool = 1;
  options.cache.cost.build_ns = 400;
  options.cache.cost.build_node_ns = 200;
  options.cache.cost.patch_node_ns = 50;
  // 3 nodes depend on n: (400 + 3 * 200) / (3 * 50) = 6 uses, of which the first that built is
  // none.
  Chain chain(3, options);
  for (int use = 1; use <= 5; ++use) {
    chain.run(5);
    chain.run(6);
  }
  chain.run(5);
  CHECK(chain.counters().regions_built == 1);
  chain.run(6); // the sixth use
  CHECK(chain.counters().regions_built == 2);
  uint64_t patched = chain.counters().regions_patched;
  for (int i = 0; i < 3; ++i) {
    chain.run(6);
    chain.run(5);
  }
  CHECK(chain.counters().regions_patched == patched);
}

TEST_CASE(
    "in a large graph the slower replay of other launch dimensions counts among the costs of a "
    "patch") {
  SessionOptions options;
  options.cache.policy.class_pool = 1;
  options.cache.cost.build_ns = 0;
  options.cache.cost.build_node_ns = 1000;
  options.cache.cost.patch_node_ns = 100;
  options.cache.cost.patched_dims_ns = 150;
  // Up to 128 nodes patched dimensions cost nothing: 1000 / 100 = 10 uses. Beyond, all nodes have
  // other dimensions for another n: 1000 / (100 + 150) = 4.
  for (auto [nodes, uses] : {std::pair{128, 10}, std::pair{129, 4}}) {
    Chain chain(nodes, options);
    chain.run(5);
    for (int use = 1; use < uses; ++use)
      for (int64_t n : {40, 5})
        chain.run(n);
    CHECK(chain.counters().regions_built == 1);
    chain.run(40);
    CHECK(chain.counters().regions_built == 2);
  }
}

TEST_CASE("the bytes of a node and an instance are those given") {
  SessionOptions options;
  options.cache.cost.node_bytes = 100;
  options.cache.cost.instance_bytes = 7;
  Chain chain(3, options);
  chain.run(5);
  CHECK(must(chain.session->totals()).instance_bytes == 307);
}

TEST_CASE("given constants that are too large for any budget do not wrap into it") {
  SessionOptions options;
  InstanceCost &cost = options.cache.cost;
  cost.node_bytes = uint64_t(1) << 63; // two of them wrap to nothing
  cost.instance_bytes = 1;
  CHECK(cost.bytes(0) == 1);
  CHECK(cost.bytes(1) == (uint64_t(1) << 63) + 1);
  CHECK(cost.bytes(2) == UINT64_MAX);
  cost.build_ns = cost.build_node_ns = cost.patch_node_ns = UINT64_MAX;
  CHECK(cost.build_ns_of(1) == UINT64_MAX);
  CHECK(cost.patch_ns_of(2) == UINT64_MAX);
  Chain chain(4, options);
  for (int64_t n : {5, 6, 5})
    chain.run(n);
  CHECK(must(chain.session->totals()).instances == 0);
  CHECK(chain.counters().eager[static_cast<size_t>(EagerReason::too_large)] == 3);
}

TEST_CASE("costs are measured once for a device, when a session asks") {
  Chain chain;
  chain.machine.fake.define_kernel("cugrt_nothing", {8});
  auto before = chain.machine.fake.live();
  chain.machine.fake.forget();
  SessionOptions options;
  auto session = must(Session::open(chain.executable, chain.device, options));
  CHECK(chain.machine.fake.count("cuGraphCreate") == 0);
  options.measure_costs = true;
  session = must(Session::open(chain.executable, chain.device, options));
  size_t graphs = chain.machine.fake.count("cuGraphCreate");
  CHECK(graphs > 2);
  CHECK(session->cost().build_node_ns > 0);
  CHECK(session->cost().patch_node_ns > 0);
  CHECK(session->cost().node_bytes == InstanceCost().node_bytes); // this driver's memory stays
  session = must(Session::open(chain.executable, chain.device, options));
  CHECK(chain.machine.fake.count("cuGraphCreate") == graphs);
  session.reset();
  CHECK(chain.machine.fake.live() == before);
}

namespace {

std::string difference(Chain &chain, int64_t from, int64_t to, cugrt_report_format format) {
  cugrt_symbol_value a{"n", from}, b{"n", to};
  return must(key_difference(*chain.executable, 0, {&a, 1}, {&b, 1}, format));
}

} // namespace

TEST_CASE("the difference of two keys names the nodes and fields that a patch would set") {
  Chain chain(2);
  // 5 rows are 20 elements in one block of 32, 40 rows 160 in five.
  CHECK(difference(chain, 5, 40, CUGRT_REPORT_TEXT) ==
        "@main region main.0, key n = 5 -> n = 40: 2 of 2 nodes differ\n"
        "  0 add0: grid (1, 1, 1) -> (5, 1, 1), argument 2 20 -> 160\n"
        "  1 add1: grid (1, 1, 1) -> (5, 1, 1), argument 2 20 -> 160\n");
  CHECK(difference(chain, 5, 6, CUGRT_REPORT_TEXT) ==
        "@main region main.0, key n = 5 -> n = 6: 2 of 2 nodes differ\n"
        "  0 add0: argument 2 20 -> 24\n"
        "  1 add1: argument 2 20 -> 24\n");
  CHECK(difference(chain, 5, 5, CUGRT_REPORT_TEXT) ==
        "@main region main.0, key n = 5 -> n = 5: 0 of 2 nodes differ\n");
  CHECK(contains(difference(chain, 5, 0, CUGRT_REPORT_TEXT), "enabled yes -> no"));
  CHECK(contains(difference(chain, 5, 6, CUGRT_REPORT_JSON), "\"same_class\": true"));
  cugrt_symbol_value n{"n", 5};
  CHECK(contains(
      key_difference(*chain.executable, 0, {&n, 1}, {}, CUGRT_REPORT_TEXT).status().message(),
      "give a value for symbol n on both sides"));
}

TEST_CASE("the difference of two keys asks for the symbol of a bucket") {
  plan::Plan plan = PlanMaker::chain(2);
  plan.functions[0].symbols.push_back({"n_bucket", ir::SymbolSource::parameter, {0, 128}});
  plan.functions[0].buckets.push_back({{1}, {0}, {128}});
  plan.functions[0].regions[0].key = {{1}};
  Chain bucketed(std::move(plan), 2);
  cugrt_symbol_value n{"n", 5};
  CHECK(contains(
      key_difference(*bucketed.executable, 0, {&n, 1}, {}, CUGRT_REPORT_TEXT).status().message(),
      "give a value for symbol n on both sides"));
}

namespace {

/// A chain that is patched rather than built, whose steps have places in the module.
struct Patched : Chain {
  static plan::Plan located() {
    plan::Plan plan = PlanMaker::chain(3);
    for (uint32_t i = 0; i < 3; ++i)
      plan.functions[0].steps[i].location = {10 + i, 3};
    return plan;
  }
  static SessionOptions one_instance() {
    SessionOptions options;
    options.cache.policy.class_pool = 1;
    options.cache.policy.pin_uses = 1000;
    return options;
  }
  Patched() : Patched(located(), one_instance()) {}
  Patched(plan::Plan plan, SessionOptions options) : Chain(std::move(plan), 3, options) {}

  Status failing(const char *entry, uint64_t nth, int64_t n, int x, int y, float a = 1) {
    machine.fake.fail_nth_of(entry, nth, CUDA_ERROR_INVALID_VALUE);
    Status status = try_run(n, memory[x].address(), memory[y].address(), a);
    machine.fake.fail_nth_of(entry, 0, CUDA_SUCCESS);
    INFO(status.to_string());
    CHECK(status.code() == Code::driver_error);
    CHECK(status.cuda_error() == "CUDA_ERROR_INVALID_VALUE");
    run(n, x, y, a); // the session goes on
    return status;
  }
};

constexpr const char *kSetter = "cuGraphExecKernelNodeSetParams";

std::string hex(uint64_t address) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

} // namespace

TEST_CASE("a refused setter names step, place, symbol, old and new value") {
  Patched chain;
  chain.run(5);
  Status status = chain.failing(kSetter, 2, 40, 0, 1);
  CHECK(status.location() == "test.cugrt:11:3");
  CHECK(contains(status.message(),
                 "region main.0 of function @main with n = 40: patch of step "
                 "'add1' (n from 5 to 40): cuGraphExecKernelNodeSetParams (add1)"));
}

TEST_CASE("a refused setter of an address names the parameter and both addresses") {
  Patched chain;
  chain.run(5);
  std::string from = hex(chain.memory[0].address()), to = hex(chain.memory[2].address());
  Status status = chain.failing(kSetter, 1, 5, 2, 1);
  CHECK(status.location() == "test.cugrt:10:3");
  CHECK(contains(status.message(), "patch of step 'add0' (%x from " + from + " to " + to + ")"));
  chain.run(5, 0, 1);
  from = hex(chain.memory[1].address());
  status = chain.failing(kSetter, 1, 5, 0, 2);
  CHECK(status.location() == "test.cugrt:12:3");
  CHECK(contains(status.message(), "patch of step 'add2' (result 0 from " + from + " to " + to));
}

TEST_CASE("a refused setter of a scalar names it with both values") {
  Patched chain;
  chain.run(5);
  Status status = chain.failing(kSetter, 3, 5, 0, 1, 2.5f);
  CHECK(contains(status.message(), "patch of step 'add2' (%a from 1.000000 to 2.500000)"));
}

TEST_CASE("a node that cannot be disabled, added, instantiated or launched is put down to its step "
          "or region, with the key") {
  Patched chain;
  chain.run(5);
  Status status = chain.failing("cuGraphNodeSetEnabled", 1, 0, 0, 1);
  CHECK(contains(status.message(), "patch of step 'add0' (n from 5 to 0): cuGraphNodeSetEnabled"));
}

TEST_CASE("a launch that fails names what was changed for it, with old and new values") {
  Patched chain;
  chain.run(5);
  Status status = chain.failing("cuGraphLaunch", 1, 44, 0, 1, 2.5f);
  CHECK(status.location() == "test.cugrt:10:3"); // the region's first
  CHECK(contains(status.message(), "region main.0 of function @main with n = 44: launch after a "
                                   "patch (n from 5 to 44, %a from 1.000000 to 2.500000): "
                                   "cuGraphLaunch (main.0)"));
  std::string from = hex(chain.memory[0].address()), to = hex(chain.memory[2].address());
  status = chain.failing("cuGraphLaunch", 1, 44, 2, 1, 2.5f);
  CHECK(contains(status.message(),
                 "with n = 44: launch after a patch (%x from " + from + " to " + to + "): "));
  // What was patched for an earlier launch is not what this one changed.
  status = chain.failing("cuGraphLaunch", 1, 44, 2, 1, 2.5f);
  CHECK(contains(status.message(), "with n = 44: cuGraphLaunch (main.0)"));
}

namespace {

/// As Patched, launched step by step.
struct Stepped : Patched {
  static SessionOptions eagerly() {
    SessionOptions options;
    options.cache.eager = true;
    return options;
  }
  Stepped(plan::Plan plan = located()) : Patched(std::move(plan), eagerly()) {}
};

} // namespace

TEST_CASE("a step that is launched by itself and fails has its own place, and its symbols") {
  Stepped chain;
  Status status = chain.failing("cuLaunchKernelEx", 2, 5, 0, 1);
  CHECK(status.location() == "test.cugrt:11:3");
  CHECK(contains(status.message(), "region main.0 of function @main with n = 5: launch of step "
                                   "'add1' (n = 5): cuLaunchKernelEx (add1)"));
}

TEST_CASE("a grid that is too large and a kernel without a rule are put down to their step, in a "
          "graph as step by step") {
  plan::Plan plan = Patched::located();
  plan::LaunchRule &third = plan.functions[0].launches[2];
  ir::ExprId n = plan.exprs.symbol(ir::SymbolId{0});
  third.grid[1] = plan.exprs.mul(n, plan.exprs.mul(n, n)); // the limit is 65535
  plan::LaunchRule &second = plan.functions[0].launches[1];
  second.predicate = plan.exprs.make(ir::ExprKind::ne, n, plan.exprs.constant(31));
  auto check = [](Chain &chain) {
    chain.run(5);
    auto run = [&](int64_t n) {
      return chain.try_run(n, chain.memory[0].address(), chain.memory[1].address());
    };
    Status status = run(45);
    CHECK(status.location() == "test.cugrt:12:3");
    CHECK(contains(status.message(), "kernel @add in step 'add2': grid.y is 91125"));
    status = run(31);
    CHECK(status.location() == "test.cugrt:11:3");
    CHECK(contains(status.message(), "no launch rule of the kernel holds with n = 31"));
    chain.run(6);
  };
  {
    Stepped stepped(plan);
    check(stepped);
  }
  Patched graph(plan, Patched::one_instance());
  check(graph);
}

TEST_CASE("failures while an instance is made name the step and the symbols that it depends on") {
  Patched chain;
  Status status = chain.failing("cuGraphAddKernelNode", 2, 5, 0, 1);
  CHECK(status.location() == "test.cugrt:11:3");
  CHECK(contains(status.message(), "node of step 'add1' (n = 5): cuGraphAdd"));
}

TEST_CASE("a graph that cannot be instantiated names the region and its key") {
  Patched chain;
  Status status = chain.failing("cuGraphInstantiateWithParams", 1, 5, 0, 1);
  CHECK(contains(status.message(),
                 "region main.0 of function @main with n = 5: cuGraphInstantiateWithParams"));
}
