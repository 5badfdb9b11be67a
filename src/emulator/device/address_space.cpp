// Two mappings of one size: an inaccessible one whose addresses are the device addresses, and the
// backing bytes. Pages are committed when first touched and given back on free.
#include "emulator/device/address_space.h"

#include "base/checked_math.h"
#include "base/on_throw.h"
#include "emulator/device/host_file.h"
#include "emulator/device/undefined_bytes.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace cugrt::emulator {

constexpr uint64_t kGranule = uint64_t(2) << 20; // both mappings are whole granules
constexpr uint64_t kMaxBytes = uint64_t(1) << 44;

// The programming guide promises 256 bytes; programs (Taichi) divide large blocks into pages and
// rely on the first one's beginning, as hardware gives it.
constexpr uint64_t kLargeBytes = 1 << 20, kLargeAlignment = 4096;

// Behind each allocation lie addresses that are never given out, so that an overrun does not end in
// the next one: as many as the allocation has, up to a page. They take no memory, except that
// longer ones would thin small allocations out over many pages.
constexpr uint64_t kMaxGuardBytes = 4096;

static uint64_t guard_of(uint64_t bytes) {
  return std::min(round_up(bytes, AddressSpace::kAlignment), kMaxGuardBytes);
}

static uint64_t page_bytes() {
  static const uint64_t bytes = uint64_t(sysconf(_SC_PAGESIZE)); // 4, 16 or 64 KiB on aarch64
  return bytes;
}

