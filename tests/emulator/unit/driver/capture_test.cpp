// Stream capture: what is recorded, what joins, what invalidates, in three modes.
#include "emulator/unit/driver/graph_builder.h"

namespace {

struct Capturing : Session {
  Capturing(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    OK(CU(cuStreamCreate)(&a, CU_STREAM_NON_BLOCKING));
    OK(CU(cuStreamCreate)(&b, CU_STREAM_NON_BLOCKING));
    OK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    OK(CU(cuMemAlloc_v2)(&cell, 64));
    OK(CU(cuStreamBeginCapture_v2)(a, mode));
  }
  ~Capturing() {
    CHECK(CU(cuEventDestroy_v2)(event) == CUDA_SUCCESS);
    CHECK(CU(cuStreamDestroy_v2)(a) == CUDA_SUCCESS);
    CHECK(CU(cuStreamDestroy_v2)(b) == CUDA_SUCCESS);
  }
  CUstreamCaptureStatus status(CUstream stream) {
    CUstreamCaptureStatus s = ASKED(cuStreamIsCapturing, stream);
    return s;
  }
  // The capture ends with this error and no graph.
  void end_fails(CUresult expected) {
    CUgraph graph = reinterpret_cast<CUgraph>(this);
    CHECK(CU(cuStreamEndCapture)(a, &graph) == expected);
    CHECK(graph == nullptr);
    CHECK(status(a) == CU_STREAM_CAPTURE_STATUS_NONE);
  }

  CUstream a = nullptr, b = nullptr;
  CUevent event = nullptr;
  CUdeviceptr cell = 0;
};

} // namespace

