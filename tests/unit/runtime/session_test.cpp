// runtime: sessions on the fake driver: counting, patching, ordering, refusals, failures.
#include "chain.h"

#include <random>
#include <set>

#include "library/report/module_report.h"

#include <thread>

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

TEST_CASE("the first run builds, a repeated one hits, other addresses and shapes are patched") {
  Chain chain;
  chain.run(5);
  chain.run(5);
  CHECK(chain.counters().regions_built == 1);
  CHECK(chain.counters().regions_hit == 1);
  chain.machine.fake.forget();
  chain.run(5, 2, 1); // only the first node reads %x
  CHECK(chain.counters().regions_patched == 1);
  CHECK(chain.counters().fields_patched == 1);
  CHECK(chain.machine.fake.count("cuGraphExecKernelNodeSetParams") == 1);
  chain.machine.fake.forget();
  chain.run(5, 2, 1, 0.5f); // the scalar is an argument of every node
  CHECK(chain.machine.fake.count("cuGraphExecKernelNodeSetParams") == 3);
  CHECK(chain.counters().regions_patched == 2);
  CHECK(chain.counters().largest_nodes == 3);
  CHECK(chain.counters().largest_edges == 2);
}

TEST_CASE("a repeated run makes one driver call beside the launch") {
  Chain chain;
  chain.run(5, 0, -1);
  cugrt_value arguments[] = {tensor(chain.memory[0].address(), {5, 4}), floating(1)};
  RunRequest request;
  request.arguments = arguments;
  must(chain.session->run(0, request));
  chain.machine.fake.forget();
  must(chain.session->run(0, request));
  CHECK(chain.machine.fake.count("cuGraphLaunch") == 1);
  CHECK(chain.machine.fake.count("cuCtxGetCurrent") == 1);
  CHECK(chain.machine.fake.call_count() == 2);
}

TEST_CASE("keys beyond the pool are patched, and every launch counts once") {
  Chain chain;
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t n : {1, 2, 3, 4, 5, 6})
      chain.run(n);
  Counters counters = chain.counters();
  // 1 to 4 are built; 5 patches the instance of 1, then 6 that same one. Again: 1 takes it back, 2
  // to 4 have theirs, and 5 and 6, which came again, are built.
  CHECK(counters.regions_built == 6);
  CHECK(counters.regions_patched == 3);
  CHECK(counters.regions_hit == 3);
  CHECK(counters.regions_eager == 0);
  CHECK(counters.runs == 12);
}

TEST_CASE("zero-sized launches are disabled nodes, and enabled again when there is work") {
  SessionOptions options;
  options.cache.policy.class_pool = 1;
  options.cache.policy.pin_uses = 1000; // patch one instance only
  Chain chain(3, options);
  chain.run(0);
  CHECK(chain.machine.fake.count("cuGraphNodeSetEnabled") == 3);
  chain.run(4);
  chain.run(0);
  chain.run(4, 2, 1, 2);
  CHECK(chain.counters().regions_built == 1);
  CHECK(chain.counters().regions_patched == 3);
}

TEST_CASE("eager sessions and graphs give the same results") {
  SessionOptions options;
  options.cache.eager = true;
  Chain chain(3, options);
  for (int64_t n : {1, 0, 64, 1})
    chain.run(n);
  CHECK(chain.counters().regions_eager == 4);
  CHECK(chain.counters().eager_steps == 12);
  CHECK(chain.counters().regions_built == 0);
  CHECK(chain.machine.fake.count("cuGraphLaunch") == 0);
}

TEST_CASE("results without memory of the caller's lie in the session's, at a stable address") {
  Chain chain;
  chain.run(5, 0, -1);
  uint64_t address = chain.result.as.tensor.address;
  chain.run(64, 0, -1);
  CHECK(chain.result.as.tensor.address == address);
  // What a run handed out may come back in the same array.
  must(chain.try_run(64, chain.memory[0].address(), address));
  CHECK(chain.result.as.tensor.address == address);
}

