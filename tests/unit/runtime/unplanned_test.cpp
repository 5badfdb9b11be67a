// runtime: memory of tensors that the plan has no place for.
#include "chain.h"
#include "counting_allocator.h"

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

/// y = x + 2 * a, step by step, by way of %t, which is allocated during the run.
plan::Plan through_unplanned() {
  PlanMaker maker;
  const uint32_t x = maker.tensor_param("x"), a = maker.float_param("a"), y = maker.result();
  const uint32_t t = maker.buffer("t", plan::BufferBase::dynamic, 0);
  maker.function().dynamic_count = 1;
  maker.step(x, t, a);
  maker.step(t, y, a);
  using plan::ItemKind;
  for (auto [kind, index] : {std::pair{ItemKind::allocate, t}, std::pair{ItemKind::step, 0u},
                             std::pair{ItemKind::step, 1u}, std::pair{ItemKind::release, t}}) {
    plan::Item item;
    item.kind = kind;
    item.index = index;
    maker.function().blocks[0].items.push_back(item);
  }
  return std::move(maker.plan);
}

/// A stream that stands for a session's, and memory that has two blocks of a size in each run.
struct Unplanned {
  driver::StreamRef stream() const { return own_stream.ref(); }
  void run(uint64_t bytes) {
    must(memory.next_run(stream()));
    const uint64_t one = must(memory.allocate(bytes, stream()));
    const uint64_t two = must(memory.allocate(bytes, stream()));
    must(memory.release(one, stream()));
    must(memory.release(two, stream()));
  }

  CountingAllocator allocator;
  std::shared_ptr<const cugrt_allocator> table = allocator.table();
  TestDevice machine;
  std::shared_ptr<Device> device = machine.open();
  driver::ContextGuard guard = must(device->context().enter());
  driver::Stream own_stream = must(driver::Stream::create(device->context()));
  DynamicMemory memory{*device, table.get()};
};

} // namespace

TEST_CASE("unplanned blocks that runs leave are given back once their work has ended") {
  Unplanned unplanned;
  for (uint64_t run = 1; run <= 1000; ++run)
    unplanned.run(run * 4);
  CHECK(unplanned.allocator.count == 2000); // none fits the next run
  CHECK(unplanned.allocator.alive.size() <= 16);
  CHECK(unplanned.machine.fake.count("cuStreamSynchronize") == 0);
  CHECK(unplanned.machine.fake.count("cuEventSynchronize") == 0);
  unplanned.memory.all_done();
  CHECK(unplanned.allocator.alive.empty());
  CHECK(unplanned.allocator.right);
}

TEST_CASE("unplanned blocks of shapes that come in turns stay, at the cost of no driver call") {
  Unplanned unplanned;
  for (uint64_t run = 0; run < 4; ++run)
    unplanned.run(run % 2 ? 1 << 10 : 1 << 16);
  const uint64_t calls = unplanned.machine.fake.call_count();
  for (uint64_t run = 0; run < 100; ++run)
    unplanned.run(run % 2 ? 1 << 10 : 1 << 16);
  CHECK(unplanned.allocator.count == 4);
  CHECK(unplanned.machine.fake.call_count() == calls);
}

TEST_CASE("unplanned blocks whose work goes on stay, but not without bound") {
  Unplanned unplanned;
  unplanned.machine.fake.hold(true);
  for (uint64_t run = 1; run <= 30; ++run)
    unplanned.run(run * 4);
  CHECK(unplanned.allocator.alive.size() == 60);
  CHECK(unplanned.machine.fake.count("cuStreamSynchronize") == 0);
  for (uint64_t run = 31; run <= 330; ++run) {
    unplanned.run(run * 4);
    REQUIRE(unplanned.allocator.alive.size() <= 66);
  }
  CHECK(unplanned.machine.fake.count("cuStreamSynchronize") > 0);
  unplanned.machine.fake.hold(false);
}

TEST_CASE("where memory is full a session waits for its runs and takes back what they released") {
  CountingAllocator allocator;
  SessionOptions options;
  options.allocator = allocator.table();
  Chain chain(through_unplanned(), 2, options);
  auto run = [&](int64_t n) { // without waiting
    return chain.try_run(n, chain.memory[0].address(), chain.memory[1].address());
  };
  allocator.total_limit_bytes = 1200;
  chain.machine.fake.hold(true);
  for (int64_t n : {1, 4, 16, 40, 64}) // 16 bytes each: 1024 of 1200 in the end
    must(run(n));
  CHECK(allocator.live_bytes() <= 1200);
  chain.machine.fake.hold(false);
  chain.run(3);

  SECTION("and an error, when that was not enough, says what they hold") {
    allocator.total_limit_bytes = 1000;
    Status status = run(64);
    CHECK(status.code() == Code::out_of_device_memory);
    CHECK(contains(status.message(), "tensor %t, 1024 bytes: unplanned tensors hold 0 bytes: "));
    CHECK(allocator.alive.size() <= 1); // the arena
    chain.run(60);
  }
  SECTION("for a result, too") {
    must(run(40)); // 640 bytes are kept
    cugrt_value arguments[] = {tensor(chain.memory[0].address(), {5, 4}), floating(1)};
    cugrt_value result{};
    allocator.total_limit_bytes = 640;
    must(chain.session->run(0, {arguments, {&result, 1}})); // 80 for the result, 80 for %t
    CHECK(allocator.live_bytes() <= 640);
    must(chain.session->synchronize());
  }
}
