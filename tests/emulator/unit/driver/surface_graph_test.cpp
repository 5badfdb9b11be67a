// Getters and setters of every type of node, in the graph and in an instance.
#include "emulator/unit/driver/graph_builder.h"

#include <cstring>

namespace {

void CUDA_CB add_to(void *value) { ++*static_cast<int *>(value); }

/// Whether so many destructors have run, which happens on a thread of the driver's some time after
/// the last reference went.
bool settled(const int &destroyed, int wanted) {
  OK(CU(cuLaunchHostFunc)(
      nullptr, [](void *) {}, nullptr));
  OK(CU(cuCtxSynchronize)());
  for (int i = 0; i < 5000 && __atomic_load_n(&destroyed, __ATOMIC_ACQUIRE) < wanted; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return destroyed == wanted;
}

void run(CUgraphExec exec) {
  OK(CU(cuGraphLaunch)(exec, nullptr));
  OK(CU(cuCtxSynchronize)());
}

CUgraphExec instance(CUgraph graph) { return MADE(cuGraphInstantiateWithFlags, graph, 0); }

} // namespace

TEST_CASE(
    "Parameters of copies, fills and host nodes are read, set, and taken by the next instance") {
  Session session;
  Memory a(upload(std::vector<uint32_t>{1, 2, 3, 4}));
  Graph graph(MADE(cuGraphCreate, 0));
  CUDA_MEMSET_NODE_PARAMS f{};
  f.dst = a, f.value = 9, f.elementSize = 4, f.width = 1, f.height = 1;
  CUgraphNode fill = MADE(cuGraphAddMemsetNode, graph, nullptr, 0, &f, session.context);
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = a, c.dstDevice = a + 8;
  c.WidthInBytes = 4, c.Height = c.Depth = 1;
  CUgraphNode copy = MADE(cuGraphAddMemcpyNode, graph, &fill, 1, &c, session.context);
  int first = 0, second = 0;
  CUDA_HOST_NODE_PARAMS h{};
  h.fn = add_to, h.userData = &first;
  CUgraphNode host = MADE(cuGraphAddHostNode, graph, &copy, 1, &h);
  CUgraphExec before = instance(graph);

  f.value = 7;
  OK(CU(cuGraphMemsetNodeSetParams)(fill, &f));
  CUDA_MEMSET_NODE_PARAMS f_read = ASKED(cuGraphMemsetNodeGetParams, fill);
  CHECK(f_read.value == 7);
  CHECK(f_read.dst == a);
  c.dstDevice = a + 12;
  OK(CU(cuGraphMemcpyNodeSetParams)(copy, &c));
  CUDA_MEMCPY3D c_read{};
  OK(CU(cuGraphMemcpyNodeGetParams)(copy, &c_read));
  CHECK(c_read.dstDevice == a + 12);
  h.userData = &second;
  OK(CU(cuGraphHostNodeSetParams)(host, &h));
  CUDA_HOST_NODE_PARAMS h_read = ASKED(cuGraphHostNodeGetParams, host);
  CHECK(h_read.userData == &second);

  run(before); // a snapshot: as it was
  CHECK(download<uint32_t>(a, 4) == std::vector<uint32_t>{9, 2, 9, 4});
  CHECK(first == 1);
  CHECK(second == 0);
  CUgraphExec after = instance(graph);
  run(after);
  CHECK(download<uint32_t>(a, 4) == std::vector<uint32_t>{7, 2, 9, 7});
  CHECK(first == 1);
  CHECK(second == 1);

  // The generic setter does the same.
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_HOST;
  p.host.fn = add_to, p.host.userData = &first;
  OK(CU(cuGraphNodeSetParams)(host, &p));
  OK(CU(cuGraphHostNodeGetParams)(host, &h_read));
  CHECK(h_read.userData == &first);
  // A node of another type is refused.
  CHECK(CU(cuGraphHostNodeGetParams)(copy, &h_read) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphMemcpyNodeGetParams)(fill, &c_read) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphMemsetNodeSetParams)(host, &f) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuGraphNodeSetParams)(copy, &p) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphExecDestroy)(before));
  OK(CU(cuGraphExecDestroy)(after));
}

