// Graphs: nodes, edges, snapshots, instances, order.
#include "emulator/unit/driver/graph_builder.h"

TEST_CASE("A graph runs its nodes in the order of its edges") {
  Session session;
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{0});
  // ((0 fill 5) * 3 + 1) * 2 + 0
  CUgraphNode fill = graph.fill(cell, 5);
  CUgraphNode first = graph.affine(cell, 3, 1, {fill});
  CUgraphNode second = graph.affine(cell, 2, 0, {first});
  uint32_t host = 0;
  graph.copy(&host, cell, {second});
  CUgraphExec exec = graph.instantiate();
  for (int i = 0; i < 3; ++i)
    launch_graph(exec, nullptr);
  CHECK(host == 32);
  CHECK(statistics().graph_launches == 3);
  OK(CU(cuGraphExecDestroy)(exec));
  CHECK(CU(cuGraphExecDestroy)(exec) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphLaunch)(exec, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("Arguments are copied when a node is added, and instances keep their own") {
  Session session;
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  uint32_t factor = 10, term = 1;
  void *params[] = {&cell, &factor, &term};
  CUDA_KERNEL_NODE_PARAMS_v2 p = graph.kernel_params(params);
  CUgraphNode node = MADE(cuGraphAddKernelNode_v2, graph.graph, nullptr, 0, &p);
  factor = 1000; // too late
  Exec exec(graph.graph);
  factor = 100;
  OK(CU(cuGraphKernelNodeSetParams_v2)(node, &p)); // the graph, not the instance
  CHECK(launch_and_read(exec, cell) == 11);
  CUDA_KERNEL_NODE_PARAMS_v2 got = ASKED(cuGraphKernelNodeGetParams_v2, node);
  CHECK(*static_cast<uint32_t *>(got.kernelParams[1]) == 100);
  CHECK(got.func == p.func);
  OK(CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &p));
  CHECK(launch_and_read(exec, cell) == 1101);
  // Setters need the source node.
  OK(CU(cuGraphDestroyNode)(node));
  CHECK(CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &p) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphLaunch)(exec, nullptr));
  OK(CU(cuCtxSynchronize)());
}

TEST_CASE("Launches of one instance run one after the other in whatever streams") {
  Session session;
  Builder graph;
  Gate gate;
  CUDA_HOST_NODE_PARAMS host{Gate::wait, &gate};
  CUgraphNode node = MADE(cuGraphAddHostNode, graph.graph, nullptr, 0, &host);
  Exec exec(graph.graph);
  Stream a(CU_STREAM_NON_BLOCKING);
  Stream b(CU_STREAM_NON_BLOCKING);
  OK(CU(cuGraphLaunch)(exec, a));
  host.fn = [](void *) {};
  OK(CU(cuGraphExecHostNodeSetParams)(exec, node, &host)); // for future launches only
  OK(CU(cuGraphLaunch)(exec, b));
  CHECK(CU(cuStreamQuery)(b) == CUDA_ERROR_NOT_READY);
  gate.open = true;
  OK(CU(cuStreamSynchronize)(b));
  OK(CU(cuStreamQuery)(a));
}

TEST_CASE("Independent nodes run in an order that the seed decides") {
  auto order = [](const char *seed) {
    Session session{std::string("CUGRT_EMU_SEED=") + seed};
    Builder graph;
    static std::vector<size_t> ran;
    ran.clear();
    for (size_t i = 0; i < 16; ++i) {
      CUDA_HOST_NODE_PARAMS host{[](void *n) { ran.push_back(reinterpret_cast<size_t>(n)); },
                                 reinterpret_cast<void *>(i)};
      MADE(cuGraphAddHostNode, graph.graph, nullptr, 0, &host);
    }
    CUgraphExec exec = graph.instantiate();
    launch_graph(exec, nullptr);
    OK(CU(cuGraphExecDestroy)(exec));
    return ran;
  };
  auto first = order("1");
  CHECK(first.size() == 16);
  CHECK(order("1") == first);
  CHECK(order("2") != first);
}

