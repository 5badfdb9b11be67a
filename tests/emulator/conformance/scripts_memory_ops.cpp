// Stream memory operations: waits for words in memory, and writes, in streams and graphs.
#include "graph_builder.h"

namespace cugrt::conformance {

namespace {

using Op = CUstreamBatchMemOpParams;

/// A stream of its own, and two words.
struct Bench {
  Script &s;
  CUdeviceptr flag, cell; // 8 bytes each
  CUstream stream;
  explicit Bench(Script &script, uint32_t value = 0)
      : s(script), flag(s.words(2, value)), cell(s.words(2, 1)), stream(s.stream()) {}

  /// From another stream than the one that waits.
  void put(uint32_t value) {
    CUstream other = s.stream();
    s.need(s.api.cuStreamWriteValue32(other, flag, value, 0));
    s.need(s.api.cuStreamSynchronize(other));
  }
};

Op wait_op(CUdeviceptr address, uint32_t value, unsigned flags) {
  Op op{};
  op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  op.waitValue.address = address;
  op.waitValue.value = value;
  op.waitValue.flags = flags;
  return op;
}

Op write_op(CUdeviceptr address, uint32_t value) {
  Op op{};
  op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = address;
  op.writeValue.value = value;
  return op;
}

/// Waits with a condition that `before` does not meet and `after` does.
struct Condition {
  const char *step;
  unsigned flags;
  uint32_t value, before, after;
};

constexpr Condition kConditions[] = {
    {"greater or equal", CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6},
    {"greater or equal, past the end of the numbers", CU_STREAM_WAIT_VALUE_GEQ, 0xFFFFFFF0,
     0xFFFFFFEF, 3},
    {"equal", CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
    {"and", CU_STREAM_WAIT_VALUE_AND, 6, 8, 2},
};

void conditions_script(Script &s) {
  for (const Condition &c : kConditions) {
    Bench bench(s, c.before);
    s.expect(c.step, s.api.cuStreamWaitValue32(bench.stream, bench.flag, c.value, c.flags));
    s.need(s.api.cuMemsetD32Async(bench.cell, 7, 1, bench.stream));
    s.expect("it waits", s.api.cuStreamQuery(bench.stream), CUDA_ERROR_NOT_READY);
    bench.put(c.after);
    s.expect("it goes on", s.api.cuStreamSynchronize(bench.stream));
    s.expect("what follows has run", uint64_t(s.word(bench.cell)), 7);
  }
}

void nor_script(Script &s) {
  int supported = 0;
  s.need(s.api.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
                                    s.driver.device));
  if (!supported)
    return;
  Bench bench(s, 0xFF);
  s.expect("nor", s.api.cuStreamWaitValue32(bench.stream, bench.flag, 0xFFFFFF00,
                                            CU_STREAM_WAIT_VALUE_NOR));
  s.expect("it waits", s.api.cuStreamQuery(bench.stream), CUDA_ERROR_NOT_READY);
  bench.put(0xFE);
  s.expect("it goes on", s.api.cuStreamSynchronize(bench.stream));
}

void wide_script(Script &s) {
  int supported = 0;
  s.need(s.api.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
                                    s.driver.device));
  if (!supported)
    return;
  Bench bench(s);
  constexpr uint64_t kValue = 0x1122334455667788;
  s.expect("wait",
           s.api.cuStreamWaitValue64(bench.stream, bench.flag, kValue, CU_STREAM_WAIT_VALUE_EQ));
  bench.put(uint32_t(kValue));
  s.expect("half of it is not it", s.api.cuStreamQuery(bench.stream), CUDA_ERROR_NOT_READY);
  CUstream other = s.stream();
  s.expect("write", s.api.cuStreamWriteValue64(other, bench.flag, kValue, 0));
  s.need(s.api.cuStreamSynchronize(other));
  s.expect("it goes on", s.api.cuStreamSynchronize(bench.stream));
  s.expect("the lower half", uint64_t(s.word(bench.flag)), uint32_t(kValue));
  s.expect("the upper half", uint64_t(s.word(bench.flag + 4)), kValue >> 32);
}

/// A kernel in another stream, and the host by pinned memory, write what is waited for.
void writers_script(Script &s) {
  Bench bench(s);
  void *pinned = nullptr;
  s.need(s.api.cuMemHostAlloc(&pinned, 4, CU_MEMHOSTALLOC_DEVICEMAP));
  auto *word = static_cast<volatile uint32_t *>(pinned);
  *word = 0;
  CUdeviceptr address = 0;
  s.need(s.api.cuMemHostGetDevicePointer(&address, pinned, 0));
  // The kernel is there before anything waits: loading it may wait for the device.
  GraphBuilder::Affine p(s, bench.flag, 0, 9);
  s.need(s.api.cuLaunchKernel(p.node.func, 1, 1, 1, 1, 1, 1, 0, nullptr, p.params, nullptr));
  s.need(s.api.cuCtxSynchronize());
  bench.put(0);
  s.expect("for the kernel", s.api.cuStreamWaitValue32(bench.stream, bench.flag, 9, 0));
  s.expect("for the host", s.api.cuStreamWaitValue32(bench.stream, address, 4, 0));
  CUstream other = s.stream();
  s.need(s.api.cuLaunchKernel(p.node.func, 1, 1, 1, 1, 1, 1, 0, other, p.params, nullptr));
  s.need(s.api.cuStreamSynchronize(other));
  s.expect("the host has not written", s.api.cuStreamQuery(bench.stream), CUDA_ERROR_NOT_READY);
  *word = 4;
  s.expect("both have", s.api.cuStreamSynchronize(bench.stream));
  s.need(s.api.cuMemFreeHost(pinned));
}

void batch_script(Script &s) {
  Bench bench(s);
  Op ops[] = {write_op(bench.cell, 5), wait_op(bench.flag, 1, CU_STREAM_WAIT_VALUE_EQ),
              write_op(bench.cell, 6)};
  s.expect("batch", s.api.cuStreamBatchMemOp(bench.stream, 3, ops, 0));
  ops[0] = ops[1] = ops[2] = Op{}; // they were copied
  s.expect("it waits", s.api.cuStreamQuery(bench.stream), CUDA_ERROR_NOT_READY);
  bench.put(1);
  s.expect("it goes on", s.api.cuStreamSynchronize(bench.stream));
  s.expect("in order", uint64_t(s.word(bench.cell)), 6);
  std::vector<Op> many(256, write_op(bench.cell, 1));
  s.expect("too many", s.api.cuStreamBatchMemOp(bench.stream, 256, many.data(), 0),
           CUDA_ERROR_INVALID_VALUE);
  s.expect("as many as may be", s.api.cuStreamBatchMemOp(bench.stream, 255, many.data(), 0));
  s.expect("reserved flags", s.api.cuStreamBatchMemOp(bench.stream, 1, many.data(), 1),
           CUDA_ERROR_INVALID_VALUE);
  s.need(s.api.cuStreamSynchronize(bench.stream));
}

void refused_script(Script &s) {
  Bench bench(s);
  s.expect("no such condition", s.api.cuStreamWaitValue32(bench.stream, bench.flag, 0, 4),
           CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr managed = 0;
  s.need(s.api.cuMemAllocManaged(&managed, 4, CU_MEM_ATTACH_GLOBAL));
  s.observe("managed memory", s.api.cuStreamWriteValue32(bench.stream, managed, 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  s.observe("not aligned", s.api.cuStreamWriteValue32(bench.stream, bench.flag + 2, 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  s.observe("no memory", s.api.cuStreamWriteValue32(bench.stream, 16, 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  s.need(s.api.cuMemFree(managed));
}

void node_script(Script &s) {
  Bench bench(s, 3);
  GraphBuilder g(s);
  auto params = [&](Op *ops, unsigned count) {
    return CUDA_BATCH_MEM_OP_NODE_PARAMS{s.context, count, ops, 0};
  };
  Op ops[] = {wait_op(bench.flag, 3, CU_STREAM_WAIT_VALUE_EQ), write_op(bench.cell, 5)};
  CUDA_BATCH_MEM_OP_NODE_PARAMS p = params(ops, 2), read{};
  CUgraphNode node = nullptr;
  CUgraphNodeType type{};
  s.expect("add", s.api.cuGraphAddBatchMemOpNode(&node, g.graph, nullptr, 0, &p));
  g.affine(bench.cell, 10, 1, {node});
  s.need(s.api.cuGraphNodeGetType(node, &type));
  s.expect("its type", uint64_t(type), CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  s.expect("read", s.api.cuGraphBatchMemOpNodeGetParams(node, &read));
  s.expect("as it was written", uint64_t(read.paramArray[1].writeValue.value), 5);
  CUgraphExec exec = g.instantiate();
  s.expect("launched", launched(s, exec, bench.cell), 51);
  ops[1].writeValue.value = 7;
  s.expect("set in the instance", s.api.cuGraphExecBatchMemOpNodeSetParams(exec, node, &p));
  s.expect("launched again", launched(s, exec, bench.cell), 71);
  p.count = 1;
  s.expect("another count", s.api.cuGraphExecBatchMemOpNodeSetParams(exec, node, &p),
           CUDA_ERROR_INVALID_VALUE);
  p.count = 2;
  ops[0] = write_op(bench.cell, 1);
  s.expect("another operation", s.api.cuGraphExecBatchMemOpNodeSetParams(exec, node, &p),
           CUDA_ERROR_INVALID_VALUE);
  s.expect("in the graph it may be", s.api.cuGraphBatchMemOpNodeSetParams(node, &p));
}

/// A wait in a captured stream waits at each launch.
void captured_script(Script &s) {
  Bench bench(s);
  CUgraph graph = nullptr;
  s.need(s.api.cuStreamBeginCapture(bench.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  s.observe("captured", s.api.cuStreamWaitValue32(bench.stream, bench.flag, 1, 0), CUDA_SUCCESS);
  s.observe("a write too", s.api.cuStreamWriteValue32(bench.stream, bench.cell, 8, 0),
            CUDA_SUCCESS);
  s.observe("ended", s.api.cuStreamEndCapture(bench.stream, &graph), CUDA_SUCCESS);
  if (!graph)
    return;
  CUgraphExec exec = s.instantiate(graph);
  s.need(s.api.cuGraphLaunch(exec, bench.stream));
  s.expect("it waits", s.api.cuStreamQuery(bench.stream), CUDA_ERROR_NOT_READY);
  bench.put(1);
  s.need(s.api.cuStreamSynchronize(bench.stream));
  s.expect("it has written", uint64_t(s.word(bench.cell)), 8);
  s.need(s.api.cuGraphDestroy(graph));
}

} // namespace

const std::vector<ScriptCase> &memory_op_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"a stream waits for a word by each condition",
       {{"cuStreamWaitValue32", "block until the given condition on the memory is satisfied"},
        {"CU_STREAM_WAIT_VALUE_GEQ", "this is a cyclic comparison which ignores wraparound"},
        {"CU_STREAM_WAIT_VALUE_EQ", "Wait until *addr == value"},
        {"CU_STREAM_WAIT_VALUE_AND", "Wait until (*addr & value) != 0"}},
       conditions_script},
      {"a stream waits until a bit is in neither",
       {{"CU_STREAM_WAIT_VALUE_NOR", "Wait until ~(*addr | value) != 0"}},
       nor_script},
      {"a stream waits for 64 bits",
       {{"cuStreamWaitValue64", "CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS"}},
       wide_script},
      {"a kernel and the host write what a stream waits for",
       {{"cuStreamWaitValue32", "Enqueues a synchronization of the stream on the given memory"}},
       writers_script},
      {"memory operations in a batch keep their order",
       {{"cuStreamBatchMemOp", "enqueued in the order they appear in the array"},
        {"cuStreamBatchMemOp", "Must be less than 256"},
        {"cuStreamBatchMemOp", "Reserved for future expansion; must be 0"}},
       batch_script},
      {"memory operations that are refused",
       {{"cuStreamWaitValue32", "See CUstreamWaitValue_flags"}},
       refused_script},
      {"a node of memory operations",
       {{"cuGraphAddBatchMemOpNode", "the paramArray inside nodeParams is copied"},
        {"cuGraphExecBatchMemOpNodeSetParams",
         "such as the context, count or type of operations, and other types of operations such as "
         "membars, may not be modified"}},
       node_script},
      {"a captured wait",
       {{"cuStreamWaitValue32", "Work ordered after the operation will block"}},
       captured_script},
  };
  return scripts;
}

} // namespace cugrt::conformance
