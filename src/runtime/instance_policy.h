// Which graph instance serves a key: pin, patch or eager. Bookkeeping only; it knows no driver.
//
// A region's key is the values of the symbols that it depends on; keys whose nodes and edges are
// equal are of one topology class, and an instance of the class can be patched to any of them.
//
//   the key has an instance       use it
//   the class has few instances   build one for the key: while there is room, a build that is never
//                                 repeated beats patching back and forth
//   the key comes again           it is worth an instance of its own ("pinned"): build, giving up
//   the
//                                 least recently used ones that were used no more often
//   otherwise                     patch the class's least recently used instance to the key:
//   setters
//                                 cost a fraction of a build, and only for nodes that differ
//   nothing fits                  eager, with the reason
//
// Patching is legal while an instance runs: setters affect later launches only, and runs of a
// session are ordered on the device anyway. Giving up an instance is not: it must be idle.
// The budget's bytes are set aside before an instance is made, also by threads that make some
// ahead: those that are alive and those that are being made never come to more than it.
//
// Thread-compatible, but for contains() and reserve().
#pragma once

#include "runtime/launch_log.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cugrt::runtime {

using InstanceId = uint32_t;

struct PolicyOptions {
  uint64_t budget_bytes = uint64_t(64) << 20;
  uint32_t class_pool = 4; // instances that a class may have before keys must earn theirs
  uint32_t pin_uses = 2;   // uses of a key from which it earns one
  size_t max_tracked_keys = 4096;
};

/// Bytes of a budget that are one instance's, made or to be made; given back at the end.
class BudgetShare {
public:
  BudgetShare() = default;
  /// `used` counts these bytes already, and outlives this.
  BudgetShare(std::atomic<uint64_t> &used, uint64_t bytes) : used_(&used), bytes_(bytes) {}
  BudgetShare(BudgetShare &&other) noexcept
      : used_(std::exchange(other.used_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  BudgetShare &operator=(BudgetShare &&other) noexcept {
    std::swap(used_, other.used_);
    std::swap(bytes_, other.bytes_);
    other.give_back();
    return *this;
  }
  ~BudgetShare() { give_back(); }

  explicit operator bool() const { return used_ != nullptr; }
  uint64_t bytes() const { return bytes_; }
  void give_back() noexcept {
    if (used_)
      *used_ -= bytes_;
    used_ = nullptr;
    bytes_ = 0;
  }

private:
  std::atomic<uint64_t> *used_ = nullptr;
  uint64_t bytes_ = 0;
};

class InstancePolicy {
public:
  struct Decision {
    enum class Kind { use, patch, build, eager } kind = Kind::eager;
    InstanceId instance = 0;           // of use and patch
    std::vector<InstanceId> give_up{}; // of build: destroy these first
    BudgetShare room{};                // of build: for the new instance, once those are gone
    EagerReason reason{};              // of eager
  };
  /// What only the owner of the instances knows.
  struct Ask {
    std::function<bool(InstanceId)> is_idle;      // its last launch has ended
    std::function<uint64_t(InstanceId)> last_use; // larger: used later
  };

  explicit InstancePolicy(PolicyOptions options) : options_(options) {}

  /// `key` holds the region's number and its symbols' values; `topology` numbers the region's
  /// class; `bytes` is the size of a new instance. Counts a use of the key.
  /// From its use number `pin_uses` on (0: as in the options) a key earns an instance.
  Decision decide(std::span<const int64_t> key, uint64_t topology, uint64_t bytes, const Ask &ask,
                  uint32_t pin_uses = 0);

  /// Sets bytes of the budget aside, `leaving` ones of which are about to be given back; empty when
  /// they are not free, and then `*free_bytes` is what is. Any thread.
  BudgetShare reserve(uint64_t bytes, uint64_t leaving = 0, uint64_t *free_bytes = nullptr);

  /// A new instance, as decided; its number is reused after remove().
  InstanceId add(std::span<const int64_t> key, uint64_t topology, BudgetShare room);
  /// The instance is bound to another key from now on.
  void rebind(InstanceId instance, std::span<const int64_t> key);
  void remove(InstanceId instance);

  /// Any thread.
  bool contains(std::span<const int64_t> key) const;
  /// Of the instances alive.
  uint64_t bytes() const { return bytes_; }
  size_t size() const { return count_; }
  /// Every number given out so far is below this.
  size_t capacity() const { return entries_.size(); }

private:
  using Key = std::vector<int64_t>;
  struct KeyHash {
    size_t operator()(const Key &key) const;
  };
  struct Entry {
    bool alive = false;
    Key key;
    uint64_t topology = 0;
    BudgetShare room;
  };

  uint32_t count_use(const Key &key);
  uint32_t uses_of(const Key &key) const;
  /// With the least recently used ones given up whose keys were used at most `uses` times, until
  /// `bytes` fit; false when they do not.
  bool make_room(uint64_t bytes, uint32_t uses, const Ask &ask, Decision &decision);

  PolicyOptions options_;
  std::atomic<uint64_t> used_ = 0; // of the budget; outlives the entries' shares
  std::vector<Entry> entries_;     // by instance
  std::vector<InstanceId> free_;
  mutable std::mutex mutex_; // held while by_key_ changes, and where another thread reads it
  std::unordered_map<Key, InstanceId, KeyHash> by_key_;
  std::unordered_map<Key, uint32_t, KeyHash> uses_; // bounded: forgotten when it grows too large
  Key scratch_;
  uint64_t bytes_ = 0;
  size_t count_ = 0;
};

} // namespace cugrt::runtime
