// A budget of device memory; see memory_budget.h.
#include "device/context/memory_budget.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace cugrt::runtime {

Status MemoryBudget::take(HeldFor use, uint64_t bytes) {
  return attempt([&] { return try_take(use, bytes); });
}

uint64_t MemoryBudget::limit_bytes() const {
  std::lock_guard lock(mutex_);
  return limit_bytes_;
}

Status MemoryBudget::set_limit(uint64_t limit_bytes) {
  return attempt([&]() -> Status {
    std::lock_guard lock(mutex_);
    const uint64_t held = std::accumulate(held_.begin(), held_.end(), uint64_t(0));
    if (limit_bytes != 0 && held > limit_bytes)
      return Status::error(Code::out_of_device_memory,
                           "a budget of " + std::to_string(limit_bytes) +
                               " bytes is less than what the group holds and cannot leave now: " +
                               std::to_string(held) + " bytes");
    limit_bytes_ = limit_bytes;
    return {};
  });
}

Status MemoryBudget::attempt(const std::function<Status()> &what) {
  while (true) {
    Status status = what();
    if (status.ok())
      return status;
    std::function<bool()> make_room;
    {
      std::lock_guard lock(mutex_);
      make_room = make_room_;
    }
    if (!make_room || !make_room())
      return status;
  }
}

Status MemoryBudget::try_take(HeldFor use, uint64_t bytes) {
  constexpr const char *kUses[] = {"an arena", "weights", "results", "a buffer"};
  std::lock_guard lock(mutex_);
  const uint64_t held = std::accumulate(held_.begin(), held_.end(), uint64_t(0));
  if (limit_bytes_ == 0 || (held <= limit_bytes_ && bytes <= limit_bytes_ - held)) {
    held_[size_t(use)] += bytes;
    return {};
  }
  auto text = [&](HeldFor kind) { return std::to_string(held_[size_t(kind)]); };
  return Status::error(
      Code::out_of_device_memory,
      "the group's budget of " + std::to_string(limit_bytes_) + " bytes has no room for " +
          std::to_string(bytes) + " bytes of " + kUses[size_t(use)] + ": its sessions hold " +
          text(HeldFor::arenas) + " of arenas, " + text(HeldFor::weights) + " of weights, " +
          text(HeldFor::results) + " of results and " + text(HeldFor::buffers) +
          " of buffers; all that they may come to, and this one, fits in " +
          std::to_string(std::max(held + bytes, claimed_bytes() + held_[size_t(HeldFor::buffers)] +
                                                    (use == HeldFor::buffers ? bytes : 0))) +
          " bytes");
}

void MemoryBudget::claim(const void *owner, std::vector<Claim> claims) {
  std::lock_guard lock(mutex_);
  std::erase_if(claims_, [&](const Claim &claim) { return claim.owner == owner; });
  for (Claim &claim : claims) {
    claim.owner = owner;
    claims_.push_back(std::move(claim));
  }
}

/// The mutex is held.
uint64_t MemoryBudget::claimed_bytes() const {
  std::map<std::pair<const void *, std::string_view>, uint64_t> shared;
  uint64_t bytes = 0, moment = 0;
  for (const Claim &claim : claims_) {
    moment = std::max(moment, claim.moment);
    uint64_t *const largest = claim.word ? &shared[{claim.word, claim.scope}] : nullptr;
    const uint64_t before = largest ? *largest : 0;
    bytes += std::max(claim.bytes, before) - before;
    if (largest)
      *largest = std::max(claim.bytes, before);
  }
  return bytes + moment;
}

void MemoryBudget::give(HeldFor use, uint64_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  held_[size_t(use)] -= bytes;
}

uint64_t MemoryBudget::held_bytes(HeldFor use) const {
  std::lock_guard lock(mutex_);
  return held_[size_t(use)];
}

void MemoryBudget::set_make_room(std::function<bool()> make_room) {
  std::lock_guard lock(mutex_);
  make_room_ = std::move(make_room);
}

} // namespace cugrt::runtime
