// Conditional nodes: what they run, what they may hold, and what a graph with them may not do.
#include "emulator/unit/driver/graph_builder.h"
#include "support/temporary_folder.h"

namespace {

using Handle = CUgraphConditionalHandle;
using Nodes = std::vector<CUgraphNode>;

Handle make_handle(CUgraph graph, unsigned value = 0,
                   unsigned flags = CU_GRAPH_COND_ASSIGN_DEFAULT) {
  Handle handle = 0;
  OK(CU(cuGraphConditionalHandleCreate)(&handle, graph, nullptr, value, flags));
  return handle;
}

struct Conditional {
  CUgraphNode node = nullptr;
  std::vector<CUgraph> bodies;
};

CUresult try_conditional(CUgraph graph, Handle handle, CUgraphConditionalNodeType type,
                         unsigned size, Conditional *out, Nodes before = {}) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = size;
  CUresult result =
      CU(cuGraphAddNode_v2)(&out->node, graph, before.data(), nullptr, before.size(), &params);
  if (result == CUDA_SUCCESS)
    out->bodies.assign(params.conditional.phGraph_out, params.conditional.phGraph_out + size);
  return result;
}

Conditional conditional(CUgraph graph, Handle handle, CUgraphConditionalNodeType type,
                        unsigned size, Nodes before = {}) {
  Conditional made;
  OK(try_conditional(graph, handle, type, size, &made, before));
  return made;
}

/// Kernels of one module that are added to any graph.
struct Kernels {
  CUmodule module = load_kernels();

  CUgraphNode add(CUgraph graph, const char *name, void **params, Nodes before) {
    CUDA_KERNEL_NODE_PARAMS_v2 p = one_thread(kernel(module, name), params);
    return MADE(cuGraphAddKernelNode_v2, graph, before.data(), before.size(), &p);
  }
  CUgraphNode affine(CUgraph graph, CUdeviceptr cell, uint32_t factor, uint32_t term,
                     Nodes before = {}) {
    void *params[] = {&cell, &factor, &term};
    return add(graph, "affine", params, before);
  }
  CUgraphNode set(CUgraph graph, Handle handle, uint32_t value, Nodes before = {}) {
    void *params[] = {&handle, &value};
    return add(graph, "set_condition", params, before);
  }
  CUgraphNode count_down(CUgraph graph, CUdeviceptr cell, Handle handle, Nodes before = {}) {
    void *params[] = {&handle, &cell};
    return add(graph, "count_down", params, before);
  }
};

CUgraphInstantiateResult instantiate_result(CUgraph graph, CUresult expected,
                                            CUgraphNode *node = nullptr) {
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CHECK(CU(cuGraphInstantiateWithParams)(&exec, graph, &params) == expected);
  if (node)
    *node = params.hErrNode_out;
  if (exec)
    OK(CU(cuGraphExecDestroy)(exec));
  return params.result_out;
}

} // namespace

TEST_CASE("An IF node runs its first body when the condition is not zero, else its second") {
  Session session;
  Builder graph;
  Kernels kernels;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  Handle handle = make_handle(graph.graph, 7);
  CUgraphNode set = kernels.set(graph.graph, handle, 5);
  Conditional node = conditional(graph.graph, handle, CU_GRAPH_COND_TYPE_IF, 2, {set});
  REQUIRE(node.bodies[0] != node.bodies[1]);
  kernels.affine(node.bodies[0], cell, 10, 0);
  kernels.affine(node.bodies[1], cell, 1, 3);
  kernels.affine(graph.graph, cell, 1, 1, {node.node}); // after whichever ran
  Exec exec(graph.graph);
  CHECK(launch_and_read(exec, cell) == 11);
  uint32_t value = 0;
  void *params[] = {&handle, &value};
  CUDA_KERNEL_NODE_PARAMS_v2 p = one_thread(kernel(kernels.module, "set_condition"), params);
  OK(CU(cuGraphExecKernelNodeSetParams_v2)(exec, set, &p));
  CHECK(launch_and_read(exec, cell) == 15); // 11 + 3 + 1
  CUgraphNodeType type = ASKED(cuGraphNodeGetType, node.node);
  CHECK(type == CU_GRAPH_NODE_TYPE_CONDITIONAL);
}

