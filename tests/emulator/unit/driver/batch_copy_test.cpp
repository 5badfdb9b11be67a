// Graph nodes of several copies at a time, which came with CUDA 13.5.
#include "emulator/unit/driver/graph_builder.h"

#include <cstring>

namespace {

constexpr auto kBatch = CUgraphNodeType(14); // CU_GRAPH_NODE_TYPE_MEMCPY_BATCH

/// CUDA_MEMCPY_BATCH_NODE_PARAMS as cuda.h of CUDA 13.5 has it.
struct Fields {
  size_t count;
  CUdeviceptr *dsts, *srcs;
  size_t *sizes;
  CUmemcpyAttributes *attrs;
  size_t *attrs_idxs;
  size_t num_attrs;
  CUcontext ctx;
};

/// Parameters and the arrays that they lead to.
struct Batch {
  std::vector<CUdeviceptr> to, from;
  std::vector<size_t> sizes, starts{0};
  std::vector<CUmemcpyAttributes> attributes{1};
  CUcontext context = nullptr;

  Batch() { attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM; }
  Batch &add(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
    to.push_back(target);
    from.push_back(source);
    sizes.push_back(bytes);
    return *this;
  }
  Fields fields() {
    return {sizes.size(),      to.data(),     from.data(),       sizes.data(),
            attributes.data(), starts.data(), attributes.size(), context};
  }
  CUgraphNodeParams params() { return wrap(fields()); }
  static CUgraphNodeParams wrap(const Fields &fields) {
    CUgraphNodeParams p{};
    p.type = kBatch;
    std::memcpy(p.reserved1, &fields, sizeof fields);
    return p;
  }
};

CUresult add(CUgraph graph, CUgraphNodeParams params, CUgraphNode *node) {
  return CU(cuGraphAddNode)(node, graph, nullptr, 0, &params);
}

Fields read(CUgraphNode node) {
  CUgraphNodeParams params = ASKED(cuGraphNodeGetParams, node);
  REQUIRE(params.type == kBatch);
  Fields fields;
  std::memcpy(&fields, params.reserved1, sizeof fields);
  return fields;
}

const std::string kDriver = "CUGRT_EMU_DRIVER_VERSION=13.5";

using Words = std::vector<uint32_t>;

} // namespace

