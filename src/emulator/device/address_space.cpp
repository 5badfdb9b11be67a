// Two mappings of one size: an inaccessible one whose addresses are the device addresses, and the
// backing bytes. Pages are committed when first touched and given back on free.
#include "emulator/device/address_space.h"

#include "emulator/device/undefined_bytes.h"
#include "support/checked_math.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <sys/mman.h>

namespace cugrt::emulator {

namespace {

constexpr uint64_t kGranule = uint64_t(2) << 20; // both mappings are whole granules
constexpr uint64_t kMaxBytes = uint64_t(1) << 44;

void *map(uint64_t bytes, int protection) {
  void *address =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

} // namespace

Result<std::unique_ptr<AddressSpace>> AddressSpace::create(uint64_t bytes) {
  if (bytes == 0 || bytes > kMaxBytes)
    return Status::error(Code::invalid_argument, "emulated device memory of " +
                                                     std::to_string(bytes) +
                                                     " bytes: choose between 1 and 2^44");
  std::unique_ptr<AddressSpace> space(new AddressSpace);
  uint64_t size = uint64_t(*checked_align(int64_t(bytes), int64_t(kGranule)));
  void *reserved = map(size, PROT_NONE);
  void *backing = reserved ? map(size, PROT_READ | PROT_WRITE) : nullptr;
  if (!backing) {
    if (reserved)
      munmap(reserved, size);
    return Status::error(Code::out_of_host_memory,
                         "cannot reserve " + std::to_string(size) +
                             " bytes of address space for the emulated device");
  }
  space->base_ = reinterpret_cast<uint64_t>(reserved);
  space->size_ = size;
  space->offset_ = reinterpret_cast<uint64_t>(backing) - space->base_;
  return space;
}

AddressSpace::AddressSpace() = default;

AddressSpace::~AddressSpace() {
  if (size_ == 0)
    return;
  munmap(reinterpret_cast<void *>(base_), size_);
  munmap(host(base_), size_);
}

Result<uint64_t> AddressSpace::allocate(uint64_t bytes) {
  if (bytes == 0)
    return Status::error(Code::invalid_argument, "an allocation of zero bytes");
  std::unique_lock lock(mutex_);
  auto exhausted = [&] {
    return Status::error(Code::out_of_device_memory,
                         "no room for " + std::to_string(bytes) +
                             " bytes on the emulated device: " + std::to_string(size_ - used_) +
                             " of " + std::to_string(size_) + " bytes are free");
  };
  if (bytes > size_)
    return exhausted();
  // First fit between live allocations; rounded lengths keep every beginning aligned.
  uint64_t length = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  uint64_t address = base_;
  for (const auto &[begin, live_bytes] : live_) {
    if (begin - address >= length)
      break;
    address = begin + (live_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  uint64_t limit = allocation_limit();
  if (address > limit || length > limit - address)
    return exhausted();
  live_.emplace(address, bytes);
  used_ += length;
  std::memset(host(address), kPoison, bytes);
  if (undefined_)
    undefined_->mark_undefined(address, bytes);
  return address;
}

bool AddressSpace::free(uint64_t address) {
  std::unique_lock lock(mutex_);
  auto it = live_.find(address);
  if (it == live_.end())
    return false;
  uint64_t length = (it->second + kAlignment - 1) / kAlignment * kAlignment;
  live_.erase(it);
  used_ -= length;
  // Whole pages only: the first and the last page may belong to neighbours as well.
  constexpr uint64_t kPage = 4096;
  uint64_t begin = (address + kPage - 1) / kPage * kPage, end = (address + length) / kPage * kPage;
  if (begin < end)
    madvise(host(begin), end - begin, MADV_DONTNEED);
  return true;
}

std::optional<AddressRange> AddressSpace::find(uint64_t address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  auto it = live_.upper_bound(address);
  if (it == live_.begin())
    return std::nullopt;
  --it;
  AddressRange range{it->first, it->second};
  if (address >= allocation_limit()) // adjacent mappings
    for (++it; it != live_.end() && it->first == range.end(); ++it)
      range.bytes += it->second;
  return range.contains(address, bytes) ? std::optional(range) : std::nullopt;
}

bool AddressSpace::track_undefined() {
  if (!undefined_)
    undefined_ = UndefinedBytes::create(base_, size_);
  return undefined_ != nullptr;
}

uint64_t AddressSpace::free_bytes() const {
  std::shared_lock lock(mutex_);
  return size_ - used_;
}

size_t AddressSpace::live_allocations() const {
  std::shared_lock lock(mutex_);
  return live_.size();
}

} // namespace cugrt::emulator