TEST_CASE("memory that a run writes may not overlap what it reads, nor the session's arena") {
  Chain chain;
  Status status = chain.try_run(5, chain.memory[0].address(), chain.memory[0].address() + 16);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(contains(status.message(), "function @main: parameter %x"));
  CHECK(contains(status.message(), "overlaps result 0"));
  CHECK(chain.machine.fake.kernels_run() == 0);
  chain.run(5); // the session is none the worse
}

TEST_CASE("too few arguments, wrong results and wrong shapes of results are told") {
  Chain chain;
  cugrt_value x = tensor(chain.memory[0].address(), {5, 4});
  RunRequest request;
  request.arguments = {&x, 1};
  CHECK(contains(chain.session->run(0, request).message(), "takes 2 arguments"));
  cugrt_value arguments[] = {x, floating(1)};
  cugrt_value results[2]{};
  request.arguments = arguments;
  request.results = results;
  CHECK(contains(chain.session->run(0, request).message(), "has 1 results, got room for 2"));
  results[0] = tensor(chain.memory[1].address(), {4, 4});
  request.results = {results, 1};
  CHECK(contains(chain.session->run(0, request).message(),
                 "result 0: expected memory for tensor<[5, 4], f32>, got tensor<[4, 4], f32>"));
}

TEST_CASE("a stream that is being captured is refused with what to do") {
  Chain chain;
  driver::Stream stream = must(driver::Stream::create(chain.device->context()));
  chain.machine.fake.set_capturing(stream.get(), true);
  cugrt_value arguments[] = {tensor(chain.memory[0].address(), {5, 4}), floating(1)};
  RunRequest request;
  request.arguments = arguments;
  request.own_stream = false;
  request.stream = stream.get();
  Status status = chain.session->run(0, request);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(contains(status.message(), "the stream is being captured"));
  CHECK(contains(status.message(), "end the capture"));
  chain.machine.fake.set_capturing(stream.get(), false);
  must(chain.session->run(0, request));
}

TEST_CASE("a run on another stream waits for an event of the last one, and only then") {
  Chain chain;
  driver::Stream stream = must(driver::Stream::create(chain.device->context()));
  cugrt_value arguments[] = {tensor(chain.memory[0].address(), {5, 4}), floating(1)};
  RunRequest request;
  request.arguments = arguments;
  must(chain.session->run(0, request));
  chain.machine.fake.forget();
  request.own_stream = false;
  request.stream = stream.get();
  must(chain.session->run(0, request));
  // Whether the stream can be recorded on, asked once; of the own stream; and behind this run.
  CHECK(chain.machine.fake.count("cuEventRecord") == 3);
  CHECK(chain.machine.fake.count("cuStreamWaitEvent") == 1);
  must(chain.session->run(0, request));
  must(chain.session->synchronize());
  request.own_stream = true; // nothing is in flight any more
  must(chain.session->run(0, request));
  CHECK(chain.machine.fake.count("cuEventRecord") == 4);
  CHECK(chain.machine.fake.count("cuStreamWaitEvent") == 1);
}

TEST_CASE("sessions of one executable share code") {
  Chain chain;
  size_t modules = chain.machine.fake.live().modules;
  auto second = must(Session::open(chain.executable, chain.device, {}));
  CHECK(chain.machine.fake.live().modules == modules);
  chain.session.reset();
  CHECK(chain.machine.fake.live().modules == modules);
  second.reset();
  CHECK(chain.machine.fake.live().modules == 0);
}

