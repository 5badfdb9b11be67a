// Memory of weights; see weight_memory.h.
#include "device/code/weight_memory.h"

namespace cugrt::runtime {

Result<WeightMemory> WeightMemory::allocate(const driver::Context &context, uint64_t bytes,
                                            const std::shared_ptr<MemoryBudget> &budget,
                                            uint64_t behind) {
  WeightMemory memory;
  memory.bytes_ = bytes;
  memory.charge_ = {budget, HeldFor::weights};
  if (bytes == 0)
    return memory;
  if (budget || behind != 0) {
    CUGRT_ASSIGN(const bool reserves, driver::VirtualRange::available(context));
    auto range = reserves ? driver::VirtualRange::reserve(context, bytes + behind)
                          : Result<driver::VirtualRange>(driver::VirtualRange());
    if (range.ok()) // without addresses memory may still be had
      memory.range_ = std::move(*range);
  }
  CUGRT_TRY(memory.come_back(context));
  return memory;
}

Status WeightMemory::leave() {
  Status status = range_.uncommit();
  buffer_ = {};
  charge_.lower_to(resident_bytes());
  return status;
}

Result<bool> WeightMemory::lengthen(uint64_t behind) {
  if (behind == 0 || !range_.address())
    return behind == 0;
  CUGRT_TRY(charge_.raise_to(range_.committed_for(bytes_ + behind)));
  if (Status status = range_.commit(bytes_ + behind); !status.ok()) {
    charge_.lower_to(resident_bytes());
    return status;
  }
  return true;
}

Status WeightMemory::shorten() {
  if (!range_.address())
    return {};
  Status status = range_.uncommit(range_.committed_for(bytes_));
  charge_.lower_to(resident_bytes());
  return status;
}

Status WeightMemory::come_back(const driver::Context &context) {
  if (bytes_ == 0)
    return {};
  CUGRT_TRY(charge_.raise_to(range_.address() ? range_.committed_for(bytes_) : bytes_));
  auto back = [&]() -> Status {
    if (range_.address())
      return range_.commit(bytes_);
    CUGRT_ASSIGN(buffer_, driver::DeviceBuffer::allocate(context, bytes_));
    return {};
  };
  Status status = back();
  if (!status.ok())
    (void)leave();
  return status;
}

} // namespace cugrt::runtime
