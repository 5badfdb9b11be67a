// Reservations and mappings: the part of the address space that cuMemMap and its like manage. They
// grow downwards from the end, allocations upwards from the beginning.
#include "emulator/device/address_space.h"

#include <mutex>
#include <sys/mman.h>

namespace cugrt::emulator {

Result<uint64_t> AddressSpace::reserve(uint64_t bytes, uint64_t alignment) {
  std::unique_lock lock(mutex_);
  uint64_t top = base_ + size_;
  auto candidate = [&](uint64_t end) {
    return end - base_ < bytes ? 0 : (end - bytes) / alignment * alignment;
  };
  for (auto it = reserved_.rbegin(); it != reserved_.rend(); ++it) {
    if (candidate(top) >= it->first + it->second)
      break;
    top = it->first;
  }
  uint64_t address = candidate(top);
  auto above = live_.lower_bound(address);
  bool overlaps = above != live_.end() && above->first < address + bytes;
  if (above != live_.begin())
    overlaps = overlaps || std::prev(above)->first + std::prev(above)->second > address;
  if (address < base_ || overlaps)
    return Status::error(Code::out_of_device_memory,
                         "no address range of " + std::to_string(bytes) + " bytes is left");
  reserved_.emplace(address, bytes);
  return address;
}

bool AddressSpace::release(uint64_t address, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  auto it = reserved_.find(address);
  if (it == reserved_.end() || it->second != bytes)
    return false;
  auto mapped = live_.lower_bound(address);
  if (mapped != live_.end() && mapped->first < address + bytes)
    return false;
  reserved_.erase(it);
  return true;
}

bool AddressSpace::map_file(uint64_t address, uint64_t bytes, int file, uint64_t file_offset) {
  std::unique_lock lock(mutex_);
  if (!holding(range_before(reserved_, address), address, bytes))
    return false;
  auto next = live_.lower_bound(address);
  if (next != live_.end() && next->first < address + bytes)
    return false;
  if (next != live_.begin() && std::prev(next)->first + std::prev(next)->second > address)
    return false;
  live_.emplace(address, bytes);
  if (mmap(host(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
           off_t(file_offset)) != MAP_FAILED)
    return true;
  live_.erase(address);
  return false;
}

bool AddressSpace::unmap_file(uint64_t address) {
  std::unique_lock lock(mutex_);
  auto it = live_.find(address);
  if (address < allocation_limit() || it == live_.end())
    return false;
  uint64_t bytes = it->second;
  live_.erase(it);
  return mmap(host(address), bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

} // namespace cugrt::emulator
