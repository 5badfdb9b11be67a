// runtime: what is told about launches: records, counters by reason, strict mode.
#include "chain.h"

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

SessionOptions logged(size_t capacity) {
  SessionOptions options;
  options.log.capacity = capacity;
  return options;
}

std::vector<LaunchRecord> read(Chain &chain) {
  std::vector<LaunchRecord> records(64);
  records.resize(must(chain.session->read_launches(records)));
  return records;
}

std::vector<cugrt_launch_kind> kinds(const std::vector<LaunchRecord> &records) {
  std::vector<cugrt_launch_kind> list;
  for (const LaunchRecord &record : records)
    list.push_back(record.kind);
  return list;
}

/// A chain whose first step is outside of the region.
plan::Plan with_step_outside() {
  plan::Plan plan = PlanMaker::chain(3);
  plan::Function &function = plan.functions[0];
  function.regions[0].steps = {1, 2};
  function.regions[0].edges = {{0, 1}};
  plan::Item item;
  item.kind = plan::ItemKind::step;
  item.index = 0;
  function.steps[0].location = {7, 3};
  function.blocks[0].items.insert(function.blocks[0].items.begin(), item);
  return plan;
}

} // namespace

TEST_CASE("each launch leaves a record of what it was: built, hit, patched, with its key") {
  Chain chain(3, logged(16));
  chain.run(5);
  chain.run(5);
  chain.run(5, 2, 1);
  std::vector<LaunchRecord> records = read(chain);
  CHECK(kinds(records) ==
        std::vector<cugrt_launch_kind>{CUGRT_LAUNCH_BUILT, CUGRT_LAUNCH_HIT, CUGRT_LAUNCH_PATCHED});
  for (size_t i = 0; i < records.size(); ++i) {
    const LaunchRecord &record = records[i];
    CHECK(record.sequence == i);
    CHECK(record.run == i);
    CHECK(*record.name == "main.0");
    CHECK(record.function->name == "main");
    CHECK(record.key[0] == 5);
    CHECK(record.nodes == 3);
    CHECK(record.edges == 2);
    CHECK(record.fields_patched == (i == 2 ? 1u : 0u));
    CHECK(record.reason == EagerReason::none);
    CHECK(record.launch_ns > 0);
    CHECK((record.build_ns > 0) == (i == 0));
    CHECK((record.patch_ns > 0) == (i == 2));
    CHECK(record.host_ns >= record.build_ns + record.patch_ns + record.launch_ns);
    CHECK(record.begin_ns >= (i == 0 ? 0 : records[i - 1].begin_ns + records[i - 1].host_ns));
  }
  CHECK(read(chain).empty());
}

TEST_CASE("a full log drops the oldest records, and their numbers tell") {
  Chain chain(2, logged(3));
  for (int i = 0; i < 5; ++i)
    chain.run(4);
  std::vector<LaunchRecord> records = read(chain);
  REQUIRE(records.size() == 3);
  CHECK(records[0].sequence == 2);
  CHECK(records[2].sequence == 4);
  chain.run(4);
  records = read(chain);
  REQUIRE(records.size() == 1);
  CHECK(records[0].sequence == 5);
}

TEST_CASE("a session without a log has no records, and takes the short path") {
  Chain chain;
  chain.run(5);
  chain.run(5);
  CHECK(read(chain).empty());
}

TEST_CASE("a log that is too large, or timing without a log, is refused when the session opens") {
  Chain chain;
  auto refused = [&](LaunchLog::Options log) {
    SessionOptions options;
    options.log = log;
    return Session::open(chain.executable, chain.device, options).status().clone();
  };
  CHECK(refused({.capacity = LaunchLog::kMaxCapacity + 1}).code() == Code::out_of_range);
  CHECK(contains(refused({.capacity = 0, .time_steps = true}).message(), "set record_capacity"));
}

TEST_CASE("steps launched one by one have records of their own, timed on the device on request") {
  SessionOptions options = logged(16);
  options.cache.eager = true;
  options.log.time_steps = true;
  Chain chain(2, options);
  chain.run(5);
  std::vector<LaunchRecord> records = read(chain);
  CHECK(kinds(records) ==
        std::vector<cugrt_launch_kind>{CUGRT_LAUNCH_STEP, CUGRT_LAUNCH_STEP, CUGRT_LAUNCH_EAGER});
  CHECK(*records[0].name == "add0");
  CHECK(*records[1].name == "add1");
  CHECK(records[0].device_us >= 0);
  CHECK(records[2].device_us == -1);
  CHECK(records[2].reason == EagerReason::requested);
  CHECK(records[2].nodes == 2);
  CHECK(chain.machine.fake.count("cuEventRecord") == 4);
}

TEST_CASE("a step whose work has not ended has no device time") {
  SessionOptions options = logged(16);
  options.cache.eager = true;
  options.log.time_steps = true;
  Chain chain(1, options);
  must(chain.try_run(5, chain.memory[0].address(), chain.memory[1].address()));
  chain.machine.fake.hold(true);
  std::vector<LaunchRecord> records = read(chain);
  chain.machine.fake.hold(false);
  REQUIRE(records.size() == 2);
  CHECK(records[0].device_us == -1);
}

