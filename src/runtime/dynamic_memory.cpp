// Stream-ordered allocation, with a fallback; see dynamic_memory.h.
#include "runtime/dynamic_memory.h"

#include "driver/driver_error.h"
#include "support/check.h"

namespace cugrt::runtime {

DynamicMemory::~DynamicMemory() {
  if (pooled_.empty())
    return;
  auto guard = device_.context().enter();
  for (const auto &[address, bytes] : pooled_)
    (void)device_.api().MemFree(address);
}

Result<uint64_t> DynamicMemory::allocate(uint64_t bytes, driver::StreamRef stream) {
  if (bytes == 0)
    return uint64_t(0);
  if (device_.stream_ordered_allocation() && !allocator_) {
    CUdeviceptr address = 0;
    CUGRT_DRIVER(device_.api(), MemAllocAsync, (&address, bytes, stream.get()),
                 std::to_string(bytes) + " bytes");
    pooled_.emplace(address, bytes);
    return uint64_t(address);
  }
  auto fitting = kept_.lower_bound(bytes);
  MemoryBlock buffer;
  // A block of more than twice the size is left for those who need it.
  if (fitting != kept_.end() && fitting->first / 2 <= bytes) {
    buffer = std::move(fitting->second);
    kept_.erase(fitting);
  } else {
    CUGRT_ASSIGN(buffer, MemoryBlock::allocate(device_.context(), allocator_, bytes));
  }
  uint64_t address = buffer.address();
  used_.emplace(address, std::move(buffer));
  return address;
}

Status DynamicMemory::release(uint64_t address, driver::StreamRef stream) {
  if (address == 0)
    return {};
  if (pooled_.erase(address)) {
    CUGRT_DRIVER(device_.api(), MemFreeAsync, (address, stream.get()), "an unplanned allocation");
    return {};
  }
  auto it = used_.find(address);
  CUGRT_CHECK(it != used_.end());
  uint64_t bytes = it->second.size_bytes();
  kept_.emplace(bytes, std::move(it->second));
  used_.erase(it);
  return {};
}

} // namespace cugrt::runtime
