// Instances: instantiation, setters, updates, launches.
#include "emulator/driver/code/launch.h"
#include "emulator/driver/device_limits.h"
#include "emulator/graph/batch_copy.h"
#include "emulator/graph/graph.h"
#include "emulator/graph/graph_call.h"
#include "emulator/graph/memory_ops.h"
#include "emulator/graph/node_params.h"
#include "emulator/graph/stream.h"

namespace cugrt::emulator::api {

namespace {

CUresult make_exec(Driver &driver, CUgraphExec *out, CUgraph handle, uint64_t flags,
                   InstantiateError *error) {
  Ref<Graph> graph = driver.graphs.find(handle);
  if (!out || !graph)
    return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<GraphExec>();
  CUGRT_EMU_TRY(instantiate(driver, *graph, flags, *exec, error));
  UserReferences references;
  gather_references(exec->body, references);
  *out = driver.execs.insert(exec);
  count_references(references);
  return CUDA_SUCCESS;
}

CUresult instantiate_with_flags(CUgraphExec *out, CUgraph graph, uint64_t flags,
                                CUgraphNode *error_node, char *log, size_t log_bytes) {
  return locked_call([&](Driver &driver) {
    InstantiateError error;
    CUresult result = make_exec(driver, out, graph, flags, &error);
    if (error_node)
      *error_node = error.node;
    if (log && log_bytes)
      *log = 0;
    return result;
  });
}

CUresult set_in_exec(Driver &driver, GraphExec &exec, ExecNode &node, Work work) {
  if (has_empty_grid(work))
    return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResult reason = check_change(driver, exec, node.work, work);
  if (reason != CU_GRAPH_EXEC_UPDATE_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  node.work = std::move(work);
  return CUDA_SUCCESS;
}

// Setters refuse more than whole updates: "Both the instantiation-time memory operands and the
// memory operands in copyParams must be 1-dimensional. Zero-length operations are not supported."
CUresult set_copy(Driver &driver, GraphExec &exec, ExecNode &node, Work work) {
  auto linear = [](const Work &w) {
    auto *copy = std::get_if<CopyWork>(&w);
    return copy && copy->copy.Height == 1 && copy->copy.Depth == 1 && copy->copy.WidthInBytes;
  };
  if (!linear(node.work) || !linear(work))
    return CUDA_ERROR_INVALID_VALUE;
  return set_in_exec(driver, exec, node, std::move(work));
}

template <class Params>
CUresult set_kernel(CUgraphExec exec_handle, CUgraphNode handle, const Params *params) {
  return exec_node_call(exec_handle, handle,
                        [&](Driver &driver, GraphExec &exec, ExecNode &node) -> CUresult {
                          auto *old = std::get_if<KernelWork>(&node.work);
                          if (!params || !old || node.body)
                            return CUDA_ERROR_INVALID_VALUE;
                          Work work;
                          CUGRT_EMU_TRY(kernel_to_work(driver, widen(*params), old, &work));
                          return set_in_exec(driver, exec, node, std::move(work));
                        });
}

CUresult set_child(Driver &driver, GraphExec &exec, ExecNode &node, CUgraph child) {
  Ref<Graph> graph = driver.graphs.find(child);
  if (!graph || !node.body)
    return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info{};
  return update_graph(driver, exec, *node.body, *graph, &info) == CUDA_SUCCESS
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

// Make gives the work of a node that is no child graph.
template <class Make, class... Params>
CUresult set(CUgraphExec exec_handle, CUgraphNode handle, Make &&make, const Params &...params) {
  return exec_node_call(exec_handle, handle,
                        [&](Driver &driver, GraphExec &exec, ExecNode &node) -> CUresult {
                          if (node.body)
                            return CUDA_ERROR_INVALID_VALUE;
                          Work work;
                          CUGRT_EMU_TRY(make(driver, params..., &work));
                          if (std::holds_alternative<CopyWork>(work))
                            return set_copy(driver, exec, node, std::move(work));
                          return set_in_exec(driver, exec, node, std::move(work));
                        });
}

CUresult update(CUgraphExec exec_handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *info) {
  return locked_call([&](Driver &driver) -> CUresult {
    CUgraphExecUpdateResultInfo local{};
    CUgraphExecUpdateResultInfo &out = info ? *info : local;
    Ref<GraphExec> exec = driver.execs.find(exec_handle);
    Ref<Graph> graph = driver.graphs.find(graph_handle);
    if (!exec || !graph) {
      // "CU_GRAPH_EXEC_UPDATE_ERROR if passed an invalid value."
      out = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
      return CUDA_ERROR_INVALID_VALUE;
    }
    return update_graph(driver, *exec, exec->body, *graph, &out);
  });
}

} // namespace

ENTRY(cuGraphInstantiateWithFlags, out, graph, flags) {
  return instantiate_with_flags(out, graph, flags, nullptr, nullptr, 0);
}

ENTRY(cuGraphInstantiate_v2, out, graph, error_node, log, log_bytes) {
  return instantiate_with_flags(out, graph, 0, error_node, log, log_bytes);
}

LOCKED_CALL(cuGraphInstantiateWithParams, out, graph, params) {
  if (!params)
    return CUDA_ERROR_INVALID_VALUE;
  InstantiateError error{CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  CUresult result = CUDA_SUCCESS;
  Ref<Stream> upload;
  if (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
    result = find_stream(driver, params->hUploadStream, &upload);
  if (result == CUDA_SUCCESS)
    result = make_exec(driver, out, graph, params->flags, &error);
  params->hErrNode_out = error.node;
  params->result_out = error.result;
  return result;
}

LOCKED_CALL(cuGraphExecGetFlags, handle, flags) {
  Ref<GraphExec> exec = driver.execs.find(handle);
  if (!exec || !flags)
    return CUDA_ERROR_INVALID_VALUE;
  // "The CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD flag [...] will not be returned by this API."
  *flags = exec->flags & ~cuuint64_t(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuGraphExecDestroy, handle) {
  CUGRT_EMU_NEED(GraphExec, exec, driver.execs.find(handle), CUDA_ERROR_INVALID_VALUE);
  // Launches that are under way hold copies of the work. User objects wait for them.
  UserReferences references;
  gather_references(exec->body, references);
  release_user_objects(driver, references, exec->last_launch);
  driver.execs.erase(handle);
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuGraphUpload, handle, stream_handle) {
  if (!driver.execs.find(handle))
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, stream_handle);
  return refuse_capture(driver, stream); // there is nowhere to upload to
}

LOCKED_CALL(cuGraphLaunch, handle, stream_handle) {
  CUGRT_EMU_NEED(GraphExec, exec, driver.execs.find(handle), CUDA_ERROR_INVALID_VALUE);
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, stream_handle);
  CUGRT_EMU_TRY(capture_state(*stream));
  CUGRT_EMU_TRY(refuse_capture(driver, stream)); // an H200 does not capture launches of graphs
  return launch_exec(driver, exec, stream);
}

ENTRY(cuGraphExecUpdate_v2, exec, graph, info) { return update(exec, graph, info); }

ENTRY(cuGraphExecUpdate, exec, graph, error_node, reason) {
  CUgraphExecUpdateResultInfo info{};
  CUresult result = update(exec, graph, &info);
  if (error_node)
    *error_node = info.errorNode;
  if (reason)
    *reason = info.result;
  return result;
}

ENTRY(cuGraphExecKernelNodeSetParams, exec, node, params) { return set_kernel(exec, node, params); }

ENTRY(cuGraphExecKernelNodeSetParams_v2, exec, node, params) {
  return set_kernel(exec, node, params);
}

ENTRY(cuGraphExecMemcpyNodeSetParams, exec, node, copy, context) {
  return set(exec, node, copy_to_work, copy, context);
}

ENTRY(cuGraphExecMemsetNodeSetParams, exec, node, fill, context) {
  return set(exec, node, fill_to_work, fill, context);
}

ENTRY(cuGraphExecBatchMemOpNodeSetParams, exec, node, params) {
  return set(exec, node, memory_ops_to_work, params);
}

ENTRY(cuGraphExecHostNodeSetParams, exec, node, params) {
  return set(exec, node, host_params_to_work, params);
}

ENTRY(cuGraphExecEventRecordNodeSetEvent, exec, node, event) {
  return set(exec, node, event_to_work, event, true);
}

ENTRY(cuGraphExecEventWaitNodeSetEvent, exec, node, event) {
  return set(exec, node, event_to_work, event, false);
}

EXEC_NODE_CALL(cuGraphExecChildGraphNodeSetParams, exec_handle, handle, child) {
  return set_child(driver, exec, node, child);
}

EXEC_NODE_CALL(cuGraphExecNodeSetParams, exec_handle, handle, params) {
  if (!params || params->type != node.type)
    return CUDA_ERROR_INVALID_VALUE;
  if (!node.branches.empty())
    return driver.refuse("changing conditional nodes of an instance is");
  if (node.body)
    return set_child(driver, exec, node, params->graph.graph);
  Work work;
  CUGRT_EMU_TRY(params_to_work(driver, as_before_13_4(*params), &node.work, &work));
  if (params->type == CU_GRAPH_NODE_TYPE_MEMCPY)
    return set_copy(driver, exec, node, std::move(work));
  return set_in_exec(driver, exec, node, std::move(work));
}

static bool has_large_cluster(const ExecNode &node) {
  const auto *kernel = std::get_if<KernelWork>(&node.work);
  const auto cluster = kernel ? cluster_of(*kernel) : std::array<uint32_t, 3>{};
  return uint64_t(cluster[0]) * cluster[1] * cluster[2] > kPortableClusterBlocks;
}

static bool can_disable(const ExecNode &node) {
  return node.type == CU_GRAPH_NODE_TYPE_KERNEL || node.type == CU_GRAPH_NODE_TYPE_MEMSET ||
         node.type == CU_GRAPH_NODE_TYPE_MEMCPY || node.type == kBatchCopyNode;
}

EXEC_NODE_CALL(cuGraphNodeSetEnabled, exec_handle, handle, enabled) {
  // "The following node types are currently supported: Kernel, Memset, Memcpy, Batch memcpy"
  if (!can_disable(node))
    return CUDA_ERROR_INVALID_VALUE;
  if (!enabled && has_large_cluster(node)) // measured
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  node.enabled = enabled != 0;
  return CUDA_SUCCESS;
}

EXEC_NODE_CALL(cuGraphNodeGetEnabled, exec_handle, handle, enabled) {
  if (!enabled || !can_disable(node))
    return CUDA_ERROR_INVALID_VALUE;
  *enabled = node.enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