TEST_CASE("The default is assigned at each launch, not left from the one before") {
  Session session;
  Builder graph;
  Kernels kernels;
  CUdeviceptr cell = upload(std::vector<uint32_t>{0});
  Handle handle = make_handle(graph.graph, 1);
  Conditional node = conditional(graph.graph, handle, CU_GRAPH_COND_TYPE_IF, 1);
  CUgraphNode add = kernels.affine(node.bodies[0], cell, 1, 1);
  kernels.set(node.bodies[0], handle, 0, {add}); // to be forgotten
  Exec exec(graph.graph);
  for (uint32_t i = 1; i <= 3; ++i)
    CHECK(launch_and_read(exec, cell) == i);
}

TEST_CASE("A WHILE node repeats a body of several nodes while the condition is not zero") {
  Session session;
  Builder graph;
  Kernels kernels;
  CUdeviceptr counter = upload(std::vector<uint32_t>{0}), cell = upload(std::vector<uint32_t>{0});
  Handle handle = make_handle(graph.graph, 1);
  CUgraphNode start = graph.fill(counter, 5);
  Conditional loop = conditional(graph.graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1, {start});
  // A body of a kernel, an empty node, a memset on another cell and the counter.
  CUdeviceptr other = upload(std::vector<uint32_t>{0});
  CUDA_MEMSET_NODE_PARAMS fill{other, 0, 9, 4, 1, 1};
  CUgraphNode add = kernels.affine(loop.bodies[0], cell, 2, 1);
  CUgraphNode body_fill = MADE(cuGraphAddMemsetNode, loop.bodies[0], nullptr, 0, &fill, nullptr);
  CUgraphNode both[] = {add, body_fill};
  CUgraphNode empty = MADE(cuGraphAddEmptyNode, loop.bodies[0], both, 2);
  kernels.count_down(loop.bodies[0], counter, handle, {empty});
  Exec exec(graph.graph);
  CHECK(launch_and_read(exec, cell) == 31); // five times x -> 2 x + 1
  CHECK(download<uint32_t>(other, 1)[0] == 9);
  CHECK(launch_and_read(exec, cell) == 1023);
}