TEST_CASE("A node copies a batch, whatever its order, and what it leads to stays readable") {
  for (const char *seed : {"", "1", "7"}) {
    Session session{kDriver, std::string("CUGRT_EMU_ORDER=") + seed};
    CUdeviceptr from = upload(Words{1, 2, 3, 4}), to = upload(Words{0, 0, 0, 0, 0, 0});
    Words host{9, 9};
    Batch batch;
    batch.add(to, from + 8, 8).add(to + 12, from, 4).add(to + 16, from, 0);
    batch.add(CUdeviceptr(reinterpret_cast<uintptr_t>(host.data())), from + 4, 8);
    batch.attributes.push_back(batch.attributes[0]);
    batch.attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    batch.starts = {0, 2};
    Builder built;
    CUgraphNode node = nullptr;
    OK(add(built.graph, batch.params(), &node));
    CUgraphNodeType type = ASKED(cuGraphNodeGetType, node);
    CHECK(type == kBatch);
    Fields got = read(node);
    CHECK(Words(got.sizes, got.sizes + got.count) == Words{8, 4, 0, 8});
    CHECK(got.dsts[1] == to + 12);
    CHECK(got.srcs[3] == from + 4);
    REQUIRE(got.num_attrs == 2);
    CHECK(got.attrs[1].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
    CHECK(got.attrs_idxs[1] == 2);
    CHECK(got.ctx == session.context);

    Graph clone(MADE(cuGraphClone, built.graph));
    CUgraphExec exec = built.instantiate(), of_clone = nullptr;
    OK(CU(cuGraphLaunch)(exec, nullptr));
    CHECK(download<uint32_t>(to, 6) == Words{3, 4, 0, 1, 0, 0});
    CHECK(host == Words{2, 3});
    OK(CU(cuMemsetD32_v2)(to, 0, 6));
    OK(CU(cuGraphInstantiateWithFlags)(&of_clone, clone, 0));
    OK(CU(cuGraphLaunch)(of_clone, nullptr));
    CHECK(download<uint32_t>(to, 6) == Words{3, 4, 0, 1, 0, 0});

    // Disabled it does nothing.
    OK(CU(cuGraphNodeSetEnabled)(exec, node, 0));
    unsigned enabled = ASKED(cuGraphNodeGetEnabled, exec, node);
    CHECK(enabled == 0);
    OK(CU(cuMemsetD32_v2)(to, 0, 6));
    OK(CU(cuGraphLaunch)(exec, nullptr));
    CHECK(download<uint32_t>(to, 6) == Words(6));
    OK(CU(cuGraphExecDestroy)(of_clone));
    OK(CU(cuGraphExecDestroy)(exec));
  }
}

TEST_CASE("Of an instance's batch operands can be changed, and nothing else") {
  Session session{kDriver};
  CUdeviceptr from = upload(Words{1, 2, 3, 4}), to = upload(Words(4));
  Builder built, other;
  Batch batch;
  batch.add(to, from, 4).add(to + 4, from + 4, 4);
  CUgraphNode node = nullptr, wanted = nullptr;
  OK(add(built.graph, batch.params(), &node));
  Exec exec(built.graph);
  auto set = [&](Batch changed) {
    CUgraphNodeParams params = changed.params();
    return CU(cuGraphExecNodeSetParams)(exec, node, &params);
  };
  Batch moved;
  moved.add(to + 12, from, 4).add(to + 8, from + 8, 0);
  OK(set(moved));
  OK(CU(cuGraphLaunch)(exec, nullptr));
  CHECK(download<uint32_t>(to, 4) == Words{0, 0, 0, 1});
  Batch longer = batch, ordered = batch, split = batch;
  longer.add(to + 8, from, 4);
  CHECK(set(longer) == CUDA_ERROR_INVALID_VALUE);
  ordered.attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  CHECK(set(ordered) == CUDA_ERROR_INVALID_VALUE);
  split.attributes.push_back(split.attributes[0]);
  split.starts = {0, 1};
  CHECK(set(split) == CUDA_ERROR_INVALID_VALUE);
  CUcontext apart = MADE(cuCtxCreate_v2, 0, 0);
  OK(CU(cuCtxSetCurrent)(session.context));
  Batch elsewhere = batch;
  elsewhere.context = apart;
  CHECK(set(elsewhere) == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuCtxDestroy_v2)(apart));

  OK(add(other.graph, batch.params(), &wanted));
  CUgraphExecUpdateResultInfo info = ASKED(cuGraphExecUpdate_v2, exec, other.graph);
  OK(CU(cuGraphLaunch)(exec, nullptr));
  CHECK(download<uint32_t>(to, 4) == Words{1, 2, 0, 1});
  // The graph's own node takes any change.
  CUgraphNodeParams params = longer.params();
  OK(CU(cuGraphNodeSetParams)(wanted, &params));
  CHECK(read(wanted).count == 3);
  CHECK(CU(cuGraphExecUpdate_v2)(exec, other.graph, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
}

TEST_CASE("Batches that cannot be are refused, one fault at a time") {
  Session session{kDriver};
  CUdeviceptr from = upload(Words(4)), to = upload(Words(4));
  Builder built;
  CUgraphNode node = nullptr;
  Batch good;
  good.add(to, from, 4).add(to + 4, from + 4, 4);
  OK(add(built.graph, good.params(), &node));
  auto with = [&](auto &&change) {
    Batch batch = good;
    Fields fields = batch.fields();
    change(batch, fields);
    return add(built.graph, Batch::wrap(fields), &node);
  };
  constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
  CHECK(with([](Batch &, Fields &f) { f.count = 0; }) == kInvalid);
  CHECK(with([](Batch &, Fields &f) { f.dsts = nullptr; }) == kInvalid);
  CHECK(with([](Batch &, Fields &f) { f.srcs = nullptr; }) == kInvalid);
  CHECK(with([](Batch &, Fields &f) { f.sizes = nullptr; }) == kInvalid);
  CHECK(with([](Batch &, Fields &f) { f.attrs = nullptr; }) == kInvalid);
  CHECK(with([](Batch &, Fields &f) { f.attrs_idxs = nullptr; }) == kInvalid);
  CHECK(with([](Batch &, Fields &f) { f.num_attrs = 0; }) == kInvalid);
  CHECK(with([](Batch &, Fields &f) { f.num_attrs = 3; }) == kInvalid);
  CHECK(with([](Batch &b, Fields &) { b.starts[0] = 1; }) == kInvalid);
  CHECK(with([](Batch &b, Fields &) { b.attributes[0].flags = 2; }) == kInvalid);
  CHECK(with([](Batch &b, Fields &) { b.sizes[1] = 4096; }) == kInvalid); // beyond its memory
  CHECK(with([](Batch &b, Fields &) { b.from[1] = 0; }) == kInvalid);
  CHECK(with([](Batch &b, Fields &) {
          b.attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
        }) == kInvalid);
  CHECK(with([](Batch &b, Fields &) {
          b.attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
        }) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(with([](Batch &, Fields &f) { f.ctx = reinterpret_cast<CUcontext>(&f); }) ==
        CUDA_ERROR_INVALID_CONTEXT);
  for (size_t second : {0, 2}) // not after the first, and not below the count
    CHECK(with([&](Batch &b, Fields &f) {
            b.attributes.push_back(b.attributes[0]);
            b.starts = {0, second};
            f = b.fields();
          }) == kInvalid);
  CHECK(with([](Batch &, Fields &) {}) == CUDA_SUCCESS);
  // By the third form of the call, what is not used is zero.
  CUgraphNodeParams params = good.params();
  OK(CU(cuGraphAddNode_v3)(&node, built.graph, nullptr, nullptr, 0, &params));
  params.reserved1[8] = 1;
  CHECK(CU(cuGraphAddNode_v3)(&node, built.graph, nullptr, nullptr, 0, &params) == kInvalid);
}

TEST_CASE("Drivers before 13.5 know no batches of copies") {
  Session session{"CUGRT_EMU_DRIVER_VERSION=13.4"};
  Builder built;
  Batch batch;
  CUdeviceptr cells = upload(Words(2));
  batch.add(cells, cells + 4, 4);
  CUgraphNode node = nullptr;
  CHECK(add(built.graph, batch.params(), &node) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("A batch is seen by the check of order, and by its name in DOT") {
  Session session{kDriver, "CUGRT_EMU_CHECK=nodes"};
  Builder built;
  CUdeviceptr cells = upload(Words(4));
  Batch batch;
  batch.add(cells, cells + 8, 4).add(cells + 4, cells + 12, 4);
  CUgraphNode node = nullptr;
  OK(add(built.graph, batch.params(), &node));
  built.fill(cells + 4, 7);
  CUgraphExec exec = built.instantiate();
  OK(CU(cuGraphLaunch)(exec, nullptr));
  OK(CU(cuCtxSynchronize)());
  CHECK(findings().find("batch of copies") != std::string::npos);
  OK(CU(cuGraphExecDestroy)(exec));

  char path[] = "/tmp/cugrt-batch-dot-XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  close(file);
  OK(CU(cuGraphDebugDotPrint)(built.graph, path, 1u << 16));
  const std::string dot = read_text(path);
  std::remove(path);
  CHECK(dot.find("MEMCPY_BATCH\\n2 copies\\n4\\n4\"") != std::string::npos);
}

TEST_CASE("Bodies of conditional nodes hold no batches") {
  Session session{kDriver};
  Builder built;
  CUdeviceptr cells = upload(Words(2));
  CUgraphConditionalHandle handle = MADE(cuGraphConditionalHandleCreate, built.graph,
                                         session.context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional = {handle, CU_GRAPH_COND_TYPE_IF, 1, nullptr, session.context};
  CUgraphNode node = MADE(cuGraphAddNode, built.graph, nullptr, 0, &params);
  Batch batch;
  batch.add(cells, cells + 4, 4);
  OK(add(params.conditional.phGraph_out[0], batch.params(), &node));
  CUgraphExec exec = nullptr;
  CHECK(CU(cuGraphInstantiateWithFlags)(&exec, built.graph, 0) == CUDA_ERROR_NOT_SUPPORTED);
}
