// Nodes of several copies at a time, which CUDA 13.5 brought.
#pragma once

#include "emulator/driver/driver.h"
#include "emulator/exec/checks/accesses.h"

namespace cugrt::emulator::api {

constexpr auto kBatchCopyNode = CUgraphNodeType(14); // CU_GRAPH_NODE_TYPE_MEMCPY_BATCH
constexpr int kBatchCopyNodes = 13050;               // the driver version that brought them

/// CUDA_MEMCPY_BATCH_NODE_PARAMS, for builds with an older cuda.h.
struct BatchCopyParams {
  size_t count;
  CUdeviceptr *destinations, *sources;
  size_t *sizes; // "A size of 0 disables the individual copy operation."
  CUmemcpyAttributes *attributes;
  size_t *attribute_starts; // the first copy that each of them applies to
  size_t attribute_count;
  CUcontext context;
};

/// Needs the lock.
CUresult batch_copy_to_work(Driver &driver, const CUgraphNodeParams &params, Work *out);
/// Pointers lead into the work.
void describe_batch_copy(BatchCopyWork &work, CUgraphNodeParams *out);
/// "This field can be updated in an instantiated graph": destinations, sources and sizes alone.
bool same_but_operands(const BatchCopyWork &from, const BatchCopyWork &to);
/// "copies within a batch are not guaranteed to execute in any specific order": draws one if the
/// order of work is drawn. On the device thread, without the lock.
CUresult run_batch_copy(Driver &driver, const BatchCopyWork &work);
void batch_copy_accesses(const BatchCopyWork &work, AccessSet &out);

} // namespace cugrt::emulator::api
