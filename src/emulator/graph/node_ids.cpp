// The numbers that tools call graphs, instances and nodes by; CUDA 13.1 asks for them.
//
// An instance has a number of its own, and its nodes keep the local numbers of the graph's: what a
// profiler reports of an instance's node is its instance's number and the node's local one.
#include "emulator/graph/graph_call.h"

namespace cugrt::emulator::api {

GRAPH_CALL(cuGraphGetId, handle, out) { return give(out, unsigned(graph.id)); }

LOCKED_CALL(cuGraphExecGetId, handle, out) {
  CUGRT_EMU_NEED(GraphExec, exec, driver.execs.find(handle), CUDA_ERROR_INVALID_VALUE);
  return give(out, unsigned(exec->id));
}

NODE_CALL(cuGraphNodeGetContainingGraph, handle, out) { return give(out, node.graph->handle); }
NODE_CALL(cuGraphNodeGetLocalId, handle, out) { return give(out, node.local_id); }
NODE_CALL(cuGraphNodeGetToolsId, handle, out) { return give(out, tools_id_of(node)); }

} // namespace cugrt::emulator::api
