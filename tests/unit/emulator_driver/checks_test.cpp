// What the driver's checks report, word for word, and the legal neighbour of each case, of which
// they say nothing.
#include "emulator_driver/session.h"

namespace {

std::string findings() {
  size_t bytes = 0;
  OK(CU(cuEmuGetFindings)(nullptr, &bytes));
  std::string text(bytes, '\0');
  OK(CU(cuEmuGetFindings)(text.data(), &bytes));
  text.resize(bytes - 1);
  return text;
}

} // namespace

TEST_CASE("A check that does not exist is refused by cuInit, and named") {
  FreshDriver driver({"CUGRT_EMU_CHECK=leak,lock"});
  CHECK(CU(cuInit)(0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(findings() == "refused: CUGRT_EMU_CHECK=leak,lock is not understood: give all, none, or "
                      "checks with commas between\n");
}

TEST_CASE("What a context held when it was destroyed is counted") {
  FreshDriver driver({"CUGRT_EMU_CHECK=leak"});
  OK(CU(cuInit)(0));
  bool primary = GENERATE(true, false), tidy = GENERATE(true, false);
  CUcontext context = nullptr;
  if (primary) {
    OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(CU(cuCtxSetCurrent)(context));
  } else {
    OK(CU(cuCtxCreate_v2)(&context, 0, 0));
  }
  CUdeviceptr a = 0, b = 0;
  void *pinned = nullptr;
  CUstream stream = nullptr;
  CUmodule module = load_kernels();
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  OK(CU(cuMemAlloc_v2)(&a, 64));
  OK(CU(cuMemAlloc_v2)(&b, 4096));
  OK(CU(cuMemAllocHost_v2)(&pinned, 100));
  OK(CU(cuStreamCreate)(&stream, 0));
  OK(CU(cuGraphCreate)(&graph, 0));
  OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  if (tidy) {
    OK(CU(cuMemFree_v2)(a));
    OK(CU(cuMemFree_v2)(b));
    OK(CU(cuMemFreeHost)(pinned));
    OK(CU(cuStreamDestroy_v2)(stream));
    OK(CU(cuModuleUnload)(module));
    OK(CU(cuGraphExecDestroy)(exec));
    OK(CU(cuGraphDestroy)(graph));
  }
  if (primary) {
    OK(CU(cuCtxSetCurrent)(nullptr));
    OK(CU(cuDevicePrimaryCtxRelease_v2)(0));
  } else {
    OK(CU(cuCtxDestroy_v2)(context));
  }
  std::string left = "was destroyed with 2 device allocations (4160 bytes), 1 host allocation (100 "
                     "bytes), 1 module, 1 stream, 1 graph instance, 1 graph left\n";
  std::string found = findings();
  if (tidy)
    CHECK(found.empty());
  else
    CHECK(found.substr(found.find("was")) == left);
  CHECK(statistics().findings == (tidy ? 0 : 1));
  if (!tidy) {
    OK(CU(cuGraphExecDestroy)(exec));
    OK(CU(cuGraphDestroy)(graph));
  }
}
