// Read-back of nodes: what a driver, or a setter that was forgotten, makes of an instance is named
// by step and field, in instances that were built and in patched ones.
#include "chain.h"

#include <cstdlib>

using namespace cugrt;
using namespace cugrt::test;

namespace {

struct VerifyNodes {
  explicit VerifyNodes(const char *value = "1") { setenv("CUGRT_VERIFY_NODES", value, 1); }
  ~VerifyNodes() { unsetenv("CUGRT_VERIFY_NODES"); }
};

enum class Fault {
  none,
  argument,
  address,
  grid,
  block,
  shared,
  edge,
  attribute,
  lost,
  copy_from,
  copy_to,
  copy_bytes,
  fill_at,
  fill_bytes,
  fill_byte
};

/// What goes wrong with the nth call from now of those that a fault is of; the table's functions
/// carry no state.
struct Plant {
  driver::DriverApi real;
  Fault fault = Fault::none;
  int wait = 0;
  bool loses_attribute = false, loses_edge = false;
  bool lose_template = false; // the setter that was lost is not mirrored either
} plant;

bool comes() { return plant.fault != Fault::none && plant.wait-- == 0; }

/// The parameters with the fault.
struct Spoilt {
  explicit Spoilt(const CUDA_KERNEL_NODE_PARAMS_v2 &from) : params(from) {
    for (int i = 0; i < 4; ++i)
      pointers[i] = from.kernelParams[i];
    params.kernelParams = pointers;
    switch (plant.fault) {
    case Fault::argument:
      count = *static_cast<int64_t *>(from.kernelParams[2]) - 1; // reads less, writes less
      pointers[2] = &count;
      break;
    case Fault::address:
      address = *static_cast<uint64_t *>(from.kernelParams[0]) + 64;
      pointers[0] = &address;
      break;
    case Fault::grid:
      ++params.gridDimY;
      break;
    case Fault::block:
      ++params.blockDimX;
      break;
    case Fault::shared:
      params.sharedMemBytes += 16;
      break;
    case Fault::none:
    case Fault::edge:
    case Fault::attribute:
    case Fault::lost:
    case Fault::copy_from:
    case Fault::copy_to:
    case Fault::copy_bytes:
    case Fault::fill_at:
    case Fault::fill_bytes:
    case Fault::fill_byte:
      break;
    }
  }
  CUDA_KERNEL_NODE_PARAMS_v2 params;
  void *pointers[4];
  int64_t count = 0;
  uint64_t address = 0;
};

void plant_in(Chain &chain) {
  auto &api = const_cast<driver::DriverApi &>(chain.device->api());
  plant = {};
  plant.real = api;
  api.GraphAddKernelNode = [](CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    const bool wrong = comes();
    if (wrong && plant.fault == Fault::edge)
      return plant.real.GraphAddKernelNode(node, graph, after, 0, params);
    if (wrong && plant.fault == Fault::attribute)
      plant.loses_attribute = true;
    Spoilt spoilt(*params);
    return plant.real.GraphAddKernelNode(node, graph, after, count,
                                         wrong ? &spoilt.params : params);
  };
  api.GraphKernelNodeSetAttribute = [](CUgraphNode node, CUkernelNodeAttrID id,
                                       const CUkernelNodeAttrValue *value) {
    return std::exchange(plant.loses_attribute, false)
               ? CUDA_SUCCESS
               : plant.real.GraphKernelNodeSetAttribute(node, id, value);
  };
  // What a patched instance has lost since.
  api.GraphGetEdges_v2 = [](CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *data, size_t *count) {
    const CUresult result = plant.real.GraphGetEdges_v2(graph, from, to, data, count);
    *count -= plant.loses_edge && *count > 0;
    return result;
  };
  api.GraphExecKernelNodeSetParams = [](CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    plant.lose_template = comes();
    plant.loses_edge |= plant.lose_template && plant.fault == Fault::edge;
    if (plant.lose_template && plant.fault == Fault::lost)
      return CUDA_SUCCESS;
    Spoilt spoilt(*params);
    return plant.real.GraphExecKernelNodeSetParams(exec, node,
                                                   plant.lose_template ? &spoilt.params : params);
  };
  api.GraphKernelNodeSetParams = [](CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    if (plant.lose_template && plant.fault == Fault::lost)
      return CUDA_SUCCESS;
    Spoilt spoilt(*params);
    return plant.real.GraphKernelNodeSetParams(node, plant.lose_template ? &spoilt.params : params);
  };
}

CUDA_MEMCPY3D_v2 spoilt(CUDA_MEMCPY3D_v2 copy) {
  copy.srcDevice += plant.fault == Fault::copy_from ? 16 : 0;
  copy.dstDevice += plant.fault == Fault::copy_to ? 16 : 0;
  copy.WidthInBytes -= plant.fault == Fault::copy_bytes ? 16 : 0;
  return copy;
}

CUDA_MEMSET_NODE_PARAMS_v1 spoilt(CUDA_MEMSET_NODE_PARAMS_v1 fill) {
  fill.dst += plant.fault == Fault::fill_at ? 16 : 0;
  fill.width -= plant.fault == Fault::fill_bytes ? 16 : 0;
  fill.value += plant.fault == Fault::fill_byte ? 1 : 0;
  return fill;
}

/// Copies and fills that are nodes of their own kind: wrong as they are built, or, with `later`, as
/// a driver has them that let them get wrong since.
void plant_in_transfers(Chain &chain, bool later) {
  auto &api = const_cast<driver::DriverApi &>(chain.device->api());
  plant = {};
  plant.real = api;
  if (later) {
    api.GraphMemcpyNodeGetParams = [](CUgraphNode node, CUDA_MEMCPY3D_v2 *copy) {
      const CUresult result = plant.real.GraphMemcpyNodeGetParams(node, copy);
      *copy = spoilt(*copy);
      return result;
    };
    api.GraphMemsetNodeGetParams = [](CUgraphNode node, CUDA_MEMSET_NODE_PARAMS_v1 *fill) {
      const CUresult result = plant.real.GraphMemsetNodeGetParams(node, fill);
      *fill = spoilt(*fill);
      return result;
    };
    return;
  }
  api.GraphAddMemcpyNode = [](CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_MEMCPY3D_v2 *params, CUcontext context) {
    const CUDA_MEMCPY3D_v2 copy = spoilt(*params);
    return plant.real.GraphAddMemcpyNode(node, graph, after, count, &copy, context);
  };
  api.GraphAddMemsetNode = [](CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS_v1 *params,
                              CUcontext context) {
    const CUDA_MEMSET_NODE_PARAMS_v1 fill = spoilt(*params);
    return plant.real.GraphAddMemsetNode(node, graph, after, count, &fill, context);
  };
}

/// y = x + 2 * a; between both additions a copy that depends on n, a kernel of ours. Beside it a
/// fill and a copy of 64 bytes, nodes of their own kind.
plan::Plan transfers() {
  PlanMaker maker;
  const uint32_t x = maker.tensor_param("x"), a = maker.float_param("a"), y = maker.result();
  const uint32_t first = maker.arena_tensor(), second = maker.arena_tensor();
  const uint32_t filled = maker.arena_tensor(), copied = maker.arena_tensor();
  plan::Function &function = maker.function();
  for (const uint32_t buffer : {filled, copied}) {
    function.buffers[buffer].bytes = maker.plan.exprs.constant(64);
    function.buffers[buffer].dims = {maker.plan.exprs.constant(16)};
  }
  auto transfer = [&](const char *name, uint32_t to, uint32_t from) {
    plan::Step step;
    step.kind = from == plan::kNone ? plan::StepKind::fill : plan::StepKind::copy;
    step.name = name;
    step.fill_byte = 0x40;
    step.accesses = {static_cast<uint32_t>(function.accesses.size()),
                     from == plan::kNone ? 1u : 2u};
    function.accesses.push_back({to, ir::Access::out});
    if (from != plan::kNone)
      function.accesses.push_back({from, ir::Access::in});
    function.steps.push_back(step);
  };
  maker.step(x, first, a);
  transfer("sized", second, first);
  transfer("fill", filled, plan::kNone);
  transfer("copy", copied, filled);
  maker.step(second, y, a);
  maker.region();
  return std::move(maker.plan);
}

std::string error_of_run(Chain &chain, int x, float a = 1) {
  const Status status = chain.try_run(8, chain.memory[x].address(), chain.memory[1].address(), a);
  CHECK(status.code() == (status.ok() ? Code::ok : Code::internal));
  return status.ok() ? "" : status.to_string();
}

} // namespace