TEST_CASE("Events of nodes are read and exchanged, in the graph and in an instance") {
  Session session;
  Event one(0);
  Event two(0);
  Graph graph(MADE(cuGraphCreate, 0));
  CUgraphNode record = MADE(cuGraphAddEventRecordNode, graph, nullptr, 0, one);
  CUgraphNode wait = MADE(cuGraphAddEventWaitNode, graph, nullptr, 0, two);
  CUevent read = ASKED(cuGraphEventRecordNodeGetEvent, record);
  CHECK(read == one);
  OK(CU(cuGraphEventWaitNodeGetEvent)(wait, &read));
  CHECK(read == two);
  CHECK(CU(cuGraphEventWaitNodeGetEvent)(record, &read) == CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = instance(graph);
  float ms = -1;
  // Neither event is recorded yet; a launch records the instance's.
  CHECK(CU(cuEventElapsedTime_v2)(&ms, two, two) == CUDA_ERROR_INVALID_HANDLE);
  OK(CU(cuGraphExecEventRecordNodeSetEvent)(exec, record, two));
  OK(CU(cuGraphExecEventWaitNodeSetEvent)(exec, wait, one));
  run(exec);
  OK(CU(cuEventElapsedTime_v2)(&ms, two, two));
  CHECK(CU(cuEventElapsedTime_v2)(&ms, one, one) == CUDA_ERROR_INVALID_HANDLE);
  OK(CU(cuGraphEventRecordNodeSetEvent)(record, two));
  OK(CU(cuGraphEventRecordNodeGetEvent)(record, &read));
  CHECK(read == two);
  OK(CU(cuGraphEventWaitNodeSetEvent)(wait, one));
  OK(CU(cuGraphEventWaitNodeGetEvent)(wait, &read));
  CHECK(read == one);
  CHECK(CU(cuGraphExecEventWaitNodeSetEvent)(exec, record, one) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphExecDestroy)(exec));
}