TEST_CASE("keys in turn share the instances that the budget holds, and none is destroyed") {
  SessionOptions options;
  InstanceCost cost;
  options.cache.policy.budget_bytes = 2 * cost.bytes(3);
  Chain chain(3, options);
  for (int round = 0; round < 3; ++round)
    for (int64_t n = 1; n <= 20; ++n) {
      chain.run(n);
      REQUIRE(must(chain.session->totals()).instance_bytes <= options.cache.policy.budget_bytes);
      REQUIRE(chain.machine.fake.live().execs <= 2);
    }
  CHECK(chain.counters().instances_evicted == 0);
  CHECK(chain.counters().regions_built == 2);
  CHECK(chain.counters().regions_hit == 2); // one keeps its instance, the other 19 share one
}

/// chain(2) over tensors [n, m], n up to 128 and m up to 96.
static plan::Plan chain_of_two_symbols() {
  PlanMaker maker(128);
  maker.function().symbols.push_back({"m", ir::SymbolSource::parameter, {0, 96}});
  ir::ExprPool &exprs = maker.plan.exprs;
  maker.width = exprs.symbol({1});
  maker.count = exprs.mul(exprs.symbol(maker.n), maker.width);
  maker.bytes = exprs.mul(maker.count, exprs.constant(4));
  maker.upper_bytes = 128 * 96 * 4;
  const uint32_t x = maker.tensor_param("x"), a = maker.float_param("a"), y = maker.result();
  const uint32_t between = maker.arena_tensor();
  maker.step(x, between, a);
  maker.step(between, y, a);
  maker.region();
  maker.function().regions[0].key = {{0}, {1}};
  return std::move(maker.plan);
}

TEST_CASE(
    "instances never exceed the budget under ten thousand random keys of two symbols, most of "
    "them new, and results are right",
    "[long]") {
  SessionOptions options;
  options.cache.policy.budget_bytes = 5 * InstanceCost().bytes(2) + 1;
  FakeDriver::Options driver;
  driver.record = false;
  Chain chain(chain_of_two_symbols(), 2, options, driver);
  constexpr size_t kElements = 128 * 96;
  std::vector<driver::DeviceBuffer> memory; // two for what is read, two for what is written
  for (int i = 0; i < 4; ++i) {
    memory.push_back(
        must(driver::DeviceBuffer::allocate(chain.device->context(), kElements * sizeof(float))));
    for (size_t k = 0; k < kElements; ++k)
      reinterpret_cast<float *>(memory.back().address())[k] = static_cast<float>(k % 1000 + i);
  }
  std::mt19937 random(3);
  std::vector<std::pair<int64_t, int64_t>> last(3, {1, 1}); // some come again
  std::set<std::pair<int64_t, int64_t>> distinct;
  for (int i = 0; i < 10000; ++i) {
    auto &key = last[random() % last.size()];
    if (random() % 4)
      key = {random() % 129, random() % 97};
    const auto [n, m] = key;
    distinct.insert(key);
    const uint32_t from = random() % 4 == 0, to = 2 + (random() % 4 == 0);
    const int added = i - i % 16;
    cugrt_value arguments[] = {tensor(memory[from].address(), {n, m}),
                               floating(static_cast<float>(added))};
    cugrt_value result = tensor(memory[to].address(), {n, m});
    must(chain.session->run(0, {arguments, {&result, 1}}));
    REQUIRE(must(chain.session->totals()).instance_bytes <= options.cache.policy.budget_bytes);
    REQUIRE(chain.machine.fake.live().execs <= 5);
    must(chain.session->synchronize());
    const auto *out = reinterpret_cast<const float *>(memory[to].address());
    int64_t wrong = 0;
    for (int64_t k = 0; k < n * m; ++k)
      wrong += out[k] != static_cast<float>(k % 1000 + from + 2 * added);
    REQUIRE(wrong == 0);
  }
  CHECK(distinct.size() > 4000);
  CHECK(chain.counters().regions_built == 5);
  CHECK(chain.counters().regions_patched > 1000);
  CHECK(chain.counters().regions_hit > 10);
}

