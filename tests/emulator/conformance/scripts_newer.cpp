// What CUDA 13.1 to 13.5 added for graphs: numbers of graphs and nodes, parameters read back.
#include "graph_builder.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace cugrt::conformance {

namespace {

std::string dot_text(Script &s, CUgraph graph) {
  char path[] = "/tmp/cugrt-conformance-dot-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0)
    return "";
  close(file);
  s.need(s.api.cuGraphDebugDotPrint(graph, path, 0));
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::remove(path);
  return text;
}

unsigned local_id(Script &s, CUgraphNode node) {
  unsigned id = ~0u;
  s.need(s.api.cuGraphNodeGetLocalId(node, &id));
  return id;
}

unsigned long long tools_id(Script &s, CUgraphNode node) {
  unsigned long long id = ~0ull;
  s.need(s.api.cuGraphNodeGetToolsId(node, &id));
  return id;
}

void ids_script(Script &s) {
  GraphBuilder g(s), other(s);
  CUdeviceptr cell = s.words(1, 3);
  CUgraphNode first = g.fill(cell, 5), second = g.affine(cell, 2, 1, {first});
  CUgraphNode elsewhere = other.empty();
  unsigned graph_id = 0, other_id = 0, exec_id = 0;
  s.expect("the graph's", s.api.cuGraphGetId(g.graph, &graph_id));
  s.expect("another graph's", s.api.cuGraphGetId(other.graph, &other_id));
  s.expect_true("they differ", graph_id != other_id);
  s.expect_true("nodes of a graph differ by their local numbers",
                local_id(s, first) != local_id(s, second));
  const unsigned long long tools[] = {tools_id(s, first), tools_id(s, second),
                                      tools_id(s, elsewhere)};
  s.expect_true("and all by those of tools",
                tools[0] != tools[1] && tools[0] != tools[2] && tools[1] != tools[2]);
  s.observe("a tools' number is the graph's and the local one",
            uint64_t(tools[1] == (uint64_t(graph_id) << 32 | local_id(s, second))), 1);
  const std::string dot = dot_text(s, g.graph);
  const std::string name =
      "graph_" + std::to_string(graph_id) + "_node_" + std::to_string(local_id(s, second));
  s.observe("the DOT form has both", uint64_t(dot.find(name) != std::string::npos), 1);

  CUgraphExec exec = g.instantiate();
  s.expect("the instance's", s.api.cuGraphExecGetId(exec, &exec_id));
  s.observe("it is not the graph's", uint64_t(exec_id != graph_id), 1);
  CUgraph containing = nullptr;
  s.expect("the graph of a node", s.api.cuGraphNodeGetContainingGraph(second, &containing));
  s.expect_true("is its graph", containing == g.graph);

  CUgraph clone = nullptr, inner = nullptr;
  CUgraphNode copied = nullptr, child = nullptr, in_child = nullptr;
  s.need(s.api.cuGraphClone(&clone, g.graph));
  s.need(s.api.cuGraphNodeFindInClone(&copied, second, clone));
  s.observe("a copy's local number is the original's",
            uint64_t(local_id(s, copied) == local_id(s, second)), 1);
  s.need(s.api.cuGraphAddChildGraphNode(&child, other.graph, nullptr, 0, g.graph));
  s.need(s.api.cuGraphChildGraphNodeGetGraph(child, &inner));
  size_t one = 1;
  s.need(s.api.cuGraphGetNodes(inner, &in_child, &one));
  s.need(s.api.cuGraphNodeGetContainingGraph(in_child, &containing));
  s.expect_true("a child graph's node is in the child graph", containing == inner);
  s.observe("nowhere to write", s.api.cuGraphGetId(g.graph, nullptr), CUDA_ERROR_INVALID_VALUE);
  s.need(s.api.cuGraphDestroy(clone));
}

void CUDA_CB nothing(void *) {}

CUgraphNodeParams read_back(Script &s, const char *step, CUgraphNode node, CUgraphNodeType type) {
  CUgraphNodeParams got;
  std::memset(&got, 0xCB, sizeof got);
  s.expect(step, s.api.cuGraphNodeGetParams(node, &got));
  s.expect("its type", uint64_t(got.type), uint64_t(type));
  return got;
}

uint32_t argument(const CUgraphNodeParams &params, int index) {
  uint32_t value = 0;
  std::memcpy(&value, params.kernel.kernelParams[index], sizeof value);
  return value;
}

void params_script(Script &s) {
  GraphBuilder g(s);
  CUdeviceptr cell = s.words(4);
  CUgraphNode kernel = g.affine(cell, 7, 9), fill = g.fill(cell, 5), copy = g.copy(cell + 4, cell);
  CUgraphNodeParams got = read_back(s, "a kernel node", kernel, CU_GRAPH_NODE_TYPE_KERNEL);
  s.expect("blocks", uint64_t(got.kernel.gridDimX), 1);
  s.expect("threads", uint64_t(got.kernel.blockDimX), 1);
  s.expect("shared bytes", uint64_t(got.kernel.sharedMemBytes), 0);
  s.expect("factor", uint64_t(argument(got, 1)), 7);
  s.expect("term", uint64_t(argument(got, 2)), 9);
  GraphBuilder::Affine later(s, cell, 11, 13);
  later.node.gridDimX = 2;
  s.need(s.api.cuGraphKernelNodeSetParams(kernel, &later.node));
  const CUgraphNodeParams now = read_back(s, "after a change", kernel, CU_GRAPH_NODE_TYPE_KERNEL);
  s.expect("blocks", uint64_t(now.kernel.gridDimX), 2);
  s.expect("factor", uint64_t(argument(now, 1)), 11);
  s.observe("what was read before is there", uint64_t(argument(got, 1)), 7);

  got = read_back(s, "a fill", fill, CU_GRAPH_NODE_TYPE_MEMSET);
  s.expect_true("its place, value and extent", got.memset.dst == cell && got.memset.value == 5 &&
                                                   got.memset.elementSize == 4 &&
                                                   got.memset.width == 1 && got.memset.height == 1);
  got = read_back(s, "a copy", copy, CU_GRAPH_NODE_TYPE_MEMCPY);
  s.expect_true("its places and extent", got.memcpy.copyParams.srcDevice == cell &&
                                             got.memcpy.copyParams.dstDevice == cell + 4 &&
                                             got.memcpy.copyParams.WidthInBytes == 4);
  CUDA_HOST_NODE_PARAMS host{nothing, &s};
  CUgraphNode node = nullptr;
  s.need(s.api.cuGraphAddHostNode(&node, g.graph, nullptr, 0, &host));
  got = read_back(s, "a host node", node, CU_GRAPH_NODE_TYPE_HOST);
  s.expect_true("its function and data", got.host.fn == nothing && got.host.userData == &s);
  GraphBuilder inner(s);
  inner.empty();
  CUgraph embedded = nullptr;
  s.need(s.api.cuGraphAddChildGraphNode(&node, g.graph, nullptr, 0, inner.graph));
  s.need(s.api.cuGraphChildGraphNodeGetGraph(node, &embedded));
  got = read_back(s, "a child graph", node, CU_GRAPH_NODE_TYPE_GRAPH);
  s.observe("it is the embedded one", uint64_t(got.graph.graph == embedded), 1);
  read_back(s, "an empty node", g.empty(), CU_GRAPH_NODE_TYPE_EMPTY);
  s.observe("nowhere to write", s.api.cuGraphNodeGetParams(node, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

void read_conditional_script(Script &s) {
  GraphBuilder g(s);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.type = CU_GRAPH_COND_TYPE_SWITCH;
  params.conditional.size = 3;
  params.conditional.ctx = s.context;
  s.need(s.api.cuGraphConditionalHandleCreate(&params.conditional.handle, g.graph, s.context, 1,
                                              CU_GRAPH_COND_ASSIGN_DEFAULT));
  CUgraphNode node = nullptr;
  s.need(s.api.cuGraphAddNode_v3(&node, g.graph, nullptr, nullptr, 0, &params));
  const CUgraph last = params.conditional.phGraph_out[2];
  const CUgraphNodeParams got = read_back(s, "the node", node, CU_GRAPH_NODE_TYPE_CONDITIONAL);
  s.expect("its bodies", uint64_t(got.conditional.size), 3);
  s.expect_true("its handle", got.conditional.handle == params.conditional.handle);
  s.expect_true("their graphs", got.conditional.phGraph_out[2] == last);
}

void added_script(Script &s) {
  GraphBuilder g(s);
  CUdeviceptr cell = s.words(1, 1);
  CUgraphNodeParams fill{}, add{};
  fill.type = CU_GRAPH_NODE_TYPE_MEMSET;
  fill.memset = {cell, 0, 4, 4, 1, 1, s.context};
  CUgraphNode first = nullptr, second = nullptr, refused = nullptr;
  s.expect("a fill", s.api.cuGraphAddNode_v3(&first, g.graph, nullptr, nullptr, 0, &fill));
  GraphBuilder::Affine affine(s, cell, 2, 1);
  add.type = CU_GRAPH_NODE_TYPE_KERNEL;
  add.kernel.func = affine.node.func;
  add.kernel.gridDimX = add.kernel.gridDimY = add.kernel.gridDimZ = 1;
  add.kernel.blockDimX = add.kernel.blockDimY = add.kernel.blockDimZ = 1;
  add.kernel.kernelParams = affine.params;
  add.kernel.ctx = s.context;
  s.expect("a kernel behind it",
           s.api.cuGraphAddNode_v3(&second, g.graph, &first, nullptr, 1, &add));
  affine.term = 3;
  s.expect("with another argument", s.api.cuGraphNodeSetParams_v2(second, &add));
  fill.memset.value = 5;
  fill.reserved1[28] = 1;
  s.observe("a byte that is not used", s.api.cuGraphNodeSetParams_v2(first, &fill),
            CUDA_ERROR_INVALID_VALUE);
  s.observe("in a new node", s.api.cuGraphAddNode_v3(&refused, g.graph, nullptr, nullptr, 0, &fill),
            CUDA_ERROR_INVALID_VALUE);
  CUcontext apart = nullptr;
  s.need(s.api.cuCtxCreate(&apart, nullptr, 0, s.driver.device));
  add.kernel.ctx = apart;
  s.observe("a context that is not the function's", s.api.cuGraphNodeSetParams_v2(second, &add),
            CUDA_ERROR_INVALID_CONTEXT);
  s.need(s.api.cuCtxDestroy(apart));
  s.need(s.api.cuCtxSetCurrent(s.context));
  CUgraphExec exec = g.instantiate();
  s.expect("the result", launched(s, exec, cell), 4 * 2 + 3);
}

/// CUDA_MEMCPY_BATCH_NODE_PARAMS of CUDA 13.5, for builds with an older cuda.h.
struct BatchOfCopies {
  size_t count;
  CUdeviceptr *to, *from;
  size_t *sizes;
  CUmemcpyAttributes *attributes;
  size_t *starts;
  size_t attribute_count;
  CUcontext context;
};

void batch_copy_script(Script &s) {
  constexpr auto kBatch = CUgraphNodeType(14); // CU_GRAPH_NODE_TYPE_MEMCPY_BATCH
  GraphBuilder g(s);
  CUdeviceptr cell = s.words(4, 1);
  s.need(s.api.cuMemsetD32(cell, 5, 1));
  CUdeviceptr to[] = {cell + 4, cell + 8}, from[] = {cell, cell + 12};
  size_t sizes[] = {4, 4}, starts[] = {0};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  const BatchOfCopies batch{2, to, from, sizes, &attributes, starts, 1, s.context};
  CUgraphNodeParams params{};
  params.type = kBatch;
  std::memcpy(params.reserved1, &batch, sizeof batch);
  CUgraphNode node = nullptr, refused = nullptr;
  s.expect("a node", s.api.cuGraphAddNode_v3(&node, g.graph, nullptr, nullptr, 0, &params));
  CUgraphExec exec = g.instantiate();
  s.expect("a copied word", launched(s, exec, cell + 4), 5);
  sizes[0] = 0;
  s.need(s.api.cuMemsetD32(cell, 6, 1));
  s.expect("a size of 0", s.api.cuGraphExecNodeSetParams(exec, node, &params));
  s.expect("disables the copy", launched(s, exec, cell + 4), 5);
  s.expect("the node disabled", s.api.cuGraphNodeSetEnabled(exec, node, 0));
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  s.observe("other attributes", s.api.cuGraphExecNodeSetParams(exec, node, &params),
            CUDA_ERROR_INVALID_VALUE);
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  s.observe("sources read during the call",
            s.api.cuGraphAddNode_v3(&refused, g.graph, nullptr, nullptr, 0, &params),
            CUDA_ERROR_NOT_SUPPORTED);
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  s.observe("no order of access",
            s.api.cuGraphAddNode_v3(&refused, g.graph, nullptr, nullptr, 0, &params),
            CUDA_ERROR_INVALID_VALUE);
}

void counts_script(Script &s) {
  size_t count = 99;
  s.expect("of the kernel that multiplies and adds",
           s.api.cuFuncGetParamCount(s.kernel("affine"), &count));
  s.expect("a place, a factor and a term", uint64_t(count), 3);
}

void CUDA_CB set_word(void *word) { *static_cast<volatile int *>(word) = 7; }

void host_script(Script &s) {
  volatile int word = 0;
  constexpr unsigned kBlocking = 0, kSpinWait = 1; // CUhostTaskSyncMode
  for (unsigned mode : {kBlocking, kSpinWait}) {
    word = 0;
    s.expect("a host function",
             s.api.cuLaunchHostFunc_v2(nullptr, set_word, const_cast<int *>(&word), mode));
    s.need(s.api.cuStreamSynchronize(nullptr));
    s.expect("has run", uint64_t(word), 7);
  }
  s.observe("no such mode", s.api.cuLaunchHostFunc_v2(nullptr, nothing, nullptr, 2),
            CUDA_ERROR_INVALID_VALUE);
}

} // namespace

const std::vector<ScriptCase> &newer_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"numbers of graphs, instances and nodes",
       {{"cuGraphGetId", "will match that referenced by cuGraphDebugDotPrint"},
        {"cuGraphNodeGetLocalId",
         "local nodeId and graphId together can uniquely identify the node"},
        {"cuGraphNodeGetToolsId", "an id used by tools to identify a given node"},
        {"cuGraphNodeGetContainingGraph", "the child graph it is in is returned"}},
       ids_script,
       13010},
      {"parameters of nodes are read back",
       {{"cuGraphNodeGetParams", "Returns the parameters of graph node hNode"},
        {"cuGraphNodeGetParams", "This memory remains valid until the node is destroyed"}},
       params_script,
       13020},
      {"parameters of a conditional node are read back",
       {{"cuGraphNodeGetParams", "The returned parameters are a description of the node"}},
       read_conditional_script,
       13040},
      {"nodes by the third form of the call",
       {{"cuGraphAddNode_v3", "all bytes past the utilized union member - must be set to zero"},
        {"cuGraphNodeSetParams_v2", "otherwise the call returns CUDA_ERROR_INVALID_CONTEXT"}},
       added_script,
       13040},
      {"a batch of copies as a node",
       {{"cuMemcpyBatchAsync", "copies within a batch are not guaranteed to execute in any"},
        {"cuGraphNodeSetEnabled", "Batch memcpy"}},
       batch_copy_script,
       13050},
      {"how many parameters a function has",
       {{"cuFuncGetParamCount", "Queries the number of kernel parameters used by func"}},
       counts_script,
       13020},
      {"host functions by how the driver waits",
       {{"cuLaunchHostFunc_v2", "Synchronization mode for the host function"}},
       host_script,
       13020},
  };
  return scripts;
}

} // namespace cugrt::conformance