TEST_CASE("what goes wrong when an instance is built is named by step and field") {
  VerifyNodes on;
  const std::pair<Fault, const char *> kFaults[] = {
      {Fault::argument, "argument 2 is 0x1f"},
      {Fault::address, "argument 0 is 0x"}, // a stale address
      {Fault::grid, "the grid is"},
      {Fault::block, "the block is"},
      {Fault::shared, "dynamic shared memory is 16 bytes"},
      {Fault::edge, "the edge from step 'add0' is absent"},
      {Fault::attribute, "the priority is 0 as read back from the driver, and -5"},
  };
  for (const auto &[fault, text] : kFaults) {
    SessionOptions options;
    options.priority = 7; // of the driver's five
    Chain chain(3, options);
    plant_in(chain);
    plant.fault = fault, plant.wait = 1; // the second node
    const std::string error = error_of_run(chain, 0);
    INFO(error);
    CHECK(contains(error, text));
    CHECK(contains(error, "step 'add1'"));
    CHECK(contains(error, "by the plan"));
    chain.run(8); // and the next one is built anew, without the fault
  }
}

TEST_CASE("what goes wrong when an instance is patched is named by step and field") {
  VerifyNodes on;
  const struct {
    Fault fault;
    const char *text, *step = "step 'add0'";
  } kFaults[] = {
      {Fault::argument, "argument 2 is"},
      {Fault::grid, "the grid is"},
      {Fault::block, "the block is"},
      {Fault::shared, "dynamic shared memory is 16 bytes"},
      {Fault::edge, "the edge from step 'add0' is absent", "step 'add1'"},
      {Fault::lost, "argument 0 (%x) is"}, // a stale address
  };
  for (const auto &[fault, text, step] : kFaults)
    for (const bool moved : {true, false}) { // an address alone, or a scalar with it
      Chain chain;
      plant_in(chain);
      chain.run(8, 0, 1);
      plant.fault = fault, plant.wait = 0;
      const std::string error = error_of_run(chain, 2, moved ? 1.0f : 2.0f);
      INFO(error);
      CHECK(contains(error, text));
      CHECK(contains(error, step));
      plant.loses_edge = false;
      chain.run(8, 2, 1);
    }
}