TEST_CASE("an instance that is running is not destroyed: its turn comes when its work has ended") {
  SessionOptions options;
  options.cache.policy.budget_bytes = InstanceCost().bytes(3);
  Chain chain(3, options);
  chain.run(5);
  chain.machine.fake.hold(true);
  for (int64_t n : {6, 6, 6})
    must(chain.try_run(n, chain.memory[0].address(), chain.memory[1].address()));
  CHECK(chain.machine.fake.count("cuGraphExecDestroy") == 0);
  CHECK(chain.counters().regions_patched == 1); // setters are for later launches: they may
  chain.machine.fake.hold(false);
}

TEST_CASE("when the device is full, instances are given up, and the new one is built") {
  Chain chain;
  for (int64_t n : {1, 2, 3})
    chain.run(n);
  chain.machine.fake.fail_nth_of("cuGraphInstantiateWithParams", 1, CUDA_ERROR_OUT_OF_MEMORY);
  chain.run(4);
  CHECK(chain.counters().instances_evicted == 1);
  CHECK(chain.counters().regions_built == 4);
  CHECK(chain.machine.fake.live().execs == 3);
  chain.run(2); // the least recently used one went, key 1's
  CHECK(chain.counters().regions_hit == 1);
}

TEST_CASE("a graph that cannot be had for want of memory is launched step by step") {
  Chain chain;
  chain.machine.fake.fail_nth_of("cuGraphInstantiateWithParams", 1, CUDA_ERROR_OUT_OF_MEMORY);
  chain.run(4);
  CHECK(chain.counters().regions_eager == 1);
  chain.run(4);
  CHECK(chain.counters().regions_built == 1);
}

TEST_CASE("memory that is not there is an error with the figures, after the instances have gone; "
          "the session goes on") {
  FakeDriver::Options driver;
  driver.device_bytes = 1 << 20;
  Chain chain(3, {}, driver);
  chain.run(5);
  std::vector<driver::DeviceBuffer> hog;
  for (uint64_t bytes = 1 << 19; bytes > 0; bytes /= 2)
    while (true) {
      auto taken = driver::DeviceBuffer::allocate(chain.device->context(), bytes);
      if (!taken.ok())
        break;
      hog.push_back(std::move(*taken));
    }
  Status status = chain.try_run(5, chain.memory[0].address(), 0);
  CHECK(status.code() == Code::out_of_device_memory);
  CHECK(contains(status.message(), "result 0 of function @main, 80 bytes"));
  CHECK(contains(status.message(), "the session holds 2048 bytes of arenas"));
  CHECK(contains(status.message(), "the device has 0 of 1048576 bytes free"));
  CHECK(chain.counters().instances_evicted == 1);
  hog.clear();
  chain.run(5, 0, -1);
  chain.run(5);
}

TEST_CASE("an argument that does not fit the compiled kernel is found when the session opens") {
  TestDevice machine;
  machine.fake.define_kernel("add_entry", {8, 8, 4, 4});
  auto device = machine.open();
  auto executable = must(TestDevice::compile(*device, PlanMaker::chain(1)));
  auto session = Session::open(executable, device, {});
  REQUIRE(!session.ok());
  CHECK(contains(session.status().message(), "kernel @add"));
  CHECK(contains(session.status().message(), "parameter 2 is declared with 8 bytes"));
}

TEST_CASE("a sticky error poisons the device, and its first cause is repeated") {
  Chain chain;
  chain.run(5);
  chain.machine.fake.fail_from_now(CUDA_ERROR_ILLEGAL_ADDRESS);
  Status first = chain.try_run(5, chain.memory[0].address(), chain.memory[1].address());
  CHECK(first.code() == Code::device_lost);
  chain.machine.fake.forget();
  Status second = chain.try_run(5, chain.memory[0].address(), chain.memory[1].address());
  CHECK(second.code() == Code::device_lost);
  CHECK(contains(second.message(), first.message()));
  CHECK(chain.machine.fake.call_count() == 0);
  CHECK(!Session::open(chain.executable, chain.device, {}).ok());
}

