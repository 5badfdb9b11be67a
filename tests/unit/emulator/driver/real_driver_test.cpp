// Errors as a real driver has them, and what some drivers do beside the documents
// (CUGRT_EMU_QUIRKS).
#include "unit/emulator/driver/graph_builder.h"

namespace {

CUgraphEdgeData programmatic() {
  CUgraphEdgeData data{};
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return data;
}

/// An IF node whose condition holds, and its body.
CUgraph add_if(CUgraph graph) {
  CUgraphConditionalHandle handle = 0;
  OK(CU(cuGraphConditionalHandleCreate)(&handle, graph, nullptr, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = CU_GRAPH_COND_TYPE_IF;
  params.conditional.size = 1;
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddNode_v2)(&node, graph, nullptr, nullptr, 0, &params));
  return params.conditional.phGraph_out[0];
}

/// The memset of a graph that has an IF node with it alone.
CUgraphNode add_if_with_fill(CUgraph graph, CUdeviceptr cell) {
  CUDA_MEMSET_NODE_PARAMS fill{cell, 0, 7, 4, 1, 1};
  CUgraphNode node = nullptr;
  OK(CU(cuGraphAddMemsetNode)(&node, add_if(graph), nullptr, 0, &fill, nullptr));
  return node;
}

} // namespace

TEST_CASE(
    "Clusters of more than 8 blocks need the function's attribute, and more than 16 are none") {
  Session session{"CUGRT_EMU_CHECK=none"};
  CUfunction function = kernel(load_kernels(), "affine");
  auto launched = [&](unsigned blocks) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = blocks;
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    CUlaunchConfig config{};
    config.gridDimX = 96;
    config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CUdeviceptr cell = 0;
    uint32_t factor = 1, term = 0;
    void *params[] = {&cell, &factor, &term};
    return CU(cuLaunchKernelEx)(&config, function, params, nullptr);
  };
  CHECK(launched(12) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK(launched(8) == CUDA_ERROR_NOT_SUPPORTED); // legal, and not emulated
  OK(CU(cuFuncSetAttribute)(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  CHECK(launched(12) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(launched(24) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

TEST_CASE("Work is put into a stream with a context current only") {
  Session session;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  CUstream stream = nullptr;
  OK(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  OK(CU(cuCtxSetCurrent)(nullptr));
  CHECK(CU(cuMemsetD32Async)(cell, 2, 1, stream) == CUDA_ERROR_INVALID_CONTEXT);
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuCtxSetCurrent)(session.context));
  OK(CU(cuMemsetD32Async)(cell, 3, 1, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(download<uint32_t>(cell, 1)[0] == 3);
  OK(CU(cuStreamDestroy_v2)(stream));
}

TEST_CASE("Pinned memory has a device pointer if it was asked for") {
  Session session;
  void *plain = nullptr, *mapped = nullptr, *simple = nullptr;
  OK(CU(cuMemHostAlloc)(&plain, 4, CU_MEMHOSTALLOC_PORTABLE));
  OK(CU(cuMemHostAlloc)(&mapped, 4, CU_MEMHOSTALLOC_DEVICEMAP));
  OK(CU(cuMemAllocHost_v2)(&simple, 4));
  CUdeviceptr address = 0;
  CHECK(CU(cuMemHostGetDevicePointer_v2)(&address, plain, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuMemHostGetDevicePointer_v2)(&address, mapped, 0) == CUDA_SUCCESS);
  CHECK(CU(cuMemHostGetDevicePointer_v2)(&address, simple, 0) == CUDA_SUCCESS);
  for (void *pointer : {plain, mapped, simple})
    OK(CU(cuMemFreeHost)(pointer));
}

TEST_CASE("A body without work is refused before driver 12.8") {
  auto answer = [](const char *version, bool has_empty_node) {
    Session session{std::string("CUGRT_EMU_DRIVER_VERSION=") + version};
    Builder graph;
    CUgraph body = add_if(graph.graph);
    CUgraphNode node = nullptr;
    if (has_empty_node)
      OK(CU(cuGraphAddEmptyNode)(&node, body, nullptr, 0));
    CUgraphExec exec = nullptr;
    CUresult result = CU(cuGraphInstantiateWithFlags)(&exec, graph.graph, 0);
    if (result == CUDA_SUCCESS)
      OK(CU(cuGraphExecDestroy)(exec));
    return result;
  };
  for (bool has_empty_node : {false, true}) {
    CHECK(answer("12.6", has_empty_node) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(answer("12.8", has_empty_node) == CUDA_SUCCESS);
  }
}

TEST_CASE("With the quirk a body that has nothing to execute does not end") {
  for (bool quirk : {false, true}) {
    Session session{"CUGRT_EMU_DRIVER_VERSION=12.6",
                    std::string("CUGRT_EMU_QUIRKS=") + (quirk ? "empty_bodies_hang" : "")};
    {
      Builder graph;
      CUdeviceptr cell = upload(std::vector<uint32_t>{1});
      CUgraphNode fill = add_if_with_fill(graph.graph, cell);
      CUgraphExec exec = graph.instantiate();
      OK(CU(cuGraphLaunch)(exec, nullptr));
      OK(CU(cuCtxSynchronize)());
      CHECK(download<uint32_t>(cell, 1)[0] == 7);
      OK(CU(cuGraphNodeSetEnabled)(exec, fill, 0));
      OK(CU(cuGraphLaunch)(exec, nullptr));
      CHECK(CU(cuCtxSynchronize)() == (quirk ? CUDA_ERROR_LAUNCH_TIMEOUT : CUDA_SUCCESS));
      OK(CU(cuGraphExecDestroy)(exec));
    }
  }
}

TEST_CASE("With the quirk all edges of one call have the first one's data") {
  for (bool quirk : {false, true}) {
    Session session{std::string("CUGRT_EMU_QUIRKS=") +
                    (quirk ? "first_edge_data,empty_bodies_hang" : "")};
    Builder graph;
    CUdeviceptr cell = upload(std::vector<uint32_t>{1});
    CUgraphNode a = graph.affine(cell, 1, 0), b = graph.affine(cell, 1, 0),
                c = graph.affine(cell, 1, 0), d = nullptr;
    CUgraphNode from[] = {a, b}, to[] = {c, c};
    CUgraphEdgeData data[] = {{}, programmatic()};
    OK(CU(cuGraphAddDependencies_v2)(graph.graph, from, to, data, 2));
    CUgraphNodeParams params{};
    uint32_t factor = 1, term = 0;
    void *arguments[] = {&cell, &factor, &term};
    CUDA_KERNEL_NODE_PARAMS_v2 p = graph.kernel_params(arguments);
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = p.func;
    params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = arguments;
    OK(CU(cuGraphAddNode_v2)(&d, graph.graph, from, data, 2, &params));
    CUgraphNode seen_from[4], seen_to[4];
    CUgraphEdgeData seen[4];
    size_t count = 4, early = 0;
    OK(CU(cuGraphGetEdges_v2)(graph.graph, seen_from, seen_to, seen, &count));
    REQUIRE(count == 4);
    for (const CUgraphEdgeData &edge : seen)
      early += edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    CHECK(early == (quirk ? 0u : 2u));
  }
}

TEST_CASE("A quirk that does not exist is told") {
  FreshDriver driver{"CUGRT_EMU_QUIRKS=first_edge"};
  CHECK(CU(cuInit)(0) == CUDA_ERROR_INVALID_VALUE);
}
