// First fit over the free ranges, which are joined when a block ends; see device_heap.h.
#include "emulator/device/device_heap.h"

#include "emulator/device/undefined_bytes.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <sys/mman.h>

namespace cugrt::emulator {

constexpr uint64_t kMaxHeapBytes = uint64_t(1) << 44;

static uint64_t whole_units(uint64_t bytes) { return round_up(bytes, DeviceHeap::kUnit); }

static uint64_t with_gap(uint64_t bytes) {
  constexpr uint64_t kLongestGap = 4096;
  return whole_units(bytes) + std::min(whole_units(bytes), kLongestGap);
}

bool DeviceHeap::open(uint64_t bytes) {
  close();
  if (bytes == 0 || bytes > kMaxHeapBytes)
    return false;
  constexpr uint64_t kAlignment = 2 << 20; // pages of every size
  const uint64_t addresses = round_up(2 * bytes, kAlignment);
  auto begin = memory_.reserve(addresses, kAlignment);
  if (!begin.ok())
    return false;
  std::unique_lock lock(mutex_);
  range_ = {*begin, addresses};
  capacity_ = bytes;
  free_.emplace(range_.begin, range_.bytes);
  return true;
}

void DeviceHeap::close() {
  std::unique_lock lock(mutex_);
  if (!range_.bytes)
    return;
  madvise(memory_.host(range_.begin), range_.bytes, MADV_DONTNEED);
  memory_.release(range_.begin, range_.bytes);
  range_ = {};
  capacity_ = used_ = 0;
  live_.clear();
  free_.clear();
}

uint64_t DeviceHeap::bytes() const {
  std::shared_lock lock(mutex_);
  return capacity_;
}

AddressRange DeviceHeap::range() const {
  std::shared_lock lock(mutex_);
  return range_;
}

uint64_t DeviceHeap::allocate(uint64_t bytes, uint64_t alignment) {
  std::unique_lock lock(mutex_);
  if (bytes == 0 || bytes > capacity_ || whole_units(bytes) > capacity_ - used_)
    return 0;
  const uint64_t needed = with_gap(bytes);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [begin, length] = *it;
    const uint64_t address = round_up(begin, std::max(alignment, kUnit));
    if (address < begin || address - begin > length || needed > length - (address - begin))
      continue;
    const uint64_t behind = address + needed, end = begin + length;
    Ranges block{{address, bytes}}, rest; // what the host may have no memory for, before any change
    if (behind < end)
      rest.emplace(behind, end - behind);
    if (address > begin)
      it->second = address - begin;
    else
      free_.erase(it);
    live_.merge(block);
    free_.merge(rest);
    used_ += whole_units(bytes);
    std::memset(memory_.host(address), AddressSpace::kPoison, whole_units(bytes));
    if (UndefinedBytes *undefined = memory_.undefined())
      undefined->mark_undefined(address, whole_units(bytes));
    return address;
  }
  return 0;
}

bool DeviceHeap::free(uint64_t address) {
  std::unique_lock lock(mutex_);
  auto it = live_.find(address);
  if (it == live_.end())
    return false;
  auto freed = free_.emplace(address, with_gap(it->second)).first;
  used_ -= whole_units(it->second);
  live_.erase(it);
  if (auto next = std::next(freed);
      next != free_.end() && freed->first + freed->second == next->first) {
    freed->second += next->second;
    free_.erase(next);
  }
  if (freed == free_.begin())
    return true;
  if (auto before = std::prev(freed); before->first + before->second == freed->first) {
    before->second += freed->second;
    free_.erase(freed);
  }
  return true;
}

std::optional<AddressRange> DeviceHeap::find(uint64_t address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  return holding(range_before(live_, address), address, bytes);
}

std::optional<AddressRange> DeviceHeap::find_granule(uint64_t address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  return holding(range_before(live_, address), address, bytes, kUnit);
}

} // namespace cugrt::emulator
