// Weights that a device reads where they lie in host memory, without a copy: where the device has
// no memory of its own, and the pages can be registered with the driver.
//
// A tensor is read in place if it is shared (HostTensor), has at least a page of bytes, and begins
// at a multiple of 16 bytes, which is what kernels move at a time. Others are as well uploaded.
#pragma once

#include "device/code/weights.h"
#include "device/context/device.h"
#include "device/driver/memory.h"

#include <map>

namespace cugrt::runtime {

class WeightsInPlace {
public:
  /// Registers the pages of what can be read so among tensors of `set`, bytes by name, and adds
  /// their addresses on the device. Pages that the driver refuses are left out.
  static Result<WeightsInPlace> take(const Device &device, const WeightSet &set,
                                     const std::map<std::string, uint64_t> &kept,
                                     const std::map<std::string, uint64_t> &sources,
                                     std::map<std::string, uint64_t> &addresses);

  /// Ends the registration of pages that only sources lie in.
  void give_back_sources();
  uint64_t size_bytes() const { return size_bytes_; }
  struct Pages {
    driver::RegisteredPages registered;
    bool kept; // not only sources lie there
  };
  const std::vector<Pages> &pages() const { return pages_; }

private:
  std::vector<std::shared_ptr<const char>> owners_; // of the pages, which they outlive
  std::vector<Pages> pages_;
  uint64_t size_bytes_ = 0; // of kept tensors
};

} // namespace cugrt::runtime
