// Mailbox for instances that were made ahead: any thread puts them in, the session's thread takes
// them out when it next looks for an instance.
//
// Its instances belong to nobody else: graph objects need no lock on their way. Bounded, so that a
// session that never runs does not collect instances without end; each brings its bytes of the
// budget with it. A key is made by one thread at a time: whoever wants the same waits for that one.
#pragma once

#include "device/graph/graph_instance.h"
#include "device/graph/instance_policy.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

namespace cugrt::runtime {

struct PreparedInstance {
  uint32_t region = 0; // the cache's number
  std::vector<int64_t> key;
  BudgetShare room;
  std::unique_ptr<GraphInstance> instance;
};

class PreparedInstances {
public:
  static constexpr size_t kCapacity = 1024;
  using Key = std::vector<int64_t>;

  bool waiting() const { return waiting_.load(std::memory_order_acquire); }

  bool contains(const Key &key) const {
    std::lock_guard lock(mutex_);
    return std::any_of(list_.begin(), list_.end(),
                       [&](const PreparedInstance &prepared) { return prepared.key == key; });
  }

  /// While it lives, no other thread has a claim on the same key.
  class Claim {
  public:
    Claim(PreparedInstances &owner, const Key &key) : owner_(owner), key_(key) {
      std::unique_lock lock(owner_.mutex_);
      owner_.changed_.wait(lock, [&] {
        return std::find(owner_.making_.begin(), owner_.making_.end(), key_) ==
               owner_.making_.end();
      });
      owner_.making_.push_back(key_);
    }
    ~Claim() {
      std::lock_guard lock(owner_.mutex_);
      std::erase(owner_.making_, key_);
      owner_.changed_.notify_all();
    }
    Claim(const Claim &) = delete;

  private:
    PreparedInstances &owner_;
    const Key key_;
  };
  /// Whether the instances that claims will make fit in.
  bool has_room() const {
    std::lock_guard lock(mutex_);
    return list_.size() + making_.size() <= kCapacity;
  }
  void put(PreparedInstance &&prepared) {
    std::lock_guard lock(mutex_);
    list_.push_back(std::move(prepared));
    waiting_.store(true, std::memory_order_release);
  }
  /// Hands all waiting instances to `adopt`, the oldest first. contains() knows an instance until
  /// `adopt` has returned, so an instance that is not in here any more has been adopted.
  template <class Adopt> void take(Adopt adopt) {
    std::lock_guard lock(mutex_);
    waiting_.store(false, std::memory_order_relaxed);
    while (!list_.empty()) {
      PreparedInstance next = std::move(list_.front());
      list_.pop_front();
      adopt(std::move(next));
    }
  }

private:
  std::atomic<bool> waiting_ = false;
  mutable std::mutex mutex_;        // guards what follows
  std::condition_variable changed_; // making_ has
  std::vector<Key> making_;
  std::deque<PreparedInstance> list_;
};

/// Result of preparing a function for one set of symbol values; see cugrt_prepare_report.
struct PrepareReport {
  uint64_t regions = 0, built = 0, present = 0, unknown = 0, refused = 0;
  uint64_t built_bytes = 0;
  EagerReason reason = EagerReason::none; // of the first that was refused, with its figures
  const std::string *region = nullptr;
  uint64_t needed_bytes = 0, free_bytes = 0;
};

} // namespace cugrt::runtime
