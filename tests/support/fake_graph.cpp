// The fake driver's graphs: parameters are copied when set, instances are snapshots, and what the
// real driver refuses (cycles, zero grids, changed kinds of memory, a second instantiation with
// conditional nodes) is refused.
#include "support/fake_state.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace cugrt::test {

namespace {

constexpr int kMaxIterations = 1 << 20; // of a WHILE node: a runaway loop is a test's bug

/// Empty when there is a cycle.
std::vector<FakeNode *> topological(const FakeGraph &graph) {
  std::vector<FakeNode *> order;
  std::set<const FakeNode *> done;
  bool moved = true;
  while (order.size() < graph.nodes.size() && moved) {
    moved = false;
    for (const auto &node : graph.nodes) {
      if (done.count(node.get()))
        continue;
      bool ready = std::all_of(node->after.begin(), node->after.end(),
                               [&](const FakeNode *n) { return done.count(n) != 0; });
      if (ready) {
        order.push_back(node.get());
        done.insert(node.get());
        moved = true;
      }
    }
  }
  return order.size() == graph.nodes.size() ? order : std::vector<FakeNode *>();
}

FakeWork *find_work(FakeExec &exec, FakeNode *node, bool in_bodies) {
  if (auto work = exec.work.find(node); work != exec.work.end())
    return &work->second;
  if (in_bodies)
    for (const auto &body : exec.bodies)
      if (FakeWork *work = find_work(*body, node, true))
        return work;
  return nullptr;
}

FakeWork *exec_work(FakeState &state, CUgraphExec exec, CUgraphNode node) {
  auto found = state.execs.find(exec);
  if (found == state.execs.end())
    return nullptr;
  return find_work(*found->second, node_of(node), state.options.body_setters);
}

} // namespace

FakeGraph *FakeState::find_graph(CUgraph graph) const {
  auto found = graphs.find(graph);
  if (found != graphs.end())
    return found->second.get();
  std::vector<const FakeGraph *> open;
  for (auto &[handle, owner] : graphs)
    open.push_back(owner.get());
  while (!open.empty()) {
    const FakeGraph *next = open.back();
    open.pop_back();
    for (const auto &body : next->bodies) {
      if (reinterpret_cast<CUgraph>(body.get()) == graph)
        return body.get();
      open.push_back(body.get());
    }
  }
  return nullptr;
}

CUresult FakeState::GraphCreate(CUgraph *graph, unsigned) {
  auto made = std::make_unique<FakeGraph>();
  *graph = reinterpret_cast<CUgraph>(made.get());
  graphs[*graph] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphDestroy(CUgraph graph) {
  return graphs.erase(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult FakeState::add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                             const CUgraphEdgeData *edges, size_t count, FakeWork work) {
  FakeGraph *owner = find_graph(graph);
  if (!owner)
    return CUDA_ERROR_INVALID_VALUE;
  auto node = std::make_unique<FakeNode>();
  node->graph = owner;
  node->work = std::move(work);
  for (size_t i = 0; i < count; ++i) {
    FakeNode *from = node_of(after[i]);
    bool known = std::any_of(owner->nodes.begin(), owner->nodes.end(),
                             [&](const auto &n) { return n.get() == from; });
    bool repeated = std::find(node->after.begin(), node->after.end(), from) != node->after.end();
    if (!known || repeated)
      return CUDA_ERROR_INVALID_VALUE;
    node->after.push_back(from);
    node->edge_data.push_back(edges ? edges[0] : CUgraphEdgeData{}); // as drivers 580 to 610 do
  }
  *out = handle_of(node.get());
  owner->nodes.push_back(std::move(node));
  return CUDA_SUCCESS;
}

template <class Params>
CUresult FakeState::kernel_work(const Params &params, FakeWork &work) const {
  FakeFunction *function = find_function(params.func);
  FakeLaunch launch;
  CUresult result = make_launch(function, {params.gridDimX, params.gridDimY, params.gridDimZ},
                                {params.blockDimX, params.blockDimY, params.blockDimZ},
                                params.sharedMemBytes, params.kernelParams, launch);
  if (result != CUDA_SUCCESS)
    return result;
  launch.from_graph = true;
  work.type = CU_GRAPH_NODE_TYPE_KERNEL;
  work.function = function;
  work.launch = std::move(launch);
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                       size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  FakeWork work;
  CUresult result = kernel_work(*params, work);
  return result == CUDA_SUCCESS ? add_node(node, graph, after, nullptr, count, std::move(work))
                                : result;
}

CUresult FakeState::GraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                       size_t count, const CUDA_MEMCPY3D_v2 *params,
                                       CUcontext context) {
  FakeWork work;
  work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  work.copy = *params;
  if (!valid_context(context) || !params->WidthInBytes || !params->Height || !params->Depth)
    return CUDA_ERROR_INVALID_VALUE;
  return add_node(node, graph, after, nullptr, count, std::move(work));
}

CUresult FakeState::GraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                       size_t count, const CUDA_MEMSET_NODE_PARAMS_v1 *params,
                                       CUcontext context) {
  FakeWork work;
  work.type = CU_GRAPH_NODE_TYPE_MEMSET;
  work.fill = *params;
  unsigned element = params->elementSize;
  if (!valid_context(context) || (element != 1 && element != 2 && element != 4) || !params->width)
    return CUDA_ERROR_INVALID_VALUE;
  return add_node(node, graph, after, nullptr, count, std::move(work));
}

