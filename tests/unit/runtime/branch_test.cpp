// runtime: graphs of a region with both branches of an `if` on a symbol.
#include "chain.h"

#include "device/graph/topology_classes.h"

#include <set>

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

TEST_CASE("a graph has the branch that its key takes, and no edge past it") {
  for (int64_t n : {9, 8}) {
    Chain chain(branching(), 3);
    chain.run(n);
    chain.run(n);
    CHECK(chain.counters().regions_built == 1);
    CHECK(chain.counters().largest_nodes == 3);
    CHECK(chain.counters().largest_edges == 2); // a chain: none from the first to the last
  }
}

TEST_CASE("what waits for a branch that is left out waits for what it would wait for") {
  plan::Plan plan = branching();
  plan.functions[0].steps[2].when = plan.functions[0].steps[1].when; // neither at n = 8
  plan.functions[0].regions[0].edges = {{0, 1}, {1, 2}, {2, 3}};
  Chain chain(std::move(plan), 3);
  must(chain.try_run(8, chain.memory[0].address(), chain.memory[1].address()));
  CHECK(chain.counters().largest_nodes == 2);
  CHECK(chain.counters().largest_edges == 1);
}

TEST_CASE("a fork after a join gets an edge from the lane that has run dry") {
  plan::Plan plan = PlanMaker::chain(7);
  plan.functions[0].regions[0].edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3},
                                        {3, 4}, {3, 5}, {4, 6}, {5, 6}};
  Chain chain(std::move(plan), 7);
  must(chain.try_run(8, chain.memory[0].address(), chain.memory[1].address()));
  CHECK(chain.counters().largest_edges == 8); // those that order something
  CHECK(chain.machine.fake.kernel_edges() == 9);
}

TEST_CASE("of classes without an instance a few are kept, those found last") {
  TopologyClasses classes;
  auto add = [&](uint32_t choice) {
    return classes.add({{choice, 7}}, {choice, std::make_shared<const TopologyClass>()});
  };
  auto knows = [&](uint32_t choice) { return classes.find({{choice, 7}}).has_value(); };
  TopologyClasses::Known held = add(0); // as an instance would
  for (uint32_t choice = 1; choice <= 1000; ++choice) {
    add(choice);
    CHECK(knows(1)); // comes again and again
    REQUIRE(classes.size() <= TopologyClasses::kSpare + 1);
  }
  CHECK(classes.size() == TopologyClasses::kSpare + 1);
  CHECK(knows(0));
  CHECK(knows(1000));
  CHECK(!knows(2));
  CHECK(!classes.find({{7, 0}}));
  CHECK(classes.find({{0, 7}})->topology == held.topology);
  CHECK(classes.find({{1000, 7}})->number == 1000);
}

TEST_CASE("an instance that was made ahead and one that a run made are of one class") {
  Chain chain(branching(), 3);
  cugrt_symbol_value n{"n", 9};
  CHECK(must(chain.session->prepare(0, {&n, 1})).built == 1);
  chain.run(9);
  chain.run(10);
  std::set<const TopologyClass *> classes;
  must(chain.session->visit_instances([&](const std::vector<GraphCache::View> &views) {
    CHECK(views.size() == 2);
    for (const GraphCache::View &view : views)
      classes.insert(&view.instance->topology());
  }));
  CHECK(classes.size() == 1);
}

TEST_CASE("in strict mode classes build over each other where there is room for one, and destroy "
          "what goes") {
  SessionOptions options;
  options.cache.strict = true;
  options.cache.policy.budget_bytes = InstanceCost().bytes(3);
  Chain chain(branching(), 3, options);
  for (int i = 0; i < 5; ++i)
    for (int64_t n : {9, 8}) {
      chain.run(n);
      REQUIRE(chain.machine.fake.live().execs == 1);
    }
  CHECK(chain.counters().instances_evicted == 9);
}

TEST_CASE("classes in turn are built and launched step by step where there is room for one") {
  SessionOptions options;
  options.cache.policy.budget_bytes = InstanceCost().bytes(3);
  Chain chain(branching(), 3, options);
  for (int i = 0; i < 10; ++i)
    for (int64_t n : {9, 8})
      chain.run(n);
  CHECK(chain.counters().regions_built == 1);
  CHECK(chain.counters().regions_hit == 9);
  CHECK(chain.counters().regions_eager == 10);
}
