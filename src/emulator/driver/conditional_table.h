// The variables behind conditional nodes, by their handles.
#pragma once

#include "emulator/driver/objects.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace cugrt::emulator::api {

/// Fields but the value and its state are guarded by Driver::mutex.
struct Conditional {
  CUgraphConditionalHandle handle = 0;
  std::shared_ptr<Context> context;
  uint64_t graph_id = 0;
  unsigned default_value = 0, flags = 0;
  bool used = false; // by a node
  std::atomic<uint32_t> value{0};
  std::atomic<bool> assigned{false}; // in this launch, by the default or by a kernel
};

/// Finds variables by handle, for kernels under way and so without Driver::mutex. Thread-safe.
class ConditionalTable {
public:
  void insert(const std::shared_ptr<Conditional> &conditional, uint64_t id) {
    constexpr uint64_t kKind = 13; // as handles of other objects say their kind
    conditional->handle = kKind << 48 | id << 4;
    std::lock_guard lock(mutex_);
    std::erase_if(table_, [](const auto &entry) { return entry.second.expired(); });
    table_.emplace(conditional->handle, conditional);
  }
  /// nullptr when the graph and its instances are gone, or there never was such a handle.
  std::shared_ptr<Conditional> find(CUgraphConditionalHandle handle) const {
    std::lock_guard lock(mutex_);
    auto found = table_.find(handle);
    return found == table_.end() ? nullptr : found->second.lock();
  }

private:
  mutable std::mutex mutex_;
  std::unordered_map<CUgraphConditionalHandle, std::weak_ptr<Conditional>> table_;
};

/// Spreads the bits of its input, for decisions by the seed.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

} // namespace cugrt::emulator::api
