// Whole updates of an instance, and why they are refused.
#include "graph_builder.h"

namespace cugrt::conformance {

using Kind = ScriptCase::Kind;

namespace {

/// Updates an instance of `from` with `to`, and expects the reason; `node` is the one to blame
/// where the header says which.
struct Refusal {
  CUgraphExecUpdateResult result;
  CUgraphNode node = nullptr;
  bool names_node = false;
};

void expect_update(Script &s, GraphBuilder &from, CUgraph to, CUresult wanted,
                   const Refusal &refusal) {
  CUgraphExec exec = from.instantiate();
  CUgraphExecUpdateResultInfo info{};
  s.expect("update", s.api.cuGraphExecUpdate(exec, to, &info), wanted);
  s.expect("reason", uint64_t(info.result), uint64_t(refusal.result));
  if (refusal.names_node)
    s.expect_true("the node", info.errorNode == refusal.node);
}

void success_script(Script &s) {
  GraphBuilder g(s), next(s);
  CUdeviceptr cell = s.words(2, 1);
  CUgraphNode a = g.fill(cell, 2);
  CUgraphNode node = g.affine(cell, 3, 4, {a});
  CUgraphNode b = next.fill(cell, 5);
  next.affine(cell, 7, 1, {b});
  CUgraphExec exec = g.instantiate();
  GraphBuilder::Affine p(s, cell, 50, 0);
  s.need(s.api.cuGraphExecKernelNodeSetParams(exec, node, &p.node));
  CUgraphExecUpdateResultInfo info{};
  s.expect("update", s.api.cuGraphExecUpdate(exec, next.graph, &info));
  s.expect("result", uint64_t(info.result), CU_GRAPH_EXEC_UPDATE_SUCCESS);
  s.expect("the new parameters", launched(s, exec, cell), 36);
}

/// a -> b, a -> c, b and c -> d, against p -> q -> r, q and r -> last. The edges of the last nodes
/// pair q with b and r with c; then r's dependency is q, where c's is a.
void mismatch_script(Script &s) {
  GraphBuilder g(s), next(s);
  CUgraphNode a = g.empty(), b = g.empty({a}), c = g.empty({a});
  g.empty({b, c});
  CUgraphNode p = next.empty(), q = next.empty({p}), r = next.empty({q});
  next.empty({q, r});
  CUgraphExec exec = g.instantiate();
  CUgraphExecUpdateResultInfo info{};
  s.expect("update", s.api.cuGraphExecUpdate(exec, next.graph, &info),
           CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  s.expect("reason", uint64_t(info.result), CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  s.expect_true("the node", info.errorNode == r);
  s.expect_true("its dependency", info.errorFromNode == q);
}

/// The same kernel from a module of another context.
void context_script(Script &s) {
  GraphBuilder g(s), next(s);
  CUdeviceptr cell = s.words(1, 1);
  g.affine(cell, 1, 1);
  GraphBuilder::Affine p(s, cell, 1, 1);
  CUcontext other = nullptr;
  CUmodule module = nullptr;
  CUgraphNode blamed = nullptr;
  s.need(s.api.cuCtxCreate(&other, nullptr, 0, s.driver.device));
  s.need(s.api.cuModuleLoadData(&module, kScriptPtx));
  s.need(s.api.cuModuleGetFunction(&p.node.func, module, "affine"));
  s.need(s.api.cuGraphAddKernelNode(&blamed, next.graph, nullptr, 0, &p.node));
  s.need(s.api.cuCtxSetCurrent(s.context));
  expect_update(s, g, next.graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                {CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE, blamed, true});
  s.need(s.api.cuCtxDestroy(other));
  s.need(s.api.cuCtxSetCurrent(s.context));
}

/// A kernel node as it is, and one with an attribute.
void attribute_script(Script &s, CUlaunchAttributeID id, const CUlaunchAttributeValue &value,
                      unsigned long long flags) {
  GraphBuilder g(s), next(s);
  CUdeviceptr cell = s.words(1, 1);
  g.affine(cell, 1, 1);
  CUgraphNode blamed = next.affine(cell, 1, 1);
  s.need(s.api.cuGraphKernelNodeSetAttribute(blamed, id, &value));
  CUgraphExecUpdateResultInfo info{};
  CUgraphExec exec = s.instantiate(g.graph, flags);
  s.expect("update", s.api.cuGraphExecUpdate(exec, next.graph, &info),
           CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  s.expect("reason", uint64_t(info.result), CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
  s.expect_true("the node", info.errorNode == blamed);
}

/// A copy from device to device, and one to the host.
void copy_update_script(Script &s) {
  GraphBuilder g(s), next(s);
  CUdeviceptr cell = s.words(2, 1);
  uint32_t host = 0;
  g.copy(cell, cell + 4);
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = cell;
  p.dstMemoryType = CU_MEMORYTYPE_HOST;
  p.dstHost = &host;
  p.WidthInBytes = 4;
  p.Height = p.Depth = 1;
  CUgraphNode blamed = nullptr;
  s.need(s.api.cuGraphAddMemcpyNode(&blamed, next.graph, nullptr, 0, &p, s.context));
  expect_update(s, g, next.graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                {CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, blamed, true});
}

/// An IF node with an empty kernel in its body, and a WHILE node with the same.
void conditional_script(Script &s) {
  GraphBuilder g(s), next(s);
  CUdeviceptr cell = s.words(1, 1);
  auto add = [&](GraphBuilder &b, CUgraphConditionalNodeType type) {
    CUgraphConditionalHandle handle = 0;
    s.need(s.api.cuGraphConditionalHandleCreate(&handle, b.graph, s.context, 0,
                                                CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = handle;
    p.conditional.type = type;
    p.conditional.size = 1;
    p.conditional.ctx = s.context;
    CUgraphNode node = nullptr, inside = nullptr;
    s.need(s.api.cuGraphAddNode(&node, b.graph, nullptr, nullptr, 0, &p));
    GraphBuilder::Affine a(s, cell, 1, 1);
    s.need(s.api.cuGraphAddKernelNode(&inside, p.conditional.phGraph_out[0], nullptr, 0, &a.node));
    return node;
  };
  add(g, CU_GRAPH_COND_TYPE_IF);
  CUgraphNode blamed = add(next, CU_GRAPH_COND_TYPE_WHILE);
  expect_update(s, g, next.graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                {CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, blamed, true});
}

/// A refused update leaves the instance as it was, also where nodes before the refused one changed.
void untouched_script(Script &s) {
  GraphBuilder g(s), next(s);
  CUdeviceptr cell = s.words(1, 1);
  CUgraphNode a = g.affine(cell, 2, 0);
  g.affine(cell, 1, 1, {a});
  CUgraphNode b = next.affine(cell, 7, 0);
  next.fill(cell, 9, {b});
  CUgraphExec exec = g.instantiate();
  CUgraphExecUpdateResultInfo info{};
  s.expect("update", s.api.cuGraphExecUpdate(exec, next.graph, &info),
           CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  s.expect("reason", uint64_t(info.result), CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  s.expect("as before", launched(s, exec, cell), 3);
}

} // namespace

const std::vector<ScriptCase> &update_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"an update takes over the parameters of a graph of the same form",
       {{"cuGraphExecUpdate", "with the node parameters in a topologically identical graph"}},
       success_script},
      {"an update with another number of nodes is refused",
       {{"cuGraphExecUpdate", "The count of nodes directly in hGraphExec and hGraph differ"},
        {"cuGraphExecUpdate", "resultInfo->errorNode is set to NULL"},
        {"cuGraphExecUpdate",
         "CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED if the graph topology changed"}},
       [](Script &s) {
         GraphBuilder g(s), next(s);
         g.empty();
         next.empty();
         next.empty();
         expect_update(s, g, next.graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                       {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, true});
       }},
      {"an update with another number of dependencies is refused",
       {{"cuGraphExecUpdate",
         "has a different number of dependencies than the node from hGraphExec"}},
       [](Script &s) {
         GraphBuilder g(s), next(s);
         CUgraphNode a = g.empty(), b = g.empty({a});
         g.empty({b});
         CUgraphNode c = next.empty(), d = next.empty({c});
         CUgraphNode blamed = next.empty({d, c});
         expect_update(s, g, next.graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                       {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, blamed, true});
       }},
      {"an update with a node of another type is refused",
       {{"cuGraphExecUpdate",
         "CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED if the type of a node changed"}},
       [](Script &s) {
         GraphBuilder g(s), next(s);
         CUdeviceptr cell = s.words(1);
         g.empty();
         CUgraphNode blamed = next.fill(cell, 1);
         expect_update(s, g, next.graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                       {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, blamed, true});
       }},
      {"an update with another exit node is refused",
       {{"cuGraphExecUpdate", "resultInfo->errorNode is set to one of the exit nodes in hGraph"}},
       [](Script &s) {
         GraphBuilder g(s), next(s);
         CUgraphNode a = g.empty();
         g.empty({a});
         CUgraphNode exits[] = {next.empty(), next.empty()};
         CUgraphExec exec = g.instantiate();
         CUgraphExecUpdateResultInfo info{};
         s.expect("update", s.api.cuGraphExecUpdate(exec, next.graph, &info),
                  CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
         s.expect("reason", uint64_t(info.result), CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
         s.expect_true("an exit", info.errorNode == exits[0] || info.errorNode == exits[1]);
       }},
      {"an update where a dependency is paired otherwise is refused",
       {{"cuGraphExecUpdate",
         "has a dependency that does not match with the corresponding dependency"},
        {"cuGraphExecUpdate", "will be set to the mismatched dependency"}},
       mismatch_script},
      {"an update to a function of another context is refused",
       {{"cuGraphExecUpdate", "The owning context of the function cannot change"},
        {"cuGraphExecUpdate",
         "CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE if the function changed"}},
       context_script,
       12050},
      {"an update to a cooperative launch is refused",
       {{"cuGraphExecUpdate", "A cooperative node cannot be updated to a non-cooperative node"},
        {"cuGraphExecUpdate",
         "CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED if any attributes of a node changed"}},
       [](Script &s) {
         CUlaunchAttributeValue value{};
         value.cooperative = 1;
         attribute_script(s, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value, 0);
       }},
      {"an update of a priority that the instance uses is refused",
       {{"cuGraphExecUpdate", "CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, the"},
        {"cuGraphExecUpdate", "priority attribute cannot change"}},
       [](Script &s) {
         CUlaunchAttributeValue value{};
         value.priority = -1;
         attribute_script(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, value,
                          CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
       }},
      {"an update of a copy to another kind of memory is refused",
       {{"cuGraphExecUpdate", "Changing either the source or destination memory type"},
        {"cuGraphExecUpdate",
         "CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED if any parameters to a node changed"}},
       copy_update_script},
      {"an update of a conditional node's type is refused",
       {{"cuGraphExecUpdate", "Conditional nodes: - Changing node parameters is not supported"}},
       conditional_script,
       12030},
      {"an update that is refused changes nothing",
       {{"cuGraphExecUpdate",
         "if the graph update was not performed because it included changes which violated"}},
       untouched_script},
      {"an update with a graph that is gone",
       Kind::emulated_only,
       {{"cuGraphExecUpdate", "CU_GRAPH_EXEC_UPDATE_ERROR if passed an invalid value"}},
       [](Script &s) {
         GraphBuilder g(s);
         g.empty();
         CUgraph gone = nullptr;
         s.need(s.api.cuGraphCreate(&gone, 0));
         s.need(s.api.cuGraphDestroy(gone));
         expect_update(s, g, gone, CUDA_ERROR_INVALID_VALUE, {CU_GRAPH_EXEC_UPDATE_ERROR});
       }},
      {"an update to another kernel is made",
       {{"cuGraphExecUpdate", "The owning context of the function cannot change"}},
       [](Script &s) {
         GraphBuilder g(s), next(s);
         CUdeviceptr cell = s.words(1, 5);
         g.affine(cell, 1, 1);
         void *params[] = {&cell};
         CUDA_KERNEL_NODE_PARAMS p = GraphBuilder::Affine(s, cell, 1, 1).node;
         p.func = s.kernel("increment");
         p.kernelParams = params;
         p.blockDimX = 1;
         CUgraphNode node = nullptr;
         s.need(s.api.cuGraphAddKernelNode(&node, next.graph, nullptr, 0, &p));
         CUgraphExec exec = g.instantiate();
         CUgraphExecUpdateResultInfo info{};
         s.expect("update", s.api.cuGraphExecUpdate(exec, next.graph, &info));
         s.expect("the new kernel", launched(s, exec, cell), 6);
       }},
      {"an update of a 2D fill's dimensions is refused",
       {{"cuGraphExecUpdate", "For 2d memsets, only address and assigned value may be updated"}},
       [](Script &s) {
         GraphBuilder g(s), next(s);
         CUdeviceptr cell = s.words(64);
         auto add = [&](GraphBuilder &b, size_t width) {
           CUDA_MEMSET_NODE_PARAMS p = GraphBuilder::fill_params(cell, 1, width);
           p.height = 3;
           p.pitch = 32;
           CUgraphNode node = nullptr;
           s.need(s.api.cuGraphAddMemsetNode(&node, b.graph, nullptr, 0, &p, s.context));
           return node;
         };
         add(g, 2);
         CUgraphNode blamed = add(next, 4);
         expect_update(s, g, next.graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                       {CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, blamed, true});
       }},
      {"a setter needs the node in the source graph",
       {{"cuGraphExecKernelNodeSetParams", "must not have been removed from the original graph"}},
       [](Script &s) {
         GraphBuilder g(s), other(s);
         CUdeviceptr cell = s.words(1, 1);
         g.affine(cell, 1, 1);
         CUgraphNode foreign = other.affine(cell, 1, 1);
         CUgraphExec exec = g.instantiate();
         GraphBuilder::Affine p(s, cell, 2, 2);
         s.expect("a node of another graph",
                  s.api.cuGraphExecKernelNodeSetParams(exec, foreign, &p.node),
                  CUDA_ERROR_INVALID_VALUE);
       }},
  };
  return scripts;
}

} // namespace cugrt::conformance
