// What only hardware can confirm of the driver's behaviour, as cases that say what the runtime
// expects. They run on every driver; what they tell by WARN on a GPU is for people, and stands in
// the report of ./dev gpu.
#include "support/driver_under_test.h"
#include "support/must.h"

#include "device/context/instance_cost.h"
#include "device/driver/graph.h"
#include "device/driver/memory.h"
#include "jit/compiler.h"

#include <algorithm>
#include <chrono>

using namespace cugrt;
using namespace cugrt::driver;
using cugrt::test::must;

namespace {

constexpr const char *kSource = R"(
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);
extern "C" __global__ void set(unsigned long long handle, unsigned int value) {
  cudaGraphSetConditional(handle, value);
}
extern "C" __global__ void add(int *to, const int *from, int more) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[i] + more;
}
extern "C" __global__ void add_often(volatile int *to, int often, int more) {
  for (int i = 0; i < often; ++i)
    *to += more;
}
extern "C" __global__ void nothing() {}
)";

constexpr int kThreads = 256;

/// A context that is current, the kernels and a stream.
struct Machine {
  Machine()
      : context(must(Context::retain_primary(driver_under_test().api, 0))),
        current(must(context.enter())), stream(must(Stream::create(context))) {
    const bool emulated = driver_under_test().emulated;
    jit::CompilerConfig config;
    config.cache.disk = false;
    config.newest_major = driver_under_test().version / 1000;
    jit::CompileRequest request;
    request.name = "contact";
    request.source = kSource;
    request.kind = emulated ? jit::OutputKind::ptx : jit::OutputKind::cubin;
    request.architecture = context.architecture();
    module = must(KernelModule::load(context, must(jit::Compiler(config).compile(request)).bytes,
                                     "contact.cu"));
  }
  LaunchParams launch(const char *kernel, uint32_t blocks, uint32_t threads, void **arguments) {
    return {must(module.kernel(kernel)).get(), {blocks, 1, 1}, {threads, 1, 1}, 0, arguments, {}};
  }
  Context context;
  ContextGuard current;
  Stream stream;
  KernelModule module;
};

bool has_conditions() { return driver_under_test().capabilities().conditional_if_while; }

} // namespace

TEST_CASE("a graph on a stream of ours never runs ahead of an upload from pageable memory") {
  // Seen by others with plain cuMemcpyHtoD: 1.1 MB and more, 146 of 200 runs read what was before.
  Machine machine;
  const int blocks = 1100, count = blocks * kThreads;
  DeviceBuffer from = must(DeviceBuffer::allocate(machine.context, count * 4));
  DeviceBuffer to = must(DeviceBuffer::allocate(machine.context, count * 4));
  uint64_t to_address = to.address(), from_address = from.address();
  int more = 1;
  void *arguments[] = {&to_address, &from_address, &more};
  Graph graph = must(Graph::create(machine.context));
  (void)must(graph.ref().add_kernel(machine.launch("add", blocks, kThreads, arguments), {}, "add"));
  GraphExec exec = must(GraphExec::instantiate(graph.ref(), "main"));
  REQUIRE(exec.upload(machine.stream.ref()).ok());
  const int runs = driver_under_test().emulated ? 5 : 200;
  int stale = 0;
  std::vector<int> host(count), back(count);
  for (int run = 0; run < runs; ++run) {
    std::fill(host.begin(), host.end(), run);
    REQUIRE(copy_to_device(machine.context, from.address(), host.data(), count * 4).ok());
    REQUIRE(exec.launch(machine.stream.ref(), "main").ok());
    REQUIRE(machine.stream.ref().synchronize().ok());
    REQUIRE(copy_to_host(machine.context, back.data(), to.address(), count * 4).ok());
    stale += std::any_of(back.begin(), back.end(), [&](int value) { return value != run + 1; });
  }
  CHECK(stale == 0);
}

