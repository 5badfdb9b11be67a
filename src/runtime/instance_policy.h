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
// Thread-compatible.
#pragma once

#include "runtime/launch_log.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace cugrt::runtime {

using InstanceId = uint32_t;

struct PolicyOptions {
  uint64_t budget_bytes = uint64_t(64) << 20;
  uint32_t class_pool = 4; // instances that a class may have before keys must earn theirs
  uint32_t pin_uses = 2;   // uses of a key from which it earns one
  size_t max_tracked_keys = 4096;
};

class InstancePolicy {
public:
  struct Decision {
    enum class Kind { use, patch, build, eager } kind = Kind::eager;
    InstanceId instance = 0;           // of use and patch
    std::vector<InstanceId> give_up{}; // of build: destroy these first
    EagerReason reason{};              // of eager
  };
  /// True when the instance's last launch has ended.
  using IsIdle = std::function<bool(InstanceId)>;

  explicit InstancePolicy(PolicyOptions options) : options_(options) {}

  /// `key` holds the region's number and its symbols' values; `topology` numbers the region's
  /// class; `bytes` is the size of a new instance. Counts a use of the key.
  Decision decide(std::span<const int64_t> key, uint64_t topology, uint64_t bytes,
                  const IsIdle &is_idle);

  /// A new instance, as decided; its number is reused after remove().
  InstanceId add(std::span<const int64_t> key, uint64_t topology, uint64_t bytes);
  /// The instance is bound to another key from now on.
  void rebind(InstanceId instance, std::span<const int64_t> key);
  /// Now the most recently used one.
  void touch(InstanceId instance) { entries_[instance].last_use = ++clock_; }
  void remove(InstanceId instance);
  /// The least recently used one.
  std::optional<InstanceId> oldest() const;

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
    uint64_t topology = 0, bytes = 0, last_use = 0;
  };

  uint32_t count_use(const Key &key);
  uint32_t uses_of(const Key &key) const;
  /// Least recently used ones whose keys were used at most `uses` times, until `bytes` fit; false
  /// when they do not.
  bool make_room(uint64_t bytes, uint32_t uses, const IsIdle &is_idle,
                 std::vector<InstanceId> &give_up) const;

  PolicyOptions options_;
  std::vector<Entry> entries_; // by instance
  std::vector<InstanceId> free_;
  std::unordered_map<Key, InstanceId, KeyHash> by_key_;
  std::unordered_map<Key, uint32_t, KeyHash> uses_; // bounded: forgotten when it grows too large
  Key scratch_;
  uint64_t clock_ = 0, bytes_ = 0;
  size_t count_ = 0;
};

} // namespace cugrt::runtime
