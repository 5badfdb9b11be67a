// The emulated CUPTI: what it tells of nodes of graphs, how it hands over buffers, and its errors.
#include "emulator/cupti/cupti_types.h"
#include "emulator/unit/driver/graph_builder.h"

namespace {

template <class... Args> CUptiResult cupti(const char *name, Args... args) {
  auto function = reinterpret_cast<CUptiResult (*)(Args...)>(symbol(name));
  REQUIRE(function);
  return function(args...);
}

struct Record {
  CUpti_ActivityKind kind;
  uint64_t begin = 0, end = 0, node = 0, source = 0;
  uint32_t launch = 0;
  std::string name;
};

/// A program that profiles: each buffer holds as many records as it says.
struct Profiler {
  static inline std::vector<Record> records;
  static inline size_t buffer_bytes = 0, most_records = 0, buffers = 0;

  static void request(uint8_t **buffer, size_t *bytes, size_t *most) {
    *buffer = buffer_bytes ? static_cast<uint8_t *>(std::malloc(buffer_bytes)) : nullptr;
    *bytes = buffer_bytes, *most = most_records;
    ++buffers;
  }
  template <class R> static void add(const CUpti_Activity *activity, const char *name) {
    const auto &r = *reinterpret_cast<const R *>(activity);
    records.push_back({r.kind, r.start, r.end, r.graphNodeId, r.sourceGraphNodeId, r.correlationId,
                       name ? name : ""});
  }
  static void complete(void *context, uint32_t, uint8_t *buffer, size_t, size_t valid) {
    CHECK(context == nullptr);
    CUpti_Activity *next = nullptr;
    while (cupti("cuptiActivityGetNextRecord", buffer, valid, &next) == CUPTI_SUCCESS) {
      switch (next->kind) {
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        add<CUpti_ActivityMemcpy7>(next, nullptr);
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        add<CUpti_ActivityMemset5>(next, nullptr);
        break;
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        add<CUpti_ActivityKernel13>(next,
                                    reinterpret_cast<const CUpti_ActivityKernel13 *>(next)->name);
        break;
      }
    }
    std::free(buffer);
  }

  explicit Profiler(size_t bytes = 1 << 16, size_t most = 0) {
    records.clear();
    buffers = 0, buffer_bytes = bytes, most_records = most;
    REQUIRE(cupti("cuptiActivityRegisterCallbacks", &request, &complete) == CUPTI_SUCCESS);
    for (CUpti_ActivityKind kind : kKinds)
      REQUIRE(cupti("cuptiActivityEnable", kind) == CUPTI_SUCCESS);
  }
  ~Profiler() {
    for (CUpti_ActivityKind kind : kKinds)
      CHECK(cupti("cuptiActivityDisable", kind) == CUPTI_SUCCESS);
  }
  static constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_MEMCPY,
                                                  CUPTI_ACTIVITY_KIND_MEMSET,
                                                  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
};

unsigned long long tools_id(CUgraphNode node) {
  unsigned long long id = ASKED(cuGraphNodeGetToolsId, node);
  return id;
}

} // namespace

TEST_CASE("CUPTI tells of a graph's kernels, fills and copies, in the order of its edges") {
  FreshDriver driver{"CUGRT_EMU_DRIVER_VERSION=13.4"};
  Session session;
  Memory cell(upload(std::vector<uint32_t>{1}));
  Profiler profiler;
  Builder graph;
  uint32_t result = 0;
  CUgraphNode fill = graph.fill(cell, 5), kernel = graph.affine(cell, 2, 1, {fill}),
              copy = graph.copy(&result, cell, {kernel});
  Exec exec(graph.graph);
  for (int launch = 0; launch < 2; ++launch) {
    OK(CU(cuGraphLaunch)(exec, nullptr));
    OK(CU(cuCtxSynchronize)());
  }
  CHECK(result == 11);
  REQUIRE(cupti("cuptiActivityFlushAll", 0u) == CUPTI_SUCCESS);
  const CUgraphNode nodes[] = {fill, kernel, copy};
  const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_MEMSET,
                                      CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                      CUPTI_ACTIVITY_KIND_MEMCPY};
  unsigned instance = ASKED(cuGraphExecGetId, exec);
  REQUIRE(Profiler::records.size() == 6);
  for (size_t i = 0; i < 6; ++i) {
    const Record &record = Profiler::records[i];
    CHECK(record.kind == kinds[i % 3]);
    CHECK(record.name == (i % 3 == 1 ? "affine" : ""));
    CHECK(record.source == tools_id(nodes[i % 3]));
    CHECK(record.node >> 32 == instance);
    CHECK(uint32_t(record.node) == uint32_t(record.source));
    CHECK(record.launch == Profiler::records[i / 3 * 3].launch);
    CHECK(record.begin <= record.end);
    CHECK((i == 0 || Profiler::records[i - 1].end <= record.begin));
  }
  CHECK(Profiler::records[0].launch != Profiler::records[3].launch);
}