TEST_CASE("A WHILE node whose condition is zero at first does not run its body") {
  Session session;
  Builder graph;
  Kernels kernels;
  CUdeviceptr cell = upload(std::vector<uint32_t>{3});
  Handle handle = make_handle(graph.graph, 0);
  Conditional loop = conditional(graph.graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
  kernels.affine(loop.bodies[0], cell, 0, 0);
  Exec exec(graph.graph);
  CHECK(launch_and_read(exec, cell) == 3);
}

TEST_CASE("Conditional nodes nest, and the inner condition is set within the outer body") {
  Session session;
  Builder graph;
  Kernels kernels;
  CUdeviceptr outer = upload(std::vector<uint32_t>{3}), inner = upload(std::vector<uint32_t>{0}),
              cell = upload(std::vector<uint32_t>{0});
  Handle outer_handle = make_handle(graph.graph, 1);
  Conditional loop = conditional(graph.graph, outer_handle, CU_GRAPH_COND_TYPE_WHILE, 1);
  Handle inner_handle = make_handle(loop.bodies[0], 0, 0);
  // Each round: the inner loop counts from 4 (5, less one by the kernel that sets its condition).
  CUDA_MEMSET_NODE_PARAMS fill{inner, 0, 5, 4, 1, 1};
  CUgraphNode start = MADE(cuGraphAddMemsetNode, loop.bodies[0], nullptr, 0, &fill, nullptr);
  CUgraphNode first = kernels.count_down(loop.bodies[0], inner, inner_handle, {start});
  Conditional nested =
      conditional(loop.bodies[0], inner_handle, CU_GRAPH_COND_TYPE_WHILE, 1, {first});
  CUgraphNode add = kernels.affine(nested.bodies[0], cell, 1, 1);
  kernels.count_down(nested.bodies[0], inner, inner_handle, {add});
  kernels.count_down(loop.bodies[0], outer, outer_handle, {nested.node});
  Exec exec(graph.graph);
  CHECK(launch_and_read(exec, cell) == 12);
}

TEST_CASE("A body may be empty, and may hold a child graph") {
  Session session;
  Builder graph, child;
  Kernels kernels;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  child.fill(cell, 42);
  Handle handle = make_handle(graph.graph, 1), second = make_handle(graph.graph, 1);
  Conditional nothing = conditional(graph.graph, handle, CU_GRAPH_COND_TYPE_IF, 1);
  Conditional node = conditional(graph.graph, second, CU_GRAPH_COND_TYPE_IF, 1, {nothing.node});
  MADE(cuGraphAddChildGraphNode, node.bodies[0], nullptr, 0, child.graph);
  Exec exec(graph.graph);
  CHECK(launch_and_read(exec, cell) == 42);
}

TEST_CASE("A launch under way keeps the bodies it was launched with") {
  Session session;
  Builder graph;
  Kernels kernels;
  Gate gate;
  CUdeviceptr cell = upload(std::vector<uint32_t>{0});
  CUDA_HOST_NODE_PARAMS host{Gate::wait, &gate};
  CUgraphNode hold = MADE(cuGraphAddHostNode, graph.graph, nullptr, 0, &host);
  Conditional node =
      conditional(graph.graph, make_handle(graph.graph, 1), CU_GRAPH_COND_TYPE_IF, 1, {hold});
  CUgraphNode add = kernels.affine(node.bodies[0], cell, 1, 1);
  Exec exec(graph.graph);
  OK(CU(cuGraphLaunch)(exec, nullptr));
  uint32_t factor = 1, term = 100;
  void *params[] = {&cell, &factor, &term};
  CUDA_KERNEL_NODE_PARAMS_v2 p = one_thread(kernel(kernels.module, "affine"), params);
  OK(CU(cuGraphExecKernelNodeSetParams_v2)(exec, add, &p)); // reaches into the body
  gate.open = true;
  OK(CU(cuStreamSynchronize)(nullptr));
  CHECK(download<uint32_t>(cell, 1)[0] == 1);
  CHECK(launch_and_read(exec, cell) == 101);
}

TEST_CASE("Sizes and types of conditional nodes depend on the driver's version") {
  auto answers = [](const char *version) {
    Session session{std::string("CUGRT_EMU_DRIVER_VERSION=") + version};
    Builder graph;
    Conditional made;
    Handle handle = 0;
    std::vector<CUresult> results{
        CU(cuGraphConditionalHandleCreate)(&handle, graph.graph, nullptr, 0, 0)};
    auto attempt = [&](CUgraphConditionalNodeType type, unsigned size) {
      results.push_back(try_conditional(graph.graph, handle, type, size, &made));
      if (results.back() == CUDA_SUCCESS)
        OK(CU(cuGraphDestroyNode)(made.node)); // gives the handle free
    };
    attempt(CU_GRAPH_COND_TYPE_IF, 1);
    attempt(CU_GRAPH_COND_TYPE_IF, 2);
    attempt(CU_GRAPH_COND_TYPE_WHILE, 1);
    attempt(CU_GRAPH_COND_TYPE_SWITCH, 3);
    return results;
  };
  constexpr CUresult ok = CUDA_SUCCESS, no = CUDA_ERROR_INVALID_VALUE,
                     none = CUDA_ERROR_NOT_SUPPORTED;
  CHECK(answers("12.2") == std::vector<CUresult>{none, none, none, none, none});
  CHECK(answers("12.4") == std::vector<CUresult>{ok, ok, no, ok, no});
  CHECK(answers("12.8") == std::vector<CUresult>{ok, ok, ok, ok, ok});
}

TEST_CASE("Malformed conditional nodes and handles are refused") {
  Session session;
  Builder graph, other;
  Handle handle = make_handle(graph.graph);
  Conditional made;
  auto refused = [&](CUgraph in, Handle h, int type, unsigned size) {
    return try_conditional(in, h, CUgraphConditionalNodeType(type), size, &made);
  };
  CHECK(refused(graph.graph, handle, CU_GRAPH_COND_TYPE_IF, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(graph.graph, handle, CU_GRAPH_COND_TYPE_IF, 3) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(graph.graph, handle, CU_GRAPH_COND_TYPE_WHILE, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(graph.graph, handle, CU_GRAPH_COND_TYPE_SWITCH, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(graph.graph, handle, 3, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(graph.graph, handle + 16, CU_GRAPH_COND_TYPE_IF, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(refused(other.graph, handle, CU_GRAPH_COND_TYPE_IF, 1) == CUDA_ERROR_INVALID_VALUE);
  conditional(graph.graph, handle, CU_GRAPH_COND_TYPE_IF, 1);
  CHECK(refused(graph.graph, handle, CU_GRAPH_COND_TYPE_IF, 1) == CUDA_ERROR_INVALID_VALUE);
  // "Currently must be CU_GRAPH_COND_ASSIGN_DEFAULT or 0."
  CHECK(CU(cuGraphConditionalHandleCreate)(&handle, graph.graph, nullptr, 0, 2) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphConditionalHandleCreate)(nullptr, graph.graph, nullptr, 0, 0) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE(
    "A graph with conditional nodes is not cloned, no child, and instantiated once at a time") {
  Session session;
  Builder graph, parent;
  Conditional node = conditional(graph.graph, make_handle(graph.graph), CU_GRAPH_COND_TYPE_IF, 1);
  CUgraph clone = nullptr;
  CHECK(CU(cuGraphClone)(&clone, graph.graph) == CUDA_ERROR_NOT_SUPPORTED);
  CUgraphNode child = nullptr;
  CHECK(CU(cuGraphAddChildGraphNode)(&child, parent.graph, nullptr, 0, graph.graph) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuGraphDestroy)(node.bodies[0]) == CUDA_ERROR_INVALID_VALUE); // its node's
  CHECK(instantiate_result(node.bodies[0], CUDA_ERROR_INVALID_VALUE) ==
        CUDA_GRAPH_INSTANTIATE_ERROR);
  {
    Exec first(graph.graph);
    CHECK(instantiate_result(graph.graph, CUDA_ERROR_NOT_SUPPORTED) ==
          CUDA_GRAPH_INSTANTIATE_ERROR);
  }
  Exec second(graph.graph);
}

TEST_CASE("A handle that no node uses fails the instantiation with its own result") {
  Session session;
  Builder graph;
  Handle handle = make_handle(graph.graph);
  CHECK(instantiate_result(graph.graph, CUDA_ERROR_INVALID_VALUE) ==
        CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
  // In a body it counts as well.
  Conditional outer = conditional(graph.graph, make_handle(graph.graph), CU_GRAPH_COND_TYPE_IF, 1);
  conditional(outer.bodies[0], handle, CU_GRAPH_COND_TYPE_IF, 1);
  CHECK(instantiate_result(graph.graph, CUDA_SUCCESS) == CUDA_GRAPH_INSTANTIATE_SUCCESS);
  make_handle(outer.bodies[0]);
  CHECK(instantiate_result(graph.graph, CUDA_ERROR_INVALID_VALUE) ==
        CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
}

TEST_CASE("What a body may not hold is named when the graph is instantiated") {
  Session session{"CUGRT_EMU_DRIVER_VERSION=12.4"};
  Builder graph, child;
  CUDA_HOST_NODE_PARAMS host{[](void *) {}, nullptr};
  Conditional outer = conditional(graph.graph, make_handle(graph.graph), CU_GRAPH_COND_TYPE_IF, 1);
  Conditional inner =
      conditional(outer.bodies[0], make_handle(outer.bodies[0]), CU_GRAPH_COND_TYPE_WHILE, 1);
  CUgraphNode illegal = nullptr, named = nullptr;
  SECTION("a host node in a nested body") {
    OK(CU(cuGraphAddHostNode)(&illegal, inner.bodies[0], nullptr, 0, &host));
  }
  SECTION("an event node") {
    Event event(0);
    OK(CU(cuGraphAddEventRecordNode)(&illegal, inner.bodies[0], nullptr, 0, event));
  }
  SECTION("a host node in a child graph in a body") {
    CUgraphNode node = MADE(cuGraphAddHostNode, child.graph, nullptr, 0, &host);
    OK(CU(cuGraphAddChildGraphNode)(&node, inner.bodies[0], nullptr, 0, child.graph));
    CUgraph embedded = ASKED(cuGraphChildGraphNodeGetGraph, node);
    size_t count = 1;
    OK(CU(cuGraphGetNodes)(embedded, &illegal, &count));
  }
  CHECK(instantiate_result(graph.graph, CUDA_ERROR_NOT_SUPPORTED, &named) ==
        CUDA_GRAPH_INSTANTIATE_ERROR);
  CHECK(named == illegal);
}

TEST_CASE("A kernel that sets a handle which means nothing is an illegal address") {
  Session session;
  Kernels kernels;
  Handle handle = 0x123;
  uint32_t value = 1;
  launch_kernel(kernel(kernels.module, "set_condition"), 1, 1, nullptr, handle, value);
  CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_ILLEGAL_ADDRESS);
  char message[256];
  OK(CU(cuEmuGetLastMessage)(message, sizeof message));
  CHECK(std::string(message).find("cudaGraphSetConditional of 0x123") == 0);
}

TEST_CASE("A whole update reaches into bodies, takes the new handle, and refuses other shapes") {
  Session session;
  Kernels kernels;
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{0});
  Conditional node =
      conditional(graph.graph, make_handle(graph.graph, 1), CU_GRAPH_COND_TYPE_IF, 2);
  kernels.affine(node.bodies[0], cell, 0, 1);
  kernels.affine(node.bodies[1], cell, 0, 2);
  Exec exec(graph.graph);
  CHECK(launch_and_read(exec, cell) == 1);
  CUgraphExecUpdateResultInfo info{};
  {
    Builder newer; // the default is zero: "default values are updated as part of the graph update"
    Conditional same =
        conditional(newer.graph, make_handle(newer.graph, 0), CU_GRAPH_COND_TYPE_IF, 2);
    kernels.affine(same.bodies[0], cell, 0, 10);
    kernels.affine(same.bodies[1], cell, 0, 20);
    OK(CU(cuGraphExecUpdate_v2)(exec, newer.graph, &info));
    CHECK(launch_and_read(exec, cell) == 20);
  }
  CHECK(launch_and_read(exec, cell) == 20); // the graph is gone, its handle lives in the instance
  Builder changed;
  Conditional other =
      conditional(changed.graph, make_handle(changed.graph), CU_GRAPH_COND_TYPE_SWITCH, 2);
  kernels.affine(other.bodies[0], cell, 0, 1);
  kernels.affine(other.bodies[1], cell, 0, 2);
  CHECK(CU(cuGraphExecUpdate_v2)(exec, changed.graph, &info) ==
        CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
  CHECK(info.errorNode == other.node);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  CHECK(CU(cuGraphExecNodeSetParams)(exec, node.node, &params) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuGraphNodeSetEnabled)(exec, node.node, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("The DOT form shows conditional nodes with their bodies") {
  Session session;
  Kernels kernels;
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{0});
  Conditional node =
      conditional(graph.graph, make_handle(graph.graph, 4), CU_GRAPH_COND_TYPE_SWITCH, 2);
  kernels.affine(node.bodies[1], cell, 0, 1);
  TemporaryFolder folder;
  const std::string path = folder.path + "/graph.dot";
  OK(CU(cuGraphDebugDotPrint)(graph.graph, path.c_str(),
                              CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS));
  std::string text = read_text(path);
  CHECK(text.find("CONDITIONAL\\nSWITCH") != std::string::npos);
  CHECK(text.find("default 4") != std::string::npos);
  CHECK(text.find("affine") != std::string::npos);
  size_t clusters = 0;
  for (size_t at = text.find("subgraph"); at != std::string::npos;
       at = text.find("subgraph", at + 1))
    ++clusters;
  CHECK(clusters == 3);
}
