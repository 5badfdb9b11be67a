// The numbers that tools call graphs, instances and nodes by; CUDA 13.1 asks for them.
//
// An instance has a number of its own, and its nodes keep the local numbers of the graph's: what a
// profiler reports of an instance's node is its instance's number and the node's local one.
#include "emulator/graph/graph_call.h"

using namespace cugrt::emulator;
using namespace cugrt::emulator::api;

CUresult CUDAAPI cuGraphGetId(CUgraph handle, unsigned int *out) {
  return graph_call(handle, [&](Driver &, Graph &graph) { return give(out, unsigned(graph.id)); });
}

CUresult CUDAAPI cuGraphExecGetId(CUgraphExec handle, unsigned int *out) {
  return locked_call([&](Driver &driver) -> CUresult {
    CUGRT_EMU_NEED(GraphExec, exec, driver.execs.find(handle), CUDA_ERROR_INVALID_VALUE);
    return give(out, unsigned(exec->id));
  });
}

CUresult CUDAAPI cuGraphNodeGetContainingGraph(CUgraphNode handle, CUgraph *out) {
  return node_call(handle,
                   [&](Driver &, GraphNode &node) { return give(out, node.graph->handle); });
}

CUresult CUDAAPI cuGraphNodeGetLocalId(CUgraphNode handle, unsigned int *out) {
  return node_call(handle, [&](Driver &, GraphNode &node) { return give(out, node.local_id); });
}

CUresult CUDAAPI cuGraphNodeGetToolsId(CUgraphNode handle, unsigned long long *out) {
  return node_call(handle, [&](Driver &, GraphNode &node) { return give(out, tools_id_of(node)); });
}
