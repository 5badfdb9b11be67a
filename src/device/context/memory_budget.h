// How much device memory several sessions may hold together, and what of it is held for what.
#pragma once

#include "base/status.h"

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cugrt::runtime {

enum class HeldFor { arenas, weights, results, buffers };
inline constexpr size_t kHeldForCount = 4;

/// Any thread.
class MemoryBudget {
public:
  /// 0: no limit.
  explicit MemoryBudget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Counts bytes that are about to be allocated; out_of_device_memory, with the figures, where
  /// they do not fit, even after `make_room` was asked for as long as it gives something back.
  Status take(HeldFor use, uint64_t bytes);
  void give(HeldFor use, uint64_t bytes) noexcept;
  uint64_t held_bytes(HeldFor use) const;
  uint64_t limit_bytes() const;
  /// What is held fits it, once there was room made as by take(); else an error, and it stays.
  Status set_limit(uint64_t limit_bytes);
  /// Frees something that nobody needs at the moment; false: there is nothing. Called by take(),
  /// without a lock.
  void set_make_room(std::function<bool()> make_room);

  /// What `owner` may come to, which is what errors say would fit: in place of what it said before.
  struct Claim {
    const void *word = nullptr; // of claims with one word and scope the largest counts
    std::string scope{};
    uint64_t bytes = 0, moment = 0; // for long, and beside it while it is opened
    const void *owner = nullptr;
  };
  void claim(const void *owner, std::vector<Claim> claims);
  /// What is mapped for `bytes`, as devices map it.
  static uint64_t mapped(uint64_t bytes) { return (bytes + kMapped - 1) / kMapped * kMapped; }
  static constexpr uint64_t kMapped = uint64_t(2) << 20;

private:
  /// As long as it fails and room is made.
  Status attempt(const std::function<Status()> &what);
  Status try_take(HeldFor use, uint64_t bytes);
  uint64_t claimed_bytes() const;

  mutable std::mutex mutex_; // guards what follows
  uint64_t limit_bytes_;
  std::array<uint64_t, kHeldForCount> held_{};
  std::function<bool()> make_room_;
  std::vector<Claim> claims_;
};

/// What one holder has of a budget, which it gives back when it ends. Without a budget it counts
/// nothing.
class BudgetCharge {
public:
  BudgetCharge() = default;
  BudgetCharge(std::shared_ptr<MemoryBudget> budget, HeldFor use)
      : budget_(std::move(budget)), use_(use) {}
  BudgetCharge(BudgetCharge &&other) noexcept
      : budget_(std::move(other.budget_)), use_(other.use_),
        bytes_(std::exchange(other.bytes_, 0)) {}
  BudgetCharge &operator=(BudgetCharge &&other) noexcept {
    lower_to(0);
    budget_ = std::move(other.budget_);
    use_ = other.use_;
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~BudgetCharge() { lower_to(0); }

  /// Before memory is allocated. An error changes nothing.
  Status raise_to(uint64_t bytes) {
    if (!budget_ || bytes <= bytes_)
      return {};
    CUGRT_TRY(budget_->take(use_, bytes - bytes_));
    bytes_ = bytes;
    return {};
  }
  /// After memory was freed, or not had.
  void lower_to(uint64_t bytes) noexcept {
    if (!budget_ || bytes >= bytes_)
      return;
    budget_->give(use_, bytes_ - bytes);
    bytes_ = bytes;
  }

private:
  std::shared_ptr<MemoryBudget> budget_;
  HeldFor use_ = HeldFor::arenas;
  uint64_t bytes_ = 0;
};

} // namespace cugrt::runtime
