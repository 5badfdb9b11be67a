// The policy's rules; see instance_policy.h.
#include "runtime/instance_policy.h"

#include <algorithm>

namespace cugrt::runtime {

size_t InstancePolicy::KeyHash::operator()(const Key &key) const {
  uint64_t hash = key.size();
  for (int64_t value : key) {
    hash ^= static_cast<uint64_t>(value) + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdu;
  }
  return hash;
}

uint32_t InstancePolicy::count_use(const Key &key) {
  // Forgetting all is crude, but bounded, and a key in steady use earns its instance back at once.
  if (uses_.size() >= options_.max_tracked_keys && !uses_.contains(key))
    uses_.clear();
  return ++uses_[key];
}

uint32_t InstancePolicy::uses_of(const Key &key) const {
  auto it = uses_.find(key);
  return it == uses_.end() ? 0 : it->second;
}

BudgetShare InstancePolicy::reserve(uint64_t bytes, uint64_t leaving, uint64_t *free_bytes) {
  uint64_t used = used_.load();
  while (true) {
    uint64_t staying = used - leaving;
    uint64_t left = options_.budget_bytes - std::min(staying, options_.budget_bytes);
    if (bytes > left) {
      if (free_bytes)
        *free_bytes = left;
      return {};
    }
    if (used_.compare_exchange_weak(used, used + bytes))
      return {used_, bytes};
  }
}

bool InstancePolicy::make_room(uint64_t bytes, uint32_t uses, const Ask &ask, Decision &decision) {
  if ((decision.room = reserve(bytes)))
    return true;
  if (bytes > options_.budget_bytes)
    return false;
  std::vector<std::pair<uint64_t, InstanceId>> candidates; // by last use
  for (InstanceId i = 0; i < entries_.size(); ++i)
    if (entries_[i].alive && uses_of(entries_[i].key) <= uses && ask.is_idle(i))
      candidates.emplace_back(ask.last_use(i), i);
  std::sort(candidates.begin(), candidates.end());
  uint64_t leaving = 0;
  for (auto [last_use, candidate] : candidates) {
    decision.give_up.push_back(candidate);
    leaving += entries_[candidate].room.bytes();
    if ((decision.room = reserve(bytes, leaving)))
      return true;
  }
  decision.give_up.clear();
  return false;
}

InstancePolicy::Decision InstancePolicy::decide(std::span<const int64_t> key, uint64_t topology,
                                                uint64_t bytes, const Ask &ask, uint32_t pin_uses) {
  Decision decision;
  scratch_.assign(key.begin(), key.end());
  uint32_t uses = count_use(scratch_);
  if (auto it = by_key_.find(scratch_); it != by_key_.end()) {
    decision.kind = Decision::Kind::use;
    decision.instance = it->second;
    return decision;
  }
  uint32_t of_class = 0;
  uint64_t oldest = 0;
  for (InstanceId i = 0; i < entries_.size(); ++i) {
    const Entry &entry = entries_[i];
    if (!entry.alive || entry.topology != topology)
      continue;
    if (uint64_t last_use = ask.last_use(i); of_class++ == 0 || last_use < oldest) {
      oldest = last_use;
      decision.instance = i;
    }
  }
  bool earned = uses >= (pin_uses ? pin_uses : options_.pin_uses);
  if ((of_class < options_.class_pool && (decision.room = reserve(bytes))) ||
      ((earned || of_class == 0) && make_room(bytes, uses, ask, decision))) {
    decision.kind = Decision::Kind::build;
    return decision;
  }
  if (of_class != 0) {
    decision.kind = Decision::Kind::patch;
    return decision;
  }
  decision.kind = Decision::Kind::eager;
  decision.reason =
      bytes > options_.budget_bytes ? EagerReason::too_large : EagerReason::budget_full;
  return decision;
}

InstanceId InstancePolicy::add(std::span<const int64_t> key, uint64_t topology, BudgetShare room) {
  Entry entry{true, Key(key.begin(), key.end()), topology, std::move(room)};
  if (free_.empty()) {
    free_.reserve(entries_.size() + 1); // remove() must not fail
    entries_.emplace_back();
    free_.push_back(static_cast<InstanceId>(entries_.size() - 1));
  }
  InstanceId instance = free_.back();
  {
    std::lock_guard lock(mutex_);
    by_key_[entry.key] = instance;
  }
  bytes_ += entry.room.bytes();
  entries_[instance] = std::move(entry);
  free_.pop_back();
  ++count_;
  return instance;
}

void InstancePolicy::rebind(InstanceId instance, std::span<const int64_t> key) {
  Entry &entry = entries_[instance];
  if (std::equal(key.begin(), key.end(), entry.key.begin(), entry.key.end()))
    return;
  Key renewed(key.begin(), key.end());
  {
    std::lock_guard lock(mutex_);
    by_key_[renewed] = instance;
    by_key_.erase(entry.key);
  }
  entry.key = std::move(renewed);
}

bool InstancePolicy::contains(std::span<const int64_t> key) const {
  std::lock_guard lock(mutex_);
  return by_key_.contains(Key(key.begin(), key.end()));
}

void InstancePolicy::remove(InstanceId instance) {
  Entry &entry = entries_[instance];
  {
    std::lock_guard lock(mutex_);
    by_key_.erase(entry.key);
  }
  bytes_ -= entry.room.bytes();
  entry.room.give_back();
  --count_;
  entry.alive = false;
  free_.push_back(instance);
}

} // namespace cugrt::runtime
