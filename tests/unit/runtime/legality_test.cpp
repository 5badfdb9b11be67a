// runtime: every row of the legality table against what the emulated driver answers.
//
// A row's change is made to an instance three ways: by the node's setter, by a whole update with a
// graph that has the change, and by disabling the node. The verdict says which must work and which
// must not.
#include "support/must.h"

#include "device/driver/graph.h"
#include "device/driver/memory.h"
#include "device/driver/node_params.h"
#include "device/program/legality.h"

#include <algorithm>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <optional>

using namespace cugrt;
using namespace cugrt::driver;
using namespace cugrt::runtime;
using cugrt::test::must;

namespace {

constexpr const char *kCode = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry first(.param .u64 p) { ret; }
.visible .entry second(.param .u64 p) { ret; }
)";

const DriverLibrary &library() {
  static auto opened = must(open_driver({DriverKind::path, CUGRT_TEST_EMULATOR}));
  return *opened;
}

CUlaunchAttribute cluster(unsigned x) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = x;
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  return attribute;
}

CUlaunchAttribute priority(int value) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attribute.value.priority = value;
  return attribute;
}

CUlaunchAttribute cooperative() {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  return attribute;
}

/// An entry point that the driver's table, which has what the product calls, does not have.
template <class Function> Function *entry(const char *name) {
  void *driver = dlopen(CUGRT_TEST_EMULATOR, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(driver);
  auto found = reinterpret_cast<Function *>(dlsym(driver, name));
  REQUIRE(found);
  return found;
}

CUgraphExecUpdateResult update(const GraphExec &exec, const Graph &changed) {
  CUgraphExecUpdateResultInfo info{};
  auto call = entry<decltype(cuGraphExecUpdate)>("cuGraphExecUpdate_v2");
  CUresult result = call(exec.get(), changed.get(), &info);
  CHECK((result == CUDA_SUCCESS) == (info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS));
  return info.result;
}

bool set_copy(const Context &context, const GraphExec &exec, GraphNode node,
              const CopyParams &params) {
  CUDA_MEMCPY3D copy = copy_params(params);
  auto call = entry<decltype(cuGraphExecMemcpyNodeSetParams)>("cuGraphExecMemcpyNodeSetParams");
  return call(exec.get(), node, &copy, context.get()) == CUDA_SUCCESS;
}

bool set_fill(const Context &context, const GraphExec &exec, GraphNode node,
              const FillParams &params) {
  auto fill = fill_params<CUDA_MEMSET_NODE_PARAMS>(params);
  auto call = entry<decltype(cuGraphExecMemsetNodeSetParams)>("cuGraphExecMemsetNodeSetParams");
  return call(exec.get(), node, &fill, context.get()) == CUDA_SUCCESS;
}

/// A context beside the primary one, with a function of its own.
class Elsewhere {
public:
  Elsewhere() {
    auto create = entry<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate_v2");
    destroy_ = entry<CUresult(CUcontext)>("cuCtxDestroy_v2");
    REQUIRE(create(&handle_, 0, 0) == CUDA_SUCCESS);
    CUcontext popped;
    REQUIRE(library().api.CtxPopCurrent(&popped) == CUDA_SUCCESS);
    context_.emplace(must(Context::borrow(library().api, handle_)));
    module_.emplace(must(KernelModule::load(*context_, kCode, "two kernels elsewhere")));
    first_.emplace(must(module_->kernel("first")));
  }
  ~Elsewhere() {
    module_.reset();
    context_.reset();
    CHECK(destroy_(handle_) == CUDA_SUCCESS);
  }
  Elsewhere(const Elsewhere &) = delete;
  CUfunction first() const { return first_->get(); }

private:
  CUresult (*destroy_)(CUcontext) = nullptr;
  CUcontext handle_ = nullptr;
  std::optional<Context> context_;
  std::optional<KernelModule> module_;
  std::optional<Kernel> first_;
};

/// What a graph of one node and a successor holds; a change edits it.
struct Parts {
  NodeKind kind = NodeKind::kernel;
  uint64_t argument = 0;
  void *arguments[1] = {&argument};
  LaunchParams kernel;
  std::vector<CUlaunchAttribute> attributes;
  CopyParams copy;
  FillParams fill;
  bool second_is_kernel = false, edge = true, third = false;

  Parts() = default;
  Parts(const Parts &other) { *this = other; }
  Parts &operator=(const Parts &other) {
    kind = other.kind, argument = other.argument, kernel = other.kernel;
    attributes = other.attributes, copy = other.copy, fill = other.fill;
    second_is_kernel = other.second_is_kernel, edge = other.edge, third = other.third;
    kernel.arguments = arguments;
    kernel.attributes = attributes;
    return *this;
  }
};

class Bench {
public:
  Bench()
      : context(must(Context::retain_primary(library().api, 0))),
        module(must(KernelModule::load(context, kCode, "two kernels"))),
        first(must(module.kernel("first"))), second(must(module.kernel("second"))),
        a(must(DeviceBuffer::allocate(context, 4096))),
        b(must(DeviceBuffer::allocate(context, 4096))),
        pinned(must(PinnedBuffer::allocate(context, 4096))) {}

  Parts parts(NodeKind kind) {
    Parts parts;
    parts.kind = kind;
    parts.kernel = {first.get(), {8, 1, 1}, {32, 1, 1}, 0, nullptr, {}};
    parts.copy = {a.address(), b.address(), 256};
    parts.fill = {a.address(), 256, 1, 1};
    return parts;
  }

  Result<Graph> build(const Parts &given, GraphNode *node) {
    Parts parts = given;
    CUGRT_ASSIGN(Graph graph, Graph::create(context));
    GraphRef ref = graph.ref();
    if (parts.kind == NodeKind::copy) {
      CUGRT_ASSIGN(*node, ref.add_memcpy(parts.copy, {}, "node"));
    } else if (parts.kind == NodeKind::fill) {
      CUGRT_ASSIGN(*node, ref.add_memset(parts.fill, {}, "node"));
    } else {
      CUGRT_ASSIGN(*node, ref.add_kernel(parts.kernel, {}, "node"));
    }
    std::vector<GraphNode> after;
    if (parts.edge)
      after.push_back(*node);
    Parts plain = this->parts(NodeKind::kernel);
    plain.kernel.arguments = plain.arguments;
    auto next = parts.second_is_kernel ? ref.add_kernel(plain.kernel, after, "next")
                                       : ref.add_empty(after, "next");
    CUGRT_TRY(next.take_status());
    if (parts.third)
      CUGRT_TRY(ref.add_empty({}, "third").take_status());
    return graph;
  }

  struct Answers {
    bool setter, update, disabled;
    CUgraphExecUpdateResult reason;
  };
  Answers ask(const Parts &before, const Parts &after, bool attribute) {
    GraphNode node = nullptr, other = nullptr;
    Graph graph = must(build(before, &node));
    auto instantiate = [&] { return must(GraphExec::instantiate(graph.ref(), "g")); };
    Answers answers{};
    GraphExec set = instantiate();
    Parts copy = after;
    // Attributes are not among the parameters of a setter.
    answers.setter =
        !attribute && after.kind != NodeKind::graph &&
        (after.kind == NodeKind::copy   ? set_copy(context, set, node, copy.copy)
         : after.kind == NodeKind::fill ? set_fill(context, set, node, copy.fill)
                                        : set.set_kernel(node, copy.kernel, "node").ok());
    auto changed = build(after, &other);
    if (changed.ok()) {
      answers.reason = update(instantiate(), *changed);
      answers.update = answers.reason == CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
    answers.disabled = instantiate().set_enabled(node, false, "node").ok();
    return answers;
  }

  /// What %a holds after a launch of an instance that was changed by an update or, where that is
  /// refused, built anew.
  std::vector<uint8_t> fill_by_update(const Parts &before, const Parts &after) {
    ContextGuard current = must(context.enter());
    GraphNode node = nullptr;
    Graph graph = must(build(before, &node)), changed = must(build(after, &node));
    GraphExec exec = must(GraphExec::instantiate(graph.ref(), "g"));
    if (update(exec, changed) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      exec = must(GraphExec::instantiate(changed.ref(), "changed"));
    Stream stream = must(Stream::create(context));
    std::vector<uint8_t> bytes(4096);
    REQUIRE(fill_async(stream.ref(), a.address(), 0, 1, bytes.size()).ok());
    REQUIRE(exec.launch(stream.ref(), "g").ok());
    REQUIRE(stream.ref().synchronize().ok());
    REQUIRE(copy_to_host(context, bytes.data(), a.address(), bytes.size()).ok());
    return bytes;
  }

  Context context;
  KernelModule module;
  Kernel first, second;
  DeviceBuffer a, b;
  PinnedBuffer pinned;
  Elsewhere elsewhere;
};

using Edit = std::function<void(Bench &, Parts &)>;

/// How each change is made.
const std::map<std::pair<NodeKind, Change>, Edit> kEdits = {
    {{NodeKind::kernel, Change::argument}, [](Bench &, Parts &p) { p.argument = 7; }},
    {{NodeKind::kernel, Change::grid}, [](Bench &, Parts &p) { p.kernel.grid.x = 3; }},
    {{NodeKind::kernel, Change::block}, [](Bench &, Parts &p) { p.kernel.block.x = 64; }},
    {{NodeKind::kernel, Change::shared_bytes},
     [](Bench &, Parts &p) { p.kernel.dynamic_shared_bytes = 1024; }},
    {{NodeKind::kernel, Change::function},
     [](Bench &bench, Parts &p) { p.kernel.function = bench.second.get(); }},
    {{NodeKind::kernel, Change::becomes_empty}, [](Bench &, Parts &p) { p.kernel.grid.x = 0; }},
    {{NodeKind::kernel, Change::large_cluster_becomes_empty},
     [](Bench &, Parts &p) { p.kernel.grid.x = 0; }},
    {{NodeKind::kernel, Change::cluster}, [](Bench &, Parts &p) { p.attributes = {cluster(4)}; }},
    {{NodeKind::kernel, Change::priority},
     [](Bench &, Parts &p) { p.attributes = {priority(-1)}; }},
    {{NodeKind::kernel, Change::cooperative},
     [](Bench &, Parts &p) { p.attributes = {cooperative()}; }},
    {{NodeKind::kernel, Change::context},
     [](Bench &bench, Parts &p) { p.kernel.function = bench.elsewhere.first(); }},
    {{NodeKind::copy, Change::address},
     [](Bench &bench, Parts &p) { p.copy.source = bench.b.address() + 512; }},
    {{NodeKind::copy, Change::size}, [](Bench &, Parts &p) { p.copy.size_bytes = 100; }},
    {{NodeKind::copy, Change::becomes_empty}, [](Bench &, Parts &p) { p.copy.size_bytes = 0; }},
    {{NodeKind::copy, Change::memory_kind},
     [](Bench &bench, Parts &p) {
       p.copy.source = reinterpret_cast<uint64_t>(bench.pinned.data());
       p.copy.source_kind = MemoryKind::host;
     }},
    {{NodeKind::fill, Change::address},
     [](Bench &bench, Parts &p) { p.fill.destination = bench.b.address(); }},
    {{NodeKind::fill, Change::value}, [](Bench &, Parts &p) { p.fill.value = 9; }},
    {{NodeKind::fill, Change::size}, [](Bench &, Parts &p) { p.fill.count = 100; }},
    {{NodeKind::fill, Change::becomes_empty}, [](Bench &, Parts &p) { p.fill.count = 0; }},
    {{NodeKind::fill, Change::memory_kind},
     [](Bench &bench, Parts &p) {
       p.fill.destination = reinterpret_cast<uint64_t>(bench.pinned.data());
     }},
    {{NodeKind::graph, Change::nodes}, [](Bench &, Parts &p) { p.third = true; }},
    {{NodeKind::graph, Change::edges}, [](Bench &, Parts &p) { p.edge = false; }},
    {{NodeKind::graph, Change::node_kind}, [](Bench &, Parts &p) { p.second_is_kernel = true; }},
};

} // namespace

TEST_CASE("the driver answers each change as the legality table says") {
  Bench bench;
  const bool clusters = must(bench.context.attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)) != 0;
  size_t untested = 0;
  for (const Legality &row : legality_table()) {
    auto edit = kEdits.find({row.node, row.change});
    REQUIRE(edit != kEdits.end());
    INFO("node kind " << int(row.node) << ", change " << int(row.change) << ": " << row.why);
    Parts before = bench.parts(row.node);
    Parts after = before;
    edit->second(bench, after);
    after = Parts(after); // its pointers
    const bool large = row.change == Change::large_cluster_becomes_empty;
    if (row.change == Change::cluster)
      before.attributes = {cluster(2)};
    if (large) {
      before.kernel.grid.x = 16;
      before.attributes = after.attributes = {cluster(16)};
      after = Parts(after);
    }
    before = Parts(before);
    if ((row.change == Change::cluster || large) && !clusters) {
      ++untested;
      continue;
    }
    if (large)
      REQUIRE(bench.first.allow_large_clusters().ok());
    bool attribute = !after.attributes.empty() && !large;
    Bench::Answers answers = bench.ask(before, after, attribute);
    switch (row.verdict) {
    case Verdict::node_patch:
      CHECK(answers.setter);
      break;
    case Verdict::disable:
      CHECK_FALSE(answers.setter);
      CHECK(answers.disabled);
      break;
    case Verdict::whole_update:
      CHECK_FALSE(answers.setter);
      CHECK(answers.update);
      break;
    case Verdict::try_update: {
      // Either answer is right: a refusal says that it is one of parameters, and what a launch then
      // does is the change's in both cases.
      REQUIRE(row.node == NodeKind::fill);
      CHECK((answers.update || answers.reason == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED));
      std::vector<uint8_t> wanted(4096, 0);
      std::fill_n(wanted.begin(), after.fill.count * after.fill.element_bytes,
                  static_cast<uint8_t>(after.fill.value));
      CHECK(bench.fill_by_update(before, after) == wanted);
      break;
    }
    case Verdict::rebuild:
      CHECK_FALSE(answers.setter);
      // A graph may have a grid of 0, which no launch takes: the node would have to be disabled.
      CHECK_FALSE((large ? answers.disabled : answers.update));
      break;
    }
  }
  CHECK(untested == (clusters ? 0 : 2));
}

TEST_CASE("every row says why, and stands once") {
  for (const Legality &row : legality_table()) {
    CHECK(std::string(row.why).size() > 10);
    CHECK(legality(row.node, row.change) == &row);
  }
  CHECK(legality(NodeKind::fill, Change::grid) == nullptr);
}

TEST_CASE("copies are patched only while their memory stays of its kind") {
  const Change moves[] = {Change::address}, memory[] = {Change::address, Change::memory_kind};
  CHECK(can_patch(NodeKind::copy, moves));
  CHECK_FALSE(can_patch(NodeKind::copy, memory));
  const Change fills[] = {Change::size};
  CHECK_FALSE(can_patch(NodeKind::fill, fills));
}
