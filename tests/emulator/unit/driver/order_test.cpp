// The order of a graph's nodes: what is found where it is missing, and programmatic edges.
#include "emulator/unit/driver/graph_builder.h"

namespace {

void launch_once(Builder &graph) {
  Exec exec(graph.graph);
  launch_graph(exec, nullptr);
}

CUgraphNode add_kernel(Builder &graph, CUmodule module, const char *name, void **params) {
  CUDA_KERNEL_NODE_PARAMS_v2 p = one_thread(kernel(module, name), params);
  return MADE(cuGraphAddKernelNode_v2, graph.graph, nullptr, 0, &p);
}

} // namespace

TEST_CASE("Two nodes that no path orders and that touch the same bytes are a finding") {
  Session session{"CUGRT_EMU_CHECK=nodes"};
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1, 2});
  CUgraphNode first = graph.affine(cell, 2, 0);
  SECTION("a kernel and a memset") {
    graph.fill(cell, 5, {}, 2);
    launch_once(graph);
    CHECK(findings() ==
          "nodes: kernel 'affine' (node 0) reads and memset (node 1) writes 4 bytes at " +
              hex(cell) + ", and no path of the graph orders them\n");
  }
  SECTION("a memset that is ordered") {
    graph.fill(cell, 5, {first}, 2);
    launch_once(graph);
    CHECK(findings().empty());
  }
  SECTION("a memset of the neighbouring bytes") {
    graph.fill(cell + 4, 5);
    launch_once(graph);
    CHECK(findings().empty());
  }
  SECTION("a kernel in a child graph") {
    Builder child;
    child.affine(cell, 3, 0);
    MADE(cuGraphAddChildGraphNode, graph.graph, nullptr, 0, child.graph);
    launch_once(graph);
    CHECK(findings().find("kernel 'affine' (node 0) in node 1") != std::string::npos);
  }
  SECTION("copies that only read") {
    Builder other;
    uint32_t a = 0, b = 0;
    other.copy(&a, cell);
    other.copy(&b, cell);
    launch_once(other);
    CHECK(findings().empty());
  }
}

TEST_CASE("Atomic operations of unordered nodes may meet") {
  Session session{"CUGRT_EMU_CHECK=nodes"};
  Builder graph;
  CUmodule module = load_waiting_kernels();
  CUdeviceptr cell = upload(std::vector<uint32_t>{0});
  void *params[] = {&cell};
  add_kernel(graph, module, "count", params);
  add_kernel(graph, module, "count", params);
  launch_once(graph);
  CHECK(findings().empty());
  graph.affine(cell, 1, 0); // not atomic
  launch_once(graph);
  // Which of the two counters is compared first is the seed's choice.
  std::string text = findings();
  for (const char *name : {"kernel 'count' (node 0)", "kernel 'count' (node 1)"})
    CHECK(text.find(std::string("nodes: ") + name + " writes and kernel 'affine' (node 2)") !=
          std::string::npos);
}

TEST_CASE("Without the check nothing is recorded or found") {
  Session session{"CUGRT_EMU_CHECK=none"};
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  graph.affine(cell, 2, 0);
  graph.affine(cell, 3, 0);
  launch_once(graph);
  CHECK(findings().empty());
}

TEST_CASE("A kernel after a programmatic edge may run up to its wait before its predecessor") {
  const std::string early = GENERATE("early", "early_copy");
  bool stale_seen = false, fresh_seen = false;
  for (int seed = 1; seed <= 16; ++seed) {
    Session session{"CUGRT_EMU_SEED=" + std::to_string(seed), "CUGRT_EMU_CHECK=programmatic"};
    Builder graph;
    CUmodule module = load_waiting_kernels();
    CUdeviceptr cell = upload(std::vector<uint32_t>{1}), out = upload(std::vector<uint32_t>{0});
    void *params[] = {&cell, &out};
    bool waits_first = seed % 2;
    CUgraphNode before = graph.affine(cell, 0, 7);
    CUgraphNode after = add_kernel(graph, module, waits_first ? "late" : early.c_str(), params);
    CUgraphEdgeData data = programmatic();
    OK(CU(cuGraphAddDependencies_v2)(graph.graph, &before, &after, &data, 1));
    uint32_t host = 0;
    graph.copy(&host, out, {after});
    launch_once(graph);
    if (waits_first) {
      CHECK(host == 7);
      CHECK(findings().empty());
    } else {
      (host == 1 ? stale_seen : fresh_seen) = true;
      CHECK(findings() ==
            "programmatic: kernel '" + early + "' (node 1) reads 4 bytes at " + hex(cell) +
                " before its griddepcontrol.wait, and kernel 'affine' (node 0), which "
                "it follows over a programmatic edge, writes them\n");
    }
  }
  CHECK(stale_seen == (early == "early")); // what is copied arrives when it is waited for
  CHECK(fresh_seen);
}

