// Conditional nodes and programmatic edges.
#include "graph_builder.h"

namespace cugrt::conformance {

namespace {

constexpr char kPtx[] = R"(
.version 8.0
.target sm_75
.address_size 64
)"
#include "../condition_kernels.inc"
    ;

constexpr char kDependentPtx[] = R"(
.version 8.0
.target sm_90
.address_size 64

// *out = 5 after telling dependents that they may begin
.visible .entry early(.param .u64 out)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  griddepcontrol.launch_dependents;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, 5;
  st.global.u32 [%rd1], %r1;
  ret;
}

// *out *= 3 after waiting
.visible .entry late(.param .u64 out)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  griddepcontrol.wait;
  ld.global.u32 %r1, [%rd1];
  mul.lo.u32 %r1, %r1, 3;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

/// The module of the kernels above, unloaded at the end of a script.
class Kernels {
public:
  Kernels(Script &s, const char *ptx) : s_(s) { s.need(s.api.cuModuleLoadData(&module_, ptx)); }
  ~Kernels() { s_.api.cuModuleUnload(module_); }
  Kernels(const Kernels &) = delete;
  Kernels &operator=(const Kernels &) = delete;

  CUgraphNode add(CUgraph graph, const char *name, void **params,
                  const GraphBuilder::Nodes &before = {}) {
    CUDA_KERNEL_NODE_PARAMS p{};
    s_.need(s_.api.cuModuleGetFunction(&p.func, module_, name));
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = params;
    CUgraphNode node = nullptr;
    s_.need(s_.api.cuGraphAddKernelNode(&node, graph, before.data(), before.size(), &p));
    return node;
  }
  CUgraphNode affine(CUgraph graph, CUdeviceptr cell, uint32_t factor, uint32_t term,
                     const GraphBuilder::Nodes &before = {}) {
    GraphBuilder::Affine p(s_, cell, factor, term);
    CUgraphNode node = nullptr;
    s_.need(s_.api.cuGraphAddKernelNode(&node, graph, before.data(), before.size(), &p.node));
    return node;
  }

private:
  Script &s_;
  CUmodule module_ = nullptr;
};

CUgraphConditionalHandle handle_of(Script &s, CUgraph graph, unsigned value) {
  CUgraphConditionalHandle handle = 0;
  s.need(s.api.cuGraphConditionalHandleCreate(&handle, graph, s.context, value,
                                              CU_GRAPH_COND_ASSIGN_DEFAULT));
  return handle;
}

CUresult add_conditional(Script &s, CUgraph graph, CUgraphConditionalHandle handle,
                         CUgraphConditionalNodeType type, unsigned size, CUgraphNode *node,
                         std::vector<CUgraph> *bodies, const GraphBuilder::Nodes &before = {}) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  params.conditional.ctx = s.context;
  CUresult result =
      s.api.cuGraphAddNode(node, graph, before.data(), nullptr, before.size(), &params);
  if (result == CUDA_SUCCESS && bodies)
    bodies->assign(params.conditional.phGraph_out, params.conditional.phGraph_out + size);
  return result;
}

void if_script(Script &s) {
  GraphBuilder g(s);
  Kernels kernels(s, kPtx);
  CUdeviceptr cell = s.words(1, 1);
  CUgraphConditionalHandle handle = handle_of(s, g.graph, 0);
  uint32_t value = 5;
  void *params[] = {&handle, &value};
  CUgraphNode set = kernels.add(g.graph, "set_condition", params), node = nullptr;
  std::vector<CUgraph> bodies;
  s.expect("add",
           add_conditional(s, g.graph, handle, CU_GRAPH_COND_TYPE_IF, 1, &node, &bodies, {set}));
  kernels.affine(bodies[0], cell, 10, 0);
  kernels.affine(g.graph, cell, 1, 1, {node});
  CUgraphExec exec = g.instantiate();
  s.expect("not zero: the body runs", launched(s, exec, cell), 11);
  value = 0;
  CUDA_KERNEL_NODE_PARAMS p{};
  s.need(s.api.cuGraphKernelNodeGetParams(set, &p));
  p.kernelParams = params;
  s.expect("set to 0", s.api.cuGraphExecKernelNodeSetParams(exec, set, &p));
  s.expect("zero: it does not", launched(s, exec, cell), 12);
}