TEST_CASE("Edges are checked, listed and removed") {
  Session session;
  Builder graph;
  CUgraphNode a = graph.empty(), b = graph.empty({a}), c = graph.empty();
  // "Specifying an existing dependency will return an error."
  CHECK(CU(cuGraphAddDependencies_v2)(graph.graph, &a, &b, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphAddDependencies_v2)(graph.graph, &a, &a, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CUgraphNode from[] = {a, a}, to[] = {c, b}; // the second exists: neither is added
  CHECK(CU(cuGraphAddDependencies_v2)(graph.graph, from, to, nullptr, 2) ==
        CUDA_ERROR_INVALID_VALUE);
  size_t count = ASKED(cuGraphGetEdges_v2, graph.graph, nullptr, nullptr, nullptr);
  CHECK(count == 1);
  OK(CU(cuGraphAddDependencies_v2)(graph.graph, &a, &c, nullptr, 1));
  CUgraphNode ahead[4];
  count = 4;
  OK(CU(cuGraphNodeGetDependentNodes_v2)(a, ahead, nullptr, &count));
  CHECK(count == 2);
  CHECK(ahead[0] == b);
  CHECK(ahead[1] == c);
  CHECK(ahead[2] == nullptr); // "the remaining entries [...] will be set to NULL"
  OK(CU(cuGraphGetRootNodes)(graph.graph, nullptr, &count));
  CHECK(count == 1);
  OK(CU(cuGraphRemoveDependencies_v2)(graph.graph, &a, &c, nullptr, 1));
  CHECK(CU(cuGraphRemoveDependencies_v2)(graph.graph, &a, &c, nullptr, 1) ==
        CUDA_ERROR_INVALID_VALUE);
  // "dependencies may not have any duplicate entries"
  CUgraphNode twice[] = {a, a}, made = nullptr;
  CHECK(CU(cuGraphAddEmptyNode)(&made, graph.graph, twice, 2) == CUDA_ERROR_INVALID_VALUE);
  CUgraphEdgeData data{};
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  // "It may only be used between kernel nodes"
  CHECK(CU(cuGraphAddDependencies_v2)(graph.graph, &a, &c, &data, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("A cycle is found when the graph is instantiated, and its node is named") {
  Session session;
  Builder graph;
  CUgraphNode a = graph.empty(), b = graph.empty({a}), c = graph.empty({b});
  OK(CU(cuGraphAddDependencies_v2)(graph.graph, &c, &b, nullptr, 1));
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CHECK(CU(cuGraphInstantiateWithParams)(&exec, graph.graph, &params) == CUDA_ERROR_INVALID_VALUE);
  // "CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, if the graph structure is invalid. hErrNode_out will
  // be set to one of the offending nodes."
  CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  CHECK((params.hErrNode_out == b || params.hErrNode_out == c));
}

TEST_CASE("Kernel nodes are checked as launches are") {
  Session session;
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  uint32_t factor = 1, term = 0;
  void *params[] = {&cell, &factor, &term};
  CUDA_KERNEL_NODE_PARAMS_v2 p = graph.kernel_params(params);
  CUgraphNode node = nullptr;
  p.kernelParams = nullptr;
  CHECK(CU(cuGraphAddKernelNode_v2)(&node, graph.graph, nullptr, 0, &p) ==
        CUDA_ERROR_INVALID_VALUE);
  p.kernelParams = params;
  OK(CU(cuGraphAddKernelNode_v2)(&node, graph.graph, nullptr, 0, &p));
  CUDA_MEMSET_NODE_PARAMS fill{};
  CHECK(CU(cuGraphMemsetNodeGetParams)(node, &fill) == CUDA_ERROR_INVALID_VALUE); // another type
  CUgraphNodeType type = ASKED(cuGraphNodeGetType, node);
  CHECK(type == CU_GRAPH_NODE_TYPE_KERNEL);
}

TEST_CASE("A kernel node may have a grid of 0 until it is launched") {
  Session session;
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  uint32_t factor = 1, term = 1;
  void *params[] = {&cell, &factor, &term};
  CUDA_KERNEL_NODE_PARAMS_v2 p = graph.kernel_params(params);
  p.gridDimX = 0;
  CUgraphNode node = MADE(cuGraphAddKernelNode_v2, graph.graph, nullptr, 0, &p);
  Exec exec(graph.graph);
  CHECK(CU(cuGraphLaunch)(exec, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &p) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphNodeSetEnabled)(exec, node, 0));
  CHECK(launch_and_read(exec, cell) == 1);
  OK(CU(cuGraphNodeSetEnabled)(exec, node, 1));
  p.gridDimX = 1;
  OK(CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &p));
  CHECK(launch_and_read(exec, cell) == 2);
}

TEST_CASE("The generic form adds every type that is emulated and refuses the others") {
  Session session;
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.memset = {cell, 0, 9, 4, 1, 1, nullptr};
  CUgraphNode node = MADE(cuGraphAddNode_v2, graph.graph, nullptr, nullptr, 0, &params);
  params.reserved2 = 1; // "Reserved bytes. Must be zero."
  CHECK(CU(cuGraphAddNode_v2)(&node, graph.graph, nullptr, nullptr, 0, &params) ==
        CUDA_ERROR_INVALID_VALUE);
  params.reserved2 = 0;
  Exec exec(graph.graph);
  params.memset.value = 10;
  OK(CU(cuGraphExecNodeSetParams)(exec, node, &params));
  CHECK(launch_and_read(exec, cell) == 10);
  params = {};
  params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  CHECK(CU(cuGraphAddNode_v2)(&node, graph.graph, nullptr, nullptr, 0, &params) ==
        CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("A child graph is cloned into its node, and runs between the node's neighbours") {
  Session session;
  Builder parent, child;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  CUgraphNode first = child.affine(cell, 3, 0);
  child.affine(cell, 1, 4, {first});
  CUgraphNode before = parent.affine(cell, 1, 1), node = nullptr;
  OK(CU(cuGraphAddChildGraphNode)(&node, parent.graph, &before, 1, child.graph));
  parent.affine(cell, 10, 0, {node});
  Exec exec(parent.graph);
  CHECK(launch_and_read(exec, cell) == ((1 + 1) * 3 + 4) * 10);
  CUgraph embedded = ASKED(cuGraphChildGraphNodeGetGraph, node);
  CHECK(embedded != child.graph);
  CHECK(CU(cuGraphDestroy)(embedded) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("Clones are independent and their nodes can be found") {
  Session session;
  Builder graph;
  CUgraphNode a = graph.empty(), b = graph.empty({a});
  CUgraph clone = MADE(cuGraphClone, graph.graph);
  CUgraphNode found = nullptr, later = graph.empty();
  OK(CU(cuGraphNodeFindInClone)(&found, b, clone));
  CHECK(found != b);
  CHECK(CU(cuGraphNodeFindInClone)(&found, later, clone) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphDestroyNode)(b));
  size_t count = ASKED(cuGraphGetNodes, clone, nullptr);
  CHECK(count == 2);
  OK(CU(cuGraphGetEdges_v2)(clone, nullptr, nullptr, nullptr, &count));
  CHECK(count == 1);
  OK(CU(cuGraphDestroy)(clone));
  CHECK(CU(cuGraphDestroy)(clone) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("Event nodes connect a graph with streams") {
  Session session;
  Builder graph;
  Event event(0);
  MADE(cuGraphAddEventRecordNode, graph.graph, nullptr, 0, event);
  Exec exec(graph.graph);
  Gate gate;
  Stream a(CU_STREAM_NON_BLOCKING);
  OK(CU(cuLaunchHostFunc)(a, Gate::wait, &gate));
  OK(CU(cuGraphLaunch)(exec, a));
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
  gate.open = true;
  OK(CU(cuEventSynchronize)(event));
}

TEST_CASE("User objects die with their last reference, on another thread") {
  Session session;
  std::atomic<int> destroyed{0};
  auto destroy = [](void *count) { ++*static_cast<std::atomic<int> *>(count); };
  CUuserObject object = nullptr;
  CHECK(CU(cuUserObjectCreate)(&object, &destroyed, destroy, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuUserObjectCreate)(&object, &destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  CUgraphExec exec = nullptr;
  {
    Builder graph;
    OK(CU(cuGraphRetainUserObject)(graph.graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    exec = graph.instantiate();
  }
  OK(CU(cuCtxSynchronize)());
  CHECK(destroyed == 0); // the instance holds it
  OK(CU(cuGraphExecDestroy)(exec));
  while (destroyed == 0)
    std::this_thread::yield();
  CHECK(CU(cuUserObjectRelease)(object, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("Launching a graph in a stream that is captured, or uploading it there, is refused") {
  Session session;
  Builder graph;
  graph.empty();
  Exec exec(graph.graph);
  OK(CU(cuGraphUpload)(exec, nullptr));
  cuuint64_t flags = ASKED(cuGraphExecGetFlags, exec);
  CHECK(flags == 0);
}

TEST_CASE("An instance does not tell whether it was uploaded as it was made") {
  Session session;
  Builder graph;
  graph.empty();
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  CUgraphExec exec = MADE(cuGraphInstantiateWithParams, graph.graph, &params);
  cuuint64_t flags = ASKED(cuGraphExecGetFlags, exec);
  CHECK(flags == CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  OK(CU(cuGraphExecDestroy)(exec));
}

TEST_CASE("The DOT form names nodes and edges") {
  Session session;
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  CUgraphNode fill = graph.fill(cell, 1);
  graph.affine(cell, 1, 1, {fill});
  std::string path = "emulator_graph_test.dot";
  OK(CU(cuGraphDebugDotPrint)(graph.graph, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
  std::string text = read_text(path);
  std::remove(path.c_str());
  CHECK(text.find("MEMSET") != std::string::npos);
  CHECK(text.find("affine") != std::string::npos);
  CHECK(text.find(" -> ") != std::string::npos);
  CHECK(CU(cuGraphDebugDotPrint)(graph.graph, "/no/such/folder/x.dot", 0) ==
        CUDA_ERROR_OPERATING_SYSTEM);
}
