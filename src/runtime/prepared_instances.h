// Mailbox for instances that were made ahead: any thread puts them in, the session's thread takes
// them out when it next looks for an instance.
//
// What is in it belongs to nobody else: graph objects need no lock on their way. Bounded, so that a
// session that never runs does not collect instances without end.
#pragma once

#include "runtime/graph_instance.h"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace cugrt::runtime {

struct PreparedInstance {
  uint32_t region = 0; // the cache's number
  std::vector<int64_t> key;
  uint64_t bytes = 0;
  std::unique_ptr<GraphInstance> instance;
};

class PreparedInstances {
public:
  static constexpr size_t kCapacity = 1024;

  bool waiting() const { return waiting_.load(std::memory_order_acquire); }

  bool contains(std::span<const int64_t> key) const {
    std::lock_guard lock(mutex_);
    return std::any_of(list_.begin(), list_.end(), [&](const PreparedInstance &prepared) {
      return std::equal(key.begin(), key.end(), prepared.key.begin(), prepared.key.end());
    });
  }
  /// Of all instances that wait.
  uint64_t bytes() const {
    std::lock_guard lock(mutex_);
    uint64_t sum = 0;
    for (const PreparedInstance &prepared : list_)
      sum += prepared.bytes;
    return sum;
  }
  /// False when the mailbox is full: the instance stays with the caller.
  bool put(PreparedInstance &&prepared) {
    std::lock_guard lock(mutex_);
    if (list_.size() >= kCapacity)
      return false;
    list_.push_back(std::move(prepared));
    waiting_.store(true, std::memory_order_release);
    return true;
  }
  std::vector<PreparedInstance> take() {
    std::lock_guard lock(mutex_);
    waiting_.store(false, std::memory_order_relaxed);
    return std::exchange(list_, {});
  }

private:
  std::atomic<bool> waiting_ = false;
  mutable std::mutex mutex_; // guards list_
  std::vector<PreparedInstance> list_;
};

/// What preparing a function for one set of symbol values came to; see cugrt_prepare_report.
struct PrepareReport {
  uint64_t regions = 0, built = 0, present = 0, unknown = 0, refused = 0;
  uint64_t built_bytes = 0;
  EagerReason reason = EagerReason::none; // of the first that was refused, with its figures
  const std::string *region = nullptr;
  uint64_t needed_bytes = 0, free_bytes = 0;
};

} // namespace cugrt::runtime