void while_script(Script &s) {
  GraphBuilder g(s);
  Kernels kernels(s, kPtx);
  CUdeviceptr counter = s.words(1), cell = s.words(1);
  CUgraphConditionalHandle handle = handle_of(s, g.graph, 1);
  CUgraphNode start = g.fill(counter, 5), node = nullptr;
  std::vector<CUgraph> bodies;
  s.expect("add", add_conditional(s, g.graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &node, &bodies,
                                  {start}));
  void *params[] = {&handle, &counter};
  CUgraphNode add = kernels.affine(bodies[0], cell, 1, 3);
  kernels.add(bodies[0], "count_down", params, {add});
  CUgraphExec exec = g.instantiate();
  s.expect("five times", launched(s, exec, cell), 15);
  s.expect("and again: the default is assigned at each launch", launched(s, exec, cell), 30);
}

void switch_script(Script &s) {
  for (uint32_t value : {0u, 2u, 3u, 0xFFFFFFFFu}) {
    GraphBuilder g(s);
    Kernels kernels(s, kPtx);
    CUdeviceptr cell = s.words(1, 1);
    CUgraphConditionalHandle handle = handle_of(s, g.graph, value);
    CUgraphNode node = nullptr;
    std::vector<CUgraph> bodies;
    s.expect("add",
             add_conditional(s, g.graph, handle, CU_GRAPH_COND_TYPE_SWITCH, 3, &node, &bodies));
    for (uint32_t i = 0; i < 3; ++i)
      kernels.affine(bodies[i], cell, 10, i);
    CUgraphExec exec = g.instantiate();
    s.expect("the body of the number, or none", launched(s, exec, cell),
             value < 3 ? 10 + value : 1);
  }
}

void limits_script(Script &s) {
  GraphBuilder g(s), outer(s);
  CUgraphConditionalHandle handle = handle_of(s, g.graph, 1);
  CUgraphNode node = nullptr;
  CUgraph clone = nullptr;
  std::vector<CUgraph> bodies;
  Kernels kernels(s, kPtx);
  CUdeviceptr cell = s.words(1, 1);
  s.need(add_conditional(s, g.graph, handle, CU_GRAPH_COND_TYPE_IF, 1, &node, &bodies));
  kernels.affine(bodies[0], cell, 1, 1); // drivers before 12.8 want work in a body
  CUresult result = s.api.cuGraphClone(&clone, g.graph);
  s.expect_true("a clone is refused", result != CUDA_SUCCESS);
  s.observe("how", result, CUDA_ERROR_NOT_SUPPORTED);
  result = s.api.cuGraphAddChildGraphNode(&node, outer.graph, nullptr, 0, g.graph);
  s.expect_true("a child is refused", result != CUDA_SUCCESS);
  s.observe("how", result, CUDA_ERROR_NOT_SUPPORTED);
  CUgraphExec second = nullptr;
  g.instantiate();
  result = s.api.cuGraphInstantiate(&second, g.graph, 0);
  s.observe("a second instance", result, CUDA_ERROR_NOT_SUPPORTED);
}

