// Stream memory operations: waiting for a word in memory, and writing one, in the order of a stream
// or graph.
//
// A wait occupies no device thread: the scheduler asks again until it is over. The writer of the
// word may be the host, a kernel, or a write in another stream. The order that this makes counts
// for no check of order: "Synchronization ordering established through this API is not visible to
// CUDA", and should "also have that order expressed with CUDA-visible dependencies such as events".
#pragma once

#include "emulator/driver/driver.h"

namespace cugrt::emulator::api {

/// A batch that is under way. Not thread-safe: the scheduler's lock is held.
class MemoryOpsRun {
public:
  MemoryOpsRun(Driver &driver, const MemoryOpsWork &work) : driver_(driver), ops_(work.ops) {}

  /// Goes on as far as it gets: NOT_READY at a wait that does not hold yet.
  CUresult advance();
  /// The word of the wait at which it stands; 0 at none.
  uint64_t awaited_address() const;

private:
  using Params = CUstreamBatchMemOpParams;
  CUresult step(const Params &op);
  CUresult wait(const Params::CUstreamMemOpWaitValueParams_st &op, uint32_t bytes);
  CUresult write(const Params::CUstreamMemOpWriteValueParams_st &op, uint32_t bytes);

  Driver &driver_;
  const std::vector<Params> ops_;
  size_t next_ = 0;
  bool told_ = false; // that the word of the wait is undefined
};

/// Checks the operations and copies them. Needs the lock; a null context means the current one.
CUresult memory_ops_to_work(Driver &driver, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params, Work *out);
/// Whether a setter or an update of an instance may make the change: of addresses, values and the
/// condition of a wait.
bool same_but_values(const MemoryOpsWork &from, const MemoryOpsWork &to);

} // namespace cugrt::emulator::api