TEST_CASE("A device older than sm_90 takes programmatic edges as ordinary ones") {
  for (int seed = 1; seed <= 8; ++seed) {
    Session session{"CUGRT_EMU_SEED=" + std::to_string(seed), "CUGRT_EMU_DEVICE=sm_80"};
    Builder graph;
    CUdeviceptr cell = upload(std::vector<uint32_t>{1});
    CUgraphNode before = graph.affine(cell, 0, 7), after = graph.affine(cell, 2, 0);
    CUgraphEdgeData data = programmatic();
    OK(CU(cuGraphAddDependencies_v2)(graph.graph, &before, &after, &data, 1));
    launch_once(graph);
    CHECK(download<uint32_t>(cell, 1)[0] == 14);
  }
}

TEST_CASE("Edge data is checked, listed, matched on removal and never lost") {
  Session session;
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  CUgraphNode a = graph.affine(cell, 2, 0), b = graph.affine(cell, 2, 0),
              fill = graph.fill(cell, 1);
  auto add = [&](CUgraphNode from, CUgraphNode to, CUgraphEdgeData data) {
    return CU(cuGraphAddDependencies_v2)(graph.graph, &from, &to, &data, 1);
  };
  CUgraphEdgeData bad = programmatic(CU_GRAPH_KERNEL_NODE_PORT_DEFAULT);
  CHECK(add(a, b, bad) == CUDA_ERROR_INVALID_VALUE);
  bad = programmatic(3);
  CHECK(add(a, b, bad) == CUDA_ERROR_INVALID_VALUE);
  bad = programmatic();
  bad.type = CU_GRAPH_DEPENDENCY_TYPE_DEFAULT;
  CHECK(add(a, b, bad) == CUDA_ERROR_INVALID_VALUE);
  bad = programmatic();
  bad.to_port = 1; // "Currently no node types define non-zero ports."
  CHECK(add(a, b, bad) == CUDA_ERROR_INVALID_VALUE);
  bad = programmatic();
  bad.reserved[4] = 1; // "These bytes are unused and must be zeroed."
  CHECK(add(a, b, bad) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add(a, fill, programmatic()) == CUDA_ERROR_INVALID_VALUE);
  OK(add(a, b, programmatic(CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER)));
  CUgraphNode from = nullptr, to = nullptr;
  CUgraphEdgeData got{};
  size_t count = 1;
  CHECK(CU(cuGraphGetEdges_v2)(graph.graph, &from, &to, nullptr, &count) == CUDA_ERROR_LOSSY_QUERY);
  CHECK(CU(cuGraphNodeGetDependencies_v2)(b, &from, nullptr, &count) == CUDA_ERROR_LOSSY_QUERY);
  CHECK(CU(cuGraphNodeGetDependentNodes_v2)(a, &to, nullptr, &count) == CUDA_ERROR_LOSSY_QUERY);
  OK(CU(cuGraphGetEdges_v2)(graph.graph, &from, &to, &got, &count));
  CHECK(from == a);
  CHECK(to == b);
  CHECK(got.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  CHECK(got.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
  // "Specifying an edge that does not exist in the graph, with data matching edgeData"
  CHECK(CU(cuGraphRemoveDependencies_v2)(graph.graph, &a, &b, nullptr, 1) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuGraphRemoveDependencies_v2)(graph.graph, &a, &b, &got, 1));
}

TEST_CASE("Edge data comes with driver version 12.3") {
  Session session{"CUGRT_EMU_DRIVER_VERSION=12.2"};
  Builder graph;
  CUdeviceptr cell = upload(std::vector<uint32_t>{1});
  CUgraphNode a = graph.affine(cell, 2, 0), b = graph.affine(cell, 2, 0);
  CUgraphEdgeData data = programmatic();
  CHECK(CU(cuGraphAddDependencies_v2)(graph.graph, &a, &b, &data, 1) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("A wait node may come before the record node of its event, by edges or by creation") {
  Session session;
  Builder graph;
  Event event(0);
  CUgraphNode wait = nullptr, record = nullptr;
  SECTION("the wait node is created first") {
    OK(CU(cuGraphAddEventWaitNode)(&wait, graph.graph, nullptr, 0, event));
    OK(CU(cuGraphAddEventRecordNode)(&record, graph.graph, &wait, 1, event));
  }
  SECTION("the record node is created first") {
    OK(CU(cuGraphAddEventRecordNode)(&record, graph.graph, nullptr, 0, event));
    OK(CU(cuGraphAddEventWaitNode)(&wait, graph.graph, nullptr, 0, event));
    OK(CU(cuGraphAddDependencies_v2)(graph.graph, &wait, &record, nullptr, 1));
  }
  launch_once(graph);
  launch_once(graph); // waits for the record of the launch before
  OK(CU(cuEventQuery)(event));
}

TEST_CASE("A condition that nobody has given a value is a finding") {
  Session session;
  Builder graph;
  CUgraphConditionalHandle handle =
      MADE(cuGraphConditionalHandleCreate, graph.graph, nullptr, 0, 0);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.size = 1;
  MADE(cuGraphAddNode_v2, graph.graph, nullptr, nullptr, 0, &params);
  launch_once(graph);
  CHECK(findings() ==
        "condition: the condition of node 0 has neither a default nor been set in this "
        "launch of its graph\n");
}
