// Errors as a real driver has them, and what some drivers do beside the documents
// (CUGRT_EMU_QUIRKS).
#include "emulator/unit/driver/graph_builder.h"

namespace {

/// An IF node whose condition holds, and its body.
CUgraph add_if(CUgraph graph) {
  CUgraphConditionalHandle handle =
      MADE(cuGraphConditionalHandleCreate, graph, nullptr, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = CU_GRAPH_COND_TYPE_IF;
  params.conditional.size = 1;
  MADE(cuGraphAddNode_v2, graph, nullptr, nullptr, 0, &params);
  return params.conditional.phGraph_out[0];
}

/// The memset of a graph that has an IF node with it alone.
CUgraphNode add_if_with_fill(CUgraph graph, CUdeviceptr cell) {
  CUDA_MEMSET_NODE_PARAMS fill{cell, 0, 7, 4, 1, 1};
  return MADE(cuGraphAddMemsetNode, add_if(graph), nullptr, 0, &fill, nullptr);
}

constexpr char kClusterPtx[] = R"(
.version 8.0
.target sm_90
.address_size 64

// out[block] = blocks of its cluster
.visible .entry any(.param .u64 out)
{
  .reg .b32 %r<3>;
  .reg .b64 %d<3>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d1, %d1, %d2;
  mov.u32 %r2, %cluster_nctarank;
  st.global.u32 [%d1], %r2;
  ret;
}
.visible .entry four(.param .u64 out) .reqnctapercluster 4
{
  .reg .b32 %r<3>;
  .reg .b64 %d<3>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d1, %d1, %d2;
  mov.u32 %r2, %cluster_nctarank;
  st.global.u32 [%d1], %r2;
  ret;
}
.visible .entry stated(.param .u64 out) .explicitcluster .maxclusterrank 2
{
  ret;
}
// One block of the cluster never arrives.
.visible .entry stuck(.param .u64 out)
{
  .reg .b32 %r<2>;
  .reg .pred %p;
  mov.u32 %r1, %cluster_ctarank;
  setp.eq.u32 %p, %r1, 1;
  @%p bar.sync 1, 64;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ret;
}
// Reads the shared memory of block 1, which may have ended.
.visible .entry late(.param .u64 out)
{
  .shared .align 4 .b32 m;
  .reg .b32 %r<4>;
  .reg .pred %p;
  mov.u32 %r1, m;
  st.shared.u32 [%r1], 5;
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p, %r2, 1;
  barrier.cluster.arrive;
  @%p exit;
  barrier.cluster.wait;
  nanosleep.u32 100;
  mapa.shared::cluster.u32 %r3, %r1, 1;
  ld.shared::cluster.u32 %r3, [%r3];
  ret;
}
)";

/// A launch of blocks of one thread; with a cluster unless that is 0.
CUresult launch_clusters(CUfunction function, unsigned grid, unsigned cluster, CUdeviceptr out) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = cluster;
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  CUlaunchConfig config{};
  config.gridDimX = grid;
  config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.attrs = &attribute;
  config.numAttrs = cluster ? 1 : 0;
  void *params[] = {&out};
  return CU(cuLaunchKernelEx)(&config, function, params, nullptr);
}

CUfunction cluster_kernel(const char *name) {
  CUmodule module = MADE(cuModuleLoadData, kClusterPtx);
  return kernel(module, name);
}

} // namespace

