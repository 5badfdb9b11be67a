// runtime: sealed sessions, times of runs, and how they are waited for.
#include "chain.h"

#include "support/alloc_fault.h"

#include <algorithm>
#include <random>

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

/// Driver calls that make or find memory, or make instances.
size_t made(const FakeDriver &fake) {
  size_t count = 0;
  for (const FakeCall &call : fake.calls()) {
    const std::string_view entry = call.entry;
    count += entry.starts_with("cuMemAlloc") || entry.starts_with("cuMemHostAlloc") ||
             entry == "cuMemCreate" || entry.starts_with("cuGraphInstantiate");
  }
  return count;
}

} // namespace

TEST_CASE("runs of a sealed session patch the instances that are there and make nothing") {
  Chain chain;
  chain.run(5, 0, -1);
  must(chain.session->seal());
  must(chain.session->seal()); // nothing more
  const auto before = chain.counters();
  chain.machine.fake.forget();
  for (int64_t n : {5, 64, 3, 17, 5, 1})
    chain.run(n, 0, -1); // into the session's own memory
  chain.run(9, 0, 1);
  CHECK(made(chain.machine.fake) == 0);
  CHECK(chain.counters().regions_built == before.regions_built);
  CHECK(chain.counters().regions_patched > before.regions_patched);
}

TEST_CASE("what a sealed session has no graph for is an error with its symbols, and nothing else") {
  Chain chain(branching(), 3);
  chain.run(5);
  must(chain.session->seal());
  chain.machine.fake.forget();
  const Status refused = chain.try_run(12, chain.memory[0].address(), chain.memory[1].address());
  CHECK(refused.code() == Code::invalid_argument);
  INFO(refused.to_string());
  CHECK(contains(refused.to_string(), "sealed"));
  CHECK(contains(refused.to_string(), "n = 12"));
  CHECK(made(chain.machine.fake) == 0);
  chain.run(7);
  cugrt_symbol_value symbol{"n", 12};
  CHECK(contains(chain.session->prepare(0, {&symbol, 1}).status().message(), "is sealed"));
}

TEST_CASE("instances that were prepared are there when the session is sealed") {
  Chain chain(branching(), 3);
  for (int64_t n : {5, 12}) {
    cugrt_symbol_value symbol{"n", n};
    CHECK(must(chain.session->prepare(0, {&symbol, 1})).built == 1);
  }
  must(chain.session->seal());
  chain.machine.fake.forget();
  for (int64_t n : {5, 12, 8, 30})
    chain.run(n);
  CHECK(made(chain.machine.fake) == 0);
  CHECK(chain.counters().regions_prepared == 2);
}

TEST_CASE("runs of a sealed session at other shapes take no memory of the host") {
  FakeDriver::Options driver;
  driver.record = false;
  Chain chain(3, {}, driver);
  chain.machine.fake.skip_launches();
  const uint64_t x = chain.memory[0].address(), y = chain.memory[1].address();
  for (int64_t n : {5, 64, 5, 9})
    must(chain.try_run(n, x, y));
  must(chain.session->seal());
  for (int64_t n : {7, 30}) // what is kept from run to run has its size
    must(chain.try_run(n, x, y));
  uint64_t failed = 0, count = 0;
  {
    CountAllocations counter("libcugrt-emu");
    for (int64_t i = 0; i < 10000; ++i)
      failed += !chain.try_run(1 + i * 7 % 64, x, y).ok();
    count = counter.count();
  }
  CHECK(failed == 0);
  CHECK(count == 0);
}

TEST_CASE("a hundred thousand runs of a sealed session take no memory of the host either") {
  SessionOptions options;
  options.measures_latency = true;
  FakeDriver::Options driver;
  driver.record = false;
  Chain chain(3, std::move(options), driver);
  chain.machine.fake.skip_launches();
  const uint64_t x = chain.memory[0].address();
  for (int i = 0; i < 3; ++i)
    for (int y = 2; y > 0; --y)
      must(chain.try_run(5, x, chain.memory[y].address()));
  must(chain.session->seal());
  uint64_t failed = 0, count = 0;
  {
    CountAllocations counter("libcugrt-emu");
    for (int i = 0; i < 100000; ++i)
      failed += !chain.try_run(5, x, chain.memory[1].address()).ok();
    count = counter.count();
  }
  CHECK(failed == 0);
  CHECK(count == 0);
  DurationHistogram host, device;
  must(chain.session->add_latency(host, device));
  CHECK(host.count() == 100006);
  CHECK(device.count() == 100006);
}

TEST_CASE("quantiles of a histogram are those of the sorted durations, up to a 32nd") {
  std::mt19937_64 random(5);
  for (int spread : {6, 20, 40, 64}) {
    DurationHistogram histogram, half;
    std::vector<uint64_t> all;
    for (int i = 0; i < 5001; ++i) {
      all.push_back(random() >> (64 - 1 - random() % uint64_t(spread)));
      (i % 2 ? histogram : half).add(all.back());
    }
    histogram.add(half);
    std::sort(all.begin(), all.end());
    CHECK(histogram.count() == all.size());
    CHECK(histogram.max() == all.back());
    for (uint32_t thousandths : {500u, 990u, 999u, 1000u}) {
      const size_t rank = (all.size() * thousandths + 999) / 1000;
      const uint64_t exact = all[rank - 1], told = histogram.quantile(thousandths);
      CHECK(told >= exact);
      CHECK(told - exact <= exact / 32);
    }
  }
  CHECK(DurationHistogram().quantile(500) == 0);
}

TEST_CASE("a session waits as it was told, on a stream of its priority") {
  struct Row {
    cugrt_wait wait;
    const char *asks;
  };
  for (const Row &row : {Row{CUGRT_WAIT_DEFAULT, "cuStreamSynchronize"},
                         {CUGRT_WAIT_SPIN, "cuStreamQuery"},
                         {CUGRT_WAIT_YIELD, "cuStreamQuery"},
                         {CUGRT_WAIT_BLOCK, "cuEventSynchronize"}}) {
    SessionOptions options;
    options.wait = row.wait;
    options.priority = 2;
    Chain chain(3, std::move(options));
    CHECK(chain.machine.fake.count("cuStreamCreateWithPriority") == 1);
    must(chain.try_run(5, chain.memory[0].address(), chain.memory[1].address()));
    chain.machine.fake.forget();
    must(chain.session->synchronize());
    for (const char *asks : {"cuStreamSynchronize", "cuStreamQuery", "cuEventSynchronize"})
      CHECK((chain.machine.fake.count(asks) > 0) == (std::string_view(asks) == row.asks));
  }
}
