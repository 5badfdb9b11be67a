// The weights of a group's models, among which tensors are found that several have alike: such a
// tensor stands on the device once, where the model that came first has it.
//
//   A   [ u | v | w ]        loaded first
//   B   [ x ]                u and v of A are its own, byte for byte: A is a base of B
//
// A base's memory stays as long as a model that reads it, and leaves the device when no session of
// any of them runs.
#pragma once

#include "device/context/memory_budget.h"

#include <mutex>
#include <vector>

namespace cugrt::runtime {

class Executable;
class LoadedWeights;

/// Any thread.
class GroupWeights {
public:
  explicit GroupWeights(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
  const std::shared_ptr<MemoryBudget> &budget() const { return budget_; }
  /// Weights of models other than `own`, the oldest first. New weights of a model do not share its
  /// old ones, which would then have to stay.
  std::vector<std::shared_ptr<LoadedWeights>> of_others(const Executable &own);
  /// While the lock is held, no model begins to read another model's weights.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
  /// Adds complete weights.
  void add(const Executable &executable, const std::shared_ptr<LoadedWeights> &weights);

private:
  struct Known {
    const Executable *executable;
    std::weak_ptr<LoadedWeights> weights;
  };
  const std::shared_ptr<MemoryBudget> budget_;
  std::mutex mutex_; // guards known_
  std::vector<Known> known_;
};

} // namespace cugrt::runtime
