// The emulated device's memory.
//
// Device addresses lie in a range that is reserved and never accessible, so that a host program
// which dereferences one faults as it would with a real device. The bytes live in a second mapping
// of the same size; a fixed offset leads from one to the other:
//
//     device address  [base, base + size)      PROT_NONE
//     backing bytes   host(address) = address + offset
//
// Memory that the program shares with the device (pinned, managed) is mapped at both places: one
// address serves host and device, as unified addressing has it. Memory of the program that it lends
// (registered heap) keeps its address, outside of the range, and is reached there.
//
// Every access by kernels and copies is checked against the live allocations, with gaps between
// them. Fresh memory is poisoned (kPoison): reading what was never written shows. Thread-safe.
#pragma once

#include "base/status.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <shared_mutex>

namespace cugrt::emulator {

struct AddressRange {
  uint64_t begin = 0, bytes = 0;
  uint64_t end() const { return begin + bytes; }
  bool contains(uint64_t address, uint64_t count) const {
    return address >= begin && count <= bytes && address - begin <= bytes - count;
  }
};

using Ranges = std::map<uint64_t, uint64_t>; // address to bytes
/// The range that begins last at or before the address, whatever its length.
std::optional<AddressRange> range_before(const Ranges &ranges, uint64_t address);
/// The range if it, in whole units, holds [address, address + bytes).
std::optional<AddressRange> holding(std::optional<AddressRange> range, uint64_t address,
                                    uint64_t bytes, uint64_t unit = 1);
uint64_t round_up(uint64_t value, uint64_t unit);

class UndefinedBytes;

class AddressSpace {
public:
  static constexpr uint8_t kPoison = 0xCB;
  /// Alignment of every allocation, and granule of the real
  /// driver.
  static constexpr uint64_t kAlignment = 512;

  /// Reserves address range for `bytes` of device memory; commits nothing yet.
  static Result<std::unique_ptr<AddressSpace>> create(uint64_t bytes);
  ~AddressSpace();
  AddressSpace(const AddressSpace &) = delete;
  AddressSpace &operator=(const AddressSpace &) = delete;

  /// Code::out_of_device_memory when no gap is large enough; zero bytes is an invalid argument.
  Result<uint64_t> allocate(uint64_t bytes);
  /// The same in whole pages, which the host may read and write at the device address.
  Result<uint64_t> allocate_shared(uint64_t bytes);
  /// The same for pages that the host has mapped from a file: they get an address on the device
  /// beside their own; the result is that of [address, address + bytes). Pages that the program may
  /// only read are an invalid argument unless the device only reads them, too; what it writes all
  /// the same reaches nobody. Code::unsupported for memory that is no file's.
  Result<uint64_t> map_host_pages(const void *begin, uint64_t bytes, bool only_read);
  /// Any other memory of the program, which kernels reach at the program's own address, a lane at a
  /// time. Lent until end_loan(). An invalid argument unless all of it may be written, or read
  /// where the device only reads it.
  Result<uint64_t> lend(uint64_t address, uint64_t bytes, bool only_read);
  void end_loan(uint64_t address);
  bool is_lent(uint64_t address, uint64_t bytes) const;
  /// False when `address` is not the beginning of a live allocation, or not in the first page of
  /// the host's pages. Pages go back to the host.
  bool free(uint64_t address);

  /// Virtual memory management. A reservation is address range only, at the upper end of the space;
  /// bytes of a file are mapped into it; mapped bytes are live. Adjacent mappings count as
  /// one.
  Result<uint64_t> reserve(uint64_t bytes, uint64_t alignment);
  /// False when there is no such reservation, or something is still mapped in it.
  bool release(uint64_t address, uint64_t bytes);
  /// Maps whole pages of `file` at an address within a reservation; false when it is not, is in
  /// use, or the host refuses.
  bool map_file(uint64_t address, uint64_t bytes, int file, uint64_t file_offset);
  bool unmap_file(uint64_t address);

  /// The live allocation that holds [address, address + bytes) whole, if there is one.
  std::optional<AddressRange> find(uint64_t address, uint64_t bytes) const;
  /// The live allocation in whose granules they lie: beyond its end, there are bytes for them.
  std::optional<AddressRange> find_granule(uint64_t address, uint64_t bytes) const;
  /// From now on keeps which bytes of later allocations nothing has written. False if the host has
  /// no address range for that. Call before any other thread uses the space.
  bool track_undefined();
  /// Null unless track_undefined() was called. Writers to host() must mark their bytes here.
  UndefinedBytes *undefined() const { return undefined_.get(); }
  /// Whether the host reaches it at its address, too: pinned, managed, the program's own.
  bool is_shared(uint64_t address) const;
  /// True for any address of the reserved range, live or not.
  bool owns(uint64_t address) const { return address - base_ < size_; }
  /// Host address of a device address. The caller has checked the range.
  std::byte *host(uint64_t address) const {
    return reinterpret_cast<std::byte *>(address + offset_);
  }

  uint64_t total_bytes() const { return size_; }
  uint64_t free_bytes() const;
  size_t live_allocations() const;

private:
  AddressSpace();
  uint64_t base_ = 0, size_ = 0, offset_ = 0, used_ = 0;
  mutable std::shared_mutex mutex_;
  std::unique_ptr<UndefinedBytes> undefined_;
  Ranges live_;
  uint64_t packed_ = 0;       // below it no gap is large enough for any allocation
  std::set<uint64_t> shared_; // those of live_ that the host reaches at their address
  Ranges reserved_;           // all above every allocation
  Ranges lent_;               // the program's own memory

  Result<uint64_t> place(uint64_t bytes, uint64_t granule);
  Result<uint64_t> place_shared(uint64_t bytes);
  uint64_t length_of(uint64_t address, uint64_t bytes) const;
  uint64_t guarded_end(uint64_t address, uint64_t bytes) const;
  std::optional<AddressRange> allocation_before(uint64_t address) const;
  bool map_twice(uint64_t address, uint64_t length);
  void unmap_twice(uint64_t address, uint64_t length);

  uint64_t allocation_limit() const {
    return reserved_.empty() ? base_ + size_ : reserved_.begin()->first;
  }
};

} // namespace cugrt::emulator
