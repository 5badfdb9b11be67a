// CUGRT_EMU_ORDER: what CUDA leaves unordered shows under some seed, what it orders under none.
#include "emulator/unit/driver/graph_builder.h"

#include <functional>
#include <numeric>
#include <set>

namespace {

constexpr char kDrawnOrderPtx[] = PTX_HEAD R"(
// b[i] = a[i], a thread an element
.visible .entry copy(.param .u64 a, .param .u64 b)
{
  .reg .b32 %r<5>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [a];
  ld.param.u64 %d2, [b];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mul.wide.u32 %d3, %r1, 4;
  add.u64 %d4, %d1, %d3;
  add.u64 %d5, %d2, %d3;
  ld.global.u32 %r4, [%d4];
  st.global.u32 [%d5], %r4;
  ret;
}

// out[i] = 255 - i through shared memory, by blocks of 256
.visible .entry reverse(.param .u64 out, .param .u32 waits)
{
  .shared .align 4 .b8 cells[1024];
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  ld.param.u32 %r1, [waits];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, cells;
  shl.b32 %r4, %r2, 2;
  add.u32 %r5, %r3, %r4;
  st.shared.u32 [%r5], %r2;
  setp.eq.u32 %p, %r1, 0;
  @%p bra READ;
  bar.sync 0;
READ:
  sub.u32 %r6, 1020, %r4;
  add.u32 %r6, %r3, %r6;
  ld.shared.u32 %r7, [%r6];
  mul.wide.u32 %d2, %r2, 4;
  add.u64 %d3, %d1, %d2;
  st.global.u32 [%d3], %r7;
  ret;
}

// out[block] = how many came before it
.visible .entry ticket(.param .u64 counter, .param .u64 out)
{
  .reg .b32 %r<3>;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [counter];
  ld.param.u64 %d2, [out];
  atom.global.add.u32 %r1, [%d1], 1;
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %d3, %r2, 4;
  add.u64 %d4, %d2, %d3;
  st.global.u32 [%d4], %r1;
  ret;
}

// *cell += 1 by each block, which a block in between undoes
.visible .entry count_badly(.param .u64 cell)
{
  .reg .b32 %r<3>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [cell];
  ld.global.u32 %r1, [%d1];
  add.u32 %r2, %r1, 1;
  st.global.u32 [%d1], %r2;
  ret;
}

// waits until every block has come
.visible .entry meet(.param .u64 counter, .param .u32 blocks)
{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [counter];
  ld.param.u32 %r1, [blocks];
  atom.global.add.u32 %r2, [%d1], 1;
WAIT:
  ld.volatile.global.u32 %r3, [%d1];
  setp.lt.u32 %p, %r3, %r1;
  @%p bra WAIT;
  ret;
}
)";

constexpr char kClusterPtx[] = R"(
.version 8.3
.target sm_90
.address_size 64

// out[i] = 255 - i, by clusters of two blocks of 128 that read each other's shared memory
.visible .entry exchange(.param .u64 out, .param .u32 waits) .reqnctapercluster 2
{
  .shared .align 4 .b8 cells[512];
  .reg .pred %p;
  .reg .b32 %r<12>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [out];
  ld.param.u32 %r1, [waits];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %cluster_ctarank;
  mad.lo.u32 %r4, %r3, 128, %r2;
  mov.u32 %r5, cells;
  shl.b32 %r6, %r2, 2;
  add.u32 %r7, %r5, %r6;
  st.shared.u32 [%r7], %r4;
  setp.eq.u32 %p, %r1, 0;
  @%p bra READ;
  barrier.cluster.arrive;
  barrier.cluster.wait;
READ:
  xor.b32 %r8, %r3, 1;
  mapa.shared::cluster.u32 %r9, %r5, %r8;
  sub.u32 %r10, 508, %r6;
  add.u32 %r9, %r9, %r10;
  ld.shared::cluster.u32 %r11, [%r9];
  mul.wide.u32 %d2, %r4, 4;
  add.u64 %d3, %d1, %d2;
  st.global.u32 [%d3], %r11;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}