TEST_CASE(
    "Clusters of more than 8 blocks need the function's attribute, and more than 16 are none") {
  Session session{"CUGRT_EMU_CHECK=none"};
  CUfunction function = cluster_kernel("any");
  CUdeviceptr out = upload(std::vector<uint32_t>(96));
  CHECK(launch_clusters(function, 96, 12, out) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK(launch_clusters(function, 96, 5, out) == CUDA_ERROR_INVALID_CLUSTER_SIZE); // no divisor
  OK(launch_clusters(function, 96, 8, out));
  CHECK(download<uint32_t>(out, 96) == std::vector<uint32_t>(96, 8));
  OK(CU(cuFuncSetAttribute)(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  OK(launch_clusters(function, 96, 12, out));
  CHECK(download<uint32_t>(out, 96) == std::vector<uint32_t>(96, 12));
  CHECK(launch_clusters(function, 96, 24, out) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

TEST_CASE("A kernel is launched in the clusters that it was compiled for or that are set") {
  Session session{"CUGRT_EMU_CHECK=none"};
  CUdeviceptr out = upload(std::vector<uint32_t>(8));
  CUfunction four = cluster_kernel("four"), any = cluster_kernel("any"),
             stated = cluster_kernel("stated");
  OK(launch_clusters(four, 8, 0, out));
  CHECK(download<uint32_t>(out, 8) == std::vector<uint32_t>(8, 4));
  OK(launch_clusters(four, 8, 4, out));
  CHECK(launch_clusters(four, 8, 2, out) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK(launch_clusters(four, 6, 0, out) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  int width = MADE(cuFuncGetAttribute, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, four);
  CHECK(width == 4);
  CHECK(CU(cuFuncSetAttribute)(four, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2) ==
        CUDA_ERROR_NOT_PERMITTED);
  CHECK(launch_clusters(stated, 8, 0, out) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  OK(launch_clusters(stated, 8, 2, out));
  CHECK(launch_clusters(stated, 8, 4, out) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  for (auto attribute :
       {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH})
    OK(CU(cuFuncSetAttribute)(any, attribute,
                              attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH ? 2 : 1));
  OK(launch_clusters(any, 8, 0, out));
  CHECK(download<uint32_t>(out, 8) == std::vector<uint32_t>(8, 2));
  CUlaunchConfig config{};
  config.gridDimX = 8;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 1024;
  int most = 0;
  int clusters = MADE(cuOccupancyMaxActiveClusters, any, &config);
  CHECK(clusters == 132); // two blocks of 1024 threads on each of 132 multiprocessors
  OK(CU(cuOccupancyMaxPotentialClusterSize)(&most, any, &config));
  CHECK(most == 8);
  OK(CU(cuCtxSynchronize)());
}

TEST_CASE("Clusters are there from sm_90 on") {
  Session session{"CUGRT_EMU_DEVICE=sm_80", "CUGRT_EMU_CHECK=none"};
  int there = MADE(cuDeviceGetAttribute, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0);
  CHECK(there == 0);
  CUdeviceptr out = upload(std::vector<uint32_t>(4));
  CHECK(launch_clusters(kernel(load_kernels(), "affine"), 4, 2, out) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(findings().find("clusters need a device of sm_90") != std::string::npos);
}

TEST_CASE(
    "A cluster whose blocks cannot all arrive is a deadlock, and memory ends with its block") {
  for (const char *name : {"stuck", "late"}) {
    Session session{"CUGRT_EMU_CHECK=none"};
    CUdeviceptr out = upload(std::vector<uint32_t>(4));
    OK(launch_clusters(cluster_kernel(name), 2, 2, out));
    CHECK(CU(cuCtxSynchronize)() ==
          (std::string(name) == "stuck" ? CUDA_ERROR_LAUNCH_TIMEOUT : CUDA_ERROR_ILLEGAL_ADDRESS));
  }
}

TEST_CASE("A block that needs more registers than there are is not launched") {
  Session session{"CUGRT_EMU_CHECK=none"};
  constexpr int kLive = 100; // values that are read before any is written
  auto text = [](const char *limit) {
    std::string ptx = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry many(.param "
                      ".u64 p)\n" +
                      std::string(limit) + "{\n.reg .b32 %r<" + std::to_string(kLive) +
                      ">;\n.reg .b64 %d;\nld.param.u64 %d, [p];\n";
    for (int pass : {0, 1})
      for (int i = 0; i < kLive; ++i) {
        const std::string r = "%r" + std::to_string(i), at = "[%d+" + std::to_string(4 * i) + "]";
        ptx += pass ? "st.volatile.global.u32 " + at + ", " + r + ";\n"
                    : "ld.volatile.global.u32 " + r + ", " + at + ";\n";
      }
    return ptx + "ret;\n}\n";
  };
  auto launched = [&](const char *limit, unsigned threads) {
    CUmodule module = MADE(cuModuleLoadData, text(limit).c_str());
    CUdeviceptr p = upload(std::vector<uint32_t>(kLive));
    void *params[] = {&p};
    CUresult result = CU(cuLaunchKernel)(kernel(module, "many"), 1, 1, 1, threads, 1, 1, 0, nullptr,
                                         params, nullptr);
    OK(CU(cuCtxSynchronize)());
    return result;
  };
  const bool counted =
      std::system("command -v ptxas >/dev/null || test -x /usr/local/cuda/bin/ptxas") == 0;
  CHECK(launched("", 1024) ==
        (counted ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_SUCCESS)); // 64 at most
  CHECK(launched("", 512) == CUDA_SUCCESS);                             // 128
  CHECK(launched(".maxntid 1024\n", 1024) == CUDA_SUCCESS); // for which the others are spilled
  CHECK(launched(".maxnreg 64\n", 1024) == CUDA_SUCCESS);
}

TEST_CASE("Work is put into a stream with a context current only") {
  Session session;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  Stream stream(CU_STREAM_NON_BLOCKING);
  OK(CU(cuCtxSetCurrent)(nullptr));
  CHECK(CU(cuMemsetD32Async)(cell, 2, 1, stream) == CUDA_ERROR_INVALID_CONTEXT);
  OK(CU(cuStreamSynchronize)(stream));
  OK(CU(cuCtxSetCurrent)(session.context));
  OK(CU(cuMemsetD32Async)(cell, 3, 1, stream));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(download<uint32_t>(cell, 1)[0] == 3);
}

TEST_CASE("Pinned memory has a device pointer if it was asked for") {
  Session session;
  void *plain = MADE(cuMemHostAlloc, 4, CU_MEMHOSTALLOC_PORTABLE);
  void *mapped = MADE(cuMemHostAlloc, 4, CU_MEMHOSTALLOC_DEVICEMAP);
  void *simple = MADE(cuMemAllocHost_v2, 4);
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
      Exec exec(graph.graph);
      OK(CU(cuGraphLaunch)(exec, nullptr));
      OK(CU(cuCtxSynchronize)());
      CHECK(download<uint32_t>(cell, 1)[0] == 7);
      OK(CU(cuGraphNodeSetEnabled)(exec, fill, 0));
      OK(CU(cuGraphLaunch)(exec, nullptr));
      CHECK(CU(cuCtxSynchronize)() == (quirk ? CUDA_ERROR_LAUNCH_TIMEOUT : CUDA_SUCCESS));
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
