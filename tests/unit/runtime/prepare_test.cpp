// runtime: instances that are made ahead of the first run.
#include "chain.h"

#include <barrier>
#include <thread>

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

PrepareReport prepare(Chain &chain, int64_t n) {
  cugrt_symbol_value value{"n", n};
  return must(chain.session->prepare(0, {&value, 1}));
}

} // namespace

TEST_CASE(
    "a prepared key is found by its first run, which builds nothing and sets addresses only") {
  Chain chain;
  PrepareReport report = prepare(chain, 5);
  CHECK(report.regions == 1);
  CHECK(report.built == 1);
  CHECK(report.refused == 0);
  CHECK(report.built_bytes == InstanceCost().bytes(3));
  CHECK(chain.machine.fake.count("cuGraphUpload") == 1);
  chain.machine.fake.forget();
  chain.run(5);
  CHECK(chain.machine.fake.count("cuGraphInstantiateWithParams") == 0);
  CHECK(chain.machine.fake.count("cuGraphUpload") == 0);
  CHECK(chain.counters().regions_prepared == 1);
  CHECK(chain.counters().regions_built == 0);
  CHECK(chain.counters().regions_patched == 1);
  chain.run(5);
  CHECK(chain.counters().regions_hit == 1);
  CHECK(chain.counters().largest_nodes == 3);
}

TEST_CASE("what is there already is not made again") {
  Chain chain;
  CHECK(prepare(chain, 5).built == 1);
  CHECK(prepare(chain, 5).present == 1); // still on its way
  chain.run(5);
  CHECK(prepare(chain, 5).present == 1); // taken over
  chain.run(6);
  CHECK(prepare(chain, 6).present == 1); // made by a run
  CHECK(chain.machine.fake.live().execs == 2);
}

TEST_CASE("what does not fit is told with its figures, and is no error") {
  SessionOptions options;
  const uint64_t bytes = InstanceCost().bytes(3);
  options.cache.policy.budget_bytes = 2 * bytes + 1;
  Chain chain(3, options);
  CHECK(prepare(chain, 1).built == 1);
  CHECK(prepare(chain, 2).built == 1);
  PrepareReport report = prepare(chain, 3);
  CHECK(report.built == 0);
  CHECK(report.refused == 1);
  CHECK(report.reason == EagerReason::budget_full);
  CHECK(*report.region == "main.0");
  CHECK(report.needed_bytes == bytes);
  CHECK(report.free_bytes == 1);
  CHECK(must(chain.session->totals()).instance_bytes == 2 * bytes);
  chain.machine.fake.fail_nth_of("cuGraphInstantiateWithParams", 1, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(prepare(chain, 2).present == 1);
  for (int64_t n : {1, 2})
    chain.run(n);
  CHECK(chain.counters().regions_built == 0);
}

TEST_CASE(
    "a device without memory, a small budget and an eager session refuse, each for its reason") {
  SessionOptions options;
  options.cache.policy.budget_bytes = 10;
  {
    Chain chain(3, options);
    CHECK(prepare(chain, 5).reason == EagerReason::too_large);
  }
  {
    Chain chain;
    chain.machine.fake.fail_nth_of("cuGraphInstantiateWithParams", 1, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(prepare(chain, 5).reason == EagerReason::no_memory);
    CHECK(prepare(chain, 5).built == 1);
  }
  options.cache.eager = true;
  Chain chain(3, options);
  CHECK(prepare(chain, 5).reason == EagerReason::requested);
}

TEST_CASE("symbols that do not exist, are out of bounds, come twice or were not given") {
  Chain chain;
  cugrt_symbol_value wrong{"m", 5}, outside{"n", 65};
  CHECK(contains(chain.session->prepare(0, {&wrong, 1}).status().message(),
                 "function @main has no symbol named 'm'"));
  CHECK(contains(chain.session->prepare(0, {&outside, 1}).status().message(),
                 "symbol n = 65 is outside of its bounds, 0 to 64"));
  const cugrt_symbol_value twice[] = {{"n", 5}, {"n", 6}};
  Status status = chain.session->prepare(0, twice).take_status();
  CHECK(status.code() == Code::invalid_argument);
  CHECK(contains(status.message(), "symbol n is given a value twice"));
  PrepareReport report = must(chain.session->prepare(0, {}));
  CHECK(report.unknown == 1);
  CHECK(report.built == 0);
}

TEST_CASE("whichever driver call of preparing fails: an error or a report, nothing leaks") {
  Chain chain;
  cugrt_symbol_value value{"n", 5};
  for (uint64_t nth = 1;; ++nth) {
    auto before = chain.machine.fake.live();
    uint64_t calls = chain.machine.fake.call_count();
    chain.machine.fake.fail_nth(nth, CUDA_ERROR_INVALID_VALUE);
    auto report = chain.session->prepare(0, {&value, 1});
    chain.machine.fake.fail_nth(0, CUDA_SUCCESS);
    if (report.ok()) {
      CHECK(chain.machine.fake.call_count() - calls < nth + 8); // what is left is destruction
      break;
    }
    CHECK(report.status().cuda_error() == "CUDA_ERROR_INVALID_VALUE");
    CHECK(chain.machine.fake.live() == before);
    REQUIRE(nth < 100);
  }
  chain.run(5);
}

TEST_CASE("instances are prepared by other threads while the session runs, and runs stay right") {
  FakeDriver::Options driver;
  driver.record = false;
  Chain chain(3, {}, driver);
  std::atomic<uint64_t> built = 0;
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int64_t n = 1; n <= 60; ++n) {
        cugrt_symbol_value value{"n", (n + 20 * t) % 60 + 1};
        auto report = chain.session->prepare(0, {&value, 1});
        built += report.ok() ? report->built : 0;
      }
    });
  for (int pass = 0; pass < 20; ++pass)
    for (int64_t n = 1; n <= 60; n += 3)
      chain.run(n, pass % 2 ? 0 : 2, 1);
  for (std::thread &thread : threads)
    thread.join();
  CHECK(built > 0);
  auto totals = must(chain.session->totals());
  CHECK(chain.machine.fake.live().execs == totals.instances);
  CHECK(totals.counters.regions_prepared <= built);
  CHECK(totals.instance_bytes <= (uint64_t(64) << 20));
}