// out[i] = 255 - i through shared memory, by 256 threads that meet at a barrier there
.visible .entry count_arrivals(.param .u64 out, .param .u32 waits)
{
  .shared .align 4 .b8 cells[1024];
  .shared .align 8 .b64 barrier;
  .reg .pred %p, %done;
  .reg .b32 %r<9>;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [out];
  ld.param.u32 %r1, [waits];
  mov.u32 %r2, %tid.x;
  mov.u32 %r8, barrier;
  setp.eq.u32 %p, %r2, 0;
  @%p mbarrier.init.shared.b64 [%r8], 256;
  bar.sync 0;
  mov.u32 %r3, cells;
  shl.b32 %r4, %r2, 2;
  add.u32 %r5, %r3, %r4;
  st.shared.u32 [%r5], %r2;
  mbarrier.arrive.shared.b64 %d4, [%r8];
  setp.eq.u32 %p, %r1, 0;
  @%p bra READ;
WAIT:
  mbarrier.try_wait.shared.b64 %done, [%r8], %d4;
  @!%done bra WAIT;
READ:
  sub.u32 %r6, 1020, %r4;
  add.u32 %r6, %r3, %r6;
  ld.shared.u32 %r7, [%r6];
  mul.wide.u32 %d2, %r2, 4;
  add.u64 %d3, %d1, %d2;
  st.global.u32 [%d3], %r7;
  ret;
}
)";

constexpr int kSeeds = 24;

struct Drawn : Session {
  explicit Drawn(int seed, const char *ptx = kDrawnOrderPtx)
      : Session{"CUGRT_EMU_CHECK=none", "CUGRT_EMU_ORDER=" + std::to_string(seed)}, module(ptx) {}
  template <class... A>
  void launch(const char *name, unsigned grid, unsigned block, CUstream stream, A... arguments) {
    launch_kernel(kernel(module, name), grid, block, stream, arguments...);
  }
  /// A node of blocks of one thread.
  CUgraphNode add(Builder &graph, const char *name, unsigned grid, void **params,
                  Builder::Nodes before = {}) {
    CUDA_KERNEL_NODE_PARAMS_v2 p = one_thread(kernel(module, name), params);
    p.gridDimX = grid;
    return MADE(cuGraphAddKernelNode_v2, graph.graph, before.data(), before.size(), &p);
  }
  Module module;
  Stream a, b;
};

/// Under how many seeds the body is true.
int seeds_that_show(const std::function<bool(Drawn &)> &body, const char *ptx = kDrawnOrderPtx) {
  int shown = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Drawn drawn(seed, ptx);
    shown += body(drawn);
    OK(CU(cuCtxSynchronize)());
  }
  return shown;
}

std::vector<uint32_t> numbers(size_t count, uint32_t first = 0) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

CUdeviceptr upload_and_wait(const std::vector<uint32_t> &values) {
  CUdeviceptr address = upload(values);
  OK(CU(cuCtxSynchronize)());
  return address;
}

/// Under how many seeds 256 threads in blocks of `block` do not write 255 to 0.
int seeds_that_disturb(const char *ptx, const char *name, unsigned block, uint32_t waits) {
  auto wrong = [&](Drawn &drawn) {
    CUdeviceptr out = upload_and_wait(std::vector<uint32_t>(256));
    drawn.launch(name, 256 / block, block, drawn.a, out, waits);
    OK(CU(cuStreamSynchronize)(drawn.a));
    auto seen = download<uint32_t>(out, 256);
    std::reverse(seen.begin(), seen.end());
    return seen != numbers(256);
  };
  return seeds_that_show(wrong, ptx);
}

} // namespace

TEST_CASE("An upload that nobody waits for is late under some seed") {
  auto stale = [](bool waits) {
    return seeds_that_show([&](Drawn &drawn) {
      auto values = numbers(256, 7);
      CUdeviceptr from = upload_and_wait(std::vector<uint32_t>(256)),
                  to = upload_and_wait(std::vector<uint32_t>(256));
      OK(CU(cuMemcpyHtoD_v2)(from, values.data(), 1024));
      std::vector<uint32_t> expected = std::exchange(values, std::vector<uint32_t>(256, 99));
      if (waits)
        OK(CU(cuStreamSynchronize)(nullptr));
      drawn.launch("copy", 1, 256, drawn.a, from, to);
      OK(CU(cuStreamSynchronize)(drawn.a));
      return download<uint32_t>(to, 256) != expected;
    });
  };
  CHECK(stale(false) > 0);
  CHECK(stale(true) == 0);
}

