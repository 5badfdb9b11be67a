// Which graph instance serves a key: pin, patch or eager. Bookkeeping only; it knows no driver.
//
// A region's key is the values of the symbols that it depends on; keys whose nodes and edges are
// equal are of one topology class, and an instance of the class can be patched to any of them.
//
//   the key has an instance       use it
//   there is room, and the class  build one for the key: it is there to stay
//   has few, or the key has come
//   often enough without one
//   an instance of the class has  patch that one, which is free: the key comes all the same
//   not been used for some of the
//   key's uses
//   ones of other classes have    build, giving up the least recently used of those
//   not been used for as many as
//   pay two builds
//   otherwise                     patch the class's instance that was patched last: setters cost a
//                                 fraction of a build, and only for nodes that differ
//   the class has none            eager, with the reason
//
// So keys that are used in turn, more than there is room for, leave each other's instances alone:
// all but one of a class stay with their keys, and the others share that one. An instance goes only
// when another key came several times and its own not once, and it goes by being built over only
// when those uses have cost as much as building both. Keys that are not used any more make way
// after a number of uses of those that follow them.
//
// Patching is legal while an instance runs: setters affect later launches only, and runs of a
// session are ordered on the device anyway. Giving up an instance is not: it must be idle.
// The budget's bytes are set aside before an instance is made, also by threads that make some
// ahead: those that are alive and those that are being made never come to more than it.
//
// Thread-compatible, but for contains() and reserve().
#pragma once

#include "device/graph/launch_log.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cugrt::runtime {

using InstanceId = uint32_t;

/// Bytes that the instances of a session, or of all sessions of a group, may have. Any thread.
struct InstanceBudget {
  explicit InstanceBudget(uint64_t limit_bytes) : limit_bytes(limit_bytes) {}
  const uint64_t limit_bytes;
  std::atomic<uint64_t> used = 0;
};

struct PolicyOptions {
  uint64_t budget_bytes = uint64_t(64) << 20;
  uint32_t class_pool = 4;   // instances that a class may have before keys must earn theirs
  uint32_t pin_uses = 2;     // uses of a key without an instance from which it earns one
  bool at_any_price = false; // rather give up what is in use than be eager
  size_t max_tracked_keys = 4096;
  std::shared_ptr<InstanceBudget> shared{}; // in place of budget_bytes; null: none is shared
  std::function<bool()> more_room{};        // of it, from others that let one go; false: none does
};

/// Bytes of a budget for one instance, made or to be made; given back at the end.
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
  /// Facts that only the owner of the instances knows.
  struct Ask {
    std::function<bool(InstanceId)> is_idle;      // its last launch has ended
    std::function<uint64_t(InstanceId)> last_use; // larger: used later
    uint64_t now = 0;                             // last_use() of what is used now will be larger
  };

  explicit InstancePolicy(PolicyOptions options)
      : options_(std::move(options)),
        budget_(options_.shared ? options_.shared
                                : std::make_shared<InstanceBudget>(options_.budget_bytes)) {}

  /// `key` holds the region's number and its symbols' values; `topology` numbers the region's
  /// class; `bytes` is the size of a new instance. Counts a use of the key. With its `pin_uses`th
  /// use without an instance (0: as in the options) a key earns one.
  Decision decide(std::span<const int64_t> key, uint64_t topology, uint64_t bytes, const Ask &ask,
                  uint32_t pin_uses = 0);

  /// Decides among existing instances: use, patch, or eager if the class has none. Counts
  /// nothing.
  Decision reuse(std::span<const int64_t> key, uint64_t topology, const Ask &ask);

  /// Reserves bytes of the budget, of which `leaving` are about to be given back. Returns nothing
  /// if they are not free; then `*free_bytes` gets the free bytes. Any thread.
  BudgetShare reserve(uint64_t bytes, uint64_t leaving = 0, uint64_t *free_bytes = nullptr);

  /// Adds a new instance, decided or made ahead; remove() frees its number.
  InstanceId add(std::span<const int64_t> key, uint64_t topology, BudgetShare room);
  /// Binds the instance to another key.
  void rebind(InstanceId instance, std::span<const int64_t> key);
  void remove(InstanceId instance);

  /// Any thread.
  bool contains(std::span<const int64_t> key) const;
  uint64_t budget_bytes() const { return budget_->limit_bytes; }
  /// Bytes of the instances alive.
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
    uint64_t bound = 0; // larger: patched to its key later; 0: never
  };
  /// Uses of a key without an instance of its own, in two spans with their begins: one compares the
  /// key with its class, one pays for building in place of other instances.
  struct Account {
    uint32_t uses = 0;
    uint64_t turn_begin = 0, price_begin = 0;
  };
  Account &count_use(const Key &key, uint64_t now);
  /// Returns the key's instance, after copying the key to scratch_.
  std::optional<InstanceId> find(std::span<const int64_t> key);
  /// Finds the class's instance to patch; empty if it has none. `stale`: it was last used until
  /// `stale_until`.
  std::optional<InstanceId> find_patched(uint64_t topology, std::optional<uint64_t> stale_until,
                                         const Ask &ask, bool &stale) const;
  /// Gives up least recently used instances of other classes, last used until `stale_until`, until
  /// `bytes` fit; false if they do not.
  bool make_room(uint64_t bytes, uint64_t topology, uint64_t stale_until, const Ask &ask,
                 Decision &decision);

  PolicyOptions options_;
  std::shared_ptr<InstanceBudget> budget_; // outlives the entries' shares
  std::vector<Entry> entries_;             // by instance
  std::vector<InstanceId> free_;
  mutable std::mutex mutex_; // held while by_key_ changes, and where another thread reads it
  std::unordered_map<Key, InstanceId, KeyHash> by_key_;
  std::unordered_map<Key, Account, KeyHash> accounts_; // bounded: forgotten when it grows too large
  Key scratch_;
  uint64_t bytes_ = 0, bindings_ = 0;
  size_t count_ = 0;
};

} // namespace cugrt::runtime
