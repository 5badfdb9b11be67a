// Freed, foreign and null handles: a real driver may crash on them, so these are for the emulated
// one.
#include "graph_builder.h"

namespace cugrt::conformance {

using Kind = ScriptCase::Kind;

const std::vector<ScriptCase> &handle_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"memory that is freed twice",
       Kind::emulated_only,
       {{"cuMemFree", "must have been returned by a previous call"}},
       [](Script &s) {
         CUdeviceptr a = s.words(16);
         s.expect("inside an allocation", s.api.cuMemFree(a + 4), CUDA_ERROR_INVALID_VALUE);
         s.expect("free", s.api.cuMemFree(a));
         s.expect("again", s.api.cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
         int local = 0;
         s.expect("host memory that is not pinned", s.api.cuMemFreeHost(&local),
                  CUDA_ERROR_INVALID_VALUE);
       }},
      {"streams that are gone",
       Kind::emulated_only,
       {{"cuStreamDestroy", "CUDA_ERROR_INVALID_HANDLE"},
        {"cuStreamSynchronize", "CUDA_ERROR_INVALID_HANDLE"}},
       [](Script &s) {
         CUstream stream = nullptr;
         CUdeviceptr a = s.words(1);
         s.need(s.api.cuStreamCreate(&stream, 0));
         s.expect("destroy", s.api.cuStreamDestroy(stream));
         s.expect("again", s.api.cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
         s.expect("synchronise", s.api.cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
         s.expect("query", s.api.cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
         s.expect("work", s.api.cuMemsetD32Async(a, 1, 1, stream), CUDA_ERROR_INVALID_HANDLE);
         s.need(s.api.cuMemFree(a));
       }},
      {"events that are gone",
       Kind::emulated_only,
       {{"cuEventDestroy", "CUDA_ERROR_INVALID_HANDLE"},
        {"cuEventQuery", "CUDA_ERROR_INVALID_HANDLE"}},
       [](Script &s) {
         CUevent event = nullptr;
         s.need(s.api.cuEventCreate(&event, 0));
         s.expect("destroy", s.api.cuEventDestroy(event));
         s.expect("again", s.api.cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
         s.expect("query", s.api.cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
         s.expect("record", s.api.cuEventRecord(event, nullptr), CUDA_ERROR_INVALID_HANDLE);
         s.expect("a wait", s.api.cuStreamWaitEvent(nullptr, event, 0), CUDA_ERROR_INVALID_HANDLE);
       }},
      {"modules and functions that are gone",
       Kind::emulated_only,
       {{"cuModuleUnload", "CUDA_ERROR_INVALID_VALUE"},
        {"cuLaunchKernel", "CUDA_ERROR_INVALID_HANDLE"}},
       [](Script &s) {
         CUfunction f = s.kernel("increment");
         CUdeviceptr a = s.words(1);
         void *params[] = {&a};
         CUmodule module = s.module;
         s.module = nullptr;
         s.expect("unload", s.api.cuModuleUnload(module));
         CUresult result = s.api.cuModuleUnload(module);
         s.expect_true("again", result != CUDA_SUCCESS);
         result = s.api.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr);
         s.expect("launch", result, CUDA_ERROR_INVALID_HANDLE);
         s.expect("a block's shape", s.api.cuFuncSetBlockShape(f, 1, 1, 1),
                  CUDA_ERROR_INVALID_HANDLE);
         s.expect("an argument", s.api.cuParamSeti(f, 0, 1), CUDA_ERROR_INVALID_VALUE);
         s.expect("an old launch", s.api.cuLaunch(f), CUDA_ERROR_INVALID_VALUE);
         s.need(s.api.cuMemFree(a));
       }},
      {"a launch by what cuLaunchKernel has made void",
       Kind::emulated_only,
       {{"cuLaunch", "this state must be re-initialized prior to calling this function"}},
       [](Script &s) {
         CUfunction f = s.kernel("increment");
         CUdeviceptr a = s.words(1);
         void *params[] = {&a};
         s.need(s.api.cuFuncSetBlockShape(f, 1, 1, 1));
         s.need(s.api.cuParamSetv(f, 0, &a, sizeof a));
         s.need(s.api.cuParamSetSize(f, sizeof a));
         // Real drivers crash on these two (580 on an H100).
         s.expect("an argument before the first", s.api.cuParamSeti(f, -4, 0),
                  CUDA_ERROR_INVALID_VALUE);
         s.expect("far behind the last", s.api.cuParamSeti(f, 1 << 30, 0),
                  CUDA_ERROR_INVALID_VALUE);
         s.expect("set", s.api.cuLaunch(f));
         s.need(s.api.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
         s.expect("no longer set", s.api.cuLaunch(f), CUDA_ERROR_INVALID_VALUE);
         s.expect("two have run", uint64_t(s.word(a)), 2);
         s.need(s.api.cuMemFree(a));
       }},
      {"handles of another kind",
       Kind::emulated_only,
       {{"cuStreamSynchronize", "CUDA_ERROR_INVALID_HANDLE"}},
       [](Script &s) {
         CUevent event = nullptr;
         s.need(s.api.cuEventCreate(&event, 0));
         s.expect("an event as a stream",
                  s.api.cuStreamSynchronize(reinterpret_cast<CUstream>(event)),
                  CUDA_ERROR_INVALID_HANDLE);
         s.expect("a number as an event", s.api.cuEventQuery(reinterpret_cast<CUevent>(77)),
                  CUDA_ERROR_INVALID_HANDLE);
         s.need(s.api.cuEventDestroy(event));
       }},
      {"graphs, nodes and instances that are gone",
       Kind::emulated_only,
       {{"cuGraphDestroy", "CUDA_ERROR_INVALID_VALUE"},
        {"cuGraphExecDestroy", "CUDA_ERROR_INVALID_VALUE"},
        {"cuGraphDestroyNode", "CUDA_ERROR_INVALID_VALUE"}},
       [](Script &s) {
         GraphBuilder g(s);
         CUgraphNode node = g.empty();
         s.expect("node", s.api.cuGraphDestroyNode(node));
         s.expect("again", s.api.cuGraphDestroyNode(node), CUDA_ERROR_INVALID_VALUE);
         CUgraphExec exec = g.instantiate();
         s.expect("instance", s.api.cuGraphExecDestroy(exec));
         s.expect("again", s.api.cuGraphExecDestroy(exec), CUDA_ERROR_INVALID_VALUE);
         s.expect("launch", s.api.cuGraphLaunch(exec, nullptr), CUDA_ERROR_INVALID_VALUE);
         s.expect("graph", s.api.cuGraphDestroy(g.graph));
         CUgraph gone = g.graph;
         g.graph = nullptr;
         s.expect("again", s.api.cuGraphDestroy(gone), CUDA_ERROR_INVALID_VALUE);
         s.expect("instantiate", s.api.cuGraphInstantiate(&exec, gone, 0),
                  CUDA_ERROR_INVALID_VALUE);
       }},
  };
  return scripts;
}

} // namespace cugrt::conformance