CUresult FakeState::GraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                      size_t count) {
  return add_node(node, graph, after, nullptr, count, FakeWork());
}

CUresult FakeState::conditional_work(FakeGraph &graph, CUDA_CONDITIONAL_NODE_PARAMS &params,
                                     FakeWork &work) {
  bool size_ok = params.type == CU_GRAPH_COND_TYPE_WHILE ? params.size == 1
                 : params.type == CU_GRAPH_COND_TYPE_IF  ? params.size == 1 || params.size == 2
                                                         : params.size > 0;
  if (!size_ok || !conditions.count(params.handle))
    return CUDA_ERROR_INVALID_VALUE;
  work.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  work.condition = params.handle;
  work.conditional_type = params.type;
  for (unsigned i = 0; i < params.size; ++i) {
    auto body = std::make_unique<FakeGraph>();
    body->owned_by_node = true;
    work.bodies.push_back(reinterpret_cast<CUgraph>(body.get()));
    graph.bodies.push_back(std::move(body));
  }
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                    const CUgraphEdgeData *edges, size_t count,
                                    CUgraphNodeParams *params) {
  FakeGraph *owner = find_graph(graph);
  if (!owner)
    return CUDA_ERROR_INVALID_VALUE;
  FakeWork work;
  CUresult result = CUDA_SUCCESS;
  work.type = params->type;
  switch (params->type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    result = kernel_work(params->kernel, work);
    break;
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    work.copy = params->memcpy.copyParams;
    break;
  case CU_GRAPH_NODE_TYPE_MEMSET:
    work.fill = {params->memset.dst,         params->memset.pitch, params->memset.value,
                 params->memset.elementSize, params->memset.width, params->memset.height};
    break;
  case CU_GRAPH_NODE_TYPE_EMPTY:
    break;
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    result = conditional_work(*owner, params->conditional, work);
    break;
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (result != CUDA_SUCCESS)
    return result;
  result = add_node(node, graph, after, edges, count, std::move(work));
  // The array is the driver's and lives as long as the node.
  if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    params->conditional.phGraph_out = node_of(*node)->work.bodies.data();
  return result;
}

CUresult FakeState::GraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph,
                                                 CUcontext, unsigned initial, unsigned flags) {
  FakeGraph *owner = find_graph(graph);
  if (!owner)
    return CUDA_ERROR_INVALID_VALUE;
  *handle = next_handle++;
  conditions[*handle] = 0;
  if (flags & CU_GRAPH_COND_ASSIGN_DEFAULT)
    owner->conditions[*handle] = initial;
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                            const CUgraphNode *to, const CUgraphEdgeData *edges,
                                            size_t count) {
  FakeGraph *owner = find_graph(graph);
  for (size_t i = 0; i < count; ++i) {
    FakeNode *a = node_of(from[i]), *b = node_of(to[i]);
    if (!owner || a->graph != owner || b->graph != owner || a == b ||
        std::find(b->after.begin(), b->after.end(), a) != b->after.end())
      return CUDA_ERROR_INVALID_VALUE;
    b->after.push_back(a);
    b->edge_data.push_back(edges ? edges[0] : CUgraphEdgeData{});
  }
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                     CUgraphEdgeData *edges, size_t *count) {
  FakeGraph *owner = find_graph(graph);
  if (!owner)
    return CUDA_ERROR_INVALID_VALUE;
  size_t n = 0;
  for (const auto &node : owner->nodes)
    for (size_t i = 0; i < node->after.size(); ++i, ++n)
      if (from && to && n < *count) {
        from[n] = handle_of(node->after[i]);
        to[n] = handle_of(node.get());
        if (edges)
          edges[n] = node->edge_data[i];
      }
  *count = n;
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                                const CUkernelNodeAttrValue_v1 *value) {
  const FakeWork &work = node_of(node)->work;
  if (work.type != CU_GRAPH_NODE_TYPE_KERNEL)
    return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned kPortableBlocks = 8;
  const auto &cluster = value->clusterDim;
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && !work.function->large_clusters &&
      cluster.x * cluster.y * cluster.z > kPortableBlocks)
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  return CUDA_SUCCESS;
}