static void *map(uint64_t bytes, int protection) {
  void *address =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::optional<AddressRange> range_before(const Ranges &ranges, uint64_t address) {
  auto it = ranges.upper_bound(address);
  if (it == ranges.begin())
    return std::nullopt;
  --it;
  return AddressRange{it->first, it->second};
}

std::optional<AddressRange> holding(std::optional<AddressRange> range, uint64_t address,
                                    uint64_t bytes, uint64_t unit) {
  const bool holds =
      range && AddressRange{range->begin, round_up(range->bytes, unit)}.contains(address, bytes);
  return holds ? range : std::nullopt;
}

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
  space->base_ = space->packed_ = reinterpret_cast<uint64_t>(reserved);
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

uint64_t AddressSpace::length_of(uint64_t address, uint64_t bytes) const {
  return round_up(bytes, shared_.contains(address) ? page_bytes() : kAlignment);
}

// The end of an allocation, with the addresses behind it that are never given out.
uint64_t AddressSpace::guarded_end(uint64_t address, uint64_t bytes) const {
  return address + length_of(address, bytes) + guard_of(bytes);
}

// First fit between live allocations and their gaps; rounded lengths keep every beginning aligned.
// The many that lie side by side from the beginning on, as weights do, are not walked again for
// each allocation.
Result<uint64_t> AddressSpace::place(uint64_t bytes, uint64_t granule) {
  if (bytes == 0)
    return Status::error(Code::invalid_argument, "an allocation of zero bytes");
  auto exhausted = [&] {
    return Status::error(Code::out_of_device_memory,
                         "no room for " + std::to_string(bytes) +
                             " bytes on the emulated device: " + std::to_string(size_ - used_) +
                             " of " + std::to_string(size_) + " bytes are free");
  };
  if (bytes > size_)
    return exhausted();
  uint64_t length = round_up(bytes, granule), guard = guard_of(bytes);
  uint64_t address = round_up(packed_, granule), limit = allocation_limit();
  bool packed = true;
  for (auto live = live_.lower_bound(packed_); live != live_.end(); ++live) {
    const auto [begin, live_bytes] = *live;
    if (begin >= address && begin - address >= length + guard)
      break;
    const uint64_t end = guarded_end(begin, live_bytes);
    packed = packed && begin < limit && begin - packed_ < kAlignment + guard_of(1);
    if (packed)
      packed_ = end;
    address = round_up(end, granule);
  }
  if (address > limit || length > limit - address)
    return exhausted();
  return address;
}

Result<uint64_t> AddressSpace::allocate(uint64_t bytes) {
  std::unique_lock lock(mutex_);
  CUGRT_ASSIGN(uint64_t address, place(bytes, bytes >= kLargeBytes ? kLargeAlignment : kAlignment));
  live_.emplace(address, bytes);
  used_ += round_up(bytes, kAlignment);
  uint64_t length = round_up(bytes, kAlignment);
  std::memset(host(address), kPoison, length);
  if (undefined_)
    undefined_->mark_undefined(address, length);
  return address;
}

/// Live from now on, and not mapped yet.
Result<uint64_t> AddressSpace::place_shared(uint64_t bytes) {
  CUGRT_ASSIGN(uint64_t address, place(bytes, page_bytes()));
  auto live = live_.emplace(address, bytes).first;
  const OnThrow undo([&] { live_.erase(live); });
  shared_.insert(address);
  return address;
}

Result<uint64_t> AddressSpace::allocate_shared(uint64_t bytes) {
  std::unique_lock lock(mutex_);
  CUGRT_ASSIGN(uint64_t address, place_shared(bytes));
  uint64_t length = round_up(bytes, page_bytes());
  if (!map_twice(address, length)) {
    shared_.erase(address);
    live_.erase(address);
    return Status::error(Code::out_of_host_memory,
                         "no memory for " + std::to_string(bytes) +
                             " bytes that host and emulated device share");
  }
  used_ += length;
  std::memset(host(address), kPoison, bytes);
  return address;
}

Result<uint64_t> AddressSpace::map_host_pages(const void *begin, uint64_t bytes, bool only_read) {
  const uint64_t address = reinterpret_cast<uint64_t>(begin), page = page_bytes(),
                 first = address / page * page, length = round_up(address + bytes, page) - first;
  const std::optional<HostFile> file = host_file(first, first + length);
  if (!file)
    return Status::error(Code::unsupported, "these pages of the host are no mapping of a file");
  std::unique_lock lock(mutex_);
  auto at = file->writable || only_read
                ? place_shared(length)
                : Status::error(Code::invalid_argument, "the program may only read these pages");
  // Copies the page if the device writes where the program may not.
  if (at.ok() && mmap(host(*at), length, PROT_READ | PROT_WRITE,
                      (file->writable ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED, file->descriptor,
                      off_t(file->offset)) == MAP_FAILED) {
    shared_.erase(*at);
    live_.erase(*at);
    at = Status::error(Code::out_of_host_memory, "the host's pages cannot be mapped again");
  }
  close(file->descriptor);
  if (!at.ok())
    return at;
  used_ += length;
  return *at + (address - first);
}

Result<uint64_t> AddressSpace::lend(uint64_t address, uint64_t bytes, bool only_read) {
  const HostAccess access = host_access(address, address + bytes);
  if (access == HostAccess::none || (access == HostAccess::read && !only_read))
    return Status::error(Code::invalid_argument, "the program may not write this memory itself");
  std::unique_lock lock(mutex_);
  lent_[address] = bytes;
  return address;
}

void AddressSpace::end_loan(uint64_t address) {
  std::unique_lock lock(mutex_);
  lent_.erase(address);
}

bool AddressSpace::is_lent(uint64_t address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  return holding(range_before(lent_, address), address, bytes).has_value();
}

// A file of its own: one file for the whole device would keep its pages until punched out.
bool AddressSpace::map_twice(uint64_t address, uint64_t length) {
  int file = memfd_create("cugrt-emu", MFD_CLOEXEC);
  if (file < 0)
    return false;
  bool mapped = ftruncate(file, off_t(length)) == 0;
  for (void *at : {reinterpret_cast<void *>(address), static_cast<void *>(host(address))})
    mapped = mapped && mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
                           MAP_FAILED;
  close(file);
  if (!mapped)
    unmap_twice(address, length);
  return mapped;
}

// Both places as they were: not to be touched, and fresh.
void AddressSpace::unmap_twice(uint64_t address, uint64_t length) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  mmap(reinterpret_cast<void *>(address), length, PROT_NONE, kFlags, -1, 0);
  mmap(host(address), length, PROT_READ | PROT_WRITE, kFlags, -1, 0);
}

bool AddressSpace::free(uint64_t address) {
  std::unique_lock lock(mutex_);
  if (const uint64_t first = address / page_bytes() * page_bytes(); shared_.contains(first))
    address = first;
  auto it = live_.find(address);
  if (it == live_.end())
    return false;
  uint64_t length = length_of(address, it->second);
  packed_ = std::min(packed_, it == live_.begin()
                                  ? base_
                                  : guarded_end(std::prev(it)->first, std::prev(it)->second));
  live_.erase(it);
  used_ -= length;
  if (shared_.erase(address)) {
    unmap_twice(address, length);
    return true;
  }
  // Whole pages only: neighbours may share the first and the last page.
  uint64_t page = page_bytes();
  uint64_t begin = round_up(address, page), end = (address + length) / page * page;
  if (begin < end)
    madvise(host(begin), end - begin, MADV_DONTNEED);
  return true;
}

std::optional<AddressRange> AddressSpace::allocation_before(uint64_t address) const {
  std::optional<AddressRange> range = range_before(live_, address);
  if (range && address >= allocation_limit()) // adjacent mappings
    for (auto it = live_.find(range->end()); it != live_.end() && it->first == range->end(); ++it)
      range->bytes += it->second;
  return range;
}

std::optional<AddressRange> AddressSpace::find(uint64_t address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  return holding(allocation_before(address), address, bytes);
}

std::optional<AddressRange> AddressSpace::find_granule(uint64_t address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  return holding(allocation_before(address), address, bytes, kAlignment);
}

bool AddressSpace::is_shared(uint64_t address) const {
  std::shared_lock lock(mutex_);
  const auto range = allocation_before(address);
  return !owns(address) || (range && shared_.contains(range->begin));
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
