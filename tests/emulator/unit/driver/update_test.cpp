// Changing instances by setters and whole updates: what the conformance scripts do not say of it.
#include "emulator/unit/driver/graph_builder.h"

namespace {

struct Update {
  CUresult result;
  CUgraphExecUpdateResultInfo info{};
};

Update update(CUgraphExec exec, CUgraph graph) {
  Update u;
  u.result = CU(cuGraphExecUpdate_v2)(exec, graph, &u.info);
  return u;
}

} // namespace

TEST_CASE("A whole update replaces parameters and overwrites earlier patches") {
  Session session;
  Builder before, after;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  CUgraphNode node = before.affine(cell, 2, 0);
  after.affine(cell, 3, 0);
  Exec exec(before.graph);
  uint32_t factor = 7, term = 0;
  void *params[] = {&cell, &factor, &term};
  CUDA_KERNEL_NODE_PARAMS_v2 p = before.kernel_params(params);
  OK(CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &p));
  Update u = update(exec, after.graph);
  OK(u.result);
  CHECK(u.info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
  CHECK(launch_and_read(exec, cell) == 3);
  // The setters still take the nodes of the graph that was instantiated.
  OK(CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &p));
  CHECK(launch_and_read(exec, cell) == 21);
}

TEST_CASE("A graph of the same shape that was built in another order updates") {
  Session session;
  Builder diamond, other;
  CUgraphNode a = diamond.empty(), b = diamond.empty({a}), c = diamond.empty({a});
  diamond.empty({b, c});
  Exec exec(diamond.graph);
  CUgraphNode p = other.empty(), q = other.empty(), r = other.empty({p});
  other.empty({r, q});
  OK(CU(cuGraphAddDependencies_v2)(other.graph, &p, &q, nullptr, 1));
  CHECK(update(exec, other.graph).result == CUDA_SUCCESS);
}

TEST_CASE("A setter takes no function of another context") {
  Session session;
  Builder before;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  CUgraphNode node = before.affine(cell, 2, 0);
  Exec exec(before.graph);
  CUcontext made = MADE(cuCtxCreate_v2, 0, 0);
  {
    Builder after;
    uint32_t factor = 7, term = 0;
    void *params[] = {&cell, &factor, &term};
    CUDA_KERNEL_NODE_PARAMS_v2 p = after.kernel_params(params);
    CHECK(CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &p) == CUDA_ERROR_INVALID_VALUE);
  }
  OK(CU(cuCtxDestroy_v2)(made));
}

TEST_CASE("Priorities may change where the instance does not use them") {
  Session session;
  Builder before, after;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  before.affine(cell, 2, 0);
  CUgraphNode other = after.affine(cell, 2, 0);
  CUlaunchAttributeValue value{};
  value.priority = -1;
  OK(CU(cuGraphKernelNodeSetAttribute)(other, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  Exec plain(before.graph);
  CHECK(update(plain, after.graph).result == CUDA_SUCCESS);
}

TEST_CASE("Copies keep their kinds of memory, one dimension and a length") {
  Session session;
  Builder graph;
  CUdeviceptr a = upload(std::vector<uint32_t>{1, 2}), b = upload(std::vector<uint32_t>{3, 4});
  uint32_t out[2] = {};
  CUgraphNode node = graph.copy(out, a);
  Exec exec(graph.graph);
  CUDA_MEMCPY3D p = Builder::copy_params(out, b, 8);
  OK(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &p, nullptr));
  OK(CU(cuGraphLaunch)(exec, nullptr));
  OK(CU(cuCtxSynchronize)());
  CHECK(out[1] == 4);
  p.WidthInBytes = 0; // "Zero-length operations are not supported."
  CHECK(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &p, nullptr) == CUDA_ERROR_INVALID_VALUE);
  p = Builder::copy_params(out, b, 4);
  p.Height = 2;
  p.srcPitch = p.dstPitch = 4;
  CHECK(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &p, nullptr) == CUDA_ERROR_INVALID_VALUE);
  p = Builder::copy_params(nullptr, b, 4);
  p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.dstDevice = a;
  CHECK(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &p, nullptr) == CUDA_ERROR_INVALID_VALUE);
  void *pinned = nullptr; // another kind of host memory
  OK(CU(cuMemAllocHost_v2)(&pinned, 8));
  p = Builder::copy_params(pinned, b, 8);
  CHECK(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &p, nullptr) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuMemFreeHost)(pinned));
}

TEST_CASE("Memsets keep their height, and two-dimensional ones their shape") {
  Session session;
  Builder graph;
  CUdeviceptr a = upload(std::vector<uint32_t>(16, 0));
  CUgraphNode line = graph.fill(a, 1, {}, 4), block = nullptr;
  CUDA_MEMSET_NODE_PARAMS p{a, 16, 2, 4, 2, 2};
  OK(CU(cuGraphAddMemsetNode)(&block, graph.graph, &line, 1, &p, nullptr));
  Exec exec(graph.graph);
  auto set = [&](CUgraphNode node, CUDA_MEMSET_NODE_PARAMS q) {
    return CU(cuGraphExecMemsetNodeSetParams)(exec, node, &q, nullptr);
  };
  OK(set(line, {a + 4, 0, 7, 4, 8, 1}));
  CHECK(set(line, {a, 16, 7, 4, 2, 2}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(set(line, {a, 0, 7, 4, 0, 1}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(set(line, {a, 0, 7, 3, 1, 1}) == CUDA_ERROR_INVALID_VALUE);
  OK(set(block, {a + 8, 16, 9, 4, 2, 2}));
  CHECK(set(block, {a, 16, 9, 4, 3, 2}) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphLaunch)(exec, nullptr));
  CHECK(download<uint32_t>(a, 10) == std::vector<uint32_t>{0, 7, 9, 9, 7, 7, 9, 9, 7, 0});
}

TEST_CASE("A child graph is updated in place when its topology matches") {
  Session session;
  Builder parent, child, changed, other;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  child.affine(cell, 2, 0);
  changed.affine(cell, 5, 0);
  other.empty();
  CUgraphNode node = MADE(cuGraphAddChildGraphNode, parent.graph, nullptr, 0, child.graph);
  Exec exec(parent.graph);
  OK(CU(cuGraphExecChildGraphNodeSetParams)(exec, node, changed.graph));
  CHECK(CU(cuGraphExecChildGraphNodeSetParams)(exec, node, other.graph) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(launch_and_read(exec, cell) == 5);
}

TEST_CASE("An update with a dead handle is an invalid value") {
  Session session;
  Builder graph;
  Exec exec(graph.graph);
  Update u = update(exec, nullptr);
  CHECK(u.result == CUDA_ERROR_INVALID_VALUE);
  CHECK(u.info.result == CU_GRAPH_EXEC_UPDATE_ERROR);
}
