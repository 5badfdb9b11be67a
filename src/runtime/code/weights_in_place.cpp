// Registration of weights' pages; see weights_in_place.h.
#include "runtime/code/weights_in_place.h"

#include <algorithm>
#include <unistd.h>

namespace cugrt::runtime {

namespace {

constexpr uint64_t kAlignment = 16;

/// Whole pages that tensors lie in one behind another.
struct PageRange {
  uint64_t begin = 0, end = 0;
  bool kept = false;
  std::vector<const std::string *> names;
};

uint64_t host_address(const HostTensor &tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data());
}

/// Two registrations may not share a page.
std::vector<PageRange> join(std::vector<PageRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const PageRange &a, const PageRange &b) { return a.begin < b.begin; });
  std::vector<PageRange> joined;
  for (PageRange &range : ranges) {
    if (joined.empty() || range.begin > joined.back().end) {
      joined.push_back(std::move(range));
      continue;
    }
    PageRange &last = joined.back();
    last.end = std::max(last.end, range.end);
    last.kept = last.kept || range.kept;
    last.names.insert(last.names.end(), range.names.begin(), range.names.end());
  }
  return joined;
}

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
  std::vector<PageRange> ranges;
  for (const auto *tensors : {&kept, &sources})
    for (const auto &[name, bytes] : *tensors) {
      const HostTensor &tensor = *set.find(name);
      const uint64_t begin = host_address(tensor);
      if (tensor.is_shared && bytes >= page && begin % kAlignment == 0)
        ranges.push_back({begin / page * page,
                          (begin + bytes + page - 1) / page * page,
                          tensors == &kept,
                          {&name}});
    }
  ranges = join(std::move(ranges));
  std::stable_partition(ranges.begin(), ranges.end(), [](const PageRange &r) { return r.kept; });
  for (const PageRange &range : ranges) {
    auto pages = driver::RegisteredPages::add(
        device.context(), reinterpret_cast<const void *>(range.begin), range.end - range.begin);
    if (!pages.ok()) {
      if (pages.status().code() == Code::device_lost)
        return pages.take_status();
      continue; // another registers them, or they cannot be: they are uploaded
    }
    for (const std::string *name : range.names) {
      const HostTensor &tensor = *set.find(*name);
      addresses[*name] = pages->device_address() + (host_address(tensor) - range.begin);
      taken.owners_.push_back(tensor.storage);
      taken.size_bytes_ += kept.contains(*name) ? tensor.size_bytes : 0;
    }
    taken.kept_pages_ += range.kept;
    taken.pages_.push_back(std::move(*pages));
  }
  return taken;
}

void WeightsInPlace::give_back_sources() { pages_.resize(kept_pages_); }

} // namespace cugrt::runtime
