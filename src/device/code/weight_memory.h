// Memory of weights: plain, or memory that leaves the device and returns to its addresses.
#pragma once

#include "device/context/memory_budget.h"
#include "device/driver/memory.h"

namespace cugrt::runtime {

class WeightMemory {
public:
  /// With a budget the memory may leave; it keeps its address if the device has virtual memory.
  /// There it may be lengthened by up to `behind` bytes.
  static Result<WeightMemory> allocate(const driver::Context &context, uint64_t bytes,
                                       const std::shared_ptr<MemoryBudget> &budget,
                                       uint64_t behind = 0);

  uint64_t address() const { return range_.address() ? range_.address() : buffer_.address(); }
  uint64_t size_bytes() const { return bytes_; }
  /// Whether it always returns to the same addresses.
  bool is_reserved() const { return range_.address() != 0; }
  /// Bytes on the device; 0 while it is away.
  uint64_t resident_bytes() const {
    return range_.address() ? range_.committed_bytes() : buffer_.size_bytes();
  }
  /// Gives the memory back. Nothing uses it any more. After an error the device still holds some.
  Status leave();
  /// Allocates `behind` bytes more behind it, which size_bytes() does not count. False: it cannot.
  Result<bool> lengthen(uint64_t behind);
  /// Gives them back. Nothing uses them any more. After an error the device still holds some.
  Status shorten();
  /// Allocates it again, with undefined bytes. After an error it is away.
  Status come_back(const driver::Context &context);

private:
  BudgetCharge charge_; // ends behind the memory
  driver::DeviceBuffer buffer_;
  driver::VirtualRange range_;
  uint64_t bytes_ = 0;
};

} // namespace cugrt::runtime