TEST_CASE("a launch attribute that a node does not have is named") {
  VerifyNodes on;
  for (const bool cooperative : {true, false}) {
    plan::Plan plan = PlanMaker::chain(2);
    plan.kernels[0].cooperative[0] = cooperative;
    if (!cooperative)
      plan.kernels[0].clusters[0] = {1, 1, 1};
    Chain chain(std::move(plan), 2);
    plant_in(chain);
    plant.fault = Fault::attribute, plant.wait = 1;
    const std::string error = error_of_run(chain, 0);
    INFO(error);
    CHECK(contains(error, cooperative ? "'cooperative' is 0 as read back from the driver, and 1"
                                      : "the cluster is (0, 0, 0) as read back"));
    CHECK(contains(error, "step 'add1'"));
    chain.run(8);
  }
}

TEST_CASE("a wrong copy and a wrong fill are named by step and field") {
  VerifyNodes on;
  const struct {
    Fault fault;
    const char *step, *text;
  } kFaults[] = {
      {Fault::copy_from, "step 'copy'", "its source is 0x"},
      {Fault::copy_to, "step 'copy'", "the copy's destination is 0x"},
      {Fault::copy_bytes, "step 'copy'", "its bytes is 48 as read back from the driver, and 64"},
      {Fault::fill_at, "step 'fill'", "the fill's destination is 0x"},
      {Fault::fill_bytes, "step 'fill'", "its bytes is 48 as read back from the driver, and 64"},
      {Fault::fill_byte, "step 'fill'", "its byte is 65 as read back from the driver, and 64"},
  };
  for (const auto &[fault, step, text] : kFaults)
    for (const bool patched : {false, true}) {
      Chain chain(transfers(), 2);
      plant_in_transfers(chain, patched);
      if (patched)
        chain.run(8);
      plant.fault = fault;
      const std::string error = error_of_run(chain, patched ? 2 : 0);
      INFO(error);
      CHECK(contains(error, step));
      CHECK(contains(error, text));
      plant.fault = Fault::none;
      chain.run(8);
    }
}

TEST_CASE("a wrong copy by a kernel of ours is named, built and patched") {
  VerifyNodes on;
  for (const bool patched : {false, true}) {
    Chain chain(transfers(), 2);
    plant_in(chain);
    if (patched)
      chain.run(8);
    plant.fault = Fault::argument, plant.wait = 1; // the second of those that are added, or set
    const std::string error = patched ? [&] {
      const Status status =
          chain.try_run(16, chain.memory[0].address(), chain.memory[1].address(), 1);
      return status.ok() ? std::string() : status.to_string();
    }() : error_of_run(chain, 0);
    INFO(error);
    CHECK(contains(error, "step 'sized'"));
    CHECK(contains(error, "argument 2 is"));
  }
}

TEST_CASE("nothing is found where nothing is wrong, whatever is built and patched") {
  VerifyNodes on;
  for (const int priority : {0, 1}) {
    SessionOptions options;
    options.priority = priority;
    Chain chain(branching(), 3, options);
    for (const int64_t n : {4, 16, 4, 1, 9, 0, 64, 8})
      for (const int x : {0, 2, 0})
        chain.run(n, x, x == 1 ? 2 : 1, static_cast<float>(n % 3));
    const size_t read = chain.machine.fake.count("cuGraphKernelNodeGetParams");
    CHECK(read > 20);
    CHECK(chain.machine.fake.count("cuGraphKernelNodeGetAttribute") == (priority ? read : 0));
    CHECK(chain.counters().regions_patched > 0);
  }
  Chain chain(transfers(), 2);
  for (const int64_t n : {4, 16, 4, 0, 8})
    chain.run(n, n == 4 ? 2 : 0);
  CHECK(chain.machine.fake.count("cuGraphMemcpyNodeGetParams") > 2);
  CHECK(chain.machine.fake.count("cuGraphMemsetNodeGetParams") > 2);
}

TEST_CASE("nothing is read back unless it is asked for, and a value that is none is refused") {
  {
    VerifyNodes off("0");
    Chain chain;
    chain.run(8);
    chain.run(8, 2);
    CHECK(chain.machine.fake.count("cuGraphKernelNodeGetParams") == 0);
    CHECK(chain.machine.fake.count("cuGraphKernelNodeSetParams") == 0);
  }
  VerifyNodes wrong("yes");
  const auto value = runtime::verify_nodes_from_environment();
  REQUIRE_FALSE(value.ok());
  CHECK(contains(value.status().message(), "CUGRT_VERIFY_NODES is 'yes'"));
}
