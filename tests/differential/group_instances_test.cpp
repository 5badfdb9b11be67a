// Graph instances of a group's sessions in one budget.
#include "group_nets.h"

#include <atomic>
#include <thread>

using namespace cugrt;
using namespace cugrt::test;

namespace {

constexpr uint64_t kInstance = 1000; // bytes, as sessions are told

Runner open_counted(Net &net, Group &group, const char *word = nullptr) {
  auto costs = detail::sized<cugrt_costs>();
  costs.instance_bytes = kInstance;
  costs.node_bytes = 1;
  auto options = detail::sized<cugrt_session_options>();
  options.costs = &costs;
  options.group = group.get();
  options.exclusive = word;
  return Runner(net, Session(net.executable, emulated_runtime(), net.weights, options));
}

} // namespace

TEST_CASE("an instance that is not used any more makes room for another model's") {
  auto &[a, b, c] = nets();
  Group group(emulated_runtime(), 0, 0, 3 * kInstance / 2); // one fits
  Runner first = open_counted(a, group), second = open_counted(b, group);
  for (uint32_t i = 0; i < 3; ++i)
    CHECK(first.run(5, i));
  CHECK(first.session.counters().instances == 1);
  CHECK(group.memory().instance_bytes == first.session.memory().instance_bytes);
  for (uint32_t i = 0; i < 20; ++i) {
    CHECK(second.run(6, i));
    CHECK(group.memory().instance_bytes <= 3 * kInstance / 2);
  }
  CHECK(first.session.counters().instances == 0);
  CHECK(first.session.counters().instances_evicted == 1);
  CHECK(second.session.counters().instances == 1);
  CHECK(second.session.counters().eager_budget_full > 0);

  // Models that are used in turn leave each other's alone.
  for (uint32_t i = 0; i < 40; ++i) {
    CHECK(first.run(5, i));
    CHECK(second.run(6, i));
  }
  CHECK(second.session.counters().instances_evicted == 0);
  CHECK(second.session.counters().regions_built == 1);
}

TEST_CASE("a session whose instance goes while its work is on its way drops it with its next run") {
  auto &[a, b, c] = nets();
  Group group(emulated_runtime(), 0, 0, 3 * kInstance / 2);
  Runner first = open_counted(a, group), second = open_counted(b, group);
  first.fill(64, 2), second.fill(1, 19);
  for (uint32_t i = 0; i < 3; ++i)
    first.launch(); // nobody waits for it
  for (uint32_t i = 0; i < 20; ++i)
    second.launch();
  CHECK(second.is_right());
  CHECK(first.is_right());
  CHECK(first.run(64, 8));
  for (uint32_t i = 0; i < 20; ++i)
    CHECK(second.run(1, i));
  CHECK(second.session.counters().instances == 1);
  CHECK(group.memory().instance_bytes <= 3 * kInstance / 2);
}

TEST_CASE("threads keep the one budget of instances") {
  auto &[a, b, c] = nets();
  constexpr uint64_t kBudget = 5 * kInstance / 2;
  Group group(emulated_runtime(), 0, 0, kBudget);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (Net *net : {&a, &b, &c})
    threads.emplace_back([&, runner = open_counted(*net, group, "eyes")]() mutable {
      uint32_t seed = static_cast<uint32_t>(runner.net.width);
      for (uint32_t i = 0; i < 40; ++i) {
        seed = seed * 1664525u + 1013904223u;
        wrong += !runner.run(1 + seed / 65536 % 4, i) || group.memory().instance_bytes > kBudget;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(wrong == 0);
}
