// runtime: memory of sessions and frames: the caller's allocator, arenas that grow, runs that
// overlap.
#include "chain.h"
#include "counting_allocator.h"

#include "device/session/session_frames.h"

#include <thread>

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

TEST_CASE("arenas and results come from the caller's allocator, and go back to it") {
  CountingAllocator allocator;
  {
    SessionOptions options;
    options.allocator = allocator.table();
    Chain chain(3, options);
    CHECK(allocator.count == 1); // the arena
    chain.run(5, 0, -1);
    CHECK(allocator.count == 2);
    CHECK(allocator.alive.contains(chain.result.as.tensor.address));
    chain.run(6, 0, -1);
    CHECK(allocator.count == 2);
  }
  CHECK(allocator.right);
  CHECK(allocator.alive.empty());
}

TEST_CASE("an allocator without memory is an error with the figures, and the session goes on") {
  CountingAllocator allocator;
  SessionOptions options;
  options.allocator = allocator.table();
  Chain chain(3, options);
  allocator.limit_bytes = 10;
  Status status = chain.try_run(5, chain.memory[0].address(), 0);
  CHECK(status.code() == Code::out_of_device_memory);
  CHECK(contains(status.message(), "the session holds 2048 bytes of arenas"));
  allocator.limit_bytes = UINT64_MAX;
  chain.run(5, 0, -1);
  allocator.limit_bytes = 10;
  CHECK(Session::open(chain.executable, chain.device, options).status().code() ==
        Code::out_of_device_memory);
}

namespace {

constexpr int64_t kManyRows = 500000; // 8 MB a tensor: several pages of 2 MiB

/// Two tensors in the arena, the second one behind the first one's upper bound.
struct LargeArena : Chain {
  LargeArena() : Chain(PlanMaker::chain(3, kManyRows), 3) {}
  uint64_t committed() { return must(session->totals()).arena_committed_bytes; }
  void run_rows(int64_t n) {
    auto x = must(driver::DeviceBuffer::allocate(device->context(), static_cast<uint64_t>(n) * 16));
    auto y = must(driver::DeviceBuffer::allocate(device->context(), static_cast<uint64_t>(n) * 16));
    std::fill_n(reinterpret_cast<float *>(x.address()), n * 4, 2.0f);
    must(try_run(n, x.address(), y.address()));
    must(session->synchronize());
    auto *out = reinterpret_cast<const float *>(y.address());
    CHECK(std::all_of(out, out + n * 4, [](float value) { return value == 5.0f; }));
  }
};

constexpr uint64_t kPage = uint64_t(2) << 20;
constexpr uint64_t kTensor = uint64_t(kManyRows) * 16;

uint64_t pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

} // namespace

TEST_CASE("an arena's pages are committed as runs need them, at addresses that stay") {
  LargeArena chain;
  CHECK(chain.machine.fake.live().reservations == 1);
  CHECK(chain.committed() == 0); // no tensor has any bytes, wherever it lies
  chain.run_rows(5);
  CHECK(chain.committed() <= pages(kTensor + 256 + 5 * 16));
  size_t instances = must(chain.session->totals()).instances;
  chain.run_rows(300000);
  uint64_t grown = chain.committed();
  CHECK(grown >= kTensor + 300000 * 16);
  CHECK(grown < pages(2 * kTensor + 512));
  chain.run_rows(5);
  CHECK(chain.committed() == grown);
  CHECK(must(chain.session->totals()).instances >= instances);
  chain.run_rows(kManyRows);
  CHECK(chain.committed() >= 2 * kTensor);
  chain.session.reset();
  CHECK(chain.machine.fake.live().reservations == 0);
  CHECK(chain.machine.fake.live().physical == 0);
}

