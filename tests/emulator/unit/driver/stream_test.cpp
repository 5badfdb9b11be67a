// Streams and events, beyond the conformance scripts: the legacy stream's rules, host callbacks.
#include "emulator/unit/driver/session.h"

namespace {

struct Pair {
  Pair(unsigned flags = CU_STREAM_NON_BLOCKING) {
    OK(CU(cuStreamCreate)(&a, flags));
    OK(CU(cuStreamCreate)(&b, flags));
  }
  ~Pair() {
    CHECK(CU(cuStreamDestroy_v2)(a) == CUDA_SUCCESS);
    CHECK(CU(cuStreamDestroy_v2)(b) == CUDA_SUCCESS);
  }
  CUstream a = nullptr, b = nullptr;
};

} // namespace

TEST_CASE("A stream is not ready while its work waits, others go on") {
  Session session;
  Pair streams;
  Gate gate;
  OK(CU(cuLaunchHostFunc)(streams.a, Gate::wait, &gate));
  CHECK(CU(cuStreamQuery)(streams.a) == CUDA_ERROR_NOT_READY);
  CUdeviceptr address = 0;
  OK(CU(cuMemAllocAsync)(&address, 4, streams.b));
  OK(CU(cuMemsetD32Async)(address, 5, 1, streams.b));
  OK(CU(cuStreamSynchronize)(streams.b));
  gate.open = true;
  OK(CU(cuStreamSynchronize)(streams.a));
  OK(CU(cuStreamQuery)(streams.a));
  OK(CU(cuMemFreeAsync)(address, streams.b));
}

TEST_CASE("The legacy stream waits for blocking streams and not for others") {
  Session session;
  Gate gate;
  SECTION("blocking") {
    Pair streams(CU_STREAM_DEFAULT);
    OK(CU(cuLaunchHostFunc)(streams.a, Gate::wait, &gate));
    CHECK(CU(cuStreamQuery)(nullptr) == CUDA_ERROR_NOT_READY);
    gate.open = true;
    OK(CU(cuStreamSynchronize)(nullptr));
    OK(CU(cuStreamQuery)(streams.a));
  }
  SECTION("non-blocking") {
    Pair streams(CU_STREAM_NON_BLOCKING);
    OK(CU(cuLaunchHostFunc)(streams.a, Gate::wait, &gate));
    OK(CU(cuStreamQuery)(nullptr));
    gate.open = true;
    OK(CU(cuStreamSynchronize)(streams.a));
  }
  SECTION("blocking streams wait for the legacy stream") {
    Pair streams(CU_STREAM_DEFAULT);
    OK(CU(cuLaunchHostFunc)(nullptr, Gate::wait, &gate));
    CUevent event = nullptr;
    OK(CU(cuEventCreate)(&event, 0));
    OK(CU(cuEventRecord)(event, streams.b));
    CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
    gate.open = true;
    OK(CU(cuEventSynchronize)(event));
    OK(CU(cuEventDestroy_v2)(event));
  }
}

TEST_CASE("There is no time to an event that is not there yet") {
  Session session;
  CUevent a = nullptr, b = nullptr;
  float ms = -1;
  OK(CU(cuEventCreate)(&a, 0));
  OK(CU(cuEventCreate)(&b, 0));
  OK(CU(cuEventRecord)(a, nullptr));
  Gate gate;
  OK(CU(cuLaunchHostFunc)(nullptr, Gate::wait, &gate));
  OK(CU(cuEventRecord)(b, nullptr));
  CHECK(CU(cuEventElapsedTime)(&ms, a, b) == CUDA_ERROR_NOT_READY);
  gate.open = true;
  OK(CU(cuStreamSynchronize)(nullptr)); // the host function has left the gate
  OK(CU(cuEventElapsedTime_v2)(&ms, a, b));
  for (CUevent event : {a, b})
    OK(CU(cuEventDestroy_v2)(event));
}

TEST_CASE("Host callbacks may not call CUDA") {
  Session session;
  CUresult seen = CUDA_SUCCESS;
  auto callback = [](void *out) {
    int count = 0;
    *static_cast<CUresult *>(out) = CU(cuDeviceGetCount)(&count);
  };
  OK(CU(cuLaunchHostFunc)(nullptr, callback, &seen));
  OK(CU(cuStreamSynchronize)(nullptr));
  CHECK(seen == CUDA_ERROR_NOT_PERMITTED);
}

TEST_CASE("Destroying a stream returns at once and its work still ends before the context does") {
  Session session;
  Gate gate;
  CUstream stream = nullptr;
  OK(CU(cuStreamCreate)(&stream, 0));
  OK(CU(cuLaunchHostFunc)(stream, Gate::wait, &gate));
  OK(CU(cuStreamDestroy_v2)(stream));
  CHECK(CU(cuStreamDestroy_v2)(stream) == CUDA_ERROR_INVALID_HANDLE);
  gate.open = true;
  OK(CU(cuCtxSynchronize)());
}

TEST_CASE("Each thread has its own per-thread default stream") {
  Session session;
  Gate gate;
  OK(CU(cuLaunchHostFunc_ptsz)(nullptr, Gate::wait, &gate));
  CHECK(CU(cuStreamQuery)(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY);
  CUresult other = CUDA_ERROR_UNKNOWN;
  std::thread([&] {
    CU(cuCtxSetCurrent)(session.context);
    other = CU(cuStreamQuery_ptsz)(nullptr);
  }).join();
  CHECK(other == CUDA_SUCCESS);
  gate.open = true;
  OK(CU(cuCtxSynchronize)());
}
