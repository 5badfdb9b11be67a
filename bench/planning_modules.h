// Modules of a stated number of bindings for the planning bench, and the same in a neutral text for
// the published passes.
#pragma once

#include "ir/module/module.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::bench {

/// Allocations and launches in program order: launch i takes tensors and writes a new one. Tensors
/// are numbered inputs first, then weights, then one for each launch; the last one is the result.
struct PlanningModule {
  std::string kind;
  uint32_t input_count = 1, weight_count = 0;
  std::vector<int64_t> elements;     // of each tensor, float32
  std::vector<uint32_t> first_taken; // by launch, and the end: into taken
  std::vector<uint32_t> taken;

  uint32_t launch_count() const { return uint32_t(first_taken.size()) - 1; }
  uint32_t param_count() const { return input_count + weight_count; }
  std::span<const uint32_t> taken_by(uint32_t launch) const {
    return std::span(taken).subspan(first_taken[launch],
                                    first_taken[launch + 1] - first_taken[launch]);
  }
};

/// chain, fork_join, layered, transformer, shared_weight.
std::span<const std::string_view> planning_kinds();
/// Half of the bindings are allocations, half are launches. `bindings` is even.
PlanningModule planning_module(std::string_view kind, uint32_t bindings);

/// Before storage planning: every tensor is an `alloc`.
ir::Module to_ir(const PlanningModule &module);
/// One line of inputs, weights and their sizes, then for each launch the size of what it writes and
/// the numbers of what it takes.
std::string to_neutral(const PlanningModule &module);

} // namespace cugrt::bench