TEST_CASE("A whole update makes an instance's nodes those of the other graph, for CUPTI too") {
  FreshDriver driver{"CUGRT_EMU_DRIVER_VERSION=13.4"};
  Session session;
  Memory cell(upload(std::vector<uint32_t>{1}));
  Profiler profiler;
  Builder before, after;
  before.affine(cell, 2, 0);
  CUgraphNode node = after.affine(cell, 3, 0);
  Exec exec(before.graph);
  ASKED(cuGraphExecUpdate_v2, exec, after.graph);
  OK(CU(cuGraphLaunch)(exec, nullptr));
  OK(CU(cuCtxSynchronize)());
  REQUIRE(cupti("cuptiActivityFlushAll", 0u) == CUPTI_SUCCESS);
  REQUIRE(Profiler::records.size() == 1);
  CHECK(Profiler::records[0].source == tools_id(node));
}

TEST_CASE(
    "CUPTI before 13.4 does not say what a node was made of; its version follows the driver") {
  FreshDriver driver{"CUGRT_EMU_DRIVER_VERSION=12.8"};
  uint32_t version = 0;
  CHECK(cupti("cuptiGetVersion", &version) == CUPTI_SUCCESS);
  CHECK(version < 13000);
  Session session;
  Profiler profiler;
  Memory cell(upload(std::vector<uint32_t>{1}));
  OK(CU(cuMemsetD32_v2)(cell, 3, 1)); // in a stream: of no graph
  Builder graph;
  graph.fill(cell, 5);
  Exec exec(graph.graph);
  OK(CU(cuGraphLaunch)(exec, nullptr));
  OK(CU(cuCtxSynchronize)());
  REQUIRE(cupti("cuptiActivityFlushAll", 0u) == CUPTI_SUCCESS);
  REQUIRE(Profiler::records.size() >= 2); // the upload, too
  CHECK(Profiler::records.back().node != 0);
  CHECK(Profiler::records.back().source == 0);
  for (size_t i = 0; i + 1 < Profiler::records.size(); ++i)
    CHECK((Profiler::records[i].node == 0 && Profiler::records[i].launch == 0));
}

TEST_CASE("CUPTI's buffers are filled as far as they go, one after the other") {
  Session session;
  const size_t most = GENERATE(size_t(0), size_t(2));
  // Without a limit of its own a buffer of 250 bytes holds two fills of 104.
  Memory cell(upload(std::vector<uint32_t>{1}));
  Profiler profiler(250, most);
  Builder graph;
  CUgraphNode last = graph.fill(cell, 0);
  for (uint32_t i = 1; i < 5; ++i)
    last = graph.fill(cell, i, {last});
  Exec exec(graph.graph);
  OK(CU(cuGraphLaunch)(exec, nullptr));
  OK(CU(cuCtxSynchronize)());
  REQUIRE(cupti("cuptiActivityFlushAll", 0u) == CUPTI_SUCCESS);
  CHECK(Profiler::records.size() == 5);
  CHECK(Profiler::buffers == 3);
}

TEST_CASE("CUPTI refuses what it cannot take, and says when a buffer is missing") {
  Session session;
  CHECK(cupti("cuptiGetVersion", static_cast<uint32_t *>(nullptr)) ==
        CUPTI_ERROR_INVALID_PARAMETER);
  CHECK(cupti("cuptiActivityEnable", CUpti_ActivityKind(3)) == CUPTI_ERROR_INVALID_KIND);
  CHECK(cupti("cuptiActivityEnable", CUpti_ActivityKind(200)) == CUPTI_ERROR_INVALID_KIND);
  const char *text = nullptr;
  CHECK(cupti("cuptiGetResultString", CUPTI_ERROR_INVALID_KIND, &text) == CUPTI_SUCCESS);
  CHECK(std::string(text) == "CUPTI_ERROR_INVALID_KIND");
  CHECK(cupti("cuptiGetResultString", CUptiResult(998), &text) == CUPTI_ERROR_INVALID_PARAMETER);
  Memory cell(upload(std::vector<uint32_t>{1}));
  Profiler profiler(0);
  OK(CU(cuMemsetD32_v2)(cell, 3, 1));
  OK(CU(cuCtxSynchronize)());
  CHECK(cupti("cuptiActivityFlushAll", 0u) == CUPTI_ERROR_MAX_LIMIT_REACHED);
}