TEST_CASE("A copy within the device that nobody waits for is late under some seed") {
  CHECK(seeds_that_show([](Drawn &drawn) {
          CUdeviceptr from = upload_and_wait({5}), to = upload_and_wait({6});
          OK(CU(cuMemcpyDtoD_v2)(to, from, 4));
          uint32_t seen = 0;
          OK(CU(cuMemcpyDtoHAsync_v2)(&seen, to, 4, drawn.a));
          return seen == 6;
        }) > 0);
}

TEST_CASE("A missing edge shows under some seed, and an edge under none") {
  std::set<uint32_t> unordered, ordered;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Drawn drawn(seed);
    for (bool edge : {false, true}) {
      Builder graph;
      CUdeviceptr cell = upload_and_wait({1});
      CUgraphNode first = graph.affine(cell, 3, 0);
      edge ? graph.affine(cell, 1, 1, {first}) : graph.affine(cell, 1, 1);
      Exec exec(graph.graph);
      launch_graph(exec, drawn.a);
      (edge ? ordered : unordered).insert(download<uint32_t>(cell, 1)[0]);
    }
  }
  CHECK(unordered.size() > 1);
  CHECK(ordered == std::set<uint32_t>{4});
}

TEST_CASE("A missing wait between streams shows under some seed, and a wait under none") {
  auto stale = [](bool waits) {
    return seeds_that_show([&](Drawn &drawn) {
      auto values = numbers(1024, 1);
      CUdeviceptr first = upload_and_wait(values),
                  second = upload_and_wait(std::vector<uint32_t>(1024)),
                  third = upload_and_wait(std::vector<uint32_t>(1024));
      CUevent event = MADE(cuEventCreate, CU_EVENT_DISABLE_TIMING);
      drawn.launch("copy", 8, 128, drawn.a, first, second);
      OK(CU(cuEventRecord)(event, drawn.a));
      if (waits)
        OK(CU(cuStreamWaitEvent)(drawn.b, event, 0));
      drawn.launch("copy", 8, 128, drawn.b, second, third);
      OK(CU(cuStreamSynchronize)(drawn.b));
      OK(CU(cuEventDestroy_v2)(event));
      return download<uint32_t>(third, 1024) != values;
    });
  };
  CHECK(stale(false) > 0);
  CHECK(stale(true) == 0);
}

TEST_CASE("Kernels that nothing orders may run between each other's blocks") {
  CHECK(seeds_that_show([](Drawn &drawn) {
          CUdeviceptr first = upload_and_wait(std::vector<uint32_t>(64, 1)),
                      second = upload_and_wait(std::vector<uint32_t>(64)),
                      third = upload_and_wait(std::vector<uint32_t>(64));
          drawn.launch("copy", 64, 1, drawn.a, first, second);
          drawn.launch("copy", 64, 1, drawn.b, second, third);
          OK(CU(cuCtxSynchronize)());
          auto seen = download<uint32_t>(third, 64);
          uint32_t sum = std::accumulate(seen.begin(), seen.end(), 0u);
          return sum > 0 && sum < 64;
        }) > 0);
}

TEST_CASE("Nodes of a graph that nothing orders may run between each other's blocks") {
  auto between = [](bool edge) {
    return seeds_that_show([&](Drawn &drawn) {
      CUdeviceptr first = upload_and_wait(std::vector<uint32_t>(64, 1)),
                  second = upload_and_wait(std::vector<uint32_t>(64)),
                  third = upload_and_wait(std::vector<uint32_t>(64));
      void *params[] = {&first, &second}, *params2[] = {&second, &third};
      Builder graph;
      CUgraphNode node = drawn.add(graph, "copy", 64, params);
      drawn.add(graph, "copy", 64, params2, edge ? Builder::Nodes{node} : Builder::Nodes{});
      CUgraphExec exec = graph.instantiate();
      launch_graph(exec, drawn.a);
      OK(CU(cuGraphExecDestroy)(exec));
      auto seen = download<uint32_t>(third, 64);
      uint32_t sum = std::accumulate(seen.begin(), seen.end(), 0u);
      return edge ? sum != 64 : sum > 0 && sum < 64;
    });
  };
  CHECK(between(false) > 0);
  CHECK(between(true) == 0);
}

