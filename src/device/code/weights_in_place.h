// Weights that a device reads where they lie in host memory, without a copy: where the device has
// no memory of its own, and the pages can be registered with the driver.
//
// A tensor is read in place if it is shared (HostTensor), has at least a page of bytes, and begins
// at a multiple of 16 bytes, which is what kernels move at a time. Others are as well uploaded.
//
// A group's weights may leave: their registration ends, so that the system may take the pages, and
// is made anew when they return, at the same address of the host.
#pragma once

#include "device/code/weight_memory.h"
#include "device/code/weights.h"
#include "device/context/device.h"
#include "device/driver/memory.h"

#include <map>

namespace cugrt::runtime {

class WeightsInPlace {
public:
  /// Registers pages of the tensors of `set` (bytes by name) that can be read in place, and adds
  /// their device addresses. Leaves out pages that the driver refuses.
  static Result<WeightsInPlace> take(const Device &device, const WeightSet &set,
                                     const std::map<std::string, uint64_t> &kept,
                                     const std::map<std::string, uint64_t> &sources,
                                     const std::shared_ptr<MemoryBudget> &budget,
                                     std::map<std::string, uint64_t> &addresses);

  /// Ends the registration of pages with sources only: for good, or until they come back.
  void give_back_sources(bool for_good);
  uint64_t size_bytes() const { return size_bytes_; }
  /// Device address of a tensor that these have; 0: they do not have it.
  uint64_t address_of(const HostTensor &tensor) const;
  /// Names of kept tensors.
  const std::vector<std::string> &names() const { return names_; }
  struct Pages {
    driver::RegisteredPages registered;
    const void *begin; // on the host
    uint64_t address, bytes;
    uint64_t kept_bytes; // of tensors; 0: only sources lie there
    WeightMemory copy{}; // in their place, where another has registered them meanwhile
  };
  const std::vector<Pages> &pages() const { return pages_; }
  /// Ends all registrations; nothing reads the pages any more.
  void leave();
  /// Registers them again; the device's addresses may be new. After an error they are away.
  Status come_back(const Device &device, const std::shared_ptr<MemoryBudget> &budget);

private:
  BudgetCharge charge_;
  std::vector<std::shared_ptr<const char>> owners_; // of the pages, which they outlive
  std::vector<Pages> pages_;
  std::vector<std::string> names_;
  uint64_t size_bytes_ = 0; // of kept tensors in registered pages
};

} // namespace cugrt::runtime
