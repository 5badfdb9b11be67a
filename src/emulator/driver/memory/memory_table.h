// Owners of bytes: device allocations, pinned host memory and registered host memory. Has its own
// lock, since stream-ordered frees run on the device thread.
//
// Pinned host memory and managed memory are carved out of the emulated device's address space: host
// and kernels see them at one address.
#pragma once

#include "emulator/device/address_space.h"
#include "emulator/driver/cuda_api.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace cugrt::emulator::api {

struct Context;

/// The source of stream-ordered allocations. Its counts change when memory is freed on the device
/// thread; Driver::mutex guards the rest.
struct MemoryPool {
  CUmemoryPool handle = nullptr;
  uint64_t max_bytes = 0; // 0: the device's memory
  uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1}; // as the attributes are numbered
  std::atomic<uint64_t> used_bytes{0}, used_high{0}, reserved_high{0};
};

enum class MemoryKind : uint8_t { device, device_async, managed, pinned, registered, mapped };

struct MemoryRange {
  uint64_t begin = 0, bytes = 0; // of the host address for registered
  MemoryKind kind = MemoryKind::device;
  Context *context = nullptr;
  uint64_t device_address = 0; // 0 where kernels cannot reach it
  unsigned flags = 0;
  uint64_t id = 0;
  bool freed = false; // a stream-ordered free is on its way
  std::shared_ptr<MemoryPool> pool;
};

class MemoryTable {
public:
  explicit MemoryTable(uint64_t device_bytes) : limit_(device_bytes) {}

  CUresult allocate(AddressSpace &memory, uint64_t bytes, MemoryKind kind, Context *context,
                    unsigned flags, MemoryRange *out, std::shared_ptr<MemoryPool> pool = nullptr);
  /// With CU_MEMHOSTREGISTER_DEVICEMAP kernels reach it: pages of files at an address of their own
  /// on the device, other memory at the host's.
  CUresult register_host(AddressSpace &memory, uint64_t address, uint64_t bytes, unsigned flags,
                         Context *context);
  CUresult unregister_host(AddressSpace &memory, uint64_t address);
  /// `address` is the beginning of a live range of the kind.
  CUresult free(AddressSpace &memory, uint64_t address, MemoryKind kind);
  /// Marks a range so that a second cuMemFreeAsync is refused at once.
  CUresult begin_free(uint64_t address);
  void cancel_free(uint64_t address);
  void free_context(AddressSpace &memory, Context *context);
  struct Usage {
    uint64_t device = 0, device_bytes = 0, host = 0, host_bytes = 0;
  };
  /// Use by the context; with `unowned`, also of memory that belongs to no context.
  Usage usage_of(const Context *context, bool unowned) const;

  /// The range that holds the address: of the device, or of registered memory, by the host's or the
  /// device's address.
  std::optional<MemoryRange> find(uint64_t address) const;
  /// Mapped virtual memory, for questions about pointers; it counts where it was created.
  void add_mapped(uint64_t address, uint64_t bytes);
  void remove_mapped(uint64_t address);
  /// Physical memory that exists without an address (cuMemCreate) counts against the limit too.
  bool take(uint64_t bytes);
  void give_back(uint64_t bytes);

  uint64_t total_bytes() const { return limit_; }
  uint64_t used_bytes() const;
  /// The most that it was since reset_most_used.
  uint64_t most_used_bytes() const;
  void reset_most_used();
  Usage count() const; // of all contexts

private:
  using Map = std::map<uint64_t, MemoryRange>;
  const MemoryRange *find_locked(const Map &map, uint64_t address) const;
  void release(AddressSpace &memory, Map::iterator it, Map &map);

  mutable std::mutex mutex_;
  uint64_t limit_, used_ = 0, most_used_ = 0, next_id_ = 1;
  Map device_, host_; // by begin
};

} // namespace cugrt::emulator::api