TEST_CASE("A missing barrier shows under some seed, and a barrier under none") {
  CHECK(seeds_that_disturb(kDrawnOrderPtx, "reverse", 256, 0) > 0);
  CHECK(seeds_that_disturb(kDrawnOrderPtx, "reverse", 256, 1) == 0);
}

TEST_CASE("A missing barrier of a cluster shows under some seed, and a barrier under none") {
  CHECK(seeds_that_disturb(kClusterPtx, "exchange", 128, 0) > 0);
  CHECK(seeds_that_disturb(kClusterPtx, "exchange", 128, 1) == 0);
}

TEST_CASE(
    "A missing wait for a barrier in shared memory shows under some seed, a wait under none") {
  CHECK(seeds_that_disturb(kClusterPtx, "count_arrivals", 256, 0) > 0);
  CHECK(seeds_that_disturb(kClusterPtx, "count_arrivals", 256, 1) == 0);
}

TEST_CASE("Blocks run in any order, and the same seed gives the same one") {
  std::set<std::vector<uint32_t>> orders;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    std::vector<uint32_t> order;
    for (int again = 0; again < 2; ++again) {
      Drawn drawn(seed);
      CUdeviceptr counter = upload_and_wait({0}), out = upload_and_wait(std::vector<uint32_t>(5));
      drawn.launch("ticket", 5, 1, drawn.a, counter, out);
      OK(CU(cuStreamSynchronize)(drawn.a));
      auto seen = download<uint32_t>(out, 5);
      if (again)
        CHECK(seen == order);
      order = seen;
      std::sort(seen.begin(), seen.end());
      CHECK(seen == numbers(5));
    }
    orders.insert(order);
  }
  CHECK(orders.size() > 5);
}

TEST_CASE(
    "Two streams, a graph and a host function have one order a seed, and others have others") {
  constexpr size_t kTickets = 5;
  std::set<std::vector<uint32_t>> orders;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    std::vector<uint32_t> order;
    for (int again = 0; again < 2; ++again) {
      Drawn drawn(seed);
      // The host function takes a ticket too, of memory that it shares with the kernels.
      uint32_t *shared = nullptr;
      OK(CU(cuMemHostAlloc)(reinterpret_cast<void **>(&shared), 64, CU_MEMHOSTALLOC_DEVICEMAP));
      std::fill_n(shared, 16, 0);
      CUdeviceptr counter = 0, out = upload_and_wait(std::vector<uint32_t>(4 * kTickets));
      OK(CU(cuMemHostGetDevicePointer_v2)(&counter, shared, 0));
      CUdeviceptr outs[4];
      for (size_t i = 0; i < 4; ++i)
        outs[i] = out + i * kTickets * 4;
      Builder graph;
      for (size_t i : {2, 3}) { // nodes that nothing orders
        void *params[] = {&counter, &outs[i]};
        drawn.add(graph, "ticket", kTickets, params);
      }
      CUgraphExec exec = graph.instantiate();
      OK(CU(cuLaunchHostFunc)(
          drawn.a,
          [](void *cells) {
            auto *counts = static_cast<uint32_t *>(cells);
            counts[1] = counts[0]++;
          },
          shared));
      drawn.launch("ticket", kTickets, 1, drawn.a, counter, outs[0]);
      drawn.launch("ticket", kTickets, 1, drawn.b, counter, outs[1]);
      OK(CU(cuGraphLaunch)(exec, drawn.b));
      OK(CU(cuCtxSynchronize)());
      auto seen = download<uint32_t>(out, 4 * kTickets);
      seen.push_back(shared[1]);
      OK(CU(cuGraphExecDestroy)(exec));
      OK(CU(cuMemFreeHost)(shared));
      if (again)
        CHECK(seen == order);
      order = seen;
      std::sort(seen.begin(), seen.end());
      CHECK(seen == numbers(4 * kTickets + 1));
    }
    orders.insert(order);
  }
  CHECK(orders.size() > kSeeds / 2);
}

