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

void expect_update(Script &s, GraphBuilder &from, GraphBuilder &to, CUresult wanted,
                   const Refusal &refusal) {
  CUgraphExec exec = from.instantiate();
  CUgraphExecUpdateResultInfo info{};
  s.expect("update", s.api.cuGraphExecUpdate(exec, to.graph, &info), wanted);
  s.expect("reason", uint64_t(info.result), uint64_t(refusal.result));
  if (refusal.names_node)
    s.expect_true("the node", info.errorNode == refusal.node);
  s.need(s.api.cuGraphExecDestroy(exec));
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
  s.need(s.api.cuGraphExecDestroy(exec));
  s.need(s.api.cuMemFree(cell));
}

} // namespace

const std::vector<ScriptCase> &update_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"an update takes over the parameters of a graph of the same form",
       Kind::shared,
       {{"cuGraphExecUpdate", "with the node parameters in a topologically identical graph"}},
       success_script},
      {"an update with another number of nodes is refused",
       Kind::shared,
       {{"cuGraphExecUpdate", "The count of nodes directly in hGraphExec and hGraph differ"},
        {"cuGraphExecUpdate", "resultInfo->errorNode is set to NULL"},
        {"cuGraphExecUpdate",
         "CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED if the graph topology changed"}},
       [](Script &s) {
         GraphBuilder g(s), next(s);
         g.empty();
         next.empty();
         next.empty();
         expect_update(s, g, next, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                       {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, true});
       }},
      {"an update with another number of dependencies is refused",
       Kind::shared,
       {{"cuGraphExecUpdate",
         "has a different number of dependencies than the node from hGraphExec"}},
       [](Script &s) {
         GraphBuilder g(s), next(s);
         CUgraphNode a = g.empty(), b = g.empty({a});
         g.empty({b});
         CUgraphNode c = next.empty(), d = next.empty({c});
         CUgraphNode blamed = next.empty({d, c});
         expect_update(s, g, next, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                       {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, blamed, true});
       }},
      {"an update with a node of another type is refused",
       Kind::shared,
       {{"cuGraphExecUpdate",
         "CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED if the type of a node changed"}},
       [](Script &s) {
         GraphBuilder g(s), next(s);
         CUdeviceptr cell = s.words(1);
         g.empty();
         CUgraphNode blamed = next.fill(cell, 1);
         expect_update(s, g, next, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                       {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, blamed, true});
         s.need(s.api.cuMemFree(cell));
       }},
      {"an update to another kernel is made",
       Kind::shared,
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
         s.need(s.api.cuGraphExecDestroy(exec));
         s.need(s.api.cuMemFree(cell));
       }},
      {"an update of a 2D fill's dimensions is refused",
       Kind::shared,
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
         expect_update(s, g, next, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                       {CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, blamed, true});
         s.need(s.api.cuMemFree(cell));
       }},
      {"a setter needs the node in the source graph",
       Kind::shared,
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
         s.need(s.api.cuGraphExecDestroy(exec));
         s.need(s.api.cuMemFree(cell));
       }},
  };
  return scripts;
}

} // namespace cugrt::conformance
