// A caller's allocator that remembers what it gave out.
#pragma once

#include "cugrt/cugrt.h"

#include <cuda.h>

#include <map>
#include <memory>

namespace cugrt::test {

/// An allocator of memory that host and device reach.
struct CountingAllocator {
  std::shared_ptr<const cugrt_allocator> table() {
    auto allocate = [](void *user, uint64_t bytes) -> uint64_t {
      auto &self = *static_cast<CountingAllocator *>(user);
      if (bytes > self.limit_bytes || self.live_bytes() + bytes > self.total_limit_bytes)
        return 0;
      CUdeviceptr address = 0;
      if (cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS)
        return 0;
      self.alive[address] = bytes;
      ++self.count;
      return address;
    };
    auto free = [](void *user, uint64_t address, uint64_t bytes) {
      auto &self = *static_cast<CountingAllocator *>(user);
      self.right = self.right && self.alive.contains(address) && self.alive[address] == bytes;
      self.alive.erase(address);
      self.right = cuMemFree(address) == CUDA_SUCCESS && self.right;
    };
    return std::make_shared<const cugrt_allocator>(
        cugrt_allocator{sizeof(cugrt_allocator), this, allocate, free});
  }
  uint64_t live_bytes() const {
    uint64_t sum = 0;
    for (const auto &[address, bytes] : alive)
      sum += bytes;
    return sum;
  }
  std::map<uint64_t, uint64_t> alive;
  uint64_t limit_bytes = UINT64_MAX, total_limit_bytes = UINT64_MAX; // of one, of all
  size_t count = 0;
  bool right = true;
};

} // namespace cugrt::test
