// Bookkeeping of allocations; see memory_table.h.
#include "emulator/driver/memory/memory_table.h"

#include "base/on_throw.h"
#include "emulator/device/undefined_bytes.h"

#include <algorithm>

namespace cugrt::emulator::api {

CUresult MemoryTable::allocate(AddressSpace &memory, uint64_t bytes, MemoryKind kind,
                               Context *context, unsigned flags, MemoryRange *out,
                               std::shared_ptr<MemoryPool> pool) {
  bool pinned = kind == MemoryKind::pinned;
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  if (!pinned && bytes > limit_ - used_)
    return CUDA_ERROR_OUT_OF_MEMORY;
  bool shared = pinned || kind == MemoryKind::managed;
  Result<uint64_t> address = shared ? memory.allocate_shared(bytes) : memory.allocate(bytes);
  if (!address.ok())
    return CUDA_ERROR_OUT_OF_MEMORY;
  MemoryRange range{*address, bytes,      kind,  context,        *address,
                    flags,    next_id_++, false, std::move(pool)};
  const OnThrow undo([&] {
    if (UndefinedBytes *undefined = memory.undefined())
      undefined->end_exemption(*address);
    memory.free(*address);
  });
  if (UndefinedBytes *undefined = memory.undefined(); undefined && shared)
    undefined->exempt(*address, bytes); // the host writes to it unseen
  (pinned ? host_ : device_).emplace(range.begin, range);
  if (!pinned)
    used_ += bytes;
  most_used_ = std::max(most_used_, used_);
  if (range.pool) {
    uint64_t used = range.pool->used_bytes += bytes;
    range.pool->used_high = std::max<uint64_t>(range.pool->used_high, used);
    range.pool->reserved_high = std::max<uint64_t>(range.pool->reserved_high, used);
  }
  *out = range;
  return CUDA_SUCCESS;
}

CUresult MemoryTable::register_host(AddressSpace &memory, uint64_t address, uint64_t bytes,
                                    unsigned flags, Context *context) {
  if (!address || !bytes || bytes > UINT64_MAX - address)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  auto next = host_.lower_bound(address);
  bool overlaps = next != host_.end() && next->first < address + bytes;
  if (overlaps || find_locked(host_, address))
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  const auto made = host_.emplace(address, MemoryRange{}).first;
  MemoryRange &range = made->second;
  range = {address, bytes, MemoryKind::registered, context, 0, flags, next_id_++, false, nullptr};
  if (!(flags & CU_MEMHOSTREGISTER_DEVICEMAP))
    return CUDA_SUCCESS;
  const OnThrow undo([&] { release(memory, made, host_); });
  const bool only_read = flags & CU_MEMHOSTREGISTER_READ_ONLY;
  auto seen = memory.map_host_pages(reinterpret_cast<const void *>(address), bytes, only_read);
  if (!seen.ok() && seen.status().code() == Code::unsupported) {
    seen = memory.lend(address, bytes, only_read);
  }
  if (!seen.ok()) {
    host_.erase(made);
    return seen.status().code() == Code::invalid_argument ? CUDA_ERROR_INVALID_VALUE
                                                          : CUDA_ERROR_OUT_OF_MEMORY;
  }
  range.device_address = *seen;
  if (UndefinedBytes *undefined = memory.undefined(); undefined && memory.owns(*seen))
    undefined->exempt(range.device_address, bytes);
  return CUDA_SUCCESS;
}

CUresult MemoryTable::unregister_host(AddressSpace &memory, uint64_t address) {
  std::lock_guard lock(mutex_);
  auto it = host_.find(address);
  if (it == host_.end() || it->second.kind != MemoryKind::registered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  release(memory, it, host_);
  return CUDA_SUCCESS;
}

void MemoryTable::release(AddressSpace &memory, Map::iterator it, Map &map) {
  const MemoryRange &range = it->second;
  if (range.device_address && !memory.owns(range.device_address)) {
    memory.end_loan(range.device_address);
  } else if (range.device_address) {
    if (UndefinedBytes *undefined = memory.undefined())
      undefined->end_exemption(range.device_address);
    memory.free(range.device_address);
  }
  if (&map == &device_)
    used_ -= range.bytes;
  if (range.pool)
    range.pool->used_bytes -= range.bytes;
  map.erase(it);
}

CUresult MemoryTable::free(AddressSpace &memory, uint64_t address, MemoryKind kind) {
  std::lock_guard lock(mutex_);
  Map &map = kind == MemoryKind::pinned ? host_ : device_;
  auto it = map.find(address);
  if (it == map.end())
    return CUDA_ERROR_INVALID_VALUE;
  MemoryKind have = it->second.kind;
  bool device_kinds = &map == &device_ && have != MemoryKind::mapped;
  if (!device_kinds && have != kind)
    return CUDA_ERROR_INVALID_VALUE;
  release(memory, it, map);
  return CUDA_SUCCESS;
}

CUresult MemoryTable::begin_free(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto it = device_.find(address);
  if (it == device_.end() || it->second.freed || it->second.kind == MemoryKind::mapped)
    return CUDA_ERROR_INVALID_VALUE;
  it->second.freed = true;
  return CUDA_SUCCESS;
}

void MemoryTable::cancel_free(uint64_t address) {
  std::lock_guard lock(mutex_);
  device_.at(address).freed = false;
}

void MemoryTable::free_context(AddressSpace &memory, Context *context) {
  std::lock_guard lock(mutex_);
  for (Map *map : {&device_, &host_})
    for (auto it = map->begin(); it != map->end();) {
      auto current = it++;
      if (current->second.context == context && current->second.kind != MemoryKind::mapped)
        release(memory, current, *map);
    }
}

MemoryTable::Usage MemoryTable::usage_of(const Context *context, bool unowned) const {
  std::lock_guard lock(mutex_);
  Usage usage;
  auto counts = [&](const MemoryRange &range) {
    return range.context == context || (unowned && !range.context);
  };
  for (const auto &[begin, range] : device_)
    if (counts(range)) {
      ++usage.device;
      usage.device_bytes += range.bytes;
    }
  for (const auto &[begin, range] : host_)
    if (counts(range)) {
      ++usage.host;
      usage.host_bytes += range.bytes;
    }
  return usage;
}

const MemoryRange *MemoryTable::find_locked(const Map &map, uint64_t address) const {
  auto it = map.upper_bound(address);
  if (it == map.begin())
    return nullptr;
  --it;
  return address - it->first < it->second.bytes ? &it->second : nullptr;
}

std::optional<MemoryRange> MemoryTable::find(uint64_t address) const {
  std::lock_guard lock(mutex_);
  const MemoryRange *range = find_locked(device_, address);
  if (!range)
    range = find_locked(host_, address);
  for (auto it = host_.begin(); !range && it != host_.end(); ++it)
    if (it->second.device_address && address - it->second.device_address < it->second.bytes)
      range = &it->second;
  return range ? std::optional(*range) : std::nullopt;
}

void MemoryTable::add_mapped(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  device_.emplace(address, MemoryRange{address, bytes, MemoryKind::mapped, nullptr, address, 0,
                                       next_id_++, false, nullptr});
}

void MemoryTable::remove_mapped(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto it = device_.find(address);
  if (it != device_.end() && it->second.kind == MemoryKind::mapped)
    device_.erase(it);
}

bool MemoryTable::take(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > limit_ - used_)
    return false;
  used_ += bytes;
  most_used_ = std::max(most_used_, used_);
  return true;
}

void MemoryTable::give_back(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  used_ -= bytes;
}

uint64_t MemoryTable::used_bytes() const {
  std::lock_guard lock(mutex_);
  return used_;
}

uint64_t MemoryTable::most_used_bytes() const {
  std::lock_guard lock(mutex_);
  return most_used_;
}

void MemoryTable::reset_most_used() {
  std::lock_guard lock(mutex_);
  most_used_ = used_;
}

MemoryTable::Usage MemoryTable::count() const {
  std::lock_guard lock(mutex_);
  Usage usage{.device = device_.size(), .host = host_.size()};
  for (const auto &[begin, range] : device_)
    usage.device_bytes += range.bytes;
  for (const auto &[begin, range] : host_)
    usage.host_bytes += range.bytes;
  return usage;
}

} // namespace cugrt::emulator::api