TEST_CASE("Attributes of kernel nodes are read and copied, and neighbours are listed") {
  Session session;
  CUmodule module = load_kernels();
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  uint32_t factor = 2, term = 0;
  void *params[] = {&cell, &factor, &term};
  CUDA_KERNEL_NODE_PARAMS p = one_thread<CUDA_KERNEL_NODE_PARAMS>(kernel(module, "affine"), params);
  CUgraphNode found = nullptr;
  Graph graph(MADE(cuGraphCreate, 0));
  CUgraphNode a = MADE(cuGraphAddKernelNode_v2, graph, nullptr, 0, &p);
  CUgraphNode b = MADE(cuGraphAddKernelNode_v2, graph, &a, 1, &p);
  CUkernelNodeAttrValue value{}, read{};
  value.priority = -2;
  OK(CU(cuGraphKernelNodeSetAttribute)(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  OK(CU(cuGraphKernelNodeCopyAttributes)(b, a));
  OK(CU(cuGraphKernelNodeGetAttribute)(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &read));
  CHECK(read.priority == -2);
  size_t count = 1;
  OK(CU(cuGraphNodeGetDependencies)(b, &found, &count));
  CHECK(count == 1);
  CHECK(found == a);
  OK(CU(cuGraphNodeGetDependentNodes)(a, &found, &count));
  CHECK(count == 1);
  CHECK(found == b);
  OK(CU(cuGraphNodeGetDependencies)(a, nullptr, &count));
  CHECK(count == 0);
  OK(CU(cuMemFree_v2)(cell));
  OK(CU(cuModuleUnload)(module));
}

TEST_CASE("A graph gives back its references to a user object") {
  Session session;
  int destroyed = 0;
  Graph graph(MADE(cuGraphCreate, 0));
  CUuserObject object =
      MADE(cuUserObjectCreate, &destroyed, add_to, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  OK(CU(cuGraphRetainUserObject)(graph, object, 2, 0));
  OK(CU(cuUserObjectRelease)(object, 1));
  OK(CU(cuGraphReleaseUserObject)(graph, object, 1));
  CHECK(destroyed == 0);
  OK(CU(cuGraphReleaseUserObject)(graph, object, 1));
  CHECK(settled(destroyed, 1));
}

TEST_CASE("What a child graph holds lives as long as the last node and instance that hold a copy") {
  Session session;
  int destroyed = 0;
  CUuserObject object =
      MADE(cuUserObjectCreate, &destroyed, add_to, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  CUgraph child = MADE(cuGraphCreate, 0);
  OK(CU(cuGraphRetainUserObject)(child, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CUgraph graph = MADE(cuGraphCreate, 0);
  CUgraphNode node = MADE(cuGraphAddChildGraphNode, graph, nullptr, 0, child);
  CUgraph clone = MADE(cuGraphClone, graph);
  OK(CU(cuGraphDestroy)(child));
  CUgraphExec exec = instance(graph);
  SECTION("the node goes") { OK(CU(cuGraphDestroyNode)(node)); }
  SECTION("its graph goes with it") {}
  OK(CU(cuGraphDestroy)(graph));
  OK(CU(cuGraphDestroy)(clone));
  CHECK(settled(destroyed, 0));
  OK(CU(cuGraphExecDestroy)(exec));
  CHECK(settled(destroyed, 1));
}

TEST_CASE("An update takes over the user objects of its source, and launches keep the old ones") {
  Session session;
  struct Held {
    CUgraph graph = nullptr;
    int destroyed = 0;
    explicit Held(CUgraph child = nullptr) {
      CUgraphNode node = nullptr;
      CUuserObject object =
          MADE(cuUserObjectCreate, &destroyed, add_to, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
      OK(CU(cuGraphCreate)(&graph, 0));
      OK(CU(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
      if (child)
        OK(CU(cuGraphAddChildGraphNode)(&node, graph, nullptr, 0, child));
      else
        OK(CU(cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
    }
  };
  Held child, next_child, graph(child.graph), next(next_child.graph);
  size_t nodes = 1;
  CUgraphNode child_node = nullptr;
  OK(CU(cuGraphGetNodes)(graph.graph, &child_node, &nodes));
  CUgraphExec exec = instance(graph.graph);
  auto destroy = [](Held &held) { OK(CU(cuGraphDestroy)(held.graph)); };
  auto expect = [&](int a, int b, int c, int d) {
    CHECK(settled(graph.destroyed, a));
    CHECK(settled(child.destroyed, b));
    CHECK(settled(next.destroyed, c));
    CHECK(settled(next_child.destroyed, d));
  };
  destroy(child);
  SECTION("a whole update") {
    ASKED(cuGraphExecUpdate_v2, exec, next.graph);
    destroy(graph);
    destroy(next);
    destroy(next_child);
    expect(1, 1, 0, 0);
  }
  SECTION("an update of a child graph, which leaves its parent's") {
    OK(CU(cuGraphExecChildGraphNodeSetParams)(exec, child_node, next_child.graph));
    destroy(graph);
    destroy(next);
    destroy(next_child);
    expect(0, 1, 1, 0);
  }
  SECTION("the same objects again") {
    ASKED(cuGraphExecUpdate_v2, exec, graph.graph);
    destroy(graph);
    destroy(next);
    destroy(next_child);
    expect(0, 0, 1, 1);
  }
  SECTION("a refused update takes nothing") {
    CUgraphExecUpdateResultInfo info{};
    CHECK(CU(cuGraphExecUpdate_v2)(exec, next_child.graph, &info) ==
          CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    destroy(graph);
    destroy(next);
    destroy(next_child);
    expect(0, 0, 1, 1);
  }
  SECTION("a launch under way holds what an update replaces") {
    CUstream stream = MADE(cuStreamCreate, CU_STREAM_NON_BLOCKING);
    CUstream other = MADE(cuStreamCreate, CU_STREAM_NON_BLOCKING);
    CUdeviceptr cell = upload(std::vector<uint32_t>{0});
    OK(CU(cuStreamWaitValue32_v2)(stream, cell, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(CU(cuGraphLaunch)(exec, stream));
    ASKED(cuGraphExecUpdate_v2, exec, next.graph);
    destroy(graph);
    OK(CU(cuLaunchHostFunc)(
        other, [](void *) {}, nullptr));
    OK(CU(cuStreamSynchronize)(other));
    CHECK(graph.destroyed == 0);
    CHECK(child.destroyed == 0);
    OK(CU(cuStreamWriteValue32_v2)(other, cell, 1, 0));
    OK(CU(cuStreamSynchronize)(stream));
    destroy(next);
    destroy(next_child);
    expect(1, 1, 0, 0);
  }
  OK(CU(cuGraphExecDestroy)(exec));
  expect(1, 1, 1, 1);
}

TEST_CASE("A program gives back and moves only the references that are its own") {
  Session session;
  int destroyed = 0;
  CUuserObject object =
      MADE(cuUserObjectCreate, &destroyed, add_to, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  CUgraph one = MADE(cuGraphCreate, 0);
  CUgraph two = MADE(cuGraphCreate, 0);
  OK(CU(cuGraphRetainUserObject)(one, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CHECK(CU(cuGraphRetainUserObject)(two, object, 1, CU_GRAPH_USER_OBJECT_MOVE) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuUserObjectRelease)(object, 1) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuUserObjectRetain)(object, 2));
  CHECK(CU(cuUserObjectRelease)(object, 3) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuUserObjectRelease)(object, 2));
  OK(CU(cuGraphDestroy)(two));
  OK(CU(cuGraphDestroy)(one));
  CHECK(settled(destroyed, 1));
}

TEST_CASE("Attributes that no kernel has are refused, of nodes and of streams") {
  Session session;
  Builder builder;
  Memory cell(upload(std::vector<uint32_t>{1}));
  CUgraphNode node = builder.affine(cell, 2, 0);
  CUkernelNodeAttrValue value{};
  for (int id : {77, -1, 1000}) {
    INFO(id);
    const auto unknown = CUlaunchAttributeID(id);
    CHECK(CU(cuGraphKernelNodeGetAttribute)(node, unknown, &value) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuGraphKernelNodeSetAttribute)(node, unknown, &value) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuStreamGetAttribute)(nullptr, unknown, &value) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuStreamSetAttribute)(nullptr, unknown, &value) == CUDA_ERROR_INVALID_VALUE);
  }
  OK(CU(cuGraphKernelNodeGetAttribute)(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
}
