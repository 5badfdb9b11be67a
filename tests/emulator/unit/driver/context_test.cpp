// Contexts, beyond the conformance scripts: what goes with them, and planted faults.
#include "emulator/unit/driver/session.h"

TEST_CASE("A destroyed context that another thread still has current says so") {
  Session session;
  CUcontext made = MADE(cuCtxCreate_v2, 0, 0);
  std::atomic<int> stage{0};
  CUresult seen = CUDA_SUCCESS;
  std::thread other([&] {
    CU(cuCtxSetCurrent)(made);
    stage = 1;
    while (stage != 2)
      std::this_thread::yield();
    CUdeviceptr address = 0;
    seen = CU(cuMemAlloc_v2)(&address, 16);
  });
  while (stage != 1)
    std::this_thread::yield();
  OK(CU(cuCtxDestroy_v2)(made));
  stage = 2;
  other.join();
  // "attempting to access ctx from those threads will result in the error
  // CUDA_ERROR_CONTEXT_IS_DESTROYED"
  CHECK(seen == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_CASE("The primary context is released, not destroyed") {
  Session session;
  CHECK(CU(cuCtxDestroy_v2)(session.context) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("Destroying a context frees what it holds") {
  Session session;
  CUcontext made = MADE(cuCtxCreate_v2, 0, 0);
  MADE(cuMemAlloc_v2, 4096);
  MADE(cuMemAllocHost_v2, 64);
  CUstream stream = MADE(cuStreamCreate, 0);
  CUevent event = MADE(cuEventCreate, 0);
  CHECK(statistics().allocations == 1);
  OK(CU(cuCtxDestroy_v2)(made));
  CUemuStatistics left = statistics();
  CHECK(left.allocations == 0);
  CHECK(left.host_allocations == 0);
  CHECK(left.streams == 0);
  CHECK(left.events == 0);
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("A handle's entry is given out again, the handle is not") {
  Session session;
  CHECK(CU(cuCtxSetCurrent)(reinterpret_cast<CUcontext>(0x1234567812345678)) ==
        CUDA_ERROR_INVALID_CONTEXT);
  CUevent event = MADE(cuEventCreate, 0);
  OK(CU(cuEventDestroy_v2)(event));
  Event reused(0);
  CHECK(reused != event);
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("An injected fault makes exactly the nth call fail, without performing it") {
  Session session;
  OK(CU(cuEmuSetFaultInjection)(2, CUDA_ERROR_OUT_OF_MEMORY));
  Memory address(MADE(cuMemAlloc_v2, 16));
  CUdeviceptr second = 7;
  CHECK(CU(cuMemAlloc_v2)(&second, 16) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(second == 7);
  CHECK(statistics().allocations == 1);
  OK(CU(cuMemAlloc_v2)(&second, 16));
  OK(CU(cuMemFree_v2)(second));
}

TEST_CASE("A fault can be injected by the environment") {
  FreshDriver driver{"CUGRT_EMU_FAIL_CALL=2:CUDA_ERROR_NO_DEVICE"};
  OK(CU(cuInit)(0));
  int count = 0;
  CHECK(CU(cuDeviceGetCount)(&count) == CUDA_ERROR_NO_DEVICE);
  OK(CU(cuDeviceGetCount)(&count));
}

namespace {

/// Calls the driver when its thread's objects are destroyed.
struct LateCaller {
  CUcontext context = nullptr;
  CUcontext *left = nullptr, *pushed = nullptr;
  ~LateCaller() {
    if (!context)
      return;
    CU(cuCtxGetCurrent)(left);
    CU(cuCtxPushCurrent_v2)(context);
    CU(cuCtxGetCurrent)(pushed);
    CU(cuCtxPopCurrent_v2)(nullptr);
  }
};

thread_local LateCaller t_late;

} // namespace

TEST_CASE(
    "The driver may be called when the thread's other objects are gone, as at a process's end") {
  Session session;
  CUcontext left = session.context, pushed = nullptr;
  std::thread([&] {
    t_late = {}; // made before the driver's own of this thread, so destroyed after them
    OK(CU(cuCtxSetCurrent)(session.context));
    t_late.left = &left;
    t_late.pushed = &pushed;
    t_late.context = session.context;
  }).join();
  CHECK(left == nullptr);
  CHECK(pushed == session.context);
}