TEST_CASE("keys prepared at the same time keep to the budget, and what is told to be built stays") {
  constexpr int kThreads = 8, kSteps = 200;
  const uint64_t bytes = InstanceCost().bytes(kSteps);
  SessionOptions options;
  options.cache.policy.budget_bytes = 2 * bytes + 1;
  FakeDriver::Options driver;
  driver.record = false;
  for (int round = 0; round < 10; ++round) {
    Chain chain(kSteps, options, driver);
    std::barrier start(kThreads);
    std::atomic<uint64_t> built = 0, built_bytes = 0, refused = 0, reasons = 0;
    std::vector<std::thread> threads;
    for (int64_t n = 1; n <= kThreads; ++n)
      threads.emplace_back([&, n] {
        cugrt_symbol_value value{"n", n};
        start.arrive_and_wait();
        auto report = chain.session->prepare(0, {&value, 1});
        if (!report.ok())
          return;
        built += report->built;
        built_bytes += report->built_bytes;
        refused += report->refused;
        reasons += report->reason == EagerReason::budget_full && report->free_bytes < bytes;
      });
    for (std::thread &thread : threads)
      thread.join();
    CHECK(built == 2);
    CHECK(built_bytes == 2 * bytes);
    CHECK(refused == kThreads - 2);
    CHECK(reasons == refused);
    auto totals = must(chain.session->totals());
    REQUIRE(totals.instances == 2);
    CHECK(totals.counters.regions_prepared == 2);
  }
}

TEST_CASE("of threads that prepare the same key, one makes the instance and the others find it") {
  FakeDriver::Options driver;
  driver.record = false;
  for (int round = 0; round < 10; ++round) {
    Chain chain(200, {}, driver);
    std::barrier start(4);
    std::atomic<uint64_t> built = 0, present = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        cugrt_symbol_value value{"n", 5};
        start.arrive_and_wait();
        if (auto report = chain.session->prepare(0, {&value, 1}); report.ok()) {
          built += report->built;
          present += report->present;
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    CHECK(built == 1);
    CHECK(present == 3);
    REQUIRE(chain.machine.fake.live().execs == 1);
  }
}
