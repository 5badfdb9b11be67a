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
  /// Of other models than `own`, the oldest first. New weights of a model share nothing with its
  /// old ones, which would stay for that.
  std::vector<std::shared_ptr<LoadedWeights>> of_others(const Executable &own);
  /// Meanwhile no model comes to read those of another.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
  /// They are whole.
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
