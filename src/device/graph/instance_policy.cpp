// The policy's rules; see instance_policy.h.
#include "device/graph/instance_policy.h"

#include <algorithm>

namespace cugrt::runtime {

// After this many uses of a key that has no instance, the key takes over one of its class that was
// not used once in that time. A smaller number would let a key take the instance of one that is
// used as often as itself.
constexpr uint32_t kTurnUses = 4;

/// At the last of `length` uses, returns when the first one was and begins the next span.
static std::optional<uint64_t> ends_span(uint32_t uses, uint64_t length, uint64_t &begin,
                                         uint64_t now) {
  if (uses % std::max<uint64_t>(length, 1) != 0)
    return std::nullopt;
  return std::exchange(begin, now);
}

size_t InstancePolicy::KeyHash::operator()(const Key &key) const {
  uint64_t hash = key.size();
  for (int64_t value : key) {
    hash ^= static_cast<uint64_t>(value) + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdu;
  }
  return hash;
}

InstancePolicy::Account &InstancePolicy::count_use(const Key &key, uint64_t now) {
  // Forgetting all is crude, but bounded; a key in steady use earns its instance back at once.
  if (accounts_.size() >= options_.max_tracked_keys && !accounts_.contains(key))
    accounts_.clear();
  Account &account = accounts_[key];
  if (account.uses == 0)
    account.turn_begin = account.price_begin = now;
  account.uses += account.uses != UINT32_MAX;
  return account;
}

BudgetShare InstancePolicy::reserve(uint64_t bytes, uint64_t leaving, uint64_t *free_bytes) {
  auto &all = budget_->used;
  uint64_t used = all.load();
  while (true) {
    uint64_t staying = used - leaving;
    uint64_t left = budget_bytes() - std::min(staying, budget_bytes());
    if (bytes > left) {
      if (free_bytes)
        *free_bytes = left;
      return {};
    }
    if (all.compare_exchange_weak(used, used + bytes))
      return {all, bytes};
  }
}

bool InstancePolicy::make_room(uint64_t bytes, uint64_t topology, uint64_t stale_until,
                               const Ask &ask, Decision &decision) {
  if (bytes > budget_bytes())
    return false;
  std::vector<std::pair<uint64_t, InstanceId>> candidates; // by last use
  for (InstanceId i = 0; i < entries_.size(); ++i)
    if (entries_[i].alive && entries_[i].topology != topology && ask.last_use(i) <= stale_until &&
        ask.is_idle(i))
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

std::optional<InstanceId> InstancePolicy::find_patched(uint64_t topology,
                                                       std::optional<uint64_t> stale_until,
                                                       const Ask &ask, bool &stale) const {
  std::optional<InstanceId> oldest, latest;
  for (InstanceId i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].alive || entries_[i].topology != topology)
      continue;
    if (!oldest || ask.last_use(i) < ask.last_use(*oldest))
      oldest = i;
    if (!latest || entries_[i].bound > entries_[*latest].bound)
      latest = i;
  }
  stale = oldest && stale_until && ask.last_use(*oldest) <= *stale_until;
  return stale || (latest && entries_[*latest].bound == 0) ? oldest : latest;
}

std::optional<InstanceId> InstancePolicy::find(std::span<const int64_t> key) {
  scratch_.assign(key.begin(), key.end());
  const auto it = by_key_.find(scratch_);
  return it == by_key_.end() ? std::nullopt : std::optional(it->second);
}

InstancePolicy::Decision InstancePolicy::reuse(std::span<const int64_t> key, uint64_t topology,
                                               const Ask &ask) {
  if (const auto found = find(key))
    return {.kind = Decision::Kind::use, .instance = *found};
  bool stale = false;
  if (const auto patched = find_patched(topology, std::nullopt, ask, stale))
    return {.kind = Decision::Kind::patch, .instance = *patched};
  return {};
}

InstancePolicy::Decision InstancePolicy::decide(std::span<const int64_t> key, uint64_t topology,
                                                uint64_t bytes, const Ask &ask, uint32_t pin_uses) {
  if (const auto found = find(key))
    return {.kind = Decision::Kind::use, .instance = *found};
  Decision decision;
  const auto of_class = static_cast<uint32_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [&](const Entry &entry) { return entry.alive && entry.topology == topology; }));
  // Without an instance to patch the key is launched node by node, whatever setters would cost.
  const uint32_t earning = pin_uses && of_class ? pin_uses : options_.pin_uses;
  Account &account = count_use(scratch_, ask.now);
  if ((of_class < options_.class_pool || account.uses >= earning) &&
      (decision.room = reserve(bytes))) {
    decision.kind = Decision::Kind::build;
    account.uses = 0;
    return decision;
  }
  std::optional<uint64_t> turn = ends_span(account.uses, kTurnUses, account.turn_begin, ask.now),
                          price = ends_span(account.uses, 2 * uint64_t(earning),
                                            account.price_begin, ask.now);
  if (options_.at_any_price && of_class == 0)
    price = UINT64_MAX;
  bool stale = false;
  std::optional<InstanceId> patched = find_patched(topology, turn, ask, stale);
  auto ask_others = [&] {
    while (options_.more_room && bytes <= budget_bytes() && !(decision.room = reserve(bytes)))
      if (!options_.more_room())
        return false;
    return static_cast<bool>(decision.room);
  };
  if (price && !stale && (make_room(bytes, topology, *price, ask, decision) || ask_others())) {
    decision.kind = Decision::Kind::build;
    account.uses = 0;
    return decision;
  }
  if (patched) {
    decision.kind = Decision::Kind::patch;
    decision.instance = *patched;
    return decision;
  }
  decision.kind = Decision::Kind::eager;
  decision.reason = bytes > budget_bytes() ? EagerReason::too_large : EagerReason::budget_full;
  return decision;
}

InstanceId InstancePolicy::add(std::span<const int64_t> key, uint64_t topology, BudgetShare room) {
  Entry entry{true, Key(key.begin(), key.end()), topology, std::move(room), 0};
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
  {
    std::lock_guard lock(mutex_);
    auto node = by_key_.extract(entry.key); // keys of a class are as long as each other
    node.key().assign(key.begin(), key.end());
    by_key_.insert(std::move(node));
  }
  entry.key.assign(key.begin(), key.end());
  entry.bound = ++bindings_;
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
