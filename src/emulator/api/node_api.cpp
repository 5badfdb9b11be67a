// Adding nodes of each type, and their parameters. The typed forms are thin: all meet in Work.
#include "emulator/driver/code/launch.h"
#include "emulator/graph/graph_call.h"
#include "emulator/graph/memory_ops.h"
#include "emulator/graph/node_params.h"

namespace cugrt::emulator::api {

namespace {

// Make gets the driver, the parameters and where to put the work, with the lock held.
template <class Make, class... Params>
CUresult add(CUgraphNode *out, CUgraph graph_handle, const CUgraphNode *dependencies,
             const CUgraphEdgeData *data, size_t count, Make &&make, const Params &...params) {
  return graph_call(graph_handle, [&](Driver &driver, Graph &graph) -> CUresult {
    Work work;
    CUGRT_EMU_TRY(make(driver, params..., &work));
    return hand_over(driver, work,
                     [&] { return add_node(driver, graph, dependencies, data, count, work, out); });
  });
}

// Replaces a node's parameters by ones of the same type.
template <class Make> CUresult set(CUgraphNode handle, CUgraphNodeType type, Make &&make) {
  return node_call(handle, [&](Driver &driver, GraphNode &node) -> CUresult {
    if (node.type() != type)
      return CUDA_ERROR_INVALID_VALUE;
    Work work;
    CUGRT_EMU_TRY(make(driver, node.work, &work));
    replace_work(node, std::move(work));
    return CUDA_SUCCESS;
  });
}

// The same where nothing of the old ones stays.
template <class Make, class... Params>
CUresult set_whole(CUgraphNode handle, CUgraphNodeType type, Make &&make, const Params &...params) {
  return set(handle, type, [&](Driver &driver, const Work &, Work *work) {
    return make(driver, params..., work);
  });
}

template <class W, class Body> CUresult get(CUgraphNode handle, const void *out, Body &&body) {
  return node_call(handle, [&](Driver &, GraphNode &node) -> CUresult {
    auto *work = std::get_if<W>(&node.work);
    if (!work || !out)
      return CUDA_ERROR_INVALID_VALUE;
    body(node, *work);
    return CUDA_SUCCESS;
  });
}

template <class Params>
CUresult add_kernel(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                    const Params *params) {
  return add(out, graph, dependencies, nullptr, count, [&](Driver &driver, Work *work) {
    return params ? kernel_to_work(driver, widen(*params), nullptr, work)
                  : CUDA_ERROR_INVALID_VALUE;
  });
}

template <class Params> CUresult set_kernel(CUgraphNode node, const Params *params) {
  return set(node, CU_GRAPH_NODE_TYPE_KERNEL, [&](Driver &driver, const Work &old, Work *work) {
    return params ? kernel_to_work(driver, widen(*params), &std::get<KernelWork>(old), work)
                  : CUDA_ERROR_INVALID_VALUE;
  });
}

template <class Change>
CUresult change_attributes(Driver &driver, GraphNode &node, Change &&change) {
  auto *old = std::get_if<KernelWork>(&node.work);
  if (!old)
    return CUDA_ERROR_INVALID_VALUE;
  KernelWork work = *old;
  change(work.attributes);
  CUGRT_EMU_TRY(check_attributes(driver, work));
  replace_work(node, std::move(work));
  return CUDA_SUCCESS;
}

template <class Params> void narrow(const CUDA_KERNEL_NODE_PARAMS_v3 &p, Params *out) {
  *out = {};
  out->func = p.func;
  out->gridDimX = p.gridDimX;
  out->gridDimY = p.gridDimY;
  out->gridDimZ = p.gridDimZ;
  out->blockDimX = p.blockDimX;
  out->blockDimY = p.blockDimY;
  out->blockDimZ = p.blockDimZ;
  out->sharedMemBytes = p.sharedMemBytes;
  out->kernelParams = p.kernelParams;
  out->extra = p.extra;
}

CUDA_CHILD_GRAPH_NODE_PARAMS child_params(CUgraph graph) {
  return {graph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE};
}

// What the forms of CUDA 13.4 look at besides: the bytes that the type does not use, and "if both
// the kernel node's CUfunction and ctx are non-NULL, the underlying device context of ctx must
// match the device context that the CUfunction was loaded into".
enum class Strictness { before_13_4, from_13_4 };

CUgraphNodeParams as_read(const CUgraphNodeParams &params, Strictness strictness) {
  return strictness == Strictness::before_13_4 ? as_before_13_4(params) : params;
}

CUresult check_strictly(Driver &driver, const CUgraphNodeParams &params, Strictness strictness) {
  if (strictness == Strictness::before_13_4)
    return CUDA_SUCCESS;
  if (!rest_zero(params))
    return CUDA_ERROR_INVALID_VALUE;
  if (params.type != CU_GRAPH_NODE_TYPE_KERNEL || !params.kernel.ctx)
    return CUDA_SUCCESS;
  Ref<Function> function = driver.functions.find(params.kernel.func);
  return function && function->context != driver.contexts.find(params.kernel.ctx)
             ? CUDA_ERROR_INVALID_CONTEXT
             : CUDA_SUCCESS;
}

CUresult add_conditional(CUgraphNode *out, CUgraph graph_handle, const CUgraphNode *dependencies,
                         const CUgraphEdgeData *data, size_t count, CUgraphNodeParams &params,
                         Strictness strictness) {
  CUgraph *bodies = nullptr;
  auto make = [&](Driver &driver, Work *work) -> CUresult {
    if (driver.config.driver_version < kConditionalNodes)
      return CUDA_ERROR_NOT_SUPPORTED;
    CUGRT_EMU_TRY(check_strictly(driver, params, strictness));
    if (!reserved_zero(params))
      return CUDA_ERROR_INVALID_VALUE;
    Ref<Graph> graph = driver.graphs.find(graph_handle);
    CUGRT_EMU_TRY(conditional_to_work(driver, *graph, params.conditional, work));
    bodies = std::get<ConditionalWork>(*work).body_handles->data();
    return CUDA_SUCCESS;
  };
  CUGRT_EMU_TRY(add(out, graph_handle, dependencies, data, count, make));
  params.conditional.phGraph_out = bodies;
  return CUDA_SUCCESS;
}

CUresult add_generic(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                     const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params,
                     Strictness strictness = Strictness::before_13_4) {
  if (params && params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    return add_conditional(out, graph, dependencies, data, count, *params, strictness);
  return add(out, graph, dependencies, data, count, [&](Driver &driver, Work *work) -> CUresult {
    if (!params)
      return CUDA_ERROR_INVALID_VALUE;
    CUGRT_EMU_TRY(check_strictly(driver, *params, strictness));
    return params_to_work(driver, as_read(*params, strictness), nullptr, work);
  });
}

CUresult set_generic(CUgraphNode handle, CUgraphNodeParams *params, Strictness strictness) {
  // A child graph node's own graph is edited instead.
  if (!params || params->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return call([](Driver &) { return CUDA_ERROR_INVALID_VALUE; });
  return set(handle, params->type, [&](Driver &driver, const Work &old, Work *work) -> CUresult {
    CUGRT_EMU_TRY(check_strictly(driver, *params, strictness));
    return params_to_work(driver, as_read(*params, strictness), &old, work);
  });
}

} // namespace

ENTRY(cuGraphAddKernelNode, out, graph, dependencies, count, params) {
  return add_kernel(out, graph, dependencies, count, params);
}

ENTRY(cuGraphAddKernelNode_v2, out, graph, dependencies, count, params) {
  return add_kernel(out, graph, dependencies, count, params);
}

ENTRY(cuGraphKernelNodeGetParams, handle, out) {
  return get<KernelWork>(handle, out,
                         [&](GraphNode &node, KernelWork &) { narrow(kernel_params(node), out); });
}

ENTRY(cuGraphKernelNodeGetParams_v2, handle, out) {
  return get<KernelWork>(handle, out, [&](GraphNode &node, KernelWork &) {
    CUDA_KERNEL_NODE_PARAMS_v3 params = kernel_params(node);
    narrow(params, out);
    out->kern = params.kern;
    out->ctx = params.ctx;
  });
}

ENTRY(cuGraphKernelNodeSetParams, node, params) { return set_kernel(node, params); }
ENTRY(cuGraphKernelNodeSetParams_v2, node, params) { return set_kernel(node, params); }

NODE_CALL(cuGraphKernelNodeSetAttribute, handle, id, value) {
  return value ? change_attributes(driver, node, [&](auto &to) { to[id] = *value; })
               : CUDA_ERROR_INVALID_VALUE;
}

NODE_CALL(cuGraphKernelNodeGetAttribute, handle, id, out) {
  auto *work = std::get_if<KernelWork>(&node.work);
  if (!work || !out)
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_TRY(check_known(driver, id));
  auto found = work->attributes.find(id);
  *out = found == work->attributes.end() ? CUkernelNodeAttrValue{} : found->second;
  return CUDA_SUCCESS;
}

NODE_CALL(cuGraphKernelNodeCopyAttributes, handle, from) {
  Ref<GraphNode> source = driver.nodes.find(from);
  auto *kernel = source ? std::get_if<KernelWork>(&source->work) : nullptr;
  return kernel ? change_attributes(driver, node, [&](auto &to) { to = kernel->attributes; })
                : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuGraphAddMemcpyNode, out, graph, dependencies, count, copy, context) {
  return add(out, graph, dependencies, nullptr, count, copy_to_work, copy, context);
}

ENTRY(cuGraphMemcpyNodeGetParams, handle, out) {
  return get<CopyWork>(handle, out, [&](GraphNode &, CopyWork &work) { *out = work.copy; });
}

ENTRY(cuGraphMemcpyNodeSetParams, handle, copy) {
  return set(handle, CU_GRAPH_NODE_TYPE_MEMCPY, [&](Driver &driver, const Work &old, Work *work) {
    CUcontext context = context_handle(std::get<CopyWork>(old));
    return copy_to_work(driver, copy, context, work);
  });
}

ENTRY(cuGraphAddMemsetNode, out, graph, dependencies, count, fill, context) {
  return add(out, graph, dependencies, nullptr, count, fill_to_work, fill, context);
}

ENTRY(cuGraphMemsetNodeGetParams, handle, out) {
  return get<FillWork>(handle, out, [&](GraphNode &, FillWork &work) { *out = work.fill; });
}

ENTRY(cuGraphMemsetNodeSetParams, handle, fill) {
  return set(handle, CU_GRAPH_NODE_TYPE_MEMSET, [&](Driver &driver, const Work &old, Work *work) {
    CUcontext context = context_handle(std::get<FillWork>(old));
    return fill_to_work(driver, fill, context, work);
  });
}

ENTRY(cuGraphAddBatchMemOpNode, out, graph, dependencies, count, params) {
  return add(out, graph, dependencies, nullptr, count, memory_ops_to_work, params);
}

ENTRY(cuGraphBatchMemOpNodeGetParams, handle, out) {
  return get<MemoryOpsWork>(handle, out, [&](GraphNode &node, MemoryOpsWork &) {
    const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 ops = params_of(node).memOp;
    *out = {ops.ctx, ops.count, ops.paramArray, ops.flags};
  });
}

ENTRY(cuGraphBatchMemOpNodeSetParams, handle, params) {
  return set_whole(handle, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, memory_ops_to_work, params);
}

ENTRY(cuGraphAddHostNode, out, graph, dependencies, count, params) {
  return add(out, graph, dependencies, nullptr, count, host_params_to_work, params);
}

ENTRY(cuGraphHostNodeGetParams, handle, out) {
  return get<HostWork>(handle, out, [&](GraphNode &, HostWork &work) {
    *out = {work.function, work.user};
  });
}

ENTRY(cuGraphHostNodeSetParams, handle, params) {
  return set_whole(handle, CU_GRAPH_NODE_TYPE_HOST, host_params_to_work, params);
}

ENTRY(cuGraphAddChildGraphNode, out, graph, dependencies, count, child) {
  return add(out, graph, dependencies, nullptr, count, [&](Driver &driver, Work *work) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph = child_params(child);
    return params_to_work(driver, params, nullptr, work);
  });
}

ENTRY(cuGraphChildGraphNodeGetGraph, handle, out) {
  return get<ChildWork>(handle, out,
                        [&](GraphNode &, ChildWork &work) { *out = work.graph->handle; });
}

ENTRY(cuGraphAddEmptyNode, out, graph, dependencies, count) {
  return add(out, graph, dependencies, nullptr, count,
             [](Driver &, Work *) { return CUDA_SUCCESS; });
}

ENTRY(cuGraphAddEventRecordNode, out, graph, dependencies, count, event) {
  return add(out, graph, dependencies, nullptr, count, event_to_work, event, true);
}

ENTRY(cuGraphAddEventWaitNode, out, graph, dependencies, count, event) {
  return add(out, graph, dependencies, nullptr, count, event_to_work, event, false);
}

ENTRY(cuGraphEventRecordNodeGetEvent, handle, out) {
  return get<EventRecordWork>(
      handle, out, [&](GraphNode &, EventRecordWork &work) { *out = work.event->handle; });
}

ENTRY(cuGraphEventWaitNodeGetEvent, handle, out) {
  return get<EventWaitWork>(handle, out,
                            [&](GraphNode &, EventWaitWork &work) { *out = work.event->handle; });
}

ENTRY(cuGraphEventRecordNodeSetEvent, handle, event) {
  return set_whole(handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_to_work, event, true);
}

ENTRY(cuGraphEventWaitNodeSetEvent, handle, event) {
  return set_whole(handle, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_to_work, event, false);
}

ENTRY(cuGraphAddNode_v2, out, graph, dependencies, data, count, params) {
  return add_generic(out, graph, dependencies, data, count, params);
}

ENTRY(cuGraphAddNode_v3, out, graph, dependencies, data, count, params) {
  return add_generic(out, graph, dependencies, data, count, params, Strictness::from_13_4);
}

ENTRY(cuGraphNodeSetParams, handle, params) {
  return set_generic(handle, params, Strictness::before_13_4);
}

ENTRY(cuGraphNodeSetParams_v2, handle, params) {
  return set_generic(handle, params, Strictness::from_13_4);
}

NODE_CALL(cuGraphNodeGetParams, handle, out) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  *out = params_of(node);
  return CUDA_SUCCESS;
}

NODE_CALL(cuGraphNodeGetType, handle, out) { return give(out, node.type()); }

} // namespace cugrt::emulator::api