TEST_CASE("Captured work is recorded, not run, across streams that join") {
  Capturing s;
  CHECK(s.status(s.a) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(s.status(s.b) == CU_STREAM_CAPTURE_STATUS_NONE);
  OK(CU(cuMemsetD32Async)(s.cell, 1, 1, s.a));
  OK(CU(cuEventRecord)(s.event, s.a));
  OK(CU(cuStreamWaitEvent)(s.b, s.event, 0));
  CHECK(s.status(s.b) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(CU(cuMemsetD32Async)(s.cell + 4, 2, 1, s.b));
  OK(CU(cuMemsetD32Async)(s.cell + 8, 3, 1, s.a));
  OK(CU(cuEventRecord)(s.event, s.b));
  OK(CU(cuStreamWaitEvent)(s.a, s.event, 0));
  OK(CU(cuMemcpyDtoDAsync_v2)(s.cell + 16, s.cell, 12, s.a));
  Graph graph(ASKED(cuStreamEndCapture, s.a));
  CHECK(statistics().memsets == 0);
  size_t nodes = ASKED(cuGraphGetNodes, graph, nullptr);
  size_t edges = ASKED(cuGraphGetEdges_v2, graph, nullptr, nullptr, nullptr);
  CHECK(nodes == 4);
  CHECK(edges == 4); // a diamond
  Exec exec(graph);
  launch_graph(exec, s.a);
  CHECK(download<uint32_t>(s.cell + 16, 3) == std::vector<uint32_t>{1, 2, 3});
}

TEST_CASE(
    "A stream that took part may be destroyed before the capture ends; its work still counts") {
  bool joins = GENERATE(true, false);
  Capturing s(CU_STREAM_CAPTURE_MODE_RELAXED);
  CUstream third = MADE(cuStreamCreate, CU_STREAM_NON_BLOCKING);
  OK(CU(cuMemsetD32Async)(s.cell, 1, 1, s.a));
  OK(CU(cuEventRecord)(s.event, s.a));
  OK(CU(cuStreamWaitEvent)(third, s.event, 0));
  OK(CU(cuMemsetD32Async)(s.cell + 4, 2, 1, third));
  if (joins) {
    OK(CU(cuEventRecord)(s.event, third));
    OK(CU(cuStreamWaitEvent)(s.a, s.event, 0));
  }
  OK(CU(cuStreamDestroy_v2)(third));
  CHECK(s.status(s.a) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  if (!joins)
    return s.end_fails(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  Graph graph(ASKED(cuStreamEndCapture, s.a));
  size_t nodes = ASKED(cuGraphGetNodes, graph, nullptr);
  CHECK(nodes == 2);
}

TEST_CASE("Kernels are captured with their arguments") {
  Session session;
  CUfunction affine = kernel(load_kernels(), "affine");
  CUdeviceptr cell = upload(std::vector<uint32_t>{3});
  Stream stream(CU_STREAM_NON_BLOCKING);
  OK(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  uint32_t factor = 2, term = 1;
  launch_kernel(affine, 1, 1, stream, cell, factor, term);
  factor = 100;
  Graph graph(ASKED(cuStreamEndCapture, stream));
  Exec exec(graph);
  launch_graph(exec, stream);
  CHECK(download<uint32_t>(cell, 1)[0] == 7);
}

TEST_CASE("Work that was not joined, or is another capture's, is an error") {
  Capturing s;
  SECTION("unjoined") {
    OK(CU(cuEventRecord)(s.event, s.a));
    OK(CU(cuStreamWaitEvent)(s.b, s.event, 0));
    OK(CU(cuMemsetD32Async)(s.cell, 1, 1, s.b));
    s.end_fails(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  }
  SECTION("ended in the wrong stream") {
    OK(CU(cuEventRecord)(s.event, s.a));
    OK(CU(cuStreamWaitEvent)(s.b, s.event, 0));
    CUgraph graph = nullptr;
    CHECK(CU(cuStreamEndCapture)(s.b, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    OK(CU(cuStreamEndCapture)(s.a, &graph));
    OK(CU(cuGraphDestroy)(graph));
  }
  SECTION("merging two captures") {
    OK(CU(cuStreamBeginCapture_v2)(s.b, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(CU(cuEventRecord)(s.event, s.a));
    CHECK(CU(cuStreamWaitEvent)(s.b, s.event, 0) == CUDA_ERROR_STREAM_CAPTURE_MERGE);
    CUgraph graph = nullptr;
    CHECK(CU(cuStreamEndCapture)(s.b, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    s.end_fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  SECTION("depending on work outside") {
    OK(CU(cuEventRecord)(s.event, s.b));
    CHECK(CU(cuStreamWaitEvent)(s.a, s.event, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    s.end_fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  SECTION("asking a captured event") {
    OK(CU(cuEventRecord)(s.event, s.a));
    CHECK(CU(cuEventQuery)(s.event) == CUDA_ERROR_CAPTURED_EVENT);
    s.end_fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}

namespace {

constexpr char kNothingPtx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";

/// Runs the body in the relaxed mode of the calling thread.
template <class Body> void relaxed(Body &&body) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
  body();
  OK(CU(cuThreadExchangeStreamCaptureMode)(&mode));
}

/// A capture and what calls take. What they leave goes with the context.
struct Concerned : Capturing {
  explicit Concerned(CUstreamCaptureMode mode) : Capturing(mode) {
    relaxed([&] {
      pool_of.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      pool_of.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      OK(CU(cuModuleLoadData)(&module, kNothingPtx));
      OK(CU(cuModuleGetFunction)(&nothing, module, "nothing"));
      OK(CU(cuEventCreate)(&recorded, CU_EVENT_DISABLE_TIMING));
      OK(CU(cuEventRecord)(recorded, b));
      OK(CU(cuStreamSynchronize)(b));
      OK(CU(cuMemHostAlloc)(&pinned, 64, 0));
      OK(CU(cuMemPoolCreate)(&pool, &pool_of));
      OK(CU(cuMemAllocAsync)(&in_order, 64, b));
    });
  }
  ~Concerned() {
    relaxed([&] {
      CU(cuMemFreeAsync)(in_order, b);
      CU(cuMemPoolDestroy)(pool);
    });
  }

  /// The call on a thread of its own, in that mode of the thread.
  CUresult elsewhere(CUresult (*call)(Concerned &), CUstreamCaptureMode mode) {
    CUresult seen = CUDA_SUCCESS;
    std::thread([&] {
      CU(cuCtxSetCurrent)(context);
      CU(cuThreadExchangeStreamCaptureMode)(&mode);
      seen = call(*this);
    }).join();
    return seen;
  }
  void end_holds() { Graph graph(ASKED(cuStreamEndCapture, a)); }

  CUmemPoolProps pool_of{};
  CUmodule module = nullptr;
  CUfunction nothing = nullptr;
  CUevent recorded = nullptr;
  CUmemoryPool pool = nullptr, another = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr address = 0, in_order = 0;
  void *pinned = nullptr, *host = nullptr;
  uint64_t value = 0;
};

struct Call {
  const char *name;
  CUresult (*make)(Concerned &);
};

const Call kUnsafe[] = {
    {"cuStreamCreate",
     [](Concerned &c) { return CU(cuStreamCreate)(&c.stream, CU_STREAM_NON_BLOCKING); }},
    {"cuMemAlloc", [](Concerned &c) { return CU(cuMemAlloc_v2)(&c.address, 64); }},
    {"cuMemFree", [](Concerned &c) { return CU(cuMemFree_v2)(c.cell); }},
    {"cuMemFreeAsync", [](Concerned &c) { return CU(cuMemFreeAsync)(c.in_order, c.b); }},
    {"cuMemHostAlloc", [](Concerned &c) { return CU(cuMemHostAlloc)(&c.host, 64, 0); }},
    {"cuMemFreeHost", [](Concerned &c) { return CU(cuMemFreeHost)(c.pinned); }},
    {"cuMemAllocManaged",
     [](Concerned &c) { return CU(cuMemAllocManaged)(&c.address, 64, CU_MEM_ATTACH_GLOBAL); }},
    {"cuModuleLoadData",
     [](Concerned &) {
       CUmodule module = nullptr;
       return CU(cuModuleLoadData)(&module, kNothingPtx);
     }},
    {"cuModuleUnload", [](Concerned &c) { return CU(cuModuleUnload)(c.module); }},
    {"cuEventQuery", [](Concerned &c) { return CU(cuEventQuery)(c.recorded); }},
    {"cuMemcpyHtoD", [](Concerned &c) { return CU(cuMemcpyHtoD_v2)(c.cell, &c.value, 8); }},
    {"cuMemcpyDtoH", [](Concerned &c) { return CU(cuMemcpyDtoH_v2)(c.pinned, c.cell, 8); }},
    {"cuMemcpyDtoD", [](Concerned &c) { return CU(cuMemcpyDtoD_v2)(c.cell, c.cell + 8, 8); }},
    {"cuMemPoolCreate",
     [](Concerned &c) {
       CUresult result = CU(cuMemPoolCreate)(&c.another, &c.pool_of);
       if (result == CUDA_SUCCESS)
         CU(cuMemPoolDestroy)(c.another);
       return result;
     }},
    {"cuMemPoolDestroy", [](Concerned &c) { return CU(cuMemPoolDestroy)(c.pool); }},
    {"cuMemPoolTrimTo", [](Concerned &c) { return CU(cuMemPoolTrimTo)(c.pool, 0); }},
    {"cuMemPoolGetAttribute",
     [](Concerned &c) {
       return CU(cuMemPoolGetAttribute)(c.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &c.value);
     }},
    {"cuMemPoolSetAttribute",
     [](Concerned &c) {
       return CU(cuMemPoolSetAttribute)(c.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &c.value);
     }},
};

const Call kSafe[] = {
    {"cuEventCreate",
     [](Concerned &) {
       CUevent event = nullptr;
       return CU(cuEventCreate)(&event, 0);
     }},
    {"cuEventSynchronize", [](Concerned &c) { return CU(cuEventSynchronize)(c.recorded); }},
    {"cuStreamQuery", [](Concerned &c) { return CU(cuStreamQuery)(c.b); }},
    {"cuStreamSynchronize", [](Concerned &c) { return CU(cuStreamSynchronize)(c.b); }},
    {"cuMemcpyDtoDAsync",
     [](Concerned &c) { return CU(cuMemcpyDtoDAsync_v2)(c.cell, c.cell + 8, 8, c.b); }},
    {"cuMemsetD32Async", [](Concerned &c) { return CU(cuMemsetD32Async)(c.cell, 1, 1, c.b); }},
    {"cuLaunchKernel",
     [](Concerned &c) {
       return CU(cuLaunchKernel)(c.nothing, 1, 1, 1, 1, 1, 1, 0, c.b, nullptr, nullptr);
     }},
    {"cuLaunchKernel in the legacy stream",
     [](Concerned &c) {
       return CU(cuLaunchKernel)(c.nothing, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
     }},
    {"cuLaunchHostFunc",
     [](Concerned &c) {
       return CU(cuLaunchHostFunc)(
           c.b, [](void *) {}, &c);
     }},
    {"cuMemAllocAsync",
     [](Concerned &c) {
       CUresult result = CU(cuMemAllocAsync)(&c.address, 64, c.b);
       relaxed([&] { CU(cuMemFreeAsync)(c.address, c.b); });
       return result;
     }},
    {"cuMemAddressReserve",
     [](Concerned &c) {
       CUresult result = CU(cuMemAddressReserve)(&c.address, 2 << 20, 0, 0, 0);
       return result == CUDA_SUCCESS ? CU(cuMemAddressFree)(c.address, 2 << 20) : result;
     }},
};

} // namespace

TEST_CASE("Unsafe calls are refused by the mode of the capture") {
  constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL,
                 kLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                 kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  for (const Call &call : kUnsafe) {
    INFO(call.name);
    for (CUstreamCaptureMode capture : {kGlobal, kLocal, kRelaxed})
      for (CUstreamCaptureMode thread : {kGlobal, kLocal, kRelaxed}) {
        INFO("capture in mode " << capture << ", another thread in mode " << thread);
        Concerned c(capture);
        const bool refused = capture == kGlobal && thread == kGlobal;
        CHECK(c.elsewhere(call.make, thread) ==
              (refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS));
        refused ? c.end_fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) : c.end_holds();
      }
    for (CUstreamCaptureMode capture : {kGlobal, kLocal, kRelaxed}) {
      INFO("capture in mode " << capture << ", on the thread that captures");
      Concerned c(capture);
      const bool refused = capture != kRelaxed;
      CHECK(call.make(c) == (refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS));
      refused ? c.end_fails(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) : c.end_holds();
    }
  }
}

TEST_CASE("Calls that are not known to be unsafe leave a global capture of another thread alone") {
  for (const Call &call : kSafe) {
    INFO(call.name);
    Concerned c(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK(c.elsewhere(call.make, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    c.end_holds();
  }
}

TEST_CASE("Synchronising the context ends all captures in it, whatever their modes") {
  Capturing s(CU_STREAM_CAPTURE_MODE_RELAXED);
  OK(CU(cuStreamBeginCapture_v2)(s.b, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(CU(cuStreamBeginCapture_v2)(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUresult seen = CUDA_SUCCESS;
  std::thread([&] {
    CU(cuCtxSetCurrent)(s.context);
    seen = CU(cuCtxSynchronize)();
  }).join();
  CHECK(seen == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  for (CUstream stream : {s.a, s.b, CU_STREAM_PER_THREAD}) {
    CHECK(s.status(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CUgraph graph = nullptr;
    CHECK(CU(cuStreamEndCapture)(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}

// "During stream capture, this function results in the creation of a free node and must therefore
// be passed the address of a graph allocation."
TEST_CASE("Memory from outside a capture is not freed in it") {
  for (CUstreamCaptureMode mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    Capturing s(mode);
    CUdeviceptr pooled = MADE(cuMemAllocAsync, 64, s.b);
    CHECK(CU(cuMemFreeAsync)(pooled, s.a) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuMemFreeAsync)(s.cell, s.a) == CUDA_ERROR_INVALID_VALUE);
    CUgraph graph = ASKED(cuStreamEndCapture, s.a);
    OK(CU(cuGraphDestroy)(graph));
    OK(CU(cuMemFreeAsync)(pooled, s.b));
  }
}

TEST_CASE("A graph is not launched in a captured stream, whose capture ends") {
  Session session;
  CUdeviceptr cell = upload(std::vector<uint32_t>{3});
  Builder graph;
  graph.fill(cell, 8);
  Exec exec(graph.graph);
  Stream stream(CU_STREAM_NON_BLOCKING);
  for (CUstreamCaptureMode mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    CUgraph captured = nullptr;
    OK(CU(cuStreamBeginCapture_v2)(stream, mode));
    CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(CU(cuGraphLaunch)(exec, stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(CU(cuStreamEndCapture)(stream, &captured) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(captured == nullptr);
  }
  CHECK(download<uint32_t>(cell, 1) == std::vector<uint32_t>{3});
  launch_graph(exec, stream);
  CHECK(download<uint32_t>(cell, 1) == std::vector<uint32_t>{8});
}

TEST_CASE("A thread that did not begin a capture ends it without a graph") {
  Capturing s(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUresult seen = CUDA_SUCCESS;
  CUgraph graph = nullptr;
  std::thread([&] {
    CU(cuCtxSetCurrent)(s.context);
    seen = CU(cuStreamEndCapture)(s.a, &graph);
  }).join();
  CHECK(seen == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  CHECK(graph == nullptr);
  CHECK(CU(cuStreamEndCapture)(s.a, &graph) == CUDA_ERROR_ILLEGAL_STATE);
  OK(CU(cuStreamBeginCapture_v2)(s.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(CU(cuStreamEndCapture)(s.a, &graph));
  OK(CU(cuGraphDestroy)(graph));
}

TEST_CASE("Capture information names the graph and where the stream stands in it") {
  Capturing s;
  OK(CU(cuMemsetD32Async)(s.cell, 1, 1, s.a));
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode *nodes = nullptr;
  size_t count = ASKED(cuStreamGetCaptureInfo_v2, s.a, &status, &id, &graph, &nodes);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(id != 0);
  REQUIRE(count == 1);
  CUgraphNodeType type = ASKED(cuGraphNodeGetType, nodes[0]);
  CHECK(type == CU_GRAPH_NODE_TYPE_MEMSET);
  Graph ended(ASKED(cuStreamEndCapture, s.a));
  CHECK(ended == graph);
}

TEST_CASE("A capture whose stream or context goes takes its graph with it") {
  std::atomic<int> destroyed{0};
  {
    Session session; // whose end checks that no graph is left
    CUstream stream = MADE(cuStreamCreate, 0);
    CUstream other = MADE(cuStreamCreate, 0);
    CUevent event = MADE(cuEventCreate, 0);
    OK(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SECTION("the stream") {
      OK(CU(cuEventRecord)(event, stream));
      OK(CU(cuStreamWaitEvent)(other, event, 0));
      OK(CU(cuStreamDestroy_v2)(stream));
      // What has joined it can do no more.
      CHECK(CU(cuLaunchHostFunc)(
                other, [](void *) {}, nullptr) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      CHECK(CU(cuStreamWaitEvent)(nullptr, event, 0) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    SECTION("the context") {}
    SECTION("an object that its graph holds goes too") {
      CUuserObject object = nullptr;
      CUgraph graph = nullptr;
      CUstreamCaptureStatus status{};
      cuuint64_t id = 0;
      const CUgraphNode *nodes = nullptr;
      ASKED(cuStreamGetCaptureInfo_v2, stream, &status, &id, &graph, &nodes);
      OK(CU(cuUserObjectCreate)(
          &object, &destroyed, [](void *n) { ++*static_cast<std::atomic<int> *>(n); }, 1,
          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
      OK(CU(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
      OK(CU(cuStreamDestroy_v2)(stream));
      while (!destroyed)
        std::this_thread::yield();
    }
  }
}

TEST_CASE("Data of edges parallels the dependencies of a capture, and is not asked for alone") {
  Session session;
  CUgraph graph = nullptr;
  Stream stream(CU_STREAM_NON_BLOCKING);
  OK(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode *nodes = nullptr;
  const CUgraphEdgeData *edges = nullptr;
  size_t count = ASKED(cuStreamGetCaptureInfo_v3, stream, &status, nullptr, &graph, &nodes, &edges);
  CHECK(count == 0);
  CUgraphNode two[2] = {};
  for (CUgraphNode &node : two)
    OK(CU(cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
  OK(CU(cuStreamUpdateCaptureDependencies)(stream, two, 2, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  edges = nullptr;
  OK(CU(cuStreamGetCaptureInfo_v3)(stream, &status, nullptr, nullptr, &nodes, &edges, &count));
  REQUIRE(count == 2);
  REQUIRE(edges);
  for (size_t i = 0; i < count; ++i) {
    CHECK(nodes[i] == two[i]);
    CHECK(edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
    CHECK(edges[i].from_port + edges[i].to_port == 0);
  }
  CHECK(CU(cuStreamGetCaptureInfo_v3)(stream, &status, nullptr, nullptr, nullptr, &edges, &count) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuStreamEndCapture)(stream, &graph));
  OK(CU(cuGraphDestroy)(graph));
}
