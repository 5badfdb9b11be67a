// Several threads at one driver: what ThreadSanitizer watches.
#include "emulator/unit/driver/session.h"

namespace {

/// Work of one thread in a stream of its own, `rounds` times: out[i] = (i + i) through a copy up,
/// two kernels with an event between, an instance of a graph, and a copy down.
void work(CUcontext context, CUmodule module, uint32_t first, int rounds, std::atomic<int> &wrong) {
  auto ok = [&](CUresult result) { wrong += result != CUDA_SUCCESS; };
  ok(CU(cuCtxSetCurrent)(context));
  CUstream stream = nullptr, other = nullptr;
  CUevent event = nullptr;
  CUdeviceptr a = 0, b = 0, out = 0;
  CUfunction add = nullptr;
  uint32_t n = 32;
  std::vector<float> values(n), got(n);
  for (uint32_t i = 0; i < n; ++i)
    values[i] = float(first + i);
  ok(CU(cuModuleGetFunction)(&add, module, "add"));
  ok(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  ok(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
  ok(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  for (int round = 0; round < rounds; ++round) {
    for (CUdeviceptr *p : {&a, &b, &out})
      ok(CU(cuMemAllocAsync)(p, n * sizeof(float), stream));
    ok(CU(cuMemcpyHtoDAsync_v2)(a, values.data(), n * sizeof(float), stream));
    void *first_sum[] = {&b, &a, &a, &n};
    ok(CU(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 0, stream, first_sum, nullptr));
    ok(CU(cuEventRecord)(event, stream));
    ok(CU(cuStreamWaitEvent)(other, event, 0));
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUgraphNode node = nullptr;
    void *second_sum[] = {&out, &b, &b, &n};
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = add;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 32;
    params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = second_sum;
    ok(CU(cuGraphCreate)(&graph, 0));
    ok(CU(cuGraphAddKernelNode_v2)(&node, graph, nullptr, 0, &params));
    ok(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    ok(CU(cuGraphLaunch)(exec, other));
    ok(CU(cuMemcpyDtoHAsync_v2)(got.data(), out, n * sizeof(float), other));
    ok(CU(cuStreamSynchronize)(other));
    for (uint32_t i = 0; i < n; ++i)
      wrong += got[i] != 4 * values[i];
    ok(CU(cuGraphExecDestroy)(exec));
    ok(CU(cuGraphDestroy)(graph));
    for (CUdeviceptr p : {a, b, out})
      ok(CU(cuMemFreeAsync)(p, other));
  }
  ok(CU(cuStreamSynchronize)(other));
  ok(CU(cuEventDestroy_v2)(event));
  ok(CU(cuStreamDestroy_v2)(stream));
  ok(CU(cuStreamDestroy_v2)(other));
}

} // namespace

TEST_CASE("Threads with streams, events, graphs and allocations of their own do not disturb one "
          "another") {
  bool checked = GENERATE(false, true);
  Session session({checked ? "CUGRT_EMU_CHECK=all" : "CUGRT_EMU_CHECK=none"});
  CUmodule module = load_kernels();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] { work(session.context, module, 100 * t, 8, wrong); });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(wrong == 0);
  INFO(findings());
  CHECK(findings().empty());
}