TEST_CASE("where no pages are left, instances go first, then there is an error with the figures") {
  LargeArena chain;
  chain.run_rows(5);
  chain.machine.fake.fail_nth_of("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
  chain.run_rows(300000);
  CHECK(chain.counters().instances_evicted == 1);
  chain.machine.fake.fail_nth_of("cuMemCreate", 1, CUDA_ERROR_INVALID_VALUE);
  auto x = must(driver::DeviceBuffer::allocate(chain.device->context(), kTensor));
  auto y = must(driver::DeviceBuffer::allocate(chain.device->context(), kTensor));
  Status status = chain.try_run(kManyRows, x.address(), y.address());
  CHECK(contains(status.message(), "arena of storage scope 'global'"));
  CHECK(contains(status.message(), "for function @main: the session holds"));
  chain.run_rows(kManyRows);
}

namespace {

/// A session of frames over one executable, on buffers of its own.
struct Framed {
  explicit Framed(uint32_t count, const SessionOptions &options = {}) {
    frames = must(SessionFrames::open(chain.executable, chain.device, options, count));
    for (int i = 0; i < 6; ++i)
      memory.push_back(must(driver::DeviceBuffer::allocate(chain.device->context(), 4096)));
    chain.session.reset();
  }
  cugrt_value run(int x, int y, float a = 1, int64_t n = 5) {
    cugrt_value arguments[] = {tensor(memory[x].address(), {n, 4}), floating(a)};
    cugrt_value result = y < 0 ? cugrt_value{} : tensor(memory[y].address(), {n, 4});
    must(run_values(arguments, {&result, 1}));
    return result;
  }
  Status run_values(std::span<const cugrt_value> arguments, std::span<cugrt_value> results) {
    RunRequest request;
    request.arguments = arguments;
    request.results = results;
    return frames->run(0, request);
  }
  size_t waits() { return chain.machine.fake.count("cuStreamWaitEvent"); }
  float *floats(int i) { return reinterpret_cast<float *>(memory[i].address()); }

  Chain chain;
  std::vector<driver::DeviceBuffer> memory;
  std::unique_ptr<SessionFrames> frames; // ends before the memory
};

} // namespace

TEST_CASE("runs of several frames wait for each other only where they touch the same bytes") {
  Framed framed(3);
  framed.chain.machine.fake.hold(true);
  framed.run(0, 1); // frame 0
  framed.run(0, 2); // frame 1: both only read 0
  CHECK(framed.waits() == 0);
  framed.run(1, 3); // frame 2 reads what frame 0 writes
  CHECK(framed.waits() == 1);
  framed.run(4, 5); // frame 0 again: nothing in common with the others
  CHECK(framed.waits() == 1);
  framed.run(4, 0); // frame 1 writes what frame 0 read, before; its own run of old is in its stream
  CHECK(framed.waits() == 2);
  framed.chain.machine.fake.hold(false);
  must(framed.frames->synchronize());
  framed.run(0, 1);
  CHECK(framed.waits() == 2); // nothing is in flight any more
}

TEST_CASE("each frame has result memory of its own, and what was handed out may come back") {
  Framed framed(2);
  std::fill_n(framed.floats(0), 20, 1.0f);
  cugrt_value first = framed.run(0, -1), second = framed.run(0, -1, 2);
  must(framed.frames->synchronize());
  CHECK(first.as.tensor.address != second.as.tensor.address);
  CHECK(*reinterpret_cast<float *>(first.as.tensor.address) == 4.0f);
  CHECK(*reinterpret_cast<float *>(second.as.tensor.address) == 7.0f);
  cugrt_value again = second; // of frame 1, to frame 0
  cugrt_value arguments[] = {tensor(framed.memory[0].address(), {5, 4}), floating(3)};
  must(framed.run_values(arguments, {&again, 1}));
  CHECK(again.as.tensor.address == first.as.tensor.address);
}

TEST_CASE("frames share the budget, count together and are prepared together") {
  Framed framed(2);
  cugrt_symbol_value n{"n", 5};
  PrepareReport report = must(framed.frames->prepare(0, {&n, 1}));
  CHECK(report.regions == 1);
  CHECK(report.built == 2);
  framed.run(0, 1);
  framed.run(0, 2);
  must(framed.frames->synchronize());
  auto totals = must(framed.frames->totals());
  CHECK(totals.counters.runs == 2);
  CHECK(totals.counters.regions_prepared == 2);
  CHECK(totals.counters.regions_built == 0);
  CHECK(totals.instances == 2);
  SessionOptions options;
  options.cache.policy.budget_bytes = 2 * InstanceCost().bytes(3) - 2; // not one for each
  auto small = must(SessionFrames::open(framed.chain.executable, framed.chain.device, options, 2));
  CHECK(must(small->prepare(0, {&n, 1})).refused == 2);
  CHECK(!SessionFrames::open(framed.chain.executable, framed.chain.device, {}, 65).ok());
}

TEST_CASE("when memory is full, all frames' instances are given up, those made ahead among them") {
  CountingAllocator allocator;
  SessionOptions options;
  options.allocator = allocator.table();
  Framed framed(2, options);
  for (int64_t n = 1; n <= 4; ++n)
    for (int y : {1, 2})
      framed.run(0, y, 1, n);
  cugrt_symbol_value ahead{"n", 9};
  CHECK(must(framed.frames->prepare(0, {&ahead, 1})).built == 2);
  CHECK(framed.chain.machine.fake.live().execs == 10);
  allocator.limit_bytes = 10;
  cugrt_value arguments[] = {tensor(framed.memory[0].address(), {5, 4}), floating(1)};
  cugrt_value result{};
  Status status = framed.run_values(arguments, {&result, 1});
  CHECK(status.code() == Code::out_of_device_memory);
  CHECK(contains(status.message(), "the session holds 4096 bytes of arenas"));
  CHECK(contains(status.message(), "no graph instances, in 2 frames"));
  CHECK(framed.chain.machine.fake.live().execs == 0);
  auto totals = must(framed.frames->totals());
  CHECK(totals.instances == 0);
  CHECK(totals.counters.instances_evicted == 10);
  allocator.limit_bytes = UINT64_MAX;
  framed.run(0, -1);
}

TEST_CASE("the least recently used instance of all frames goes first, repeated launches counted") {
  Framed framed(2);
  framed.run(0, 1, 1, 1); // frame 0
  framed.run(0, 2, 1, 1); // frame 1
  framed.run(0, 1, 1, 1); // a hit in frame 0
  framed.run(0, 2, 1, 2); // frame 1: now its first one is the oldest
  framed.chain.machine.fake.fail_nth_of("cuGraphInstantiateWithParams", 1,
                                        CUDA_ERROR_OUT_OF_MEMORY);
  framed.run(0, 1, 1, 3); // frame 0
  std::vector<uint64_t> keys;
  must(framed.frames->visit_instances([&](const std::vector<GraphCache::View> &views) {
    for (const GraphCache::View &view : views)
      keys.push_back(view.instance->key()[0]);
  }));
  CHECK(keys == std::vector<uint64_t>{1, 3, 2}); // of frame 0, then of frame 1
}

TEST_CASE("records of all frames come in the order of the session's runs, a few at a time, too") {
  SessionOptions options;
  options.log.capacity = 64;
  Framed framed(3, options);
  for (int64_t n = 1; n <= 5; ++n)
    framed.run(0, 1, 1, n);
  // A run that fails while it is being launched has a number of its own, and no record.
  framed.chain.machine.fake.fail_nth_of("cuGraphLaunch", 1, CUDA_ERROR_INVALID_VALUE);
  cugrt_value arguments[] = {tensor(framed.memory[0].address(), {6, 4}), floating(1)};
  CHECK(!framed.run_values(arguments, {}).ok());
  for (int64_t n = 7; n <= 9; ++n)
    framed.run(0, 1, 1, n);
  std::vector<uint64_t> runs, frames;
  std::vector<int64_t> keys;
  std::vector<LaunchRecord> records(3);
  while (size_t count = must(framed.frames->read_launches(records)))
    for (size_t i = 0; i < count; ++i) {
      runs.push_back(records[i].run);
      frames.push_back(records[i].frame);
      keys.push_back(records[i].key[0]);
    }
  CHECK(keys == std::vector<int64_t>{1, 2, 3, 4, 5, 7, 8, 9});
  CHECK(runs == std::vector<uint64_t>{0, 1, 2, 3, 4, 6, 7, 8});
  CHECK(frames == std::vector<uint64_t>{0, 1, 2, 0, 1, 0, 1, 2});
}

TEST_CASE("a second thread is refused while frames are in use") {
  Framed framed(2);
  std::atomic<bool> stop = false;
  std::atomic<int> refused = 0, ran = 0, wrong = 0;
  auto work = [&](int y) {
    cugrt_value arguments[] = {tensor(framed.memory[0].address(), {5, 4}), floating(1)};
    while (!stop) {
      cugrt_value result = tensor(framed.memory[y].address(), {5, 4});
      Status status = framed.run_values(arguments, {&result, 1});
      ++(status.ok() ? ran : status.code() == Code::busy ? refused : wrong);
      if (wrong > 0 || (ran > 2000 && (refused > 0 || ran > 100000)))
        stop = true;
    }
  };
  std::thread other(work, 1);
  work(2);
  other.join();
  CHECK(ran > 2000);
  CHECK(wrong == 0);
}
