// Registration of weights' pages; see weights_in_place.h.
#include "device/code/weights_in_place.h"

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>

namespace cugrt::runtime {

namespace {

constexpr uint64_t kAlignment = 16;

struct Tensor {
  const std::string *name;
  const HostTensor *tensor;
  bool kept;
};

} // namespace

Result<WeightsInPlace> WeightsInPlace::take(const Device &device, const WeightSet &set,
                                            const std::map<std::string, uint64_t> &kept,
                                            const std::map<std::string, uint64_t> &sources,
                                            const std::shared_ptr<MemoryBudget> &budget,
                                            std::map<std::string, uint64_t> &addresses) {
  WeightsInPlace taken;
  taken.charge_ = {budget, HeldFor::weights};
  CUGRT_ASSIGN(const bool worthwhile, driver::RegisteredPages::worthwhile(device.context()));
  if (!worthwhile)
    return taken;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  std::multimap<uint64_t, Tensor> tensors; // by address
  for (const auto *list : {&kept, &sources})
    for (const auto &[name, bytes] : *list) {
      const HostTensor &tensor = *set.find(name);
      const uint64_t address = reinterpret_cast<uintptr_t>(tensor.data());
      if (tensor.is_shared && bytes >= page && address % kAlignment == 0)
        tensors.emplace(address, Tensor{&name, &tensor, list == &kept});
    }
  for (auto first = tensors.begin(); first != tensors.end();) {
    // Two registrations may not share a page: neighbours are registered together.
    const uint64_t begin = first->first / page * page;
    uint64_t end = begin;
    uint64_t kept_bytes = 0;
    auto behind = first;
    for (; behind != tensors.end() && behind->first / page * page <= end; ++behind) {
      end = std::max(end,
                     (behind->first + behind->second.tensor->size_bytes + page - 1) / page * page);
      kept_bytes += behind->second.kept ? behind->second.tensor->size_bytes : 0;
    }
    auto pages = driver::RegisteredPages::add(device.context(),
                                              reinterpret_cast<const void *>(begin), end - begin);
    if (!pages.ok() && pages.status().code() == Code::device_lost)
      return pages.take_status();
    // Refused pages are registered by others, or cannot be: their tensors are uploaded.
    taken.size_bytes_ += pages.ok() ? kept_bytes : 0;
    for (; first != behind; ++first) {
      if (!pages.ok())
        continue;
      const Tensor &one = first->second;
      addresses[*one.name] = pages->device_address() + (first->first - begin);
      taken.owners_.push_back(one.tensor->storage);
      if (one.kept)
        taken.names_.push_back(*one.name);
    }
    const uint64_t address = pages.ok() ? pages->device_address() : 0;
    if (pages.ok())
      taken.pages_.push_back({.registered = std::move(*pages),
                              .begin = reinterpret_cast<const void *>(begin),
                              .address = address,
                              .bytes = end - begin,
                              .kept_bytes = kept_bytes});
  }
  CUGRT_TRY(taken.charge_.raise_to(taken.size_bytes_));
  return taken;
}

uint64_t WeightsInPlace::address_of(const HostTensor &tensor) const {
  for (const Pages &one : pages_)
    if (const uint64_t at = static_cast<const char *>(static_cast<const void *>(tensor.data())) -
                            static_cast<const char *>(one.begin);
        at < one.bytes)
      return one.address + at;
  return 0;
}

void WeightsInPlace::leave() {
  for (Pages &one : pages_) {
    one.registered = {};
    one.copy = {};
    (void)::madvise(const_cast<void *>(one.begin), one.bytes, MADV_PAGEOUT); // a hint
  }
  charge_.lower_to(0);
  size_bytes_ = 0;
}

Status WeightsInPlace::come_back(const Device &device,
                                 const std::shared_ptr<MemoryBudget> &budget) {
  const auto bring = [&](Pages &one) -> Status {
    auto pages = driver::RegisteredPages::add(device.context(), one.begin, one.bytes);
    if (!pages.ok() && pages.status().code() == Code::device_lost)
      return pages.take_status();
    if (pages.ok()) {
      one.registered = std::move(*pages);
      one.address = one.registered.device_address();
      CUGRT_TRY(charge_.raise_to(size_bytes_ + one.kept_bytes));
      size_bytes_ += one.kept_bytes;
      return {};
    }
    CUGRT_ASSIGN(one.copy, WeightMemory::allocate(device.context(), one.bytes, budget));
    one.address = one.copy.address();
    return driver::copy_to_device(device.context(), one.address, one.begin, one.bytes);
  };
  for (Pages &one : pages_)
    if (Status status = bring(one); !status.ok()) {
      leave();
      return status;
    }
  return {};
}

void WeightsInPlace::give_back_sources(bool for_good) {
  for (Pages &one : pages_)
    if (one.kept_bytes == 0) {
      one.registered = {};
      one.copy = {};
    }
  if (for_good)
    std::erase_if(pages_, [](const Pages &one) { return one.kept_bytes == 0; });
}

} // namespace cugrt::runtime
