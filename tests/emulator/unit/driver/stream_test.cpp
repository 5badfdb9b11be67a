// Streams and events, beyond the conformance scripts: the legacy stream's rules, host callbacks.
#include "emulator/unit/driver/graph_builder.h"

TEST_CASE("A stream is not ready while its work waits, others go on") {
  Session session;
  Streams streams;
  Gate gate;
  OK(CU(cuLaunchHostFunc)(streams.a, Gate::wait, &gate));
  CHECK(CU(cuStreamQuery)(streams.a) == CUDA_ERROR_NOT_READY);
  CUdeviceptr address = MADE(cuMemAllocAsync, 4, streams.b);
  OK(CU(cuMemsetD32Async)(address, 5, 1, streams.b));
  OK(CU(cuStreamSynchronize)(streams.b));
  gate.open = true;
  OK(CU(cuStreamSynchronize)(streams.a));
  OK(CU(cuStreamQuery)(streams.a));
  OK(CU(cuMemFreeAsync)(address, streams.b));
}

TEST_CASE("Of work that is ready, graphs and kernels, that of the higher priority runs first") {
  Session session{"CUGRT_EMU_SEED=1", "CUGRT_EMU_CHECK=none"}; // what nothing orders is shown
  enum Way { kernels, graphs, nodes }; // nodes: graphs whose kernels have priorities of their own
  const Way way = GENERATE(kernels, graphs, nodes);
  CUstream gated = nullptr, streams[3] = {};
  OK(CU(cuStreamCreate)(&gated, CU_STREAM_NON_BLOCKING));
  const int priorities[] = {0, -2, -1};
  for (int i = 0; i < 3; ++i)
    OK(CU(cuStreamCreateWithPriority)(&streams[i], CU_STREAM_NON_BLOCKING,
                                      way == nodes ? -i : priorities[i]));
  CUevent opened = MADE(cuEventCreate, 0);
  Gate gate;
  OK(CU(cuLaunchHostFunc)(gated, Gate::wait, &gate));
  OK(CU(cuEventRecord)(opened, gated));
  // x becomes 10 x + i + 1, without an order between the streams.
  const CUdeviceptr x = upload(std::vector<uint32_t>{0});
  Builder graph[3];
  CUgraphExec execs[3] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    CUdeviceptr cell = x;
    uint32_t factor = 10, term = i + 1;
    void *params[] = {&cell, &factor, &term};
    const CUgraphNode node = graph[i].affine(x, factor, term);
    CUkernelNodeAttrValue priority{};
    priority.priority = priorities[i];
    OK(CU(cuGraphKernelNodeSetAttribute)(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority));
    OK(CU(cuGraphInstantiateWithFlags)(&execs[i], graph[i].graph,
                                       way == nodes ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
                                                    : 0));
    OK(CU(cuStreamWaitEvent)(streams[i], opened, 0));
    if (way != kernels)
      OK(CU(cuGraphLaunch)(execs[i], streams[i]));
    else
      OK(CU(cuLaunchKernel)(graph[i].function, 1, 1, 1, 1, 1, 1, 0, streams[i], params, nullptr));
  }
  gate.open = true;
  OK(CU(cuCtxSynchronize)());
  CHECK(download<uint32_t>(x, 1)[0] == 231);
  for (CUgraphExec exec : execs)
    OK(CU(cuGraphExecDestroy)(exec));
  OK(CU(cuEventDestroy_v2)(opened));
  for (CUstream stream : {gated, streams[0], streams[1], streams[2]})
    OK(CU(cuStreamDestroy_v2)(stream));
}

TEST_CASE("The legacy stream waits for blocking streams and not for others") {
  Session session;
  Gate gate;
  SECTION("blocking") {
    Streams streams(CU_STREAM_DEFAULT);
    OK(CU(cuLaunchHostFunc)(streams.a, Gate::wait, &gate));
    CHECK(CU(cuStreamQuery)(nullptr) == CUDA_ERROR_NOT_READY);
    gate.open = true;
    OK(CU(cuStreamSynchronize)(nullptr));
    OK(CU(cuStreamQuery)(streams.a));
  }
  SECTION("non-blocking") {
    Streams streams(CU_STREAM_NON_BLOCKING);
    OK(CU(cuLaunchHostFunc)(streams.a, Gate::wait, &gate));
    OK(CU(cuStreamQuery)(nullptr));
    gate.open = true;
    OK(CU(cuStreamSynchronize)(streams.a));
  }
  SECTION("blocking streams wait for the legacy stream") {
    Streams streams(CU_STREAM_DEFAULT);
    OK(CU(cuLaunchHostFunc)(nullptr, Gate::wait, &gate));
    Event event(0);
    OK(CU(cuEventRecord)(event, streams.b));
    CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
    gate.open = true;
    OK(CU(cuEventSynchronize)(event));
  }
}

TEST_CASE("There is no time to an event that is not there yet") {
  Session session;
  float ms = -1;
  CUevent a = MADE(cuEventCreate, 0);
  CUevent b = MADE(cuEventCreate, 0);
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
  CUstream stream = MADE(cuStreamCreate, 0);
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
