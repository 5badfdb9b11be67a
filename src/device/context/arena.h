// Memory of a session: from the caller's allocator, the driver's, or, for arenas, a reservation of
// addresses that is backed with memory as runs need it.
//
//   reservation   [ committed ............ | addresses only ......................... )
//                 0                        what the largest symbols so far need      the arena
//
// Addresses do not move while the reservation holds what is needed, so instances stay as they are
// when an arena grows. Some devices give few addresses, and some none: there the reservation, or a
// block, is as large as can be had or as is needed, and an arena that outgrows it moves.
#pragma once

#include "cugrt/cugrt.h"
#include "device/context/memory_budget.h"
#include "device/driver/memory.h"
#include "device/program/run_binding.h"
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>

namespace cugrt::runtime {

/// A block of device memory. Nothing uses it any more when it is destroyed.
class MemoryBlock {
public:
  MemoryBlock() = default;
  /// `allocator` null: the driver allocates. A size of zero allocates nothing. `charge`, which has
  /// counted nothing yet, is raised to the size.
  static Result<MemoryBlock> allocate(const driver::Context &context,
                                      const cugrt_allocator *allocator, uint64_t bytes,
                                      BudgetCharge charge = {});
  MemoryBlock(MemoryBlock &&other) noexcept;
  MemoryBlock &operator=(MemoryBlock &&other) noexcept;
  ~MemoryBlock() { release(); }

  uint64_t address() const { return allocator_ ? address_ : buffer_.address(); }
  uint64_t size_bytes() const { return allocator_ ? bytes_ : buffer_.size_bytes(); }

private:
  void release() noexcept;
  BudgetCharge charge_; // ends behind the memory
  driver::DeviceBuffer buffer_;
  const cugrt_allocator *allocator_ = nullptr; // outlives the block
  uint64_t address_ = 0, bytes_ = 0;
};

class ArenaMemory {
public:
  /// A small arena, or one of the caller's allocator, gets all of its memory at once. Others get
  /// none yet, and a reservation of all addresses or of as many as the device has.
  static Result<ArenaMemory> make(const driver::Context &context, const cugrt_allocator *allocator,
                                  uint64_t bytes, std::shared_ptr<MemoryBudget> budget = nullptr);
  /// An arena of several plans, whose sizes raise() adds; it has no memory yet. If it reserves
  /// addresses, it reserves at least `reserved_bytes`, as far as the device has them.
  static ArenaMemory shared(uint64_t reserved_bytes, std::shared_ptr<MemoryBudget> budget);
  /// A plan of `bytes` shares the arena from now on, which may move for it.
  void raise(uint64_t bytes) { bytes_ = std::max(bytes_, bytes); }

  uint64_t address() const { return range_.address() ? range_.address() : block_.address(); }
  uint64_t size_bytes() const { return bytes_; }
  /// Bytes of its addresses; less than size_bytes() if it may move.
  uint64_t capacity_bytes() const {
    return range_.address() ? std::min(range_.size_bytes(), bytes_) : block_.size_bytes();
  }
  uint64_t committed_bytes() const;
  bool grows() const { return committed_bytes() < bytes_; }
  /// Whether a reservation is not worth it: a small arena gets all memory at once.
  bool is_small() const;
  bool is_reserved() const { return range_.address() != 0; }
  /// Whether it moves when `bytes` are needed.
  bool moves_for(uint64_t bytes) const { return bytes > capacity_bytes(); }
  /// Backs at least the first `bytes` with memory, at the present address.
  Status commit(uint64_t bytes);
  /// Gives its memory back and makes room for `bytes`, and some more, at another address. Nothing
  /// uses it any more. After an error it has no memory.
  Status move(const driver::Context &context, uint64_t bytes);

private:
  Status reserve(const driver::Context &context, uint64_t least);
  BudgetCharge new_charge() const { return {budget_, HeldFor::arenas}; }
  std::shared_ptr<MemoryBudget> budget_; // null: none
  BudgetCharge charge_;                  // of range_
  MemoryBlock block_;
  driver::VirtualRange range_;
  uint64_t bytes_ = 0, reserved_bytes_ = 0;
};

/// Bytes that one function needs of each arena, for the largest values that its symbols have had.
class ArenaNeeds {
public:
  /// Includes the run's values. True if bytes() have changed; otherwise costs one comparison a
  /// symbol. Sizes are upper bounds over all smaller values, since they may not be monotone;
  /// offsets that are a table by bucket are bounded over the buckets seen so far.
  bool cover(const RunBinding &run);
  /// Bytes for each arena of the plan.
  const std::vector<uint64_t> &bytes() const { return bytes_; }

private:
  void measure(const RunBinding &run);
  void measure_within(const RunBinding &run, const ir::Domain &domain);
  std::vector<int64_t> highest_;           // of each symbol
  std::optional<plan::BucketBoxes> boxes_; // several where offsets are a table by bucket
  std::vector<bool> seen_;                 // by box: a run has had it
  std::vector<uint64_t> bytes_;
};

} // namespace cugrt::runtime