TEST_CASE("what falls out of a graph is counted by its reason") {
  auto count = [](Chain &chain, EagerReason reason) {
    return chain.counters().eager[static_cast<size_t>(reason)];
  };
  {
    SessionOptions options;
    options.cache.policy.budget_bytes = 1;
    Chain chain(3, options);
    chain.run(5);
    CHECK(count(chain, EagerReason::too_large) == 1);
  }
  {
    Chain chain;
    chain.machine.fake.fail_nth_of("cuGraphInstantiateWithParams", 1, CUDA_ERROR_OUT_OF_MEMORY);
    chain.run(5);
    CHECK(count(chain, EagerReason::no_memory) == 1);
  }
  Chain chain(with_step_outside(), 3);
  chain.run(5);
  chain.run(5);
  CHECK(count(chain, EagerReason::outside) == 2);
  CHECK(chain.counters().regions_eager == 0);
}

TEST_CASE("strict mode refuses a region that is not built, by its name and the reason") {
  SessionOptions options;
  options.cache.strict = true;
  options.cache.policy.budget_bytes = 1;
  Chain chain(3, options);
  Status status = chain.try_run(5, chain.memory[0].address(), chain.memory[1].address());
  CHECK(status.code() == Code::unsupported);
  CHECK(status.message() ==
        "region main.0 of function @main with n = 5: strict mode: region main.0 (3 steps from "
        "'add0') is not launched as part of a graph, because an instance would be larger than the "
        "whole instance budget");
  CHECK(chain.machine.fake.kernels_run() == 0);
}

TEST_CASE("strict mode refuses a step outside of regions, with its place in the module") {
  SessionOptions options;
  options.cache.strict = true;
  Chain chain(with_step_outside(), 3, options);
  Status status = chain.try_run(5, chain.memory[0].address(), chain.memory[1].address());
  CHECK(status.message() == "strict mode: step 'add0' of function @main is not launched as part of "
                            "a graph, because the plan has it outside of regions");
  CHECK(status.location() == "test.cugrt:7:3");
}

TEST_CASE("in strict mode a full device is an error, and the session goes on afterwards") {
  SessionOptions options;
  options.cache.strict = true;
  Chain chain(3, options);
  chain.machine.fake.fail_nth_of("cuGraphInstantiateWithParams", 1, CUDA_ERROR_OUT_OF_MEMORY);
  Status status = chain.try_run(5, chain.memory[0].address(), chain.memory[1].address());
  CHECK(contains(status.message(), "because the device has no memory for an instance"));
  chain.run(5);
  chain.run(6);
  options.cache.eager = true;
  CHECK(contains(Session::open(chain.executable, chain.device, options).status().message(),
                 "both eager and strict"));
}

TEST_CASE("a step that fails leaves its time to no later record") {
  plan::Plan plan = PlanMaker::chain(3);
  plan::Function &function = plan.functions[0];
  function.regions[0].steps = {0, 2};
  function.regions[0].edges = {{0, 1}};
  plan::Item item;
  item.kind = plan::ItemKind::step;
  item.index = 2;
  function.blocks[0].items.push_back(item);
  SessionOptions options = logged(4);
  options.log.time_steps = true;
  Chain chain(std::move(plan), 3, options);
  chain.run(5);
  chain.machine.fake.fail_nth_of("cuLaunchKernelEx", 1, CUDA_ERROR_INVALID_VALUE);
  CHECK_FALSE(chain.try_run(5, chain.memory[0].address(), chain.memory[1].address()).ok());
  chain.run(5);
  std::vector<LaunchRecord> records = read(chain);
  REQUIRE(kinds(records) == std::vector<cugrt_launch_kind>{CUGRT_LAUNCH_STEP, CUGRT_LAUNCH_HIT,
                                                           CUGRT_LAUNCH_HIT, CUGRT_LAUNCH_STEP});
  for (const LaunchRecord &record : records)
    CHECK((record.device_us >= 0) == (record.kind == CUGRT_LAUNCH_STEP));
}

TEST_CASE("counters count what was launched") {
  auto fails = [](Chain &chain, const char *entry) {
    chain.machine.fake.fail_nth_of(entry, 1, CUDA_ERROR_INVALID_VALUE);
    CHECK_FALSE(chain.try_run(6, chain.memory[0].address(), chain.memory[2].address()).ok());
  };
  auto launched = [](const Counters &c) {
    return c.regions_built + c.regions_hit + c.regions_patched + c.regions_eager;
  };
  {
    Chain chain(with_step_outside(), 3);
    fails(chain, "cuLaunchKernelEx");
    CHECK(chain.counters().eager_steps == 0);
    CHECK(chain.counters().eager[static_cast<size_t>(EagerReason::outside)] == 0);
  }
  {
    SessionOptions options;
    options.cache.eager = true;
    Chain chain(2, options);
    fails(chain, "cuLaunchKernelEx");
    CHECK(launched(chain.counters()) == 0);
    CHECK(chain.counters().eager[static_cast<size_t>(EagerReason::requested)] == 0);
    CHECK(chain.counters().eager_steps == 0);
  }
  {
    SessionOptions options;
    options.cache.strict = true;
    options.cache.policy.budget_bytes = 1;
    Chain chain(2, options);
    CHECK_FALSE(chain.try_run(6, chain.memory[0].address(), chain.memory[1].address()).ok());
    CHECK(chain.counters().eager[static_cast<size_t>(EagerReason::too_large)] == 0);
  }
  SessionOptions options;
  options.cache.policy.class_pool = 1;
  Chain chain(2, options);
  fails(chain, "cuGraphLaunch"); // of a new instance
  CHECK(launched(chain.counters()) == 0);
  chain.run(6);
  CHECK(chain.counters().regions_patched == 1); // the other result
  chain.run(5);
  CHECK(launched(chain.counters()) == 2);
  fails(chain, "cuGraphLaunch"); // after a patch
  CHECK(launched(chain.counters()) == 2);
  CHECK(chain.counters().runs == 2);
}
