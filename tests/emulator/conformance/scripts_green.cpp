// Green contexts as a graph runtime uses them: multiprocessors are divided, streams and kernel
// nodes are of a part.
#include "graph_builder.h"

#include <set>

namespace cugrt::conformance {

namespace {

/// One with a smallest group of the device's multiprocessors.
class Green {
public:
  explicit Green(Script &s) : s_(s) {
    CUdevResource all{};
    unsigned one = 1;
    CUdevResourceDesc descriptor = nullptr;
    s.need(s.api.cuDeviceGetDevResource(s.driver.device, &all, CU_DEV_RESOURCE_TYPE_SM));
    s.need(s.api.cuDevSmResourceSplitByCount(&part, &one, &all, &rest, 0, 1));
    s.need(s.api.cuDevResourceGenerateDesc(&descriptor, &part, 1));
    s.need(
        s.api.cuGreenCtxCreate(&handle, descriptor, s.driver.device, CU_GREEN_CTX_DEFAULT_STREAM));
    s.need(s.api.cuCtxFromGreenCtx(&context, handle));
    s.need(s.api.cuGreenCtxStreamCreate(&stream, handle, CU_STREAM_NON_BLOCKING, 0));
  }
  ~Green() {
    s_.api.cuStreamDestroy(stream);
    s_.api.cuGreenCtxDestroy(handle);
  }
  Green(const Green &) = delete;
  Green &operator=(const Green &) = delete;

  CUdevResource part{}, rest{};
  CUgreenCtx handle = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;

private:
  Script &s_;
};

constexpr unsigned kBlocks = 4096;

/// How many multiprocessors blocks of kernel "where" ran on.
uint64_t used(Script &s, CUdeviceptr cells) {
  s.need(s.api.cuCtxSynchronize());
  std::vector<uint32_t> values(kBlocks);
  s.need(s.api.cuMemcpyDtoH(values.data(), cells, kBlocks * 4));
  return std::set<uint32_t>(values.begin(), values.end()).size();
}

void divided_script(Script &s) {
  CUdevResource all{}, again{};
  s.expect("the device's",
           s.api.cuDeviceGetDevResource(s.driver.device, &all, CU_DEV_RESOURCE_TYPE_SM));
  int count = 0;
  s.need(s.api.cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                    s.driver.device));
  s.observe("are as many as its attribute says", uint64_t(all.sm.smCount == unsigned(count)), 1);
  unsigned groups = 0;
  s.expect("how many groups there would be",
           s.api.cuDevSmResourceSplitByCount(nullptr, &groups, &all, nullptr, 0, 1));
  std::vector<CUdevResource> parts(groups);
  CUdevResource rest{};
  s.expect("groups", s.api.cuDevSmResourceSplitByCount(parts.data(), &groups, &all, &rest, 0, 1));
  s.expect("as many", uint64_t(groups), parts.size());
  bool large = true;
  for (const CUdevResource &part : parts)
    large &= part.sm.smCount >= all.sm.minSmPartitionSize &&
             part.sm.smCount % all.sm.smCoscheduledAlignment == 0;
  s.expect_true("each of the smallest size at least", large);
  s.observe("and all of the device's with the rest",
            uint64_t(groups * parts[0].sm.smCount + rest.sm.smCount == all.sm.smCount), 1);
  s.observe(
      "more than there are",
      s.api.cuDevSmResourceSplitByCount(parts.data(), &groups, &all, &rest, 0, all.sm.smCount + 1),
      CUDA_ERROR_INVALID_VALUE);
  unsigned one = 1;
  s.observe("a part of a part",
            s.api.cuDevSmResourceSplitByCount(&again, &one, &parts[0], nullptr, 0, 1),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  s.observe("no such type",
            s.api.cuDeviceGetDevResource(s.driver.device, &all, CUdevResourceType(99)),
            CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

void stream_script(Script &s) {
  Green green(s);
  CUgreenCtx found = nullptr;
  s.expect("whose the stream is", s.api.cuStreamGetGreenCtx(green.stream, &found));
  s.expect_true("the green context", found == green.handle);
  s.expect("the current context's null stream", s.api.cuStreamGetGreenCtx(nullptr, &found));
  s.expect_true("is of none", found == nullptr);
  CUdeviceptr cells = s.words(kBlocks);
  void *params[] = {&cells};
  s.expect("a launch", s.api.cuLaunchKernel(s.kernel("where"), kBlocks, 1, 1, 32, 1, 1, 0,
                                            green.stream, params, nullptr));
  s.observe("on no more multiprocessors than it has",
            uint64_t(used(s, cells) <= green.part.sm.smCount), 1);
  CUstream stream = nullptr;
  s.observe("a blocking stream", s.api.cuGreenCtxStreamCreate(&stream, green.handle, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  s.observe("the green context itself as a context",
            s.api.cuCtxSetCurrent(reinterpret_cast<CUcontext>(green.handle)),
            CUDA_ERROR_INVALID_CONTEXT);
  s.need(s.api.cuCtxSetCurrent(s.context));
}

void node_script(Script &s) {
  Green green(s);
  CUdeviceptr cells = s.words(kBlocks);
  void *params[] = {&cells};
  CUgraph graph = nullptr;
  s.need(s.api.cuStreamBeginCapture(green.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  s.need(s.api.cuLaunchKernel(s.kernel("where"), kBlocks, 1, 1, 32, 1, 1, 0, green.stream, params,
                              nullptr));
  s.need(s.api.cuStreamEndCapture(green.stream, &graph));
  CUgraphNode node = nullptr;
  size_t count = 1;
  s.need(s.api.cuGraphGetNodes(graph, &node, &count));
  CUDA_KERNEL_NODE_PARAMS read{};
  s.need(s.api.cuGraphKernelNodeGetParams(node, &read));
  s.observe("a captured kernel's context is the converted one", uint64_t(read.ctx == green.context),
            1);
  CUgraphExec exec = s.instantiate(graph);
  s.need(s.api.cuGraphLaunch(exec, nullptr));
  s.observe("its multiprocessors, in the primary context's null stream",
            uint64_t(used(s, cells) <= green.part.sm.smCount), 1);
  CUgraphExecUpdateResultInfo info{};
  GraphBuilder plain(s);
  CUDA_KERNEL_NODE_PARAMS own = read;
  own.ctx = nullptr;
  s.need(s.api.cuGraphAddKernelNode(&node, plain.graph, nullptr, 0, &own));
  s.observe("updated to a node of the primary context",
            s.api.cuGraphExecUpdate(exec, plain.graph, &info),
            CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  s.need(s.api.cuGraphDestroy(graph));
}

} // namespace

const std::vector<ScriptCase> &green_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"multiprocessors are divided",
       {{"cuDevSmResourceSplitByCount", "This queries the number of groups that would be created"},
        {"cuDevSmResourceSplitByCount", "to determine minimum partition size and alignment"}},
       divided_script,
       13000},
      {"streams of a green context",
       {{"cuStreamGetGreenCtx",
         "Returns the CUDA green context that the stream is associated with"},
        {"cuGreenCtxStreamCreate", "creates a stream in the specified green context"}},
       stream_script,
       13000},
      {"kernel nodes of a green context",
       {{"cuGreenCtxCreate", "creates a green context with the resources specified"}},
       node_script,
       13000},
  };
  return scripts;
}

} // namespace cugrt::conformance
