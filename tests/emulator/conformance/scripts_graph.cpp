// Explicit graphs: nodes and edges, snapshots, setters, enabling, clones, children.
#include "graph_builder.h"

namespace cugrt::conformance {

namespace {

void edges_script(Script &s) {
  GraphBuilder g(s);
  CUgraphNode a = g.empty(), b = g.empty(), c = g.empty({a});
  size_t count = 0;
  s.expect("edge", g.depend(a, b));
  s.expect("the same edge", g.depend(a, b), CUDA_ERROR_INVALID_VALUE);
  s.expect("an edge to itself", g.depend(b, b), CUDA_ERROR_INVALID_VALUE);
  s.expect("none", s.api.cuGraphAddDependencies(g.graph, nullptr, nullptr, nullptr, 0));
  s.expect("edges", s.api.cuGraphGetEdges(g.graph, nullptr, nullptr, nullptr, &count));
  s.expect("two", count, 2);
  CUgraphNode from[4] = {a, a, a, a}, to[4] = {a, a, a, a};
  count = 4;
  s.expect("room for four", s.api.cuGraphGetEdges(g.graph, from, to, nullptr, &count));
  s.expect("two are written", count, 2);
  s.expect_true("the rest is null", !from[2] && !to[3]);
  s.expect("roots", s.api.cuGraphGetRootNodes(g.graph, nullptr, &count));
  s.expect("one", count, 1);
  CUgraphNode nodes[5] = {a, a, a, a, a};
  count = 5;
  s.expect("nodes", s.api.cuGraphGetNodes(g.graph, nodes, &count));
  s.expect("three", count, 3);
  s.expect_true("the rest is null", !nodes[3] && !nodes[4]);
  s.expect("remove", s.api.cuGraphRemoveDependencies(g.graph, &a, &b, nullptr, 1));
  s.expect("remove again", s.api.cuGraphRemoveDependencies(g.graph, &a, &b, nullptr, 1),
           CUDA_ERROR_INVALID_VALUE);
  GraphBuilder other(s);
  CUgraphNode foreign = other.empty();
  s.expect("a node of another graph", g.depend(a, foreign), CUDA_ERROR_INVALID_VALUE);
  CUgraphNode twice[] = {a, a}, node = nullptr;
  s.expect("a dependency twice", s.api.cuGraphAddEmptyNode(&node, g.graph, twice, 2),
           CUDA_ERROR_INVALID_VALUE);
  s.expect("destroy", s.api.cuGraphDestroyNode(a));
  s.need(s.api.cuGraphGetEdges(g.graph, nullptr, nullptr, nullptr, &count));
  s.expect("its edges are gone", count, 0);
  CUgraphNodeType type{};
  s.expect("type", s.api.cuGraphNodeGetType(c, &type));
  s.expect("empty", uint64_t(type), CU_GRAPH_NODE_TYPE_EMPTY);
}

void cycle_script(Script &s) {
  GraphBuilder g(s);
  CUgraphNode a = g.empty(), b = g.empty({a});
  CUresult result = g.depend(b, a);
  s.observe("an edge back", result, CUDA_SUCCESS);
  if (result != CUDA_SUCCESS)
    return;
  CUgraphExec exec = nullptr;
  s.expect_true("instantiate", s.api.cuGraphInstantiate(&exec, g.graph, 0) != CUDA_SUCCESS);
}

void snapshot_script(Script &s) {
  GraphBuilder g(s);
  CUdeviceptr cell = s.words(1, 1);
  CUgraphNode fill = g.fill(cell, 2), node = g.affine(cell, 3, 4, {fill});
  CUgraphExec exec = g.instantiate();
  s.expect("launch", launched(s, exec, cell), 10);
  GraphBuilder::Affine p(s, cell, 5, 5);
  s.expect("set the graph's node", s.api.cuGraphKernelNodeSetParams(node, &p.node));
  CUDA_KERNEL_NODE_PARAMS read{};
  s.expect("get", s.api.cuGraphKernelNodeGetParams(node, &read));
  s.expect("what was set", uint64_t(*static_cast<uint32_t *>(read.kernelParams[1])), 5);
  s.expect("the instance is as it was", launched(s, exec, cell), 10);
  s.expect("set the instance's", s.api.cuGraphExecKernelNodeSetParams(exec, node, &p.node));
  p.factor = 99; // parameters were copied
  s.expect("the new parameters", launched(s, exec, cell), 15);
  CUDA_MEMSET_NODE_PARAMS f = GraphBuilder::fill_params(cell, 7);
  s.expect("set the fill", s.api.cuGraphExecMemsetNodeSetParams(exec, fill, &f, s.context));
  s.expect("both new", launched(s, exec, cell), 40);
  f.width = 0;
  s.expect("a fill of no bytes", s.api.cuGraphExecMemsetNodeSetParams(exec, fill, &f, s.context),
           CUDA_ERROR_INVALID_VALUE);
  p.node.gridDimX = 0;
  s.expect("a grid of no blocks", s.api.cuGraphExecKernelNodeSetParams(exec, node, &p.node),
           CUDA_ERROR_INVALID_VALUE);
  s.expect("as before", launched(s, exec, cell), 40);
  s.expect("destroy the graph", s.api.cuGraphDestroy(g.graph));
  g.graph = nullptr;
  s.expect("the instance lives on", launched(s, exec, cell), 40);
}

void enable_script(Script &s) {
  GraphBuilder g(s);
  CUdeviceptr cell = s.words(1, 1);
  CUgraphNode fill = g.fill(cell, 1), node = g.affine(cell, 10, 0, {fill}),
              last = g.affine(cell, 1, 1, {node}), empty = g.empty({last});
  CUgraphExec exec = g.instantiate();
  unsigned enabled = 9;
  s.expect("enabled", s.api.cuGraphNodeGetEnabled(exec, node, &enabled));
  s.expect("at first", enabled, 1);
  s.expect("disable", s.api.cuGraphNodeSetEnabled(exec, node, 0));
  s.need(s.api.cuGraphNodeGetEnabled(exec, node, &enabled));
  s.expect("disabled", enabled, 0);
  s.expect("as an empty node", launched(s, exec, cell), 2);
  GraphBuilder::Affine p(s, cell, 20, 0);
  s.expect("set while disabled", s.api.cuGraphExecKernelNodeSetParams(exec, node, &p.node));
  s.need(s.api.cuGraphNodeGetEnabled(exec, node, &enabled));
  s.observe("still disabled", enabled, 0);
  s.expect("enable", s.api.cuGraphNodeSetEnabled(exec, node, 1));
  s.expect("with what was set", launched(s, exec, cell), 21);
  s.expect("an empty node", s.api.cuGraphNodeSetEnabled(exec, empty, 0), CUDA_ERROR_INVALID_VALUE);
}

void clone_script(Script &s) {
  GraphBuilder g(s);
  CUdeviceptr cell = s.words(1, 2);
  CUgraphNode node = g.affine(cell, 2, 1), found = nullptr, type_of = nullptr;
  CUgraph clone = nullptr;
  s.expect("clone", s.api.cuGraphClone(&clone, g.graph));
  s.expect("find", s.api.cuGraphNodeFindInClone(&found, node, clone));
  s.expect_true("another node", found && found != node);
  GraphBuilder::Affine p(s, cell, 100, 0);
  s.expect("change the original", s.api.cuGraphKernelNodeSetParams(node, &p.node));
  CUgraphNode later = g.empty();
  s.expect("a node that came later", s.api.cuGraphNodeFindInClone(&type_of, later, clone),
           CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = s.instantiate(clone);
  s.expect("the clone is as it was", launched(s, exec, cell), 5);
  s.expect("remove in the clone", s.api.cuGraphDestroyNode(found));
  s.expect("no longer there", s.api.cuGraphNodeFindInClone(&found, node, clone),
           CUDA_ERROR_INVALID_VALUE);
  s.need(s.api.cuGraphDestroy(clone));
}

void child_script(Script &s) {
  GraphBuilder child(s), g(s);
  CUdeviceptr cell = s.words(1, 0);
  child.affine(cell, 2, 1);
  CUgraphNode first = g.fill(cell, 3), node = nullptr;
  s.expect("add", s.api.cuGraphAddChildGraphNode(&node, g.graph, &first, 1, child.graph));
  child.affine(cell, 100, 0); // the child was cloned
  CUgraph inside = nullptr;
  s.expect("its graph", s.api.cuGraphChildGraphNodeGetGraph(node, &inside));
  s.expect_true("a clone", inside && inside != child.graph);
  size_t count = 0;
  s.need(s.api.cuGraphGetNodes(inside, nullptr, &count));
  s.expect("of one node", count, 1);
  CUgraphExec exec = g.instantiate();
  s.expect("launch", launched(s, exec, cell), 7);
}

void CUDA_CB count_up(void *data) { ++*static_cast<int *>(data); }

void kinds_script(Script &s) {
  GraphBuilder g(s);
  CUdeviceptr cell = s.words(2, 0);
  int calls = 0;
  CUDA_HOST_NODE_PARAMS host{};
  host.fn = &count_up;
  host.userData = &calls;
  CUgraphNode a = g.fill(cell, 6), b = g.copy(cell + 4, cell, {a}), node = nullptr;
  s.expect("host node", s.api.cuGraphAddHostNode(&node, g.graph, &b, 1, &host));
  g.affine(cell + 4, 7, 0, {node});
  CUgraphExec exec = g.instantiate();
  s.expect("upload", s.api.cuGraphUpload(exec, nullptr));
  s.expect("not called by it", uint64_t(calls), 0);
  s.expect("launch", launched(s, exec, cell + 4), 42);
  s.expect("called once", uint64_t(calls), 1);
  cuuint64_t flags = 7;
  s.expect("flags", s.api.cuGraphExecGetFlags(exec, &flags));
  s.expect("none", flags, 0);
}

void serial_script(Script &s) {
  GraphBuilder g(s);
  CUdeviceptr cell = s.words(1, 0);
  CUgraphNode node = g.affine(cell, 1, 1);
  for (int i = 0; i < 3; ++i)
    node = g.affine(cell, 1, 1, {node});
  CUgraphExec exec = nullptr;
  s.need(s.api.cuGraphInstantiate(&exec, g.graph, 0));
  CUstream streams[] = {s.stream(), s.stream()};
  for (int i = 0; i < 20; ++i)
    s.need(s.api.cuGraphLaunch(exec, streams[i % 2]));
  s.expect("destroy in flight", s.api.cuGraphExecDestroy(exec));
  for (CUstream stream : streams)
    s.expect("wait", s.api.cuStreamSynchronize(stream));
  s.expect("none was lost", uint64_t(s.word(cell)), 80);
}

} // namespace

const std::vector<ScriptCase> &graph_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"edges are added, listed and removed",
       {{"cuGraphAddDependencies", "Specifying an existing dependency will return an error"},
        {"cuGraphAddDependencies", "must belong to hGraph"},
        {"cuGraphRemoveDependencies", "Specifying an edge that does not exist in the graph"},
        {"cuGraphGetEdges", "will be set to NULL"},
        {"cuGraphDestroyNode", "severs any dependencies of other nodes"},
        {"cuGraphAddEmptyNode", "may not have any duplicate entries"}},
       edges_script,
       12030},
      {"a graph has no cycle",
       {{"cuGraphInstantiate", "validated for any structural constraints"}},
       cycle_script,
       12030},
      {"an instance is a snapshot, changed by its own setters",
       {{"cuGraphExecKernelNodeSetParams", "hNode is also not modified by this call"},
        {"cuGraphExecKernelNodeSetParams", "The modifications only affect future launches"},
        {"cuGraphExecMemsetNodeSetParams", "Zero sized operations are not supported"}},
       snapshot_script},
      {"nodes are disabled and enabled",
       {{"cuGraphNodeSetEnabled", "functionally equivalent to empty nodes"},
        {"cuGraphNodeSetEnabled", "Existing node parameters are not affected"},
        {"cuGraphNodeSetEnabled", "only kernel, memset and memcpy nodes are supported"}},
       enable_script},
      {"a clone is independent, and finds its nodes",
       {{"cuGraphClone", "may be modified after this call without affecting the clone"},
        {"cuGraphNodeFindInClone", "must have been in hOriginalGraph at the time of the call"},
        {"cuGraphNodeFindInClone", "must not have been removed"}},
       clone_script},
      {"a child graph is cloned into its node",
       {{"cuGraphAddChildGraphNode", "The child graph is cloned in this call"},
        {"cuGraphChildGraphNodeGetGraph", "This call does not clone the graph"}},
       child_script},
      {"fills, copies, host functions and kernels in one graph",
       {{"cuGraphAddHostNode", "the node will invoke the specified CPU function"},
        {"cuGraphUpload", "to the device in hStream without executing it"}},
       kinds_script},
      {"launches of one instance follow one another",
       {{"cuGraphLaunch", "any previous launches of hGraphExec"},
        {"cuGraphExecDestroy", "it will not be terminated, but rather freed asynchronously"}},
       serial_script},
      {"nodes with bad parameters are refused",
       {{"cuGraphAddKernelNode", "CUDA_ERROR_INVALID_VALUE"},
        {"cuGraphAddMemsetNode", "CUDA_ERROR_INVALID_VALUE"}},
       [](Script &s) {
         GraphBuilder g(s);
         CUgraphNode node = nullptr;
         CUdeviceptr cell = s.words(4);
         GraphBuilder::Affine p(s, cell, 1, 1);
         p.node.blockDimX = 2000;
         s.expect("too many threads",
                  s.api.cuGraphAddKernelNode(&node, g.graph, nullptr, 0, &p.node),
                  CUDA_ERROR_INVALID_VALUE);
         CUDA_MEMSET_NODE_PARAMS f = GraphBuilder::fill_params(cell, 1);
         f.elementSize = 3;
         s.expect("elements of three bytes",
                  s.api.cuGraphAddMemsetNode(&node, g.graph, nullptr, 0, &f, s.context),
                  CUDA_ERROR_INVALID_VALUE);
         s.expect("no graph", s.api.cuGraphAddEmptyNode(&node, nullptr, nullptr, 0),
                  CUDA_ERROR_INVALID_VALUE);
         s.expect("flags", s.api.cuGraphCreate(&g.graph, 1), CUDA_ERROR_INVALID_VALUE);
       }},
  };
  return scripts;
}

} // namespace cugrt::conformance
