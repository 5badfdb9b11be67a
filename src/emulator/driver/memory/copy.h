// Copies and fills: checks their memory, and runs them.
#pragma once

#include "emulator/driver/driver.h"
#include "emulator/exec/checks/accesses.h"

namespace cugrt::emulator::api {

/// A copy of `bytes` bytes between two addresses of any kind.
CUDA_MEMCPY3D linear_copy(uint64_t destination, uint64_t source, size_t bytes);
/// The begin of the source, on the host or the device.
inline uint64_t source_of(const CUDA_MEMCPY3D &c) {
  return c.srcMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(c.srcHost)
                                               : c.srcDevice;
}
inline uint64_t destination_of(const CUDA_MEMCPY3D &c) {
  return c.dstMemoryType == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(c.dstHost)
                                               : c.dstDevice;
}

/// Checks everything known before it runs: kinds of memory, ranges of live allocations, pitches.
CUresult check_copy(Driver &driver, const CUDA_MEMCPY3D &copy);
CUresult check_fill(Driver &driver, const CUDA_MEMSET_NODE_PARAMS &fill);

/// On the device thread, without the lock. Memory freed meanwhile is an illegal address.
CUresult run_copy(Driver &driver, const CopyWork &work);
CUresult run_fill(Driver &driver, const CUDA_MEMSET_NODE_PARAMS &fill);

/// The bytes that they read and write, host memory included.
void copy_accesses(const CopyWork &work, AccessSet &out);
void fill_accesses(const CUDA_MEMSET_NODE_PARAMS &fill, AccessSet &out);

/// True for host memory that is neither pinned nor registered.
bool is_pageable(Driver &driver, uint64_t address);

} // namespace cugrt::emulator::api