CUresult FakeState::instantiate(FakeGraph &graph, FakeExec &exec) {
  exec.source = &graph;
  exec.order = topological(graph);
  if (exec.order.size() != graph.nodes.size())
    return CUDA_ERROR_INVALID_VALUE;
  for (FakeNode *node : exec.order) {
    exec.work[node] = node->work;
    for (CUgraph body : node->work.bodies) {
      auto inner = std::make_unique<FakeExec>();
      if (CUresult result = instantiate(*find_graph(body), *inner); result != CUDA_SUCCESS)
        return result;
      exec.body_of[body] = inner.get();
      exec.bodies.push_back(std::move(inner));
    }
  }
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                               CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
  FakeGraph *source = find_graph(graph);
  if (!source || source->owned_by_node)
    return CUDA_ERROR_INVALID_VALUE;
  if (!source->bodies.empty() && source->instantiated) {
    params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto made = std::make_unique<FakeExec>();
  if (CUresult result = instantiate(*source, *made); result != CUDA_SUCCESS) {
    params->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    params->hErrNode_out = handle_of(source->nodes.front().get());
    return result;
  }
  source->instantiated = true;
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  *exec = reinterpret_cast<CUgraphExec>(made.get());
  execs[*exec] = std::move(made);
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphUpload(CUgraphExec exec, CUstream stream) {
  return execs.count(exec) && valid_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult FakeState::run_copy(const CUDA_MEMCPY3D_v2 &copy) const {
  CUdeviceptr from = copy.srcMemoryType == CU_MEMORYTYPE_HOST
                         ? reinterpret_cast<CUdeviceptr>(copy.srcHost)
                         : copy.srcDevice;
  CUdeviceptr to = copy.dstMemoryType == CU_MEMORYTYPE_HOST
                       ? reinterpret_cast<CUdeviceptr>(copy.dstHost)
                       : copy.dstDevice;
  if (!device_range_ok(from, copy.WidthInBytes) || !device_range_ok(to, copy.WidthInBytes))
    return CUDA_ERROR_INVALID_VALUE;
  std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), copy.WidthInBytes);
  return CUDA_SUCCESS;
}

/// Nodes that do something, whatever their kernels do.
static bool has_work(const FakeExec &body) {
  return std::any_of(body.work.begin(), body.work.end(), [](const auto &node) {
    return node.second.enabled && node.second.type != CU_GRAPH_NODE_TYPE_EMPTY;
  });
}

/// Before 12.8 a body that does nothing hangs.
CUresult FakeState::run_body(FakeExec &body) {
  constexpr int kEmptyBodies = 12080;
  if (options.version < kEmptyBodies && !has_work(body))
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  return run_exec(body);
}

CUresult FakeState::run_conditional(FakeExec &exec, const FakeWork &work) {
  uint32_t value = conditions[work.condition];
  if (work.conditional_type == CU_GRAPH_COND_TYPE_WHILE) {
    for (int i = 0; conditions[work.condition] != 0 && i < kMaxIterations; ++i)
      if (CUresult result = run_body(*exec.body_of[work.bodies[0]]); result != CUDA_SUCCESS)
        return result;
    return CUDA_SUCCESS;
  }
  size_t body = work.conditional_type == CU_GRAPH_COND_TYPE_IF ? (value ? 0 : 1) : value;
  return body < work.bodies.size() ? run_body(*exec.body_of[work.bodies[body]]) : CUDA_SUCCESS;
}

CUresult FakeState::run_exec(FakeExec &exec) {
  for (auto [handle, initial] : exec.source->conditions)
    conditions[handle] = initial;
  for (FakeNode *node : exec.order) {
    const FakeWork &work = exec.work[node];
    if (!work.enabled)
      continue;
    CUresult result = CUDA_SUCCESS;
    switch (work.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      run_kernel(work.function, work.launch);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      result = run_copy(work.copy);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      result = run_fill(work.fill.dst, work.fill.value, work.fill.elementSize, work.fill.width);
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      result = run_conditional(exec, work);
      break;
    default:
      break;
    }
    if (result != CUDA_SUCCESS)
      return result;
  }
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphLaunch(CUgraphExec exec, CUstream stream) {
  auto found = execs.find(exec);
  if (found == execs.end() || !valid_stream(stream))
    return CUDA_ERROR_INVALID_HANDLE;
  land(stream);
  return options.execute ? run_exec(*found->second) : CUDA_SUCCESS;
}

CUresult FakeState::GraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  FakeWork *work = exec_work(*this, exec, node);
  if (!work || work->type != CU_GRAPH_NODE_TYPE_KERNEL)
    return CUDA_ERROR_INVALID_VALUE;
  return kernel_work(*params, *work);
}

CUresult FakeState::GraphKernelNodeGetParams(CUgraphNode handle,
                                             CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  FakeNode &node = *node_of(handle);
  if (node.work.type != CU_GRAPH_NODE_TYPE_KERNEL)
    return CUDA_ERROR_INVALID_VALUE;
  FakeLaunch &launch = node.work.launch;
  node.read_back.clear();
  for (std::vector<std::byte> &argument : launch.arguments)
    node.read_back.push_back(argument.data());
  *params = {};
  params->func = reinterpret_cast<CUfunction>(node.work.function);
  params->gridDimX = launch.grid[0], params->gridDimY = launch.grid[1];
  params->gridDimZ = launch.grid[2];
  params->blockDimX = launch.block[0], params->blockDimY = launch.block[1];
  params->blockDimZ = launch.block[2];
  params->sharedMemBytes = launch.dynamic_shared_bytes;
  params->kernelParams = node.read_back.data();
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphKernelNodeSetParams(CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  return kernel_work(*params, node_of(node)->work);
}

CUresult FakeState::GraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D_v2 *params) {
  const FakeWork &work = node_of(node)->work;
  if (work.type != CU_GRAPH_NODE_TYPE_MEMCPY)
    return CUDA_ERROR_INVALID_VALUE;
  *params = work.copy;
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS_v1 *params) {
  const FakeWork &work = node_of(node)->work;
  if (work.type != CU_GRAPH_NODE_TYPE_MEMSET)
    return CUDA_ERROR_INVALID_VALUE;
  *params = work.fill;
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  FakeWork *work = exec_work(*this, exec, node);
  if (!work || (work->type != CU_GRAPH_NODE_TYPE_KERNEL &&
                work->type != CU_GRAPH_NODE_TYPE_MEMCPY && work->type != CU_GRAPH_NODE_TYPE_MEMSET))
    return CUDA_ERROR_INVALID_VALUE;
  work->enabled = enabled != 0;
  return CUDA_SUCCESS;
}

CUresult FakeState::GraphExecDestroy(CUgraphExec exec) {
  return execs.erase(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace cugrt::test
