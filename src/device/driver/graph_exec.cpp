// Instances: instantiation, launch and the setters.
#include "device/driver/graph.h"

#include "device/driver/driver_error.h"
#include "device/driver/node_params.h"

namespace cugrt::driver {

static const char *reason_text(CUgraphInstantiateResult reason) {
  switch (reason) {
  case CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:
    return "the graph's structure is invalid";
  case CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED:
    return "a node is not supported";
  case CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:
    return "nodes of several contexts";
  case CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED:
    return "a condition belongs to no conditional node";
  case CUDA_GRAPH_INSTANTIATE_SUCCESS:
  case CUDA_GRAPH_INSTANTIATE_ERROR:
    break;
  }
  return nullptr;
}

KernelNodeParams::KernelNodeParams(const LaunchParams &launch)
    : params_(kernel_params<CUDA_KERNEL_NODE_PARAMS_v2>(launch)) {}

Result<GraphExec> GraphExec::instantiate(GraphRef graph, std::string_view name,
                                         InstantiateFailure *failure) {
  const DriverApi &api = graph.api();
  CUGRT_ASSIGN(ContextGuard guard, ContextGuard::enter(api, graph.context()));
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  if (graph.priority() != 0)
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  CUgraphExec exec = nullptr;
  CUresult result = api.GraphInstantiateWithParams(&exec, graph.get(), &params);
  Handle owned(&api, graph.context(), result == CUDA_SUCCESS ? exec : nullptr);
  if (result == CUDA_SUCCESS && params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS)
    return GraphExec(std::move(owned));
  if (failure)
    *failure = {params.hErrNode_out, params.result_out};
  std::string object(name);
  if (const char *reason = reason_text(params.result_out))
    object += object.empty() ? reason : std::string(": ") + reason;
  return driver_error(api, result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result,
                      "cuGraphInstantiateWithParams", object);
}

Status GraphExec::mirror_setters() {
  if (!handle_.api().GraphKernelNodeSetParams)
    return Status::error(Code::unsupported, "this driver sets no parameters of a graph's nodes");
  mirror_.reset(new Mirror{&handle_.api(), handle_.get()});
  set_ = Mirror::set;
  target_ = reinterpret_cast<CUgraphExec>(mirror_.get());
  return {};
}

CUresult GraphExec::Mirror::set(CUgraphExec mirror, CUgraphNode node,
                                const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
  const auto &self = *reinterpret_cast<const Mirror *>(mirror);
  const CUresult result = self.api->GraphExecKernelNodeSetParams(self.exec, node, params);
  return result == CUDA_SUCCESS ? self.api->GraphKernelNodeSetParams(node, params) : result;
}

Status GraphExec::upload(StreamRef stream) const {
  RelaxedCapture relaxed(handle_.api());
  CUGRT_DRIVER(handle_.api(), GraphUpload, (handle_.get(), stream.get()), "");
  return {};
}

Status GraphExec::failure(CUresult result, std::string_view call, std::string_view name) const {
  return driver_error(handle_.api(), result, call, name);
}

Status GraphExec::set_kernel(GraphNode node, const LaunchParams &params,
                             std::string_view name) const {
  CUresult result = kernel_setter()(node, KernelNodeParams(params));
  return result == CUDA_SUCCESS ? Status() : setter_failure(result, name);
}

Status GraphExec::setter_failure(CUresult result, std::string_view name) const {
  return failure(result, "cuGraphExecKernelNodeSetParams", name);
}

Status GraphExec::set_enabled(GraphNode node, bool enabled, std::string_view name) const {
  CUresult result = try_enabled(node, enabled);
  return result == CUDA_SUCCESS ? Status() : enabled_failure(result, name);
}

Status GraphExec::enabled_failure(CUresult result, std::string_view name) const {
  return failure(result, "cuGraphNodeSetEnabled", name);
}

} // namespace cugrt::driver
