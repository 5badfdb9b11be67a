// The begin of graph calls: find the handle, hold the lock. A dead handle is
// CUDA_ERROR_INVALID_VALUE, which the graph functions document.
#pragma once

#include "emulator/driver/driver.h"
#include "emulator/graph/conditional.h"

namespace cugrt::emulator::api {

template <class Body> CUresult graph_call(CUgraph handle, Body &&body) {
  return locked_call([&](Driver &driver) -> CUresult {
    Ref<Graph> graph = driver.graphs.find(handle);
    return graph ? body(driver, *graph) : CUDA_ERROR_INVALID_VALUE;
  });
}
#define GRAPH_CALL(...)                                                                            \
  GUARDED(graph_call(handle, body), (Driver & driver, Graph & graph), __VA_ARGS__)

template <class Body> CUresult node_call(CUgraphNode handle, Body &&body) {
  return locked_call([&](Driver &driver) -> CUresult {
    Ref<GraphNode> node = driver.nodes.find(handle);
    return node ? body(driver, *node) : CUDA_ERROR_INVALID_VALUE;
  });
}
#define NODE_CALL(...)                                                                             \
  GUARDED(node_call(handle, body), (Driver & driver, GraphNode & node), __VA_ARGS__)

/// Body gets the driver, the instance, and the instance's node made from the graph node.
template <class Body>
CUresult exec_node_call(CUgraphExec handle, CUgraphNode node_handle, Body &&body) {
  return locked_call([&](Driver &driver) -> CUresult {
    Ref<GraphExec> exec = driver.execs.find(handle);
    Ref<GraphNode> node = driver.nodes.find(node_handle);
    if (!exec || !node)
      return CUDA_ERROR_INVALID_VALUE;
    ExecNode *exec_node = find_exec_node(*exec, *node);
    return exec_node ? body(driver, *exec, *exec_node) : CUDA_ERROR_INVALID_VALUE;
  });
}
#define EXEC_NODE_CALL(...)                                                                        \
  GUARDED(exec_node_call(exec_handle, handle, body),                                               \
          (Driver & driver, GraphExec & exec, ExecNode & node), __VA_ARGS__)

} // namespace cugrt::emulator::api
