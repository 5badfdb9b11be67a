// See conditional_table.h.
#include "emulator/driver/conditional_table.h"

namespace cugrt::emulator::api {

void ConditionalTable::insert(const std::shared_ptr<Conditional> &conditional, uint64_t id) {
  constexpr uint64_t kKind = 13; // as handles of other objects say their kind
  conditional->handle = kKind << 48 | id << 4;
  std::lock_guard lock(mutex_);
  std::erase_if(table_, [](const auto &entry) { return entry.second.expired(); });
  table_.emplace(conditional->handle, conditional);
}

std::shared_ptr<Conditional> ConditionalTable::find(CUgraphConditionalHandle handle) const {
  std::lock_guard lock(mutex_);
  auto found = table_.find(handle);
  return found == table_.end() ? nullptr : found->second.lock();
}

} // namespace cugrt::emulator::api
