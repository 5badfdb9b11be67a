// Green contexts: how multiprocessors are divided, and that work has those of its context.
#include "emulator/unit/driver/graph_builder.h"

#include <set>

namespace {

// out[block] = the number of the multiprocessor that it ran on
constexpr char kWherePtx[] = PTX_HEAD R"(
.visible .entry where(.param .u64 out)
{
  .reg .b32 %r<3>;
  .reg .b64 %d<3>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %smid;
  mad.wide.u32 %d2, %r1, 4, %d1;
  st.global.u32 [%d2], %r2;
  ret;
}
)";

constexpr unsigned kBlocks = 300; // more than a device has multiprocessors
constexpr CUresult kStreamDetached = CUresult(917);

CUdevResource whole() {
  CUdevResource resource{};
  OK(CU(cuDeviceGetDevResource)(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  return resource;
}

CUdevResourceDesc describe(CUdevResource resource) {
  return MADE(cuDevResourceGenerateDesc, &resource, 1);
}

/// Groups of at least so many multiprocessors.
std::vector<CUdevResource> split(unsigned groups, unsigned least) {
  std::vector<CUdevResource> parts(groups);
  CUdevResource all = whole();
  OK(CU(cuDevSmResourceSplitByCount)(parts.data(), &groups, &all, nullptr, 0, least));
  REQUIRE(groups == parts.size());
  return parts;
}

/// One with the multiprocessors of a resource, for as long as it lives.
struct Green {
  explicit Green(const CUdevResource &resource) {
    OK(CU(cuGreenCtxCreate)(&handle, describe(resource), 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(CU(cuCtxFromGreenCtx)(&context, handle));
    OK(CU(cuGreenCtxStreamCreate)(&stream, handle, CU_STREAM_NON_BLOCKING, 0));
  }
  ~Green() {
    if (!handle)
      return;
    CHECK(CU(cuStreamDestroy_v2)(stream) == CUDA_SUCCESS);
    CHECK(CU(cuGreenCtxDestroy)(handle) == CUDA_SUCCESS);
  }
  Green(const Green &) = delete;
  Green &operator=(const Green &) = delete;

  CUgreenCtx handle = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
};

struct Where {
  Where() {
    OK(CU(cuModuleLoadData)(&module, kWherePtx));
    function = kernel(module, "where");
    OK(CU(cuLibraryLoadData)(&library, kWherePtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    OK(CU(cuLibraryGetKernel)(&by_context, library, "where"));
    cells = upload(std::vector<uint32_t>(kBlocks, 9999));
  }
  ~Where() { CHECK(CU(cuLibraryUnload)(library) == CUDA_SUCCESS); }
  std::set<uint32_t> numbers() {
    OK(CU(cuCtxSynchronize)());
    auto values = download<uint32_t>(cells, kBlocks);
    OK(CU(cuMemsetD32_v2)(cells, 9999, kBlocks));
    OK(CU(cuCtxSynchronize)()); // the streams of green contexts do not wait for the legacy one
    return {values.begin(), values.end()};
  }
  void launch(CUstream stream) { launch_kernel(function, kBlocks, 1, stream, cells); }
  CUgraphNodeParams node(CUcontext context) {
    pointer = &cells;
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_KERNEL;
    p.kernel.kern = by_context;
    p.kernel.ctx = context;
    p.kernel.gridDimX = kBlocks;
    p.kernel.gridDimY = p.kernel.gridDimZ = 1;
    p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
    p.kernel.kernelParams = &pointer;
    return p;
  }

  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUfunction function = nullptr;
  CUkernel by_context = nullptr;
  CUdeviceptr cells = 0;
  void *pointer = nullptr;
};

std::set<uint32_t> from_to(uint32_t first, uint32_t end) {
  std::set<uint32_t> numbers;
  while (first < end)
    numbers.insert(first++);
  return numbers;
}

void run_and_destroy(CUgraph graph, CUstream stream) {
  Exec exec(graph);
  launch_graph(exec, stream);
}

} // namespace

TEST_CASE("Multiprocessors are divided by the unit of the device's generation") {
  struct Row {
    const char *device;
    unsigned all, smallest, alignment, asked, got, groups, rest;
  };
  // By cuda.h: 8 and multiples of it since 9.0; 4 and multiples of 2 before; by twos on Tegra.
  Row row = GENERATE(Row{"sm_90", 132, 8, 8, 20, 24, 5, 12}, Row{"sm_90", 132, 8, 8, 0, 8, 16, 4},
                     Row{"sm_80", 108, 4, 2, 3, 4, 27, 0}, Row{"sm_80", 108, 4, 2, 53, 54, 2, 0},
                     Row{"sm_110", 20, 2, 2, 7, 8, 2, 4}, Row{"sm_75", 40, 2, 2, 1, 2, 20, 0});
  Session session{std::string("CUGRT_EMU_DEVICE=") + row.device};
  CUdevResource all = whole();
  CHECK(all.type == CU_DEV_RESOURCE_TYPE_SM);
  CHECK(all.sm.smCount == row.all);
  CHECK(all.sm.minSmPartitionSize == row.smallest);
  CHECK(all.sm.smCoscheduledAlignment == row.alignment);
  unsigned groups = 0;
  OK(CU(cuDevSmResourceSplitByCount)(nullptr, &groups, &all, nullptr, 0, row.asked));
  CHECK(groups == row.groups);
  std::vector<CUdevResource> parts(groups + 3);
  CUdevResource rest{};
  groups += 3; // no more than there can be
  OK(CU(cuDevSmResourceSplitByCount)(parts.data(), &groups, &all, &rest, 0, row.asked));
  REQUIRE(groups == row.groups);
  for (unsigned i = 0; i < groups; ++i)
    CHECK(parts[i].sm.smCount == row.got);
  CHECK(parts[groups].type == CU_DEV_RESOURCE_TYPE_INVALID);
  CHECK(rest.type == (row.rest ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID));
  CHECK(rest.sm.smCount == row.rest);
}

TEST_CASE("Divisions that cannot be are refused") {
  Session session;
  CUdevResource all = whole(), part{}, made_up{};
  made_up.type = CU_DEV_RESOURCE_TYPE_SM;
  made_up.sm.smCount = 16;
  unsigned one = 1, none = 0;
  auto divide = CU(cuDevSmResourceSplitByCount);
  CHECK(divide(&part, &one, &all, nullptr, 0, 133) == CUDA_ERROR_INVALID_VALUE);
  CHECK(divide(&part, &one, &all, nullptr, 4, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(divide(&part, &none, &all, nullptr, 0, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(divide(&part, nullptr, &all, nullptr, 0, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(divide(&part, &one, nullptr, nullptr, 0, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(divide(&part, &one, &made_up, nullptr, 0, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(divide(&part, &one, &part, nullptr, 0, 8) == CUDA_ERROR_INVALID_RESOURCE_TYPE);
  // Between 129 and 132 there is no multiple of 8.
  CHECK(divide(&part, &one, &all, nullptr, 0, 130) == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  OK(divide(&part, &one, &all, nullptr, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 130));
  CHECK(part.sm.smCount == 130);
  CUdevResource again = part;
  CHECK(divide(&part, &one, &again, nullptr, 0, 8) == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);

  CUdevResourceDesc descriptor = nullptr;
  CHECK(CU(cuDevResourceGenerateDesc)(&descriptor, &all, 0) == CUDA_ERROR_INVALID_VALUE);
  CUdevResource twice[] = {again, again};
  CHECK(CU(cuDevResourceGenerateDesc)(&descriptor, twice, 2) ==
        CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  CHECK(CU(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_INVALID) ==
        CUDA_ERROR_INVALID_RESOURCE_TYPE);
  CHECK(CU(cuDeviceGetDevResource)(1, &all, CU_DEV_RESOURCE_TYPE_SM) == CUDA_ERROR_INVALID_DEVICE);
  CUgreenCtx green = nullptr;
  CHECK(CU(cuGreenCtxCreate)(&green, nullptr, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGreenCtxCreate)(&green, describe(again), 0, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGreenCtxCreate)(&green, describe(again), 1, 1) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(CU(cuGreenCtxDestroy)(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("Work in a green context's stream has its multiprocessors, and no others") {
  Session session;
  auto parts = split(2, 16);
  Green first(parts[0]), second(parts[1]);
  Where where;
  where.launch(first.stream);
  CHECK(where.numbers() == from_to(0, 16));
  where.launch(second.stream);
  CHECK(where.numbers() == from_to(16, 32));
  where.launch(nullptr);
  CHECK(where.numbers() == from_to(0, 132));
  OK(CU(cuCtxSetCurrent)(second.context));
  CUstream own = MADE(cuStreamCreate, 0);
  where.launch(own);
  CHECK(where.numbers() == from_to(16, 32));
  where.launch(nullptr);
  CHECK(where.numbers() == from_to(16, 32));

  CUgreenCtx green = ASKED(cuStreamGetGreenCtx, own);
  CHECK(green == second.handle);
  CUcontext context = ASKED(cuStreamGetCtx, own);
  CHECK(context == second.context);
  OK(CU(cuStreamGetCtx_v2)(own, &context, &green));
  CHECK(context == session.context);
  CHECK(green == second.handle);
  OK(CU(cuCtxGetCurrent)(&context));
  CHECK(context == second.context);
  CHECK(CU(cuStreamGetFlags)(CU_STREAM_PER_THREAD, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CUdevResource resource{};
  OK(CU(cuStreamGetDevResource)(first.stream, &resource, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(resource.sm.smCount == 16);
  OK(CU(cuCtxGetDevResource)(session.context, &resource, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(resource.sm.smCount == 132);
  OK(CU(cuGreenCtxGetDevResource)(first.handle, &resource, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(resource.sm.smCount == 16);
  unsigned long long ids[3] = {};
  OK(CU(cuGreenCtxGetId)(first.handle, &ids[0]));
  OK(CU(cuGreenCtxGetId)(nullptr, &ids[1]));
  OK(CU(cuCtxGetId)(session.context, &ids[2]));
  CHECK(std::set<unsigned long long>(ids, ids + 3).size() == 3);
  OK(CU(cuStreamDestroy_v2)(own));
  OK(CU(cuCtxSetCurrent)(session.context));
  CHECK(CU(cuGreenCtxGetId)(nullptr, &ids[1]) == CUDA_ERROR_INVALID_CONTEXT);
  // A green context is no context by itself.
  CHECK(CU(cuCtxSetCurrent)(reinterpret_cast<CUcontext>(first.handle)) ==
        CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("Kernel nodes have the multiprocessors of the green context that they name") {
  Session session;
  auto parts = split(2, 24);
  Green first(parts[0]), second(parts[1]);
  Where where;
  Builder built;
  CUgraphNodeParams params = where.node(second.context);
  CUgraphNode node = MADE(cuGraphAddNode, built.graph, nullptr, 0, &params);
  CUDA_KERNEL_NODE_PARAMS_v2 read = ASKED(cuGraphKernelNodeGetParams_v2, node);
  CHECK(read.ctx == second.context);
  run_and_destroy(built.graph, first.stream); // a launch's stream changes no node
  CHECK(where.numbers() == from_to(24, 48));

  CUgraph clone = MADE(cuGraphClone, built.graph);
  run_and_destroy(clone, nullptr);
  CHECK(where.numbers() == from_to(24, 48));
  OK(CU(cuGraphDestroy)(clone));

  // Captured work is of its stream's green context.
  OK(CU(cuStreamBeginCapture_v2)(first.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  where.launch(first.stream);
  Graph captured(ASKED(cuStreamEndCapture, first.stream));
  run_and_destroy(captured, nullptr);
  CHECK(where.numbers() == from_to(0, 24));

  // An instance's node keeps it: by the function that capture gave, and under a whole update.
  CUgraphExec exec = built.instantiate();
  CUgraphExecUpdateResultInfo info = ASKED(cuGraphExecUpdate_v2, exec, built.graph);
  CHECK(CU(cuGraphExecUpdate_v2)(exec, captured, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE);
  params = where.node(first.context);
  CHECK(CU(cuGraphExecNodeSetParams)(exec, node, &params) == CUDA_ERROR_INVALID_VALUE);
  params = where.node(second.context);
  OK(CU(cuGraphExecNodeSetParams)(exec, node, &params));
  OK(CU(cuGraphExecDestroy)(exec));
  size_t count = 1;
  OK(CU(cuGraphGetNodes)(captured, &node, &count));
  OK(CU(cuGraphKernelNodeGetParams_v2)(node, &read));
  CHECK(read.ctx == first.context);
  OK(CU(cuGraphKernelNodeSetParams_v2)(node, &read));
  run_and_destroy(captured, nullptr);
  CHECK(where.numbers() == from_to(0, 24));
}

TEST_CASE("From CUDA 13.4 a function's node may name a green context; before, ctx is ignored") {
  Session session{"CUGRT_EMU_DRIVER_VERSION=13.4"};
  Green green(split(1, 8)[0]);
  Where where;
  for (bool third_form : {false, true}) {
    Builder built;
    CUgraphNodeParams params = where.node(green.context);
    params.kernel.func = where.function;
    params.kernel.kern = nullptr;
    CUgraphNode node = nullptr;
    OK(third_form ? CU(cuGraphAddNode_v3)(&node, built.graph, nullptr, nullptr, 0, &params)
                  : CU(cuGraphAddNode)(&node, built.graph, nullptr, 0, &params));
    run_and_destroy(built.graph, nullptr);
    CHECK(where.numbers() == from_to(0, third_form ? 8 : 132));
  }
}

TEST_CASE("Copies and fills of graphs tell the green context that they were asked for in") {
  Session session;
  Green green(split(1, 8)[0]);
  Where where;
  Builder built;
  CUgraphNodeParams params{}, read{};
  CUgraphNode nodes[2] = {};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.memset = {where.cells, 0, 5, 4, 1, 1, green.context};
  OK(CU(cuGraphAddNode)(&nodes[0], built.graph, nullptr, 0, &params));
  params = {};
  uint32_t got = 0;
  params.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  params.memcpy.copyParams = Builder::copy_params(&got, where.cells, 4);
  params.memcpy.copyCtx = green.context;
  OK(CU(cuGraphAddNode)(&nodes[1], built.graph, &nodes[0], 1, &params));
  run_and_destroy(built.graph, nullptr);
  CHECK(got == 5);
  CHECK(CU(cuGraphNodeGetParams)(nodes[0], &read) == CUDA_SUCCESS);
  CHECK(read.memset.ctx == green.context);
  CHECK(CU(cuGraphNodeGetParams)(nodes[1], &read) == CUDA_SUCCESS);
  CHECK(read.memcpy.copyCtx == green.context);
}

TEST_CASE("Cooperative launches and occupancy count the green context's multiprocessors") {
  Session session;
  Green green(split(1, 16)[0]);
  Where where;
  int best = 0;
  int blocks = MADE(cuOccupancyMaxActiveBlocksPerMultiprocessor, where.function, 32, 0);
  int whole_grid = MADE(cuOccupancyMaxPotentialBlockSize, &best, where.function, nullptr, 0, 0);
  OK(CU(cuCtxSetCurrent)(green.context));
  int grid = MADE(cuOccupancyMaxPotentialBlockSize, &best, where.function, nullptr, 0, 0);
  CHECK(grid * 132 == whole_grid * 16);
  void *params[] = {&where.cells};
  OK(CU(cuMemFree_v2)(where.cells));
  where.cells = upload(std::vector<uint32_t>(size_t(16 * blocks) + 1));
  auto launch = [&](unsigned count, CUstream stream) {
    return CU(cuLaunchCooperativeKernel)(where.function, count, 1, 1, 32, 1, 1, 0, stream, params);
  };
  OK(launch(unsigned(16 * blocks), green.stream));
  CHECK(launch(unsigned(16 * blocks) + 1, green.stream) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  OK(CU(cuCtxSetCurrent)(session.context));
  OK(CU(cuCtxSynchronize)());
  OK(launch(unsigned(16 * blocks) + 1, nullptr));
  OK(CU(cuCtxSynchronize)());
}

TEST_CASE("A destroyed green context leaves its streams detached and its graphs unlaunched") {
  auto [version, answer, destroyed] =
      GENERATE(std::tuple("13.0", CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED),
               std::tuple("13.1", kStreamDetached, CUDA_SUCCESS));
  Session session{std::string("CUGRT_EMU_DRIVER_VERSION=") + version};
  Where where;
  Builder built;
  CUgraph captured = nullptr;
  CUgraphExec exec = nullptr;
  {
    Green green(split(1, 8)[0]);
    CUgraphNodeParams params = where.node(green.context);
    MADE(cuGraphAddNode, built.graph, nullptr, 0, &params);
    exec = built.instantiate();
    OK(CU(cuStreamBeginCapture_v2)(green.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(CU(cuCtxSetCurrent)(green.context));
    OK(CU(cuGreenCtxDestroy)(green.handle));
    CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(CU(cuCtxSetCurrent)(session.context));
    CHECK(CU(cuStreamQuery)(green.stream) == answer);
    CHECK(CU(cuStreamEndCapture)(green.stream, &captured) == answer);
    CHECK(CU(cuStreamDestroy_v2)(green.stream) == destroyed);
    CHECK(CU(cuGreenCtxDestroy)(green.handle) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(CU(cuCtxSetCurrent)(green.context) == CUDA_ERROR_INVALID_CONTEXT);
    green.handle = nullptr;
  }
  CHECK(CU(cuGraphLaunch)(exec, nullptr) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  OK(CU(cuGraphExecDestroy)(exec));
}

TEST_CASE("Groups of one split make one green context, and its multiprocessors are divided again") {
  Session session{"CUGRT_EMU_DRIVER_VERSION=13.3"};
  auto parts = split(3, 8);
  std::swap(parts[1], parts[2]);
  CUdevResourceDesc descriptor = nullptr;
  OK(CU(cuDevResourceGenerateDesc)(&descriptor, parts.data(), 2)); // 0 to 7 and 16 to 23
  CUgreenCtx handle = nullptr;
  OK(CU(cuGreenCtxCreate)(&handle, descriptor, 0, 0)); // no flag is needed from 13.3 on
  CUdevResource resource{}, halves[2] = {};
  OK(CU(cuGreenCtxGetDevResource)(handle, &resource, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(resource.sm.smCount == 16);
  unsigned two = 2;
  OK(CU(cuDevSmResourceSplitByCount)(halves, &two, &resource, nullptr, 0, 8));
  {
    Green green(halves[1]);
    Where where;
    where.launch(green.stream);
    CHECK(where.numbers() == from_to(16, 24));
  }
  OK(CU(cuGreenCtxDestroy)(handle));
}
