// Handles that stand for nothing, a row a call: null, made up, of another kind, and freed. No call
// may follow them, and each answers what cuda.h lists for it.
#include "emulator/unit/driver/session.h"

#include <functional>

namespace {

constexpr char kHandlesPtx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                               ".visible .entry nothing() { ret; }\n";

/// Live things that calls need besides the handle in question.
struct World {
  World() {
    OK(CU(cuStreamCreate)(&stream, 0));
    OK(CU(cuEventCreate)(&event, 0));
    OK(CU(cuMemAlloc_v2)(&memory, 64));
    OK(CU(cuMemsetD8_v2)(memory, 0, 64));
    OK(CU(cuGraphCreate)(&graph, 0));
    OK(CU(cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
    OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  }
  ~World() {
    CHECK(CU(cuGraphExecDestroy)(exec) == CUDA_SUCCESS);
    CHECK(CU(cuGraphDestroy)(graph) == CUDA_SUCCESS);
    CHECK(CU(cuMemFree_v2)(memory) == CUDA_SUCCESS);
    CHECK(CU(cuEventDestroy_v2)(event) == CUDA_SUCCESS);
    CHECK(CU(cuStreamDestroy_v2)(stream) == CUDA_SUCCESS);
  }
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
};

enum class Kind {
  context,
  stream,
  event,
  module,
  function,
  library,
  kernel,
  link,
  graph,
  node,
  exec,
  pool,
  user_object
};

/// One that lived and lives no more.
void *freed(Kind kind) {
  void *handle = nullptr;
  auto as = [&](auto type) { return reinterpret_cast<decltype(type) *>(&handle); };
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUgraph graph = nullptr;
  switch (kind) {
  case Kind::context:
    OK(CU(cuCtxCreate_v2)(as(CUcontext()), 0, 0));
    OK(CU(cuCtxDestroy_v2)(CUcontext(handle)));
    break;
  case Kind::stream:
    OK(CU(cuStreamCreate)(as(CUstream()), 0));
    OK(CU(cuStreamDestroy_v2)(CUstream(handle)));
    break;
  case Kind::event:
    OK(CU(cuEventCreate)(as(CUevent()), 0));
    OK(CU(cuEventDestroy_v2)(CUevent(handle)));
    break;
  case Kind::module:
  case Kind::function:
    OK(CU(cuModuleLoadData)(&module, kHandlesPtx));
    handle = module;
    if (kind == Kind::function)
      OK(CU(cuModuleGetFunction)(as(CUfunction()), module, "nothing"));
    OK(CU(cuModuleUnload)(module));
    break;
  case Kind::library:
  case Kind::kernel:
    OK(CU(cuLibraryLoadData)(&library, kHandlesPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    handle = library;
    if (kind == Kind::kernel)
      OK(CU(cuLibraryGetKernel)(as(CUkernel()), library, "nothing"));
    OK(CU(cuLibraryUnload)(library));
    break;
  case Kind::link:
    OK(CU(cuLinkCreate_v2)(0, nullptr, nullptr, as(CUlinkState())));
    OK(CU(cuLinkDestroy)(CUlinkState(handle)));
    break;
  case Kind::graph:
  case Kind::node:
    OK(CU(cuGraphCreate)(&graph, 0));
    handle = graph;
    if (kind == Kind::node)
      OK(CU(cuGraphAddEmptyNode)(as(CUgraphNode()), graph, nullptr, 0));
    OK(CU(cuGraphDestroy)(graph));
    break;
  case Kind::exec:
    OK(CU(cuGraphCreate)(&graph, 0));
    OK(CU(cuGraphInstantiateWithFlags)(as(CUgraphExec()), graph, 0));
    OK(CU(cuGraphExecDestroy)(CUgraphExec(handle)));
    OK(CU(cuGraphDestroy)(graph));
    break;
  case Kind::pool: {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(CU(cuMemPoolCreate)(as(CUmemoryPool()), &props));
    OK(CU(cuMemPoolDestroy)(CUmemoryPool(handle)));
    break;
  }
  case Kind::user_object:
    OK(CU(cuUserObjectCreate)(
        as(CUuserObject()), &graph, [](void *) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(CU(cuUserObjectRelease)(CUuserObject(handle), 1));
    break;
  }
  return handle;
}

/// `null` is what the call answers to nullptr, which may stand for something; `dead` to all others.
struct Row {
  const char *name;
  Kind kind;
  CUresult null, dead;
  std::function<CUresult(World &, void *)> call;
};

// What the calls give out, which nobody looks at.
struct Sink {
  int number = 0;
  unsigned count = 0, flags = 0;
  unsigned long long id = 0;
  size_t bytes = 0, offset = 0;
  CUdeviceptr address = 0;
  const char *text = nullptr;
  void *image = nullptr;
  cuuint64_t wide = 0;
  float ms = 0;
  CUcontext context = nullptr;
  CUfunction function = nullptr;
  CUmodule module = nullptr;
  CUkernel kernel = nullptr;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNodeType type{};
  CUstreamCaptureStatus status{};
  CUgraphExecUpdateResultInfo update{};
  CUDA_KERNEL_NODE_PARAMS params{};
  CUgraphNodeParams generic{};
} sink;

constexpr CUresult kGood = CUDA_SUCCESS, kHandle = CUDA_ERROR_INVALID_HANDLE,
                   kValue = CUDA_ERROR_INVALID_VALUE, kContext = CUDA_ERROR_INVALID_CONTEXT;

#define ROW(kind, type, function, null, ...)                                                       \
  {                                                                                                \
#function, Kind::kind, null, kDead_##kind,                     \
   [](World &world, void *handle) {                                                                \
     [[maybe_unused]] World &w = world;                                                            \
     auto h = static_cast<type>(handle);                                                           \
     return CU(function)(__VA_ARGS__);                                                             \
   }                                   \
  }

constexpr CUresult kDead_context = kContext, kDead_stream = kHandle, kDead_event = kHandle,
                   kDead_module = kHandle, kDead_function = kHandle, kDead_library = kHandle,
                   kDead_kernel = kHandle, kDead_link = kHandle, kDead_graph = kValue,
                   kDead_node = kValue, kDead_exec = kValue, kDead_pool = kValue,
                   kDead_user_object = kValue;

const Row kRows[] = {
    ROW(context, CUcontext, cuCtxDestroy_v2, kContext, h),
    ROW(context, CUcontext, cuCtxPushCurrent_v2, kContext, h),
    ROW(context, CUcontext, cuCtxEnablePeerAccess, kContext, h, 0),
    ROW(context, CUcontext, cuCtxDisablePeerAccess, kContext, h),
    ROW(context, CUcontext, cuMemcpyPeer, kContext, w.memory, h, w.memory + 32, h, 8),

    // The null stream is the legacy one.
    ROW(stream, CUstream, cuStreamDestroy_v2, kHandle, h),
    ROW(stream, CUstream, cuStreamSynchronize, kGood, h),
    ROW(stream, CUstream, cuStreamQuery, kGood, h),
    ROW(stream, CUstream, cuStreamGetFlags, kGood, h, &sink.flags),
    ROW(stream, CUstream, cuStreamGetPriority, kGood, h, &sink.number),
    ROW(stream, CUstream, cuStreamGetId, kGood, h, &sink.id),
    ROW(stream, CUstream, cuStreamGetCtx, kGood, h, &sink.context),
    ROW(stream, CUstream, cuStreamIsCapturing, kGood, h, &sink.status),
    ROW(stream, CUstream, cuStreamWaitEvent, kGood, h, w.event, 0),
    ROW(stream, CUstream, cuEventRecord, kGood, w.event, h),
    ROW(
        stream, CUstream, cuLaunchHostFunc, kGood, h, [](void *) {}, nullptr),
    ROW(stream, CUstream, cuMemsetD32Async, kGood, w.memory, 1, 1, h),
    ROW(stream, CUstream, cuMemcpyDtoDAsync_v2, kGood, w.memory, w.memory + 32, 8, h),
    ROW(stream, CUstream, cuGraphLaunch, kGood, w.exec, h),
    ROW(stream, CUstream, cuGraphUpload, kGood, w.exec, h),
    ROW(stream, CUstream, cuStreamBeginCapture_v2, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, h,
        CU_STREAM_CAPTURE_MODE_RELAXED),

    ROW(event, CUevent, cuEventDestroy_v2, kHandle, h),
    ROW(event, CUevent, cuEventQuery, kHandle, h),
    ROW(event, CUevent, cuEventSynchronize, kHandle, h),
    ROW(event, CUevent, cuEventRecord, kHandle, h, w.stream),
    ROW(event, CUevent, cuEventElapsedTime_v2, kHandle, &sink.ms, h, w.event),
    ROW(event, CUevent, cuStreamWaitEvent, kHandle, w.stream, h, 0),

    ROW(module, CUmodule, cuModuleUnload, kHandle, h),
    ROW(module, CUmodule, cuModuleGetFunction, kHandle, &sink.function, h, "nothing"),
    ROW(module, CUmodule, cuModuleGetGlobal_v2, kHandle, &sink.address, &sink.bytes, h, "x"),
    ROW(module, CUmodule, cuModuleGetFunctionCount, kHandle, &sink.count, h),
    ROW(module, CUmodule, cuModuleEnumerateFunctions, kHandle, &sink.function, 1, h),

    ROW(function, CUfunction, cuFuncGetAttribute, kHandle, &sink.number, CU_FUNC_ATTRIBUTE_NUM_REGS,
        h),
    ROW(function, CUfunction, cuFuncSetAttribute, kHandle, h,
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 0),
    ROW(function, CUfunction, cuFuncGetModule, kHandle, &sink.module, h),
    ROW(function, CUfunction, cuFuncGetName, kHandle, &sink.text, h),
    ROW(function, CUfunction, cuFuncGetParamInfo, kHandle, h, 0, &sink.offset, &sink.bytes),
    ROW(function, CUfunction, cuFuncGetParamCount, kHandle, h, &sink.bytes),
    ROW(function, CUfunction, cuFuncSetSharedMemConfig, kHandle, h,
        CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE),
    ROW(function, CUfunction, cuOccupancyMaxActiveBlocksPerMultiprocessor, kHandle, &sink.number, h,
        32, 0),
    ROW(function, CUfunction, cuLaunchKernel, kHandle, h, 1, 1, 1, 1, 1, 1, 0, w.stream, nullptr,
        nullptr),

    ROW(library, CUlibrary, cuLibraryUnload, kHandle, h),
    ROW(library, CUlibrary, cuLibraryGetKernel, kHandle, &sink.kernel, h, "nothing"),
    ROW(library, CUlibrary, cuLibraryGetKernelCount, kHandle, &sink.count, h),
    ROW(library, CUlibrary, cuLibraryGetModule, kHandle, &sink.module, h),
    ROW(library, CUlibrary, cuLibraryGetGlobal, kHandle, &sink.address, &sink.bytes, h, "x"),
    ROW(library, CUlibrary, cuLibraryGetManaged, kHandle, &sink.address, &sink.bytes, h, "x"),
    ROW(library, CUlibrary, cuLibraryGetUnifiedFunction, kHandle, &sink.image, h, "x"),
    ROW(kernel, CUkernel, cuKernelGetFunction, kHandle, &sink.function, h),
    ROW(kernel, CUkernel, cuKernelGetParamCount, kHandle, h, &sink.bytes),
    ROW(kernel, CUkernel, cuKernelGetName, kHandle, &sink.text, h),
    ROW(kernel, CUkernel, cuKernelGetAttribute, kHandle, &sink.number, CU_FUNC_ATTRIBUTE_NUM_REGS,
        h, 0),
    ROW(kernel, CUkernel, cuKernelSetCacheConfig, kHandle, h, CU_FUNC_CACHE_PREFER_NONE, 0),

    ROW(link, CUlinkState, cuLinkAddData_v2, kHandle, h, CU_JIT_INPUT_PTX,
        const_cast<char *>(kHandlesPtx), sizeof kHandlesPtx, nullptr, 0, nullptr, nullptr),
    ROW(link, CUlinkState, cuLinkAddFile_v2, kHandle, h, CU_JIT_INPUT_PTX, "/nonexistent", 0,
        nullptr, nullptr),
    ROW(link, CUlinkState, cuLinkComplete, kHandle, h, &sink.image, &sink.bytes),
    ROW(link, CUlinkState, cuLinkDestroy, kHandle, h),

    ROW(graph, CUgraph, cuGraphDestroy, kValue, h),
    ROW(graph, CUgraph, cuGraphClone, kValue, &sink.graph, h),
    ROW(graph, CUgraph, cuGraphInstantiateWithFlags, kValue, &sink.exec, h, 0),
    ROW(graph, CUgraph, cuGraphGetNodes, kValue, h, nullptr, &sink.bytes),
    ROW(graph, CUgraph, cuGraphAddEmptyNode, kValue, &sink.node, h, nullptr, 0),
    ROW(graph, CUgraph, cuGraphDebugDotPrint, kValue, h, "/tmp/cugrt-none.dot", 0),
    ROW(graph, CUgraph, cuGraphExecUpdate_v2, kValue, w.exec, h, &sink.update),
    ROW(node, CUgraphNode, cuGraphDestroyNode, kValue, h),
    ROW(node, CUgraphNode, cuGraphNodeGetType, kValue, h, &sink.type),
    ROW(node, CUgraphNode, cuGraphKernelNodeGetParams_v2, kValue, h, &sink.params),
    ROW(node, CUgraphNode, cuGraphNodeGetParams, kValue, h, &sink.generic),
    ROW(node, CUgraphNode, cuGraphNodeSetParams_v2, kValue, h, &sink.generic),
    ROW(graph, CUgraph, cuGraphAddNode_v3, kValue, &sink.node, h, nullptr, nullptr, 0,
        &sink.generic),
    ROW(node, CUgraphNode, cuGraphNodeGetContainingGraph, kValue, h, &sink.graph),
    ROW(node, CUgraphNode, cuGraphNodeGetLocalId, kValue, h, &sink.count),
    ROW(node, CUgraphNode, cuGraphNodeGetToolsId, kValue, h, &sink.id),
    ROW(graph, CUgraph, cuGraphGetId, kValue, h, &sink.count),
    ROW(exec, CUgraphExec, cuGraphExecGetId, kValue, h, &sink.count),
    ROW(exec, CUgraphExec, cuGraphExecDestroy, kValue, h),
    ROW(exec, CUgraphExec, cuGraphLaunch, kValue, h, w.stream),
    ROW(exec, CUgraphExec, cuGraphUpload, kValue, h, w.stream),
    ROW(exec, CUgraphExec, cuGraphExecGetFlags, kValue, h, &sink.wide),
    ROW(exec, CUgraphExec, cuGraphExecUpdate_v2, kValue, h, w.graph, &sink.update),

    ROW(pool, CUmemoryPool, cuMemPoolDestroy, kValue, h),
    ROW(pool, CUmemoryPool, cuMemPoolTrimTo, kValue, h, 0),
    ROW(pool, CUmemoryPool, cuMemPoolGetAttribute, kValue, h, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
        &sink.wide),
    ROW(user_object, CUuserObject, cuUserObjectRetain, kValue, h, 1),
    ROW(user_object, CUuserObject, cuUserObjectRelease, kValue, h, 1),
};

} // namespace

TEST_CASE("Null, made-up, misplaced and freed handles are refused as documented") {
  Session session;
  World world;
  char bytes[256] = {};
  for (const Row &row : kRows) {
    INFO(row.name);
    CHECK(row.call(world, nullptr) == row.null);
    void *other = row.kind == Kind::event ? static_cast<void *>(world.stream) : world.event;
    for (void *handle : {reinterpret_cast<void *>(0x77), static_cast<void *>(bytes),
                         reinterpret_cast<void *>(~uint64_t(0)), other})
      CHECK(row.call(world, handle) == row.dead);
    // "CUDA_ERROR_CONTEXT_IS_DESTROYED" is as good for a context that is gone.
    CUresult result = row.call(world, freed(row.kind));
    if (row.kind == Kind::context && result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
      continue;
    CHECK(result == row.dead);
  }
}

TEST_CASE("Memory is freed once, by the call that it belongs to") {
  Session session;
  std::vector<char> pageable(64);
  CUdeviceptr device = MADE(cuMemAlloc_v2, 64);
  CUdeviceptr managed = MADE(cuMemAllocManaged, 64, CU_MEM_ATTACH_GLOBAL);
  void *pinned = MADE(cuMemAllocHost_v2, 64);
  auto host = reinterpret_cast<CUdeviceptr>(pinned);
  auto free_host = [](CUdeviceptr p) { return CU(cuMemFreeHost)(reinterpret_cast<void *>(p)); };
  for (CUdeviceptr wrong :
       {host, device + 4, managed + 4, reinterpret_cast<CUdeviceptr>(pageable.data())}) {
    CHECK(CU(cuMemFree_v2)(wrong) == kValue);
    CHECK(CU(cuMemFreeAsync)(wrong, nullptr) == kValue);
  }
  for (CUdeviceptr wrong :
       {device, managed, host + 4, reinterpret_cast<CUdeviceptr>(pageable.data())}) {
    CHECK(free_host(wrong) == kValue);
    CHECK(CU(cuMemHostUnregister)(reinterpret_cast<void *>(wrong)) ==
          CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  }
  OK(CU(cuMemFree_v2)(device));
  OK(CU(cuMemFree_v2)(managed));
  OK(free_host(host));
  CHECK(CU(cuMemFree_v2)(device) == kValue);
  CHECK(CU(cuMemFree_v2)(managed) == kValue);
  CHECK(free_host(host) == kValue);
  CHECK(CU(cuMemRelease)(77) == kValue);
  CHECK(CU(cuMemUnmap)(device, 1 << 21) == kValue);
  CHECK(CU(cuMemAddressFree)(device, 1 << 21) == kValue);
}
