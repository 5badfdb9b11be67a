// Stream memory operations; see memory_ops.h. The rules are those of the section "Stream Memory
// Operations" of cuda.h.
#include "emulator/graph/memory_ops.h"

#include "emulator/device/undefined_bytes.h"
#include "emulator/exec/checks/accesses.h"

#include <algorithm>

namespace cugrt::emulator::api {

namespace {

using Op = CUstreamBatchMemOpParams;

constexpr unsigned kMaxOps = 255; // "Must be less than 256."
constexpr unsigned kConditions = CU_STREAM_WAIT_VALUE_NOR;

bool is_wait(const Op &op) {
  return op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
         op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

bool is_write(const Op &op) {
  return op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
         op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

uint32_t word_bytes(const Op &op) {
  return op.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                 op.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64
             ? 8
             : 4;
}

// "all memory pointers passed as parameters to these operations are device pointers [...] None of
// the operations accepts pointers to managed memory buffers"
bool usable(Driver &driver, uint64_t address, uint32_t bytes) {
  if (address % bytes || !driver.memory->find(address, bytes))
    return false;
  std::optional<MemoryRange> range = driver.allocations->find(address);
  return !range || range->kind != MemoryKind::managed;
}

CUresult check_op(Driver &driver, const Op &op) {
  switch (op.operation) {
  case CU_STREAM_MEM_OP_WAIT_VALUE_32:
  case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    if (op.waitValue.flags & ~(kConditions | CU_STREAM_WAIT_VALUE_FLUSH))
      return CUDA_ERROR_INVALID_VALUE;
    if (op.waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
      return CUDA_ERROR_NOT_SUPPORTED; // as CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES says
    return usable(driver, op.waitValue.address, word_bytes(op)) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
  case CU_STREAM_MEM_OP_WRITE_VALUE_32:
  case CU_STREAM_MEM_OP_WRITE_VALUE_64:
    // Of CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER: "This flag is not supported in the v2 API."
    if (op.writeValue.flags == CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
      return CUDA_ERROR_NOT_SUPPORTED;
    return !op.writeValue.flags && usable(driver, op.writeValue.address, word_bytes(op))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  case CU_STREAM_MEM_OP_BARRIER:
    return op.memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_INVALID_VALUE;
  case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    return op.flushRemoteWrites.flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

// "Wait until (int32_t)(*addr - value) >= 0 (or int64_t for 64 bit values)": a cyclic comparison.
template <class T> bool holds(T word, T value, unsigned condition) {
  switch (condition) {
  case CU_STREAM_WAIT_VALUE_GEQ:
    return std::make_signed_t<T>(T(word - value)) >= 0;
  case CU_STREAM_WAIT_VALUE_EQ:
    return word == value;
  case CU_STREAM_WAIT_VALUE_AND:
    return (word & value) != 0;
  default: // CU_STREAM_WAIT_VALUE_NOR
    return T(~(word | value)) != 0;
  }
}

} // namespace

CUresult memory_ops_to_work(Driver &driver, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params,
                            Work *out) {
  if (!params || params->flags || params->count > kMaxOps || (params->count && !params->paramArray))
    return CUDA_ERROR_INVALID_VALUE;
  MemoryOpsWork work;
  if (!params->ctx) {
    CUGRT_EMU_TRY(current_context(driver, &work.context));
  } else if (work.context = driver.contexts.find(params->ctx); !work.context) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  work.ops.assign(params->paramArray, params->paramArray + params->count);
  for (const Op &op : work.ops)
    CUGRT_EMU_TRY(check_op(driver, op));
  *out = std::move(work);
  return CUDA_SUCCESS;
}

bool same_but_values(const MemoryOpsWork &from, const MemoryOpsWork &to) {
  return from.context == to.context &&
         std::equal(from.ops.begin(), from.ops.end(), to.ops.begin(), to.ops.end(),
                    [](const Op &a, const Op &b) {
                      bool same_flags = is_wait(a) ? true // they are conditions only
                                        : is_write(a)
                                            ? a.writeValue.flags == b.writeValue.flags
                                            : a.memoryBarrier.flags == b.memoryBarrier.flags;
                      return a.operation == b.operation && same_flags;
                    });
}

CUresult MemoryOpsRun::advance() {
  for (; next_ < ops_.size(); ++next_, told_ = false)
    CUGRT_EMU_TRY(step(ops_[next_]));
  return CUDA_SUCCESS;
}

uint64_t MemoryOpsRun::awaited_address() const {
  return next_ < ops_.size() && is_wait(ops_[next_]) ? ops_[next_].waitValue.address : 0;
}

CUresult MemoryOpsRun::step(const Params &op) {
  if (!is_wait(op) && !is_write(op)) { // a barrier
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return CUDA_SUCCESS;
  }
  uint64_t address = is_wait(op) ? op.waitValue.address : op.writeValue.address;
  if (!driver_.memory->find(address, word_bytes(op))) {
    driver_.report(Check::fault,
                   "a stream memory operation touches memory that was freed before it ended");
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  return is_wait(op) ? wait(op.waitValue, word_bytes(op)) : write(op.writeValue, word_bytes(op));
}

CUresult MemoryOpsRun::wait(const Params::CUstreamMemOpWaitValueParams_st &op, uint32_t bytes) {
  std::byte *word = driver_.memory->host(op.address);
  UndefinedBytes *undefined = driver_.memory->undefined();
  if (undefined && !told_ && undefined->undefined(op.address, bytes)) {
    told_ = true;
    driver_.findings.report(Check::uninitialized, "a stream waits for the value of " +
                                                      bytes_at({op.address, op.address + bytes}) +
                                                      ", which nothing has written");
  }
  bool over = bytes == 8
                  ? holds<uint64_t>(std::atomic_ref(*reinterpret_cast<uint64_t *>(word)).load(),
                                    op.value64, op.flags)
                  : holds<uint32_t>(std::atomic_ref(*reinterpret_cast<uint32_t *>(word)).load(),
                                    op.value, op.flags);
  return over ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult MemoryOpsRun::write(const Params::CUstreamMemOpWriteValueParams_st &op, uint32_t bytes) {
  std::byte *word = driver_.memory->host(op.address);
  if (UndefinedBytes *undefined = driver_.memory->undefined())
    undefined->mark_defined(op.address, bytes);
  if (bytes == 8)
    std::atomic_ref(*reinterpret_cast<uint64_t *>(word)).store(op.value64);
  else
    std::atomic_ref(*reinterpret_cast<uint32_t *>(word)).store(op.value);
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
