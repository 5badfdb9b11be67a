// Stream-ordered allocation, with a fallback; see dynamic_memory.h.
#include "device/context/dynamic_memory.h"

#include "base/check.h"
#include "device/driver/driver_error.h"
#include "device/driver/relaxed_capture.h"

#include <algorithm>

namespace cugrt::runtime {

DynamicMemory::~DynamicMemory() {
  if (pooled_.empty() && !pool_used_)
    return;
  auto guard = device_.context().enter();
  for (const auto &[address, bytes] : pooled_)
    (void)device_.api().MemFree(address);
  give_back();
}

Result<uint64_t> DynamicMemory::allocate(uint64_t bytes, driver::StreamRef stream) {
  if (bytes == 0)
    return uint64_t(0);
  if (const driver::MemoryPool *pool = device_.pool(); pool && !allocator_) {
    CUGRT_ASSIGN(uint64_t address, pool->allocate(bytes, stream));
    pooled_.emplace(address, bytes);
    return address;
  }
  auto fitting = kept_.lower_bound(bytes);
  MemoryBlock buffer;
  // Leaves a block of more than twice the size for those who need it.
  if (fitting != kept_.end() && fitting->first / 2 <= bytes) {
    buffer = std::move(fitting->second.block);
    kept_.erase(fitting);
  } else {
    CUGRT_ASSIGN(buffer, MemoryBlock::allocate(device_.context(), allocator_, bytes));
  }
  uint64_t address = buffer.address();
  used_.emplace(address, std::move(buffer));
  most_used_ = std::max(most_used_, used_.size());
  return address;
}

Status DynamicMemory::release(uint64_t address, driver::StreamRef stream) {
  if (address == 0)
    return {};
  if (pooled_.erase(address)) {
    driver::RelaxedCapture relaxed(device_.api());
    CUGRT_DRIVER(device_.api(), MemFreeAsync, (address, stream.get()), "an unplanned allocation");
    freed_ = pool_used_ = true;
    return {};
  }
  auto it = used_.find(address);
  CUGRT_CHECK(it != used_.end());
  uint64_t bytes = it->second.size_bytes();
  kept_.emplace(bytes, Kept{std::move(it->second), run_});
  used_.erase(it);
  if (kept_.size() <= std::max(kMaxKept, 2 * most_used_)) [[likely]]
    return {};
  CUGRT_TRY(stream.synchronize());
  all_done();
  return {};
}

Status DynamicMemory::next_run(driver::StreamRef stream) {
  ++run_;
  if (kept_.empty())
    return {};
  if (marked_ != 0) {
    if (auto done = mark_.query(); done.ok() && *done)
      ended_ = std::exchange(marked_, 0);
  }
  auto unused = [&](const auto &kept) { return kept.second.run + kRunsUnused < run_; };
  std::erase_if(kept_, [&](const auto &kept) { return unused(kept) && kept.second.run <= ended_; });
  if (marked_ != 0 || std::none_of(kept_.begin(), kept_.end(), unused))
    return {};
  if (!mark_) {
    CUGRT_ASSIGN(mark_, driver::Event::create(device_.context()));
  }
  CUGRT_TRY(mark_.record(stream));
  marked_ = run_ - 1;
  return {};
}

void DynamicMemory::all_done() {
  kept_.clear();
  marked_ = 0;
  ended_ = run_;
}

void DynamicMemory::give_back() {
  all_done();
  freed_ = false;
  if (const driver::MemoryPool *pool = device_.pool())
    (void)pool->trim(); // what cannot be given back is told by the allocation that needs it
}

uint64_t DynamicMemory::size_bytes() const {
  uint64_t bytes = 0;
  for (const auto &[address, block] : used_)
    bytes += block.size_bytes();
  for (const auto &[address, pooled_bytes] : pooled_)
    bytes += pooled_bytes;
  return bytes;
}

} // namespace cugrt::runtime
