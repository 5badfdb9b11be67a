// Template graphs, node by node.
#include "device/driver/graph.h"

#include "device/driver/driver_error.h"
#include "device/driver/node_params.h"

#include <cstring>

namespace cugrt::driver {

Result<GraphNode> GraphRef::add_kernel(const LaunchParams &params, Dependencies after,
                                       std::string_view name) const {
  GraphNode node = nullptr;
  CUDA_KERNEL_NODE_PARAMS_v2 kernel = kernel_params<CUDA_KERNEL_NODE_PARAMS_v2>(params);
  CUGRT_DRIVER(*api_, GraphAddKernelNode, (&node, graph_, after.data(), after.size(), &kernel),
               name);
  auto set = [&](const CUlaunchAttribute &attribute) -> Status {
    if (!api_->GraphKernelNodeSetAttribute)
      return Status::error(Code::unsupported, "this driver sets no attributes of kernel nodes");
    CUGRT_DRIVER(*api_, GraphKernelNodeSetAttribute, (node, attribute.id, &attribute.value), name);
    return {};
  };
  for (const CUlaunchAttribute &attribute : params.attributes)
    CUGRT_TRY(set(attribute));
  if (priority_ != 0) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
    attribute.value.priority = priority_;
    CUGRT_TRY(set(attribute));
  }
  return node;
}

Result<GraphNode> GraphRef::add_memcpy(const CopyParams &params, Dependencies after,
                                       std::string_view name) const {
  CUDA_MEMCPY3D_v2 copy = copy_params(params);
  GraphNode node = nullptr;
  CUGRT_DRIVER(*api_, GraphAddMemcpyNode,
               (&node, graph_, after.data(), after.size(), &copy, context_), name);
  return node;
}

Result<GraphNode> GraphRef::add_memset(const FillParams &params, Dependencies after,
                                       std::string_view name) const {
  CUDA_MEMSET_NODE_PARAMS_v1 fill = fill_params<CUDA_MEMSET_NODE_PARAMS_v1>(params);
  GraphNode node = nullptr;
  CUGRT_DRIVER(*api_, GraphAddMemsetNode,
               (&node, graph_, after.data(), after.size(), &fill, context_), name);
  return node;
}

Result<GraphNode> GraphRef::add_empty(Dependencies after, std::string_view name) const {
  GraphNode node = nullptr;
  CUGRT_DRIVER(*api_, GraphAddEmptyNode, (&node, graph_, after.data(), after.size()), name);
  return node;
}

Result<GraphNode> GraphRef::add_event_record(const Event &event, Dependencies after,
                                             std::string_view name) const {
  if (!api_->GraphAddEventRecordNode)
    return Status::error(Code::unsupported, "this driver records no events in graphs");
  GraphNode node = nullptr;
  CUGRT_DRIVER(*api_, GraphAddEventRecordNode,
               (&node, graph_, after.data(), after.size(), event.get()), name);
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
  if (!api_->GraphAddNode_v2)
    return driver_lacks("conditional nodes", 12030);
  CUgraphNodeParams params;
  std::memset(&params, 0, sizeof params); // reserved and unused bytes must be zero
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = condition;
  params.conditional.type = type;
  params.conditional.size = bodies;
  params.conditional.ctx = context_;
  ConditionalNode result;
  CUGRT_DRIVER(*api_, GraphAddNode_v2,
               (&result.node, graph_, after.data(), nullptr, after.size(), &params), name);
  for (uint32_t i = 0; i < bodies; ++i)
    result.bodies.emplace_back(api_, context_, params.conditional.phGraph_out[i], priority_);
  return result;
}

Status GraphRef::add_programmatic_edges(std::span<const GraphNode> from, GraphNode to) const {
  if (from.empty())
    return {};
  if (!api_->GraphAddDependencies_v2)
    return driver_lacks("edges with data", 12030);
  CUgraphEdgeData early{};
  early.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  early.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  const std::vector<GraphNode> ends(from.size(), to);
  const std::vector<CUgraphEdgeData> data(from.size(), early);
  CUGRT_DRIVER(*api_, GraphAddDependencies_v2,
               (graph_, from.data(), ends.data(), data.data(), from.size()), "programmatic edges");
  return {};
}

Result<Graph> Graph::create(const Context &context, int priority) {
  CUgraph graph = nullptr;
  CUGRT_DRIVER(context.api(), GraphCreate, (&graph, 0), "");
  return Graph({&context.api(), context.get(), graph}, priority);
}

} // namespace cugrt::driver
