// The heap of malloc and free in kernels: blocks of an address range of their own.
//
//     | block | gap |  block  |   gap   | free ...
//
// A block takes whole units of 16 bytes, and the gap behind it as many addresses, from one unit to
// a page: they belong to nobody, so that an overrun does not end in the next block. Only the blocks
// count against the heap's bytes. They are no allocations of the address space: copies, fills and
// questions about pointers know nothing of them.
//
// First fit by address: the same calls in the same order give the same addresses. Thread-safe.
#pragma once

#include "emulator/device/address_space.h"

namespace cugrt::emulator {

class DeviceHeap {
public:
  /// "All memory allocated is guaranteed to be aligned to a 16-byte boundary": and lengths are.
  static constexpr uint64_t kUnit = 16;

  explicit DeviceHeap(AddressSpace &memory) : memory_(memory) {}
  ~DeviceHeap() { close(); }
  DeviceHeap(const DeviceHeap &) = delete;
  DeviceHeap &operator=(const DeviceHeap &) = delete;

  /// A heap of so many bytes in the place of the one before; false, without any, when no address
  /// range is left.
  bool open(uint64_t bytes);
  /// Ends all blocks; nothing can be allocated until open().
  void close();
  /// Bytes that it was opened with; 0 while it is not open.
  uint64_t bytes() const;
  /// The range of all blocks.
  AddressRange range() const;

  /// An undefined block; 0 when the heap is full, or not open, and for 0 bytes. The alignment is a
  /// power of two.
  uint64_t allocate(uint64_t bytes, uint64_t alignment);
  /// False when no live block begins there.
  bool free(uint64_t address);

  /// The live block that holds [address, address + bytes) whole.
  std::optional<AddressRange> find(uint64_t address, uint64_t bytes) const;
  /// The live block in whose units they lie.
  std::optional<AddressRange> find_granule(uint64_t address, uint64_t bytes) const;

private:
  AddressSpace &memory_;
  mutable std::shared_mutex mutex_; // of what follows
  AddressRange range_;
  uint64_t capacity_ = 0, used_ = 0;
  Ranges live_; // as many bytes as were asked for
  Ranges free_; // what is between blocks and their gaps
};

} // namespace cugrt::emulator
