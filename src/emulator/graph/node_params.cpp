// Parameter structs of graph nodes; see node_params.h.
#include "emulator/graph/node_params.h"
#include "emulator/graph/batch_copy.h"
#include "emulator/graph/conditional.h"

#include "emulator/driver/code/launch.h"
#include "emulator/driver/memory/copy.h"
#include "emulator/graph/memory_ops.h"

#include <algorithm>

namespace cugrt::emulator::api {

CUresult context_of(Driver &driver, CUcontext handle, Ref<Context> *out, Ref<GreenContext> *green) {
  if (!handle) {
    *green = current_green(driver);
    return current_context(driver, out);
  }
  *out = driver.contexts.find(handle);
  *green = driver.contexts.find_green(handle);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult kernel_to_work(Driver &driver, const CUDA_KERNEL_NODE_PARAMS_v3 &p, const KernelWork *old,
                        Work *out) {
  Ref<Context> context;
  Ref<GreenContext> green;
  // A function brings its own context, and only a kernel needs one. A green context can be named
  // for either; a node that has one keeps it.
  if (!driver.functions.find(p.func))
    CUGRT_EMU_TRY(context_of(driver, p.func ? nullptr : p.ctx, &context, &green));
  else if (green = driver.contexts.find_green(p.ctx); !green && old)
    green = old->green;
  LaunchRequest request{p.func,
                        p.kern, // "will only be referenced if func is NULL"
                        {p.gridDimX, p.gridDimY, p.gridDimZ},
                        {p.blockDimX, p.blockDimY, p.blockDimZ},
                        p.sharedMemBytes,
                        p.kernelParams,
                        p.extra};
  request.of_node = true;
  request.green = green;
  KernelWork work;
  if (old)
    work.attributes = old->attributes;
  CUGRT_EMU_TRY(prepare_launch(driver, request, context, &work));
  *out = std::move(work);
  return CUDA_SUCCESS;
}

bool has_empty_grid(const Work &work) {
  auto *kernel = std::get_if<KernelWork>(&work);
  return kernel && !(kernel->grid[0] && kernel->grid[1] && kernel->grid[2]);
}

bool lost_green_context(const Work &work) {
  auto *kernel = std::get_if<KernelWork>(&work);
  return kernel && kernel->green && kernel->green->destroyed;
}

CUresult copy_to_work(Driver &driver, const CUDA_MEMCPY3D *copy, CUcontext context, Work *out) {
  if (!copy)
    return CUDA_ERROR_INVALID_VALUE;
  CopyWork work{*copy, nullptr, nullptr, nullptr};
  CUGRT_EMU_TRY(context_of(driver, context, &work.context, &work.green));
  CUGRT_EMU_TRY(check_copy(driver, *copy));
  *out = std::move(work);
  return CUDA_SUCCESS;
}

CUresult fill_to_work(Driver &driver, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context,
                      Work *out) {
  if (!fill)
    return CUDA_ERROR_INVALID_VALUE;
  FillWork work{*fill, nullptr, nullptr};
  CUGRT_EMU_TRY(context_of(driver, context, &work.context, &work.green));
  CUGRT_EMU_TRY(check_fill(driver, *fill));
  *out = std::move(work);
  return CUDA_SUCCESS;
}

CUresult host_to_work(CUhostFn function, void *user, unsigned sync_mode, Work *out) {
  constexpr unsigned kSpinWait = 1; // CU_HOST_TASK_SPINWAIT
  if (!function || sync_mode > kSpinWait)
    return CUDA_ERROR_INVALID_VALUE;
  *out = HostWork{function, user, sync_mode};
  return CUDA_SUCCESS;
}

CUresult host_params_to_work(Driver &, const CUDA_HOST_NODE_PARAMS *params, Work *out) {
  return params ? host_to_work(params->fn, params->userData, 0, out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult event_to_work(Driver &driver, CUevent handle, bool record, Work *out) {
  CUGRT_EMU_NEED(Event, event, driver.events.find(handle), CUDA_ERROR_INVALID_VALUE);
  if (record)
    *out = EventRecordWork{event};
  else
    *out = EventWaitWork{event};
  return CUDA_SUCCESS;
}

static CUresult child_to_work(Driver &driver, const CUDA_CHILD_GRAPH_NODE_PARAMS &params,
                              Work *out) {
  if (params.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
    return params.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE
               ? driver.refuse("moving a child graph into its node is")
               : CUDA_ERROR_INVALID_VALUE;
  Ref<Graph> graph = driver.graphs.find(params.graph);
  // "The graph must not contain conditional nodes."
  if (!graph)
    return CUDA_ERROR_INVALID_VALUE;
  if (has_conditional(*graph))
    return CUDA_ERROR_NOT_SUPPORTED;
  // "The node executes an embedded child graph. The child graph is cloned in this call."
  Ref<Graph> clone = clone_graph(driver, *graph);
  clone->embedded = true;
  *out = ChildWork{clone};
  return CUDA_SUCCESS;
}

constexpr int kHostSyncMode = 13020, kSyncModeWord = 2; // of the union: behind fn and userData

static unsigned sync_mode(const Driver &driver, const CUgraphNodeParams &params) {
  return driver.config.driver_version < kHostSyncMode ? 0
                                                      : unsigned(params.reserved1[kSyncModeWord]);
}

bool reserved_zero(const CUgraphNodeParams &params) {
  return !params.reserved0[0] && !params.reserved0[1] && !params.reserved0[2] && !params.reserved2;
}

CUresult params_to_work(Driver &driver, const CUgraphNodeParams &params, const Work *old,
                        Work *out) {
  if (!reserved_zero(params)) // "Reserved. Must be zero."
    return CUDA_ERROR_INVALID_VALUE;
  if (params.type == kBatchCopyNode && driver.config.driver_version >= kBatchCopyNodes)
    return batch_copy_to_work(driver, params, out);
  switch (params.type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return kernel_to_work(driver, params.kernel, old ? std::get_if<KernelWork>(old) : nullptr, out);
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    if (params.memcpy.flags || params.memcpy.reserved) // "Must be zero"
      return CUDA_ERROR_INVALID_VALUE;
    return copy_to_work(driver, &params.memcpy.copyParams, params.memcpy.copyCtx, out);
  case CU_GRAPH_NODE_TYPE_MEMSET: {
    const CUDA_MEMSET_NODE_PARAMS_v2 &m = params.memset;
    const CUDA_MEMSET_NODE_PARAMS fill{m.dst, m.pitch, m.value, m.elementSize, m.width, m.height};
    return fill_to_work(driver, &fill, m.ctx, out);
  }
  case CU_GRAPH_NODE_TYPE_HOST:
    return host_to_work(params.host.fn, params.host.userData, sync_mode(driver, params), out);
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return child_to_work(driver, params.graph, out);
  case CU_GRAPH_NODE_TYPE_EMPTY:
    *out = EmptyWork{};
    return CUDA_SUCCESS;
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return event_to_work(driver, params.eventWait.event, false, out);
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return event_to_work(driver, params.eventRecord.event, true, out);
  case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
    const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 &m = params.memOp;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS ops{m.ctx, m.count, m.paramArray, m.flags};
    return memory_ops_to_work(driver, &ops, out);
  }
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return driver.refuse("nodes of type " + std::to_string(params.type) + " are here");
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

namespace {

// Marks the node's present parameters as returned.
std::vector<void *> *hand_out(GraphNode &node) {
  if (!node.param_pointers)
    node.param_pointers = std::make_shared<std::vector<void *>>();
  return node.param_pointers.get();
}

struct Describe {
  GraphNode &node;
  CUgraphNodeParams &out;

  void operator()(EmptyWork &) const {}
  void operator()(KernelWork &) const { out.kernel = kernel_params(node); }
  void operator()(CopyWork &work) const {
    out.memcpy.copyCtx = context_handle(work);
    out.memcpy.copyParams = work.copy;
  }
  void operator()(FillWork &work) const {
    const CUDA_MEMSET_NODE_PARAMS &f = work.fill;
    out.memset = {f.dst, f.pitch, f.value, f.elementSize, f.width, f.height, context_handle(work)};
  }
  void operator()(HostWork &work) const {
    out.host.fn = work.function;
    out.host.userData = work.user;
    out.reserved1[kSyncModeWord] = work.sync_mode;
  }
  void operator()(ChildWork &work) const {
    out.graph = {work.graph->handle, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE};
  }
  void operator()(EventRecordWork &work) const { out.eventRecord.event = work.event->handle; }
  void operator()(EventWaitWork &work) const { out.eventWait.event = work.event->handle; }
  void operator()(ConditionalWork &work) const {
    out.conditional = {work.conditional->handle, work.type, unsigned(work.body_handles->size()),
                       work.body_handles->data(), work.conditional->context->handle};
  }
  void operator()(MemoryOpsWork &work) const {
    hand_out(node);
    out.memOp = {work.context->handle, unsigned(work.ops.size()), work.ops.data(), 0};
  }
  void operator()(BatchCopyWork &work) const {
    hand_out(node);
    describe_batch_copy(work, &out);
  }
};

// Used bytes of the union, in the layout of CUDA 13.5.
size_t utilized_bytes(CUgraphNodeType type) {
  switch (int(type)) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return sizeof(CUDA_KERNEL_NODE_PARAMS_v3);
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return sizeof(CUDA_MEMCPY_NODE_PARAMS);
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return sizeof(CUDA_MEMSET_NODE_PARAMS_v2);
  case CU_GRAPH_NODE_TYPE_HOST:
    return 32; // fn, userData, syncMode, ctx
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS);
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return sizeof(CUDA_EVENT_WAIT_NODE_PARAMS);
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    return sizeof(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2);
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    return sizeof(CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2);
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    return sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2);
  case CU_GRAPH_NODE_TYPE_MEM_FREE:
    return sizeof(CUDA_MEM_FREE_NODE_PARAMS);
  case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
    return sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS_v2);
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return sizeof(CUDA_CONDITIONAL_NODE_PARAMS);
  case int(kBatchCopyNode):
    return sizeof(BatchCopyParams);
  case CU_GRAPH_NODE_TYPE_EMPTY:
    return 0;
  }
  return sizeof(CUgraphNodeParams::reserved1); // of a type that is refused
}

} // namespace

CUgraphNodeParams as_before_13_4(CUgraphNodeParams params) {
  if (params.type == CU_GRAPH_NODE_TYPE_KERNEL && params.kernel.func)
    params.kernel.ctx = nullptr;
  return params;
}

bool rest_zero(const CUgraphNodeParams &params) {
  auto *bytes = reinterpret_cast<const unsigned char *>(params.reserved1);
  return std::all_of(bytes + utilized_bytes(params.type), bytes + sizeof params.reserved1,
                     [](unsigned char byte) { return byte == 0; });
}

CUgraphNodeParams params_of(GraphNode &node) {
  CUgraphNodeParams out{};
  out.type = node.type();
  std::visit(Describe{node, out}, node.work);
  return out;
}

CUDA_KERNEL_NODE_PARAMS_v3 kernel_params(GraphNode &node) {
  auto &work = std::get<KernelWork>(node.work);
  const KernelInfo &info = *work.function->info;
  std::vector<void *> &pointers = *hand_out(node);
  if (pointers.empty()) {
    for (const KernelParam &param : info.params)
      pointers.push_back(work.params.data() + param.offset);
    pointers.push_back(nullptr); // so that the array is never null
  }
  return {work.kernel ? nullptr : work.function->handle,
          work.grid[0],
          work.grid[1],
          work.grid[2],
          work.block[0],
          work.block[1],
          work.block[2],
          work.dynamic_shared_bytes,
          pointers.data(),
          nullptr,
          work.kernel,
          work.green               ? work.green->as_context
          : work.function->context ? work.function->context->handle
                                   : nullptr};
}

} // namespace cugrt::emulator::api