TEST_CASE("a lost device is lost for everything that is open on it, of the same driver") {
  TestDevice machine;
  auto open = [&](const char *path) {
    auto library = must(driver::make_driver(machine.fake.api()));
    library->kind = driver::DriverKind::path; // a table of functions shares nothing
    library->path = path;
    runtime::DeviceOptions options;
    options.cache_folder = "off";
    return runtime::Device::open(std::move(library), options);
  };
  auto one = must(open("libone.so")), other = must(open("libone.so")), apart = must(open("two.so"));
  (void)one->note(Status::error(Code::device_lost, "illegal address in 'k'"));
  CHECK(one->check().code() == Code::device_lost);
  CHECK(contains(other->check().message(), "illegal address in 'k'"));
  CHECK(apart->check().ok());
  CHECK(open("libone.so").status().code() == Code::device_lost);
  one.reset(), other.reset();
  CHECK(open("libone.so").ok());
}

TEST_CASE("whichever driver call fails, there is one clear error, nothing leaks, and a fresh "
          "session works") {
  auto scenario = [](Chain &chain) -> Status {
    CUGRT_ASSIGN(std::unique_ptr<Session> session,
                 Session::open(chain.executable, chain.device, {}));
    chain.session = std::move(session);
    for (int64_t n : {5, 5, 7}) {
      CUGRT_TRY(chain.try_run(n, chain.memory[0].address(), 0));
      CUGRT_TRY(chain.session->synchronize());
    }
    return {};
  };
  Chain chain;
  chain.session.reset();
  const FakeLive before = chain.machine.fake.live();
  uint64_t calls = chain.machine.fake.call_count();
  must(scenario(chain));
  calls = chain.machine.fake.call_count() - calls;
  chain.session.reset();
  REQUIRE(calls > 30);
  size_t failures = 0;
  for (uint64_t nth = 1; nth <= calls; ++nth) {
    chain.machine.fake.fail_nth(nth, CUDA_ERROR_INVALID_VALUE);
    Status status = scenario(chain);
    chain.machine.fake.fail_nth(0, CUDA_SUCCESS);
    chain.session.reset();
    INFO("call " << nth << ": " << status.to_string());
    failures += !status.ok();
    if (!status.ok())
      CHECK(!status.message().empty());
    FakeLive after = chain.machine.fake.live();
    CHECK(after == before);
    must(scenario(chain));
    chain.session.reset();
  }
  CHECK(failures > calls / 2); // the rest are destructions and queries whose failure is harmless
}

TEST_CASE("a second thread is refused while a session is in use") {
  Chain chain;
  std::atomic<bool> stop = false;
  std::atomic<int> busy = 0, ran = 0;
  auto work = [&](int slot) {
    cugrt_value arguments[] = {tensor(chain.memory[slot].address(), {5, 4}), floating(1)};
    while (!stop) {
      Status status = chain.session->run(0, {arguments, {}});
      if (status.ok())
        ++ran;
      else if (status.code() == Code::busy)
        ++busy;
      else
        stop = true;
      if (ran > 2000 && (busy > 0 || ran > 200000))
        stop = true;
    }
  };
  std::thread other(work, 0);
  work(1);
  other.join();
  CHECK(ran > 2000);
}

TEST_CASE("the graph report lists nodes, edges and keys of the instances alive") {
  Chain chain(2);
  chain.run(5);
  std::string text, dot;
  must(chain.session->visit_instances([&](const std::vector<GraphCache::View> &views) {
    text = must(graph_report(chain.executable->plan(), views, CUGRT_REPORT_TEXT));
    dot = must(graph_report(chain.executable->plan(), views, CUGRT_REPORT_DOT));
  }));
  CHECK(text == "@main region main.0, key n = 5: 2 nodes, 1 edges\n"
                "  0 kernel add0: add_entry grid (1, 1, 1) block (32, 1, 1) shared 0\n"
                "  1 kernel add1: add_entry grid (1, 1, 1) block (32, 1, 1) shared 0 after 0\n");
  CHECK(contains(dot, "label=\"@main region main.0, key n = 5\""));
  CHECK(contains(dot, "g0n0 [label=\"add0 add_entry (1, 1, 1) x (32, 1, 1)\"]"));
  CHECK(contains(dot, "g0n1 [label=\"add1 add_entry (1, 1, 1) x (32, 1, 1)\"]"));
  CHECK(contains(dot, "g0n0 -> g0n1;"));
}

