// Registration of weights' pages; see weights_in_place.h.
#include "device/code/weights_in_place.h"

#include <algorithm>
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
                                            std::map<std::string, uint64_t> &addresses) {
  WeightsInPlace taken;
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
    bool any_kept = false;
    auto behind = first;
    for (; behind != tensors.end() && behind->first / page * page <= end; ++behind) {
      end = std::max(end,
                     (behind->first + behind->second.tensor->size_bytes + page - 1) / page * page);
      any_kept = any_kept || behind->second.kept;
    }
    auto pages = driver::RegisteredPages::add(device.context(),
                                              reinterpret_cast<const void *>(begin), end - begin);
    if (!pages.ok() && pages.status().code() == Code::device_lost)
      return pages.take_status();
    // Else another registers them, or they cannot be: they are uploaded.
    for (; first != behind; ++first) {
      if (!pages.ok())
        continue;
      const auto &[name, tensor, is_kept] = first->second;
      addresses[*name] = pages->device_address() + (first->first - begin);
      taken.owners_.push_back(tensor->storage);
      taken.size_bytes_ += is_kept ? tensor->size_bytes : 0;
    }
    if (pages.ok())
      taken.pages_.push_back({std::move(*pages), any_kept});
  }
  return taken;
}

void WeightsInPlace::give_back_sources() {
  std::erase_if(pages_, [](const Pages &one) { return !one.kept; });
}

} // namespace cugrt::runtime