void cooperative_body_script(Script &s) {
  constexpr int kAllowed = 12060; // the driver's version
  GraphBuilder g(s);
  Kernels kernels(s, kPtx);
  CUdeviceptr cell = s.words(1, 1);
  CUgraphNode node = nullptr;
  std::vector<CUgraph> bodies;
  s.need(add_conditional(s, g.graph, handle_of(s, g.graph, 1), CU_GRAPH_COND_TYPE_IF, 1, &node,
                         &bodies));
  CUlaunchAttributeValue value{};
  value.cooperative = 1;
  s.need(s.api.cuGraphKernelNodeSetAttribute(kernels.affine(bodies[0], cell, 10, 3),
                                             CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  CUgraphExec exec = nullptr;
  const CUresult result = s.api.cuGraphInstantiate(&exec, g.graph, 0);
  if (s.driver.version >= kAllowed)
    s.expect("instantiate", result);
  else
    s.observe("instantiate", result, CUDA_ERROR_NOT_SUPPORTED);
  if (exec) {
    s.expect("the body runs", launched(s, exec, cell), 13);
    s.need(s.api.cuGraphExecDestroy(exec));
  }
}

void unused_script(Script &s) {
  GraphBuilder g(s);
  g.empty();
  handle_of(s, g.graph, 1);
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CUresult result = s.api.cuGraphInstantiateWithParams(&exec, g.graph, &params);
  s.observe("instantiate", result, CUDA_ERROR_INVALID_VALUE);
  s.observe("reason", uint64_t(params.result_out),
            CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
  if (exec)
    s.need(s.api.cuGraphExecDestroy(exec));
}

void programmatic_script(Script &s) {
  if (s.driver.compute < 90)
    return; // griddepcontrol came with sm_90
  GraphBuilder g(s);
  Kernels kernels(s, kDependentPtx);
  CUdeviceptr cell = s.words(1);
  void *params[] = {&cell};
  CUgraphNode early = kernels.add(g.graph, "early", params),
              late = kernels.add(g.graph, "late", params);
  CUgraphEdgeData data{};
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  s.expect("a programmatic edge", s.api.cuGraphAddDependencies(g.graph, &early, &late, &data, 1));
  CUgraphNode from = nullptr, to = nullptr;
  size_t count = 1;
  s.expect("without its data", s.api.cuGraphGetEdges(g.graph, &from, &to, nullptr, &count),
           CUDA_ERROR_LOSSY_QUERY);
  CUgraphEdgeData read{};
  s.expect("with its data", s.api.cuGraphGetEdges(g.graph, &from, &to, &read, &count));
  s.expect("its type", uint64_t(read.type), CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  CUgraphExec exec = g.instantiate();
  for (int i = 0; i < 4; ++i)
    s.expect("the second waits for the first", launched(s, exec, cell), 15);
}

} // namespace

const std::vector<ScriptCase> &conditional_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"an IF node runs its body when the condition is not zero",
       {{"CU_GRAPH_COND_TYPE_IF", "Conditional 'if/else' Node"}},
       if_script,
       12030},
      {"a WHILE node repeats its body while the condition is not zero",
       {{"CU_GRAPH_COND_TYPE_WHILE", "Conditional 'while' Node"},
        {"cuGraphConditionalHandleCreate", "Currently must be CU_GRAPH_COND_ASSIGN_DEFAULT or 0"}},
       while_script,
       12030},
      {"a SWITCH node runs the body of the number",
       {{"CU_GRAPH_COND_TYPE_SWITCH", "does not match a body index, no body is launched"}},
       switch_script,
       12080},
      {"what a graph with a conditional node may not do",
       {{"cuGraphClone", "memory free nodes, or conditional nodes"},
        {"cuGraphAddChildGraphNode",
         "free nodes, or conditional nodes, this call will return an error"}},
       limits_script,
       12030},
      {"a cooperative launch in a body, which drivers take from 12.6 on",
       {{"CU_LAUNCH_ATTRIBUTE_COOPERATIVE", "Valid for graph nodes, launches"}},
       cooperative_body_script,
       12030},
      {"a handle that no node uses",
       {{"cuGraphConditionalHandleCreate", "may cause graph instantiation to fail"}},
       unused_script,
       12030},
      {"a programmatic edge: the second kernel's wait is for the first",
       {{"cuGraphGetEdges", "lossy query via NULL edgeData will result in CUDA_ERROR_LOSSY_QUERY"},
        {"CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC", "use \\p cudaGridDependencySynchronize()"}},
       programmatic_script,
       12030},
  };
  return scripts;
}

} // namespace cugrt::conformance