TEST_CASE(
    "edges read back as they were added: full ones with the node, programmatic ones after it") {
  Machine machine;
  if (!driver_under_test().capabilities().edge_data || machine.context.capability() < 90)
    return;
  Graph graph = must(Graph::create(machine.context));
  LaunchParams launch = machine.launch("nothing", 1, 1, nullptr);
  std::vector<GraphNode> before;
  for (int i = 0; i < 4; ++i)
    before.push_back(must(graph.ref().add_kernel(launch, {}, "before")));
  GraphNode last = must(graph.ref().add_kernel(launch, std::span(before).first(2), "last"));
  REQUIRE(graph.ref().add_programmatic_edges(std::span(before).last(2), last).ok());
  CUgraphNode from[4], to[4];
  CUgraphEdgeData data[4];
  size_t count = 4;
  REQUIRE(driver_under_test().api.GraphGetEdges_v2(graph.get(), from, to, data, &count) ==
          CUDA_SUCCESS);
  REQUIRE(count == 4);
  for (size_t i = 0; i < count; ++i) {
    const bool programmatic = from[i] == before[2] || from[i] == before[3];
    CHECK(to[i] == last);
    CHECK((data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) == programmatic);
    CHECK((data[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC) == programmatic);
  }
}

TEST_CASE("setters of nodes in bodies work or are refused, and a disabled body does not hang") {
  // Expected: refused as a whole, or taken over by the next launch. The body keeps a kernel that
  // does nothing, so that it has work whatever is disabled.
  if (!has_conditions())
    return;
  Machine machine;
  DeviceBuffer memory = must(DeviceBuffer::allocate(machine.context, 2 * kThreads * 4));
  std::vector<int> zeros(2 * kThreads);
  REQUIRE(copy_to_device(machine.context, memory.address(), zeros.data(), zeros.size() * 4).ok());
  uint64_t from = memory.address(), to = from + kThreads * 4;
  int more = 3;
  unsigned taken = 1;
  void *arguments[] = {&to, &from, &more};
  Graph graph = must(Graph::create(machine.context));
  CUgraphConditionalHandle condition = must(graph.ref().create_condition(0));
  void *set_arguments[] = {&condition, &taken};
  GraphNode set =
      must(graph.ref().add_kernel(machine.launch("set", 1, 1, set_arguments), {}, "set"));
  ConditionalNode branch = must(
      graph.ref().add_conditional(condition, CU_GRAPH_COND_TYPE_IF, 1, std::vector{set}, "if"));
  LaunchParams add = machine.launch("add", 1, kThreads, arguments);
  GraphNode node = must(branch.bodies[0].add_kernel(add, {}, "add"));
  (void)must(branch.bodies[0].add_kernel(machine.launch("nothing", 1, 1, nullptr), {}, "nothing"));
  GraphExec exec = must(GraphExec::instantiate(graph.ref(), "main"));
  REQUIRE(exec.upload(machine.stream.ref()).ok());
  auto run = [&] {
    REQUIRE(copy_to_device(machine.context, to, zeros.data(), kThreads * 4).ok());
    REQUIRE(exec.launch(machine.stream.ref(), "main").ok());
    REQUIRE(machine.stream.ref().synchronize().ok());
    int got = -1;
    REQUIRE(copy_to_host(machine.context, &got, to, 4).ok());
    return got;
  };
  CHECK(run() == 3);
  more = 5;
  const bool sets = exec.set_kernel(node, add, "add").ok();
  CHECK(run() == (sets ? 5 : 3));
  const bool disables = exec.set_enabled(node, false, "add").ok();
  CHECK(run() == (disables ? 0 : sets ? 5 : 3));
  WARN("setters in bodies: parameters " << (sets ? "work" : "are refused") << ", disabling "
                                        << (disables ? "works" : "is refused"));
}

TEST_CASE("what a patch of the launch dimensions costs every later replay is told") {
  // Seen by others on H200, driver 595, beyond 128 nodes: 0.1 us a node, for good. The policy
  // reckons with that; arguments alone should cost nothing once the instance is on the device.
  Machine machine;
  const int nodes = 365, replays = driver_under_test().emulated ? 2 : 200;
  DeviceBuffer memory = must(DeviceBuffer::allocate(machine.context, 2 * kThreads * 4));
  uint64_t from = memory.address(), to = from + kThreads * 4;
  int more = 1;
  void *arguments[] = {&to, &from, &more};
  std::vector<int> zeros(2 * kThreads);
  REQUIRE(copy_to_device(machine.context, from, zeros.data(), zeros.size() * 4).ok());
  Graph graph = must(Graph::create(machine.context));
  std::vector<GraphNode> chain;
  const LaunchParams two = machine.launch("add", 2, kThreads / 2, arguments);
  for (int i = 0; i < nodes; ++i)
    chain.push_back(must(
        graph.ref().add_kernel(two, i ? Dependencies(&chain.back(), 1) : Dependencies(), "add")));
  GraphExec exec = must(GraphExec::instantiate(graph.ref(), "main"));
  REQUIRE(exec.upload(machine.stream.ref()).ok());
  Event start = must(Event::create(machine.context, Event::Timing::on));
  Event end = must(Event::create(machine.context, Event::Timing::on));
  auto replay_us = [&] {
    float best = 1e30f;
    for (int i = 0; i < 5; ++i) {
      REQUIRE(start.record(machine.stream.ref()).ok());
      for (int r = 0; r < replays; ++r)
        REQUIRE(exec.launch(machine.stream.ref(), "main").ok());
      REQUIRE(end.record(machine.stream.ref()).ok());
      REQUIRE(end.synchronize().ok());
      best = std::min(best, must(end.milliseconds_since(start)) * 1000 / float(replays));
    }
    return best;
  };
  const float fresh = replay_us();
  more = 2;
  for (GraphNode node : chain)
    REQUIRE(exec.set_kernel(node, two, "add").ok());
  const float arguments_patched = replay_us();
  const LaunchParams one = machine.launch("add", 1, kThreads, arguments);
  for (GraphNode node : chain)
    REQUIRE(exec.set_kernel(node, one, "add").ok());
  const float dims_patched = replay_us();
  WARN("replay of " << nodes << " nodes: " << fresh << " us; arguments patched "
                    << arguments_patched << " us; dimensions patched " << dims_patched << " us, "
                    << (dims_patched - arguments_patched) * 1000 / float(nodes)
                    << " ns a node more");
  int got = 0;
  REQUIRE(copy_to_host(machine.context, &got, to, 4).ok());
  CHECK(got == 2);
}

TEST_CASE("as many addresses as a device gives are told") {
  // Some boards refuse 32 GiB; an arena then takes half, and half of that, and so on.
  Machine machine;
  if (!must(VirtualRange::available(machine.context)))
    return;
  uint64_t bytes = uint64_t(64) << 30;
  while (bytes > (uint64_t(2) << 20) && !VirtualRange::reserve(machine.context, bytes).ok())
    bytes /= 2;
  WARN("addresses in one reservation: " << (bytes >> 20) << " MiB");
  CHECK(VirtualRange::reserve(machine.context, bytes).ok());
}

TEST_CASE("what a setter costs the next launch while the launch before it runs is told") {
  // A driver may wait for the running launch, copy the instance, or patch it in stream order. What
  // runs keeps what it was launched with.
  Machine machine;
  const int often = driver_under_test().emulated ? 200 : 50'000, nodes = 200;
  DeviceBuffer memory = must(DeviceBuffer::allocate(machine.context, 4));
  uint64_t to = memory.address();
  int got = 0, more = 1, rounds = often;
  REQUIRE(copy_to_device(machine.context, to, &got, 4).ok());
  void *arguments[] = {&to, &rounds, &more};
  const LaunchParams add = machine.launch("add_often", 1, 1, arguments);
  const LaunchParams nothing = machine.launch("nothing", 1, 1, nullptr);
  Graph graph = must(Graph::create(machine.context));
  const GraphNode first = must(graph.ref().add_kernel(add, {}, "add_often"));
  GraphNode last = first;
  for (int i = 1; i < nodes; ++i)
    last = must(graph.ref().add_kernel(nothing, Dependencies(&last, 1), "nothing"));
  GraphExec exec = must(GraphExec::instantiate(graph.ref(), "main"));
  REQUIRE(exec.upload(machine.stream.ref()).ok());
  Event ended = must(Event::create(machine.context));
  auto microseconds = [](auto call) {
    const auto begin = std::chrono::steady_clock::now();
    REQUIRE(call().ok());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    return took.count();
  };
  auto launch = [&] { return exec.launch(machine.stream.ref(), "main"); };
  auto set = [&] { return exec.set_kernel(first, add, "add_often"); };
  double set_us = 0;
  bool runs = false; // still, once the second launch has been given
  auto second_launch_us = [&](bool setter) {
    REQUIRE(launch().ok());
    REQUIRE(ended.record(machine.stream.ref()).ok());
    set_us = setter ? microseconds(set) : 0;
    const double us = microseconds(launch);
    runs = !must(ended.query());
    REQUIRE(machine.stream.ref().synchronize().ok());
    return us;
  };
  (void)second_launch_us(false); // first uses load things
  const double plain_us = second_launch_us(false);
  more = 2;
  const double patched_us = second_launch_us(true);
  WARN("launch behind a running one, "
       << nodes << " nodes: " << plain_us << " us; with a setter between (" << set_us << " us) "
       << patched_us << " us, and the first " << (runs ? "runs on" : "has ended"));
  REQUIRE(copy_to_host(machine.context, &got, to, 4).ok());
  CHECK(got == (2 + 2 + 1 + 2) * often);
}

TEST_CASE("device memory of graph nodes is told beside what is assumed") {
  Machine machine;
  const int instances = 16, nodes = 512;
  DeviceBuffer memory = must(DeviceBuffer::allocate(machine.context, 2 * kThreads * 4));
  uint64_t from = memory.address(), to = from + kThreads * 4;
  int more = 1;
  void *arguments[] = {&to, &from, &more};
  const LaunchParams add = machine.launch("add", 1, kThreads, arguments);
  auto build = [&](const Graph &graph) {
    GraphNode last = nullptr;
    for (int i = 0; i < nodes; ++i)
      last = must(graph.ref().add_kernel(add, Dependencies(&last, i ? 1 : 0), "add"));
    GraphExec exec = must(GraphExec::instantiate(graph.ref(), "main"));
    REQUIRE(exec.upload(machine.stream.ref()).ok());
    REQUIRE(machine.stream.ref().synchronize().ok());
    return exec;
  };
  std::vector<Graph> graphs;
  for (int i = 0; i <= instances; ++i)
    graphs.push_back(must(Graph::create(machine.context)));
  std::vector<GraphExec> kept;      // end before their graphs
  kept.push_back(build(graphs[0])); // first uses load things
  const uint64_t before = must(machine.context.memory()).free_bytes;
  for (int i = 1; i <= instances; ++i)
    kept.push_back(build(graphs[size_t(i)]));
  const uint64_t after = must(machine.context.memory()).free_bytes;
  const uint64_t taken = before > after ? before - after : 0;
  WARN("device memory of " << instances << " instances of " << nodes << " nodes: " << taken
                           << " bytes, " << taken / uint64_t(instances * nodes)
                           << " a node; assumed before it is measured: "
                           << runtime::InstanceCost().node_bytes << " a node and "
                           << runtime::InstanceCost().instance_bytes
                           << " an instance, on device and host");
}
