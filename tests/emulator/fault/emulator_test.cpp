// The emulated driver while host memory runs out: a call answers CUDA_ERROR_OUT_OF_MEMORY and has
// done nothing. So each call of a script is made with its first, second, ... allocation failing
// until it needs no more; then it has taken effect exactly once, and the results are those of a
// script that nothing disturbed.
#include "emulator/unit/driver/session.h"
#include "support/alloc_fault.h"

#include <cstring>
#include <thread>

using cugrt::test::FailAt;

namespace {

uint64_t failures = 0; // made by persist()

/// Makes the call until it succeeds, first with its first allocation failing, then with its
/// second...
template <class Call> void persist(const Call &call) {
  for (uint64_t nth = 0;; ++nth) {
    CUresult result;
    bool failed;
    {
      FailAt fault(nth);
      result = call();
      failed = fault.triggered();
    }
    INFO("allocation " << nth);
    if (!failed || result == CUDA_SUCCESS) { // the call may do without
      REQUIRE(result == CUDA_SUCCESS);
      return;
    }
    REQUIRE(result == CUDA_ERROR_OUT_OF_MEMORY);
    ++failures;
  }
}

#define PERSIST(...) persist([&] { return __VA_ARGS__; })

/// Device memory for one number, a stream that work waits in until open(), and the kernel
/// `*cell = *cell * factor + term`, which shows whether work was lost, doubled or reordered.
struct Script {
  Script() {
    PERSIST(CU(cuMemAlloc_v2)(&cell, 4));
    PERSIST(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    module = load_kernels();
    PERSIST(CU(cuModuleGetFunction)(&function, module, "affine"));
    PERSIST(CU(cuMemsetD32Async)(cell, 1, 1, stream));
    OK(CU(cuStreamSynchronize)(stream));
    PERSIST(CU(cuLaunchHostFunc)(stream, Gate::wait, &gate));
  }
  ~Script() {
    gate.open = true;
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
    persist([&] { return CU(cuModuleUnload)(module); });
    persist([&] { return CU(cuMemFree_v2)(cell); });
    persist([&] { return CU(cuStreamDestroy_v2)(stream); });
  }

  CUresult launch(uint32_t factor, uint32_t term) {
    void *params[] = {&cell, &factor, &term};
    return CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
  }
  CUDA_KERNEL_NODE_PARAMS_v2 node(void **params) const {
    CUDA_KERNEL_NODE_PARAMS_v2 p{};
    p.func = function;
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = params;
    return p;
  }
  uint32_t result() {
    gate.open = true;
    OK(CU(cuStreamSynchronize)(stream));
    return download<uint32_t>(cell, 1)[0];
  }

  Gate gate;
  CUdeviceptr cell = 0;
  CUstream stream = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

struct Counting {
  ~Counting() { CHECK(failures > before); }
  uint64_t before = failures;
};

} // namespace

TEST_CASE("starting the driver survives every failing allocation") {
  Counting counting;
  FreshDriver fresh;
  PERSIST(CU(cuInit)(0));
  CUcontext context = nullptr, second = nullptr;
  PERSIST(CU(cuDevicePrimaryCtxRetain)(&context, 0));
  PERSIST(CU(cuCtxSetCurrent)(context));
  PERSIST(CU(cuCtxCreate_v2)(&second, 0, 0));
  PERSIST(CU(cuCtxDestroy_v2)(second));
  CHECK(statistics().contexts == 1);
  PERSIST(CU(cuCtxSetCurrent)(nullptr));
  PERSIST(CU(cuDevicePrimaryCtxRelease_v2)(0));
  CHECK(statistics().contexts == 0);
}

TEST_CASE("work in streams is enqueued once or not at all") {
  Counting counting;
  Session session;
  Script script;
  CUstream other = nullptr;
  CUevent event = nullptr, back = nullptr;
  uint32_t source = 5, seen = 0;
  std::atomic<int> calls{0};
  auto count = [](void *counter) { ++*static_cast<std::atomic<int> *>(counter); };
  auto callback = [](CUstream, CUresult, void *counter) {
    ++*static_cast<std::atomic<int> *>(counter);
  };
  void *pinned = nullptr;
  CUdeviceptr temporary = 0;
  PERSIST(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
  PERSIST(CU(cuEventCreate)(&event, 0));
  PERSIST(CU(cuEventCreate)(&back, CU_EVENT_DISABLE_TIMING));
  PERSIST(CU(cuMemHostAlloc)(&pinned, 4, 0));
  PERSIST(script.launch(3, 4)); // 7
  PERSIST(CU(cuEventRecord)(event, script.stream));
  PERSIST(CU(cuStreamWaitEvent)(other, event, 0));
  PERSIST(CU(cuMemcpyDtoHAsync_v2)(pinned, script.cell, 4, other));  // 7
  PERSIST(CU(cuMemcpyHtoDAsync_v2)(script.cell, &source, 4, other)); // 5, staged
  PERSIST(CU(cuLaunchHostFunc)(other, count, &calls));
  PERSIST(CU(cuStreamAddCallback)(other, callback, &calls, 0));
  PERSIST(CU(cuEventRecord)(back, other));
  PERSIST(CU(cuStreamWaitEvent)(script.stream, back, 0));
  source = 0;
  PERSIST(script.launch(2, 1)); // 11
  PERSIST(CU(cuMemAllocAsync)(&temporary, 4, script.stream));
  PERSIST(CU(cuMemcpyDtoDAsync_v2)(temporary, script.cell, 4, script.stream));
  PERSIST(CU(cuMemcpyDtoDAsync_v2)(script.cell, temporary, 4, script.stream));
  PERSIST(CU(cuMemFreeAsync)(temporary, script.stream));
  CHECK(CU(cuMemFreeAsync)(temporary, script.stream) ==
        CUDA_ERROR_INVALID_VALUE); // it is under way
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
  CHECK(script.result() == 11);
  std::memcpy(&seen, pinned, 4);
  CHECK(seen == 7);
  CHECK(calls == 2);
  PERSIST(CU(cuEventDestroy_v2)(event));
  PERSIST(CU(cuEventDestroy_v2)(back));
  PERSIST(CU(cuStreamDestroy_v2)(other));
  PERSIST(CU(cuMemFreeHost)(pinned));
}

TEST_CASE("memory is freed after the work that uses it, at the attempt that succeeds") {
  Counting counting;
  Session session;
  Script script;
  CUdeviceptr memory = 0;
  CUstream gone = nullptr;
  PERSIST(CU(cuMemAlloc_v2)(&memory, 64));
  PERSIST(CU(cuStreamCreate)(&gone, CU_STREAM_NON_BLOCKING));
  PERSIST(CU(cuLaunchHostFunc)(gone, Gate::wait, &script.gate));
  PERSIST(CU(cuStreamDestroy_v2)(gone));
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    script.gate.open = true;
  });
  unsigned long long before = statistics().allocations;
  PERSIST(CU(cuMemFree_v2)(memory));
  CHECK(script.gate.open);
  CHECK(statistics().allocations == before - 1);
  CHECK(CU(cuMemFree_v2)(memory) == CUDA_ERROR_INVALID_VALUE);
  opens.join();
}

TEST_CASE("graphs are built, instantiated, launched and updated whole or not at all") {
  Counting counting;
  Session session;
  Script script;
  uint32_t factor = 3, term = 4;
  void *params[] = {&script.cell, &factor, &term};
  CUDA_KERNEL_NODE_PARAMS_v2 kernel_node = script.node(params);
  CUDA_MEMSET_NODE_PARAMS fill{script.cell, 0, 10, 4, 1, 1};
  CUgraph child = nullptr, graph = nullptr, clone = nullptr;
  CUgraphNode a = nullptr, b = nullptr, c = nullptr, e = nullptr, in_child = nullptr;
  CUevent event = nullptr;
  PERSIST(CU(cuEventCreate)(&event, 0));
  PERSIST(CU(cuGraphCreate)(&child, 0));
  PERSIST(CU(cuGraphAddKernelNode_v2)(&in_child, child, nullptr, 0, &kernel_node));
  PERSIST(CU(cuGraphCreate)(&graph, 0));
  PERSIST(CU(cuGraphAddMemsetNode)(&a, graph, nullptr, 0, &fill, nullptr));
  PERSIST(CU(cuGraphAddChildGraphNode)(&b, graph, &a, 1, child));
  PERSIST(CU(cuGraphAddKernelNode_v2)(&c, graph, nullptr, 0, &kernel_node));
  PERSIST(CU(cuGraphAddDependencies)(graph, &b, &c, 1));
  PERSIST(CU(cuGraphAddEventRecordNode)(&e, graph, &c, 1, event));
  size_t edges = 0;
  OK(CU(cuGraphGetEdges)(graph, nullptr, nullptr, &edges));
  CHECK(edges == 3);
  PERSIST(CU(cuGraphClone)(&clone, graph));
  CHECK(statistics().graphs == 5); // two have a copy of the child
  CHECK(statistics().graph_nodes == 1 + 2 * (4 + 1));
  CUgraphExec exec = nullptr;
  PERSIST(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  PERSIST(CU(cuGraphLaunch)(exec, script.stream)); // (10 * 3 + 4) * 3 + 4 = 106
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
  term = 5;
  PERSIST(CU(cuGraphExecKernelNodeSetParams_v2)(exec, c, &kernel_node));
  PERSIST(CU(cuGraphLaunch)(exec, script.stream)); // (10 * 3 + 4) * 3 + 5 = 107
  PERSIST(script.launch(2, 0));                    // 214
  CHECK(script.result() == 214);
  OK(CU(cuEventQuery)(event));
  CUgraphExecUpdateResultInfo info{};
  PERSIST(CU(cuGraphExecUpdate_v2)(exec, clone, &info));
  PERSIST(CU(cuGraphLaunch)(exec, script.stream));
  CHECK(script.result() == 106);
  PERSIST(CU(cuGraphExecDestroy)(exec));
  for (CUgraph each : {graph, clone, child})
    PERSIST(CU(cuGraphDestroy)(each));
  CHECK(statistics().graph_nodes == 0);
  PERSIST(CU(cuEventDestroy_v2)(event));
}

TEST_CASE("captures and user objects survive every failing allocation") {
  Counting counting;
  Session session;
  Script script;
  std::atomic<int> destroyed{0};
  CUstream stream = nullptr, joined = nullptr;
  CUevent fork = nullptr, join = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUuserObject object = nullptr;
  PERSIST(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  PERSIST(CU(cuStreamCreate)(&joined, CU_STREAM_NON_BLOCKING));
  PERSIST(CU(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING));
  PERSIST(CU(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING));
  PERSIST(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  PERSIST(CU(cuMemsetD32Async)(script.cell, 9, 1, stream));
  PERSIST(CU(cuEventRecord)(fork, stream));
  PERSIST(CU(cuStreamWaitEvent)(joined, fork, 0));
  uint32_t factor = 2, term = 3;
  void *params[] = {&script.cell, &factor, &term};
  PERSIST(CU(cuLaunchKernel)(script.function, 1, 1, 1, 1, 1, 1, 0, joined, params, nullptr));
  PERSIST(CU(cuEventRecord)(join, joined));
  PERSIST(CU(cuStreamWaitEvent)(stream, join, 0));
  PERSIST(CU(cuStreamEndCapture)(stream, &graph));
  CHECK(statistics().graph_nodes == 2);
  auto destroy = [](void *counter) { ++*static_cast<std::atomic<int> *>(counter); };
  PERSIST(
      CU(cuUserObjectCreate)(&object, &destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  PERSIST(CU(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  PERSIST(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  PERSIST(CU(cuGraphLaunch)(exec, script.stream));
  PERSIST(CU(cuGraphDestroy)(graph));
  PERSIST(CU(cuGraphExecDestroy)(exec));
  CHECK(destroyed == 0); // the launch is under way
  CHECK(script.result() == 21);
  PERSIST(CU(cuLaunchHostFunc)(
      script.stream, [](void *) {}, nullptr));
  OK(CU(cuCtxSynchronize)());
  while (destroyed == 0) // on a thread of the driver's, ordered with nothing
    std::this_thread::yield();
  CHECK(destroyed == 1);
  for (CUstream each : {stream, joined})
    PERSIST(CU(cuStreamDestroy_v2)(each));
  for (CUevent each : {fork, join})
    PERSIST(CU(cuEventDestroy_v2)(each));
}

TEST_CASE("mapped memory survives every failing allocation") {
  Counting counting;
  Session session;
  constexpr size_t kBytes = size_t(2) << 20;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  size_t free_before = 0, free_after = 0, total = 0;
  OK(CU(cuMemGetInfo_v2)(&free_before, &total));
  PERSIST(CU(cuMemAddressReserve)(&address, kBytes, 0, 0, 0));
  PERSIST(CU(cuMemCreate)(&handle, kBytes, &prop, 0));
  PERSIST(CU(cuMemMap)(address, kBytes, 0, handle, 0));
  PERSIST(CU(cuMemSetAccess)(address, kBytes, &access, 1));
  OK(CU(cuMemsetD32_v2)(address, 77, 1));
  CHECK(download<uint32_t>(address, 1)[0] == 77);
  PERSIST(CU(cuMemUnmap)(address, kBytes));
  PERSIST(CU(cuMemRelease)(handle));
  PERSIST(CU(cuMemAddressFree)(address, kBytes));
  OK(CU(cuMemGetInfo_v2)(&free_after, &total));
  CHECK(free_after == free_before);
}

TEST_CASE("a whole session in which one allocation fails ends, and a fresh one works") {
  // Synchronising calls run kernels on this thread; what fails there is lost, which poisons the
  // device, as a fault of a kernel does.
  auto whole = [](Session &session) {
    CUdeviceptr cell = 0;
    CUresult first = CUDA_SUCCESS;
    auto take = [&](CUresult result) {
      if (first == CUDA_SUCCESS)
        first = result;
      return result == CUDA_SUCCESS;
    };
    uint32_t value = 6, seen = 0;
    if (take(CU(cuMemAlloc_v2)(&cell, 4)) && take(CU(cuMemcpyHtoD_v2)(cell, &value, 4)) &&
        take(CU(cuMemcpyDtoH_v2)(&seen, cell, 4)) && seen != 6)
      first = CUDA_ERROR_UNKNOWN;
    if (cell)
      take(CU(cuMemFree_v2)(cell));
    (void)session;
    return first;
  };
  for (uint64_t nth = 0;; ++nth) {
    INFO("allocation " << nth);
    bool failed;
    {
      Session session;
      CUresult result;
      {
        FailAt fault(nth);
        result = whole(session);
        failed = fault.triggered();
      }
      CHECK((result == CUDA_ERROR_OUT_OF_MEMORY || (result == CUDA_SUCCESS)));
    }
    Session session;
    CHECK(whole(session) == CUDA_SUCCESS);
    if (!failed) {
      CHECK(nth > 10);
      break;
    }
  }
}
