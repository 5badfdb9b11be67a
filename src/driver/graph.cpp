// Template graphs, node by node.
#include "driver/graph.h"

#include "driver/driver_error.h"
#include "driver/node_params.h"

#include <cstring>

namespace cugrt::driver {

namespace {

CUgraphNodeParams generic_params(CUgraphNodeType type) {
  CUgraphNodeParams params;
  std::memset(&params, 0, sizeof params); // reserved and unused bytes must be zero
  params.type = type;
  return params;
}

Status check_dependencies(const Dependencies &after) {
  if (!after.data.empty() && after.data.size() != after.nodes.size())
    return Status::error(Code::internal, "edge data does not match the dependencies");
  return {};
}

} // namespace

CUgraphEdgeData programmatic_edge() {
  CUgraphEdgeData edge{};
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return edge;
}

Result<GraphNode> GraphRef::add_generic(CUgraphNodeParams &params, Dependencies after,
                                        std::string_view name) const {
  if (!api_->GraphAddNode_v2)
    return driver_lacks("edges with data", 12030);
  GraphNode node = nullptr;
  CUGRT_DRIVER(*api_, GraphAddNode_v2,
               (&node, graph_, after.nodes.data(), after.data.empty() ? nullptr : after.data.data(),
                after.nodes.size(), &params),
               name);
  return node;
}

Result<GraphNode> GraphRef::add_kernel(const LaunchParams &params, Dependencies after,
                                       std::string_view name) const {
  CUGRT_TRY(check_dependencies(after));
  GraphNode node = nullptr;
  if (after.data.empty()) {
    CUDA_KERNEL_NODE_PARAMS_v2 kernel = kernel_params<CUDA_KERNEL_NODE_PARAMS_v2>(params);
    CUGRT_DRIVER(*api_, GraphAddKernelNode,
                 (&node, graph_, after.nodes.data(), after.nodes.size(), &kernel), name);
  } else {
    CUgraphNodeParams generic = generic_params(CU_GRAPH_NODE_TYPE_KERNEL);
    generic.kernel = kernel_params<CUDA_KERNEL_NODE_PARAMS_v3>(params);
    CUGRT_ASSIGN(node, add_generic(generic, after, name));
  }
  if (!params.attributes.empty() && !api_->GraphKernelNodeSetAttribute)
    return Status::error(Code::unsupported, "this driver sets no attributes of kernel nodes");
  for (const CUlaunchAttribute &attribute : params.attributes)
    CUGRT_DRIVER(*api_, GraphKernelNodeSetAttribute, (node, attribute.id, &attribute.value), name);
  return node;
}

Result<GraphNode> GraphRef::add_memcpy(const CopyParams &params, Dependencies after,
                                       std::string_view name) const {
  CUGRT_TRY(check_dependencies(after));
  CUDA_MEMCPY3D_v2 copy = copy_params(params);
  if (!after.data.empty()) {
    CUgraphNodeParams generic = generic_params(CU_GRAPH_NODE_TYPE_MEMCPY);
    generic.memcpy.copyCtx = context_;
    generic.memcpy.copyParams = copy;
    return add_generic(generic, after, name);
  }
  GraphNode node = nullptr;
  CUGRT_DRIVER(*api_, GraphAddMemcpyNode,
               (&node, graph_, after.nodes.data(), after.nodes.size(), &copy, context_), name);
  return node;
}

Result<GraphNode> GraphRef::add_memset(const FillParams &params, Dependencies after,
                                       std::string_view name) const {
  CUGRT_TRY(check_dependencies(after));
  if (!after.data.empty()) {
    CUgraphNodeParams generic = generic_params(CU_GRAPH_NODE_TYPE_MEMSET);
    generic.memset = fill_params<CUDA_MEMSET_NODE_PARAMS_v2>(params);
    generic.memset.ctx = context_;
    return add_generic(generic, after, name);
  }
  CUDA_MEMSET_NODE_PARAMS_v1 fill = fill_params<CUDA_MEMSET_NODE_PARAMS_v1>(params);
  GraphNode node = nullptr;
  CUGRT_DRIVER(*api_, GraphAddMemsetNode,
               (&node, graph_, after.nodes.data(), after.nodes.size(), &fill, context_), name);
  return node;
}

Result<GraphNode> GraphRef::add_empty(Dependencies after, std::string_view name) const {
  CUGRT_TRY(check_dependencies(after));
  if (!after.data.empty()) {
    CUgraphNodeParams generic = generic_params(CU_GRAPH_NODE_TYPE_EMPTY);
    return add_generic(generic, after, name);
  }
  GraphNode node = nullptr;
  CUGRT_DRIVER(*api_, GraphAddEmptyNode, (&node, graph_, after.nodes.data(), after.nodes.size()),
               name);
  return node;
}

Result<CUgraphConditionalHandle> GraphRef::create_condition(uint32_t initial) const {
  if (!api_->GraphConditionalHandleCreate)
    return driver_lacks("conditional nodes", 12030);
  CUgraphConditionalHandle condition = 0;
  CUGRT_DRIVER(*api_, GraphConditionalHandleCreate,
               (&condition, graph_, context_, initial, CU_GRAPH_COND_ASSIGN_DEFAULT), "");
  return condition;
}

Result<ConditionalNode> GraphRef::add_conditional(CUgraphConditionalHandle condition,
                                                  CUgraphConditionalNodeType type, uint32_t bodies,
                                                  Dependencies after, std::string_view name) const {
  CUGRT_TRY(check_dependencies(after));
  CUgraphNodeParams params = generic_params(CU_GRAPH_NODE_TYPE_CONDITIONAL);
  params.conditional.handle = condition;
  params.conditional.type = type;
  params.conditional.size = bodies;
  params.conditional.ctx = context_;
  ConditionalNode result;
  CUGRT_ASSIGN(result.node, add_generic(params, after, name));
  for (uint32_t i = 0; i < bodies; ++i)
    result.bodies.emplace_back(api_, context_, params.conditional.phGraph_out[i]);
  return result;
}

Status GraphRef::add_edges(std::span<const GraphNode> from, std::span<const GraphNode> to) const {
  if (from.size() != to.size())
    return Status::error(Code::internal, "edges with unequal numbers of ends");
  if (from.empty())
    return {};
  CUGRT_DRIVER(*api_, GraphAddDependencies, (graph_, from.data(), to.data(), from.size()), "");
  return {};
}

Result<GraphRef::Counts> GraphRef::counts() const {
  Counts counts;
  CUGRT_DRIVER(*api_, GraphGetNodes, (graph_, nullptr, &counts.nodes), "");
  if (api_->GraphGetEdges_v2)
    CUGRT_DRIVER(*api_, GraphGetEdges_v2, (graph_, nullptr, nullptr, nullptr, &counts.edges), "");
  else
    CUGRT_DRIVER(*api_, GraphGetEdges, (graph_, nullptr, nullptr, &counts.edges), "");
  return counts;
}

Status GraphRef::write_dot(const std::string &path) const {
  if (!api_->GraphDebugDotPrint)
    return Status::error(Code::unsupported, "this driver writes no dot files");
  CUGRT_DRIVER(*api_, GraphDebugDotPrint, (graph_, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE),
               path);
  return {};
}

Result<Graph> Graph::create(const Context &context) {
  CUgraph graph = nullptr;
  CUGRT_DRIVER(context.api(), GraphCreate, (&graph, 0), "");
  return Graph({&context.api(), context.get(), graph});
}

} // namespace cugrt::driver