TEST_CASE("Blocks that count without atomics lose some under some seed") {
  CHECK(seeds_that_show([](Drawn &drawn) {
          CUdeviceptr cell = upload_and_wait({0});
          drawn.launch("count_badly", 256, 1, drawn.a, cell);
          OK(CU(cuStreamSynchronize)(drawn.a));
          return download<uint32_t>(cell, 1)[0] < 256;
        }) > 0);
}

TEST_CASE("Blocks that wait for one another end under every seed") {
  CHECK(seeds_that_show([](Drawn &drawn) {
          CUdeviceptr counter = upload_and_wait({0});
          uint32_t blocks = 132; // one a multiprocessor: all of them fit
          drawn.launch("meet", blocks, 64, drawn.a, counter, blocks);
          return CU(cuStreamSynchronize)(drawn.a) == CUDA_SUCCESS;
        }) == kSeeds);
}

TEST_CASE("A host function is late under some seed, and never behind its stream's end") {
  int late = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Drawn drawn(seed);
    std::atomic<int> called{0};
    auto call = [](void *user) { ++*static_cast<std::atomic<int> *>(user); };
    CUdeviceptr cell = upload_and_wait({0});
    OK(CU(cuLaunchHostFunc)(drawn.a, call, &called));
    OK(CU(cuMemsetD32Async)(cell, 1, 1, drawn.b));
    OK(CU(cuStreamSynchronize)(drawn.b));
    late += called == 0;
    OK(CU(cuStreamSynchronize)(drawn.a));
    CHECK(called == 1);
  }
  CHECK(late > 0);
  CHECK(late < kSeeds);
}

TEST_CASE("A free in a stream is late under some seed, and never behind its stream's end") {
  CHECK(seeds_that_show([](Drawn &drawn) {
          uint64_t before = statistics().allocations;
          CUdeviceptr address = 0, cell = upload_and_wait({0});
          OK(CU(cuMemAllocAsync)(&address, 64, drawn.a));
          OK(CU(cuMemFreeAsync)(address, drawn.a));
          OK(CU(cuMemsetD32Async)(cell, 1, 1, drawn.b));
          OK(CU(cuStreamSynchronize)(drawn.b));
          bool late = statistics().allocations == before + 2;
          OK(CU(cuStreamSynchronize)(drawn.a));
          CHECK(statistics().allocations == before + 1);
          return late;
        }) > 0);
}

TEST_CASE("A program that asks, or that only looks, sees the end under every seed") {
  for (int seed = 1; seed <= 4; ++seed) {
    Drawn drawn(seed);
    std::atomic<bool> called{false};
    auto call = [](void *user) { *static_cast<std::atomic<bool> *>(user) = true; };
    OK(CU(cuLaunchHostFunc)(drawn.a, call, &called));
    while (CU(cuStreamQuery)(drawn.a) == CUDA_ERROR_NOT_READY) {
    }
    CHECK(called);
    called = false;
    OK(CU(cuLaunchHostFunc)(drawn.a, call, &called));
    while (!called)
      std::this_thread::yield();
  }
}

TEST_CASE("A callback that waits for the program holds up no other stream for ever") {
  Drawn drawn(3);
  Gate gate;
  CUdeviceptr cell = upload_and_wait({0});
  OK(CU(cuLaunchHostFunc)(drawn.a, Gate::wait, &gate));
  OK(CU(cuMemsetD32Async)(cell, 5, 1, drawn.b));
  OK(CU(cuStreamSynchronize)(drawn.b));
  gate.open = true;
  OK(CU(cuStreamSynchronize)(drawn.a));
  CHECK(download<uint32_t>(cell, 1)[0] == 5);
}