TEST_CASE(
    "sessions on eight threads share code, build, patch and give up instances, and results do "
    "not mix") {
  SessionOptions options;
  options.cache.policy.budget_bytes = InstanceCost().bytes(3); // its two classes build in turn
  options.cache.strict = true;
  FakeDriver::Options driver;
  driver.record = false;
  Chain chain(branching(), 3, {}, driver);
  const size_t modules = chain.machine.fake.live().modules;
  constexpr uint32_t kThreads = 8;
  std::vector<std::string> problems(kThreads); // Catch's macros are for one thread
  std::atomic<uint64_t> evicted = 0, patched = 0;
  auto work = [&](uint32_t number) -> Status {
    CUGRT_ASSIGN(auto session, Session::open(chain.executable, chain.device, options));
    CUGRT_ASSIGN(auto x, driver::DeviceBuffer::allocate(chain.device->context(), 1024));
    CUGRT_ASSIGN(auto y, driver::DeviceBuffer::allocate(chain.device->context(), 1024));
    auto *in = reinterpret_cast<float *>(x.address());
    const auto *out = reinterpret_cast<const float *>(y.address());
    std::fill_n(in, 256, static_cast<float>(number));
    uint32_t random = number;
    for (int i = 0; i < 200; ++i) {
      random = random * 1664525u + 1013904223u;
      const int64_t n = random >> 20 & 63;
      if (i % 50 == 7) {
        cugrt_symbol_value value{"n", n};
        CUGRT_TRY(session->prepare(0, {&value, 1}).take_status());
      }
      cugrt_value arguments[] = {tensor(x.address(), {n, 4}), floating(i)};
      cugrt_value result = tensor(y.address(), {n, 4});
      CUGRT_TRY(session->run(0, {arguments, {&result, 1}}));
      CUGRT_TRY(session->synchronize());
      const auto expected = static_cast<float>(number + 3u * static_cast<uint32_t>(i));
      if (!std::all_of(out, out + n * 4, [&](float value) { return value == expected; }))
        return Status::error(Code::internal, "run " + std::to_string(i) + " is wrong");
    }
    CUGRT_ASSIGN(Session::Totals totals, session->totals());
    evicted += totals.counters.instances_evicted;
    patched += totals.counters.regions_patched;
    return totals.instance_bytes <= options.cache.policy.budget_bytes
               ? Status()
               : Status::error(Code::internal, "the budget was exceeded");
  };
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < kThreads; ++number)
    threads.emplace_back([&, number] {
      if (Status status = work(number); !status.ok())
        problems[number] = status.message();
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(problems == std::vector<std::string>(kThreads));
  CHECK(evicted > kThreads);
  CHECK(patched > kThreads);
  CHECK(chain.machine.fake.live().modules == modules); // loaded once
}

TEST_CASE("a launch of no blocks by a kernel with clusters has the dimensions of one") {
  plan::Plan plan = PlanMaker::chain(1);
  plan.kernels[0].clusters = {{2, 1, 4}};
  const FunctionProgram program = must(make_function_program(plan, plan.functions[0], 0));
  RunBinding run(plan, plan.functions[0], program);
  LaunchDims dims = must(launch_dims(run, program.variants[0], {}));
  CHECK_FALSE(dims.enabled);
  CHECK(dims.grid == driver::Dim3{2, 1, 4});
}
