// Limits the device memory of several sessions, and counts for which use they hold it.
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

  /// Counts bytes that are about to be allocated. Calls `make_room` as long as they do not fit and
  /// it frees something; if they still do not fit, out_of_device_memory with the figures.
  Status take(HeldFor use, uint64_t bytes);
  void give(HeldFor use, uint64_t bytes) noexcept;
  uint64_t held_bytes(HeldFor use) const;
  uint64_t limit_bytes() const;
  /// Sets the limit if the held bytes fit, after making room as take() does; else fails.
  Status set_limit(uint64_t limit_bytes);
  /// Sets a function that frees something unneeded; it returns false if there is nothing. take()
  /// calls it without a lock.
  void set_make_room(std::function<bool()> make_room);

  /// The most that `owner` may hold; replaces its older claims. Errors name the sum of all claims.
  struct Claim {
    const void *word = nullptr; // of claims with one word and scope the largest counts
    std::string scope{};
    uint64_t bytes = 0, moment = 0; // for long, and beside it while it is opened
    const void *owner = nullptr;
  };
  void claim(const void *owner, std::vector<Claim> claims);
  /// Bytes that devices map for `bytes`.
  static uint64_t mapped(uint64_t bytes) { return (bytes + kMapped - 1) / kMapped * kMapped; }
  static constexpr uint64_t kMapped = uint64_t(2) << 20;

private:
  /// Repeats `what` as long as it fails and room can be made.
  Status attempt(const std::function<Status()> &what);
  Status try_take(HeldFor use, uint64_t bytes);
  uint64_t claimed_bytes() const;

  mutable std::mutex mutex_; // guards what follows
  uint64_t limit_bytes_;
  std::array<uint64_t, kHeldForCount> held_{};
  std::function<bool()> make_room_;
  std::vector<Claim> claims_;
};

/// One holder's share of a budget, which it gives back when it ends. Counts nothing without a
/// budget.
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

  /// Call before memory is allocated. An error changes nothing.
  Status raise_to(uint64_t bytes) {
    if (!budget_ || bytes <= bytes_)
      return {};
    CUGRT_TRY(budget_->take(use_, bytes - bytes_));
    bytes_ = bytes;
    return {};
  }
  /// Call after memory was freed, or could not be allocated.
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
