// Tells which bytes of the emulated device's memory hold nothing, by one bit for each byte.
//
// A bit is set for a byte that nothing has written since it was allocated. Reading is no error;
// exec/checks/init_check.h judges uses of read values. Kept only while that check is on: the bits
// have a mapping of their own, whose pages are committed when they are first set.
//
// Thread-safe: each word is read and changed by relaxed atomic operations, as unordered as the
// accesses that it describes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>

namespace cugrt::emulator {

class UndefinedBytes {
public:
  /// Covers addresses [base, base + bytes), all defined. Null if there is no address range for it.
  static std::unique_ptr<UndefinedBytes> create(uint64_t base, uint64_t bytes);
  ~UndefinedBytes();
  UndefinedBytes(const UndefinedBytes &) = delete;
  UndefinedBytes &operator=(const UndefinedBytes &) = delete;

  /// Addresses lie within the range.
  void mark_undefined(uint64_t address, uint64_t bytes);
  void mark_defined(uint64_t address, uint64_t bytes);
  /// Makes the copy as defined as the original.
  void copy(uint64_t to, uint64_t from, uint64_t bytes);
  /// Bit i: the byte at address + i is undefined. At most 64 bytes.
  uint64_t undefined(uint64_t address, uint32_t bytes) const;
  /// The first undefined byte.
  std::optional<uint64_t> first_undefined(uint64_t address, uint64_t bytes) const;

  /// Memory that others can write unseen (pinned, mapped twice) is defined, whatever is marked.
  void exempt(uint64_t address, uint64_t bytes);
  void end_exemption(uint64_t address);

private:
  using Word = std::atomic<uint64_t>;
  UndefinedBytes() = default;
  template <class Visit> void for_each_word(uint64_t address, uint64_t bytes, Visit visit) const;
  bool is_exempt(uint64_t address) const;

  uint64_t base_ = 0, mapped_bytes_ = 0;
  Word *words_ = nullptr;
  mutable std::shared_mutex mutex_;       // of what follows
  std::map<uint64_t, uint64_t> exempted_; // address to bytes
};

} // namespace cugrt::emulator
