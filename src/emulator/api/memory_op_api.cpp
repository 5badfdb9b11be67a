// Stream memory operations as calls. Those of the first ABI, the unsuffixed names, are not
// implemented: the manual of CUDA 11.8, which had both, says "The V1 API is disabled by default"
// and wants a parameter of the kernel module for it; cuda.h of CUDA 13 calls it deprecated.
#include "emulator/graph/memory_ops.h"
#include "emulator/graph/stream.h"

namespace cugrt::emulator::api {

static CUresult enqueue_ops(CUstream handle, unsigned count, CUstreamBatchMemOpParams *ops,
                            unsigned flags) {
  return locked_call([&](Driver &driver) -> CUresult {
    CUGRT_EMU_FIND(Stream, stream, find_stream, driver, handle);
    Work work;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS params{stream->context->handle, count, ops, flags};
    CUGRT_EMU_TRY(memory_ops_to_work(driver, &params, &work));
    return run_in_stream(driver, stream, std::move(work));
  });
}

static CUresult enqueue_op(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags,
                           CUstreamBatchMemOpType operation) {
  // A wait and a write lie alike in the union.
  using Op = CUstreamBatchMemOpParams;
  static_assert(sizeof(Op::waitValue) == sizeof(Op::writeValue));
  Op op{};
  op.waitValue.operation = operation;
  op.waitValue.address = address;
  op.waitValue.value64 = value; // little-endian: the 32-bit value as well
  op.waitValue.flags = flags;
  return enqueue_ops(stream, 1, &op, 0);
}

ENTRY(cuStreamWaitValue32_v2, stream, address, value, flags) {
  return enqueue_op(stream, address, value, flags, CU_STREAM_MEM_OP_WAIT_VALUE_32);
}

ENTRY(cuStreamWaitValue64_v2, stream, address, value, flags) {
  return enqueue_op(stream, address, value, flags, CU_STREAM_MEM_OP_WAIT_VALUE_64);
}

ENTRY(cuStreamWriteValue32_v2, stream, address, value, flags) {
  return enqueue_op(stream, address, value, flags, CU_STREAM_MEM_OP_WRITE_VALUE_32);
}

ENTRY(cuStreamWriteValue64_v2, stream, address, value, flags) {
  return enqueue_op(stream, address, value, flags, CU_STREAM_MEM_OP_WRITE_VALUE_64);
}

ENTRY(cuStreamBatchMemOp_v2, stream, count, ops, flags) {
  return enqueue_ops(stream, count, ops, flags);
}

} // namespace cugrt::emulator::api
