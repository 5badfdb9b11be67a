// Forms of a plan's report. Internal to the runtime; module_report.h is the way in.
#pragma once

#include "compiler/planner/lower/planner.h"
#include "device/code/computed_weights.h"
#include "device/program/symbol_binding.h"
#include "library/compile/step_operations.h"
#include "plan/edges/region_levels.h"

namespace cugrt::runtime {

/// Device memory that one function needs at given symbol values; nothing where a symbol without an
/// upper bound was not given.
struct MemoryRow {
  std::string function;
  bool of_weights = false; // which it computes when a session is opened, and once only
  std::vector<std::pair<std::string, std::optional<int64_t>>> symbols;
  /// Of the function. Where it has any, the symbols do not reach their values together.
  std::vector<std::string> constraints;
  std::optional<uint64_t> arena = 0, arguments = 0, weights = 0, results = 0, dynamic = 0,
                          total = 0;
  /// Bytes by name of the weights that runs read as they are given, where these are known.
  std::vector<std::pair<std::string, uint64_t>> given_weights;
  /// Those that are computed from others and whose making is known; where it is asked for.
  struct Computed {
    std::string name;
    uint64_t bytes;
    WeightRecipe recipe;
  };
  std::vector<Computed> computed_weights;
  /// The kernel that reads and writes the most bytes, and how many: as much at least may have to
  /// end before an urgent run beside gets the device. "": none, or a size is not known.
  std::string longest;
  uint64_t longest_bytes = 0;
};

/// What a lowered module launches, over all functions.
struct KernelCounts {
  uint32_t launches = 0, kernels = 0;
};

struct PlanView {
  const std::string &module_name;
  const plan::Plan &plan;
  const plan::PlanReport &report;
  bool has_notes;                    // or `report` is empty, since only the plan is known
  std::vector<MemoryRow> memory;     // of the public functions
  KernelCounts kernels, unfused;     // as planned, and what it would be without fusion; with notes
  std::vector<std::string> fusion{}; // what FuseOpsByPattern did, and what it could not do
  /// Of each function's steps; empty where it is not asked for, or ops are not known.
  std::vector<std::vector<StepOperations>> operations{};
};

std::string plan_text(const PlanView &view);
std::string plan_json(const PlanView &view);
/// The regions' graphs; nodes are steps.
std::string plan_dot(const PlanView &view);
/// The arenas: offset against time, one rectangle a tensor.
std::string plan_svg(const PlanView &view);

/// "device memory for @main at n = 8, in bytes" and, in a line of its own, what it is made of.
std::string memory_text(const MemoryRow &row);
/// "body of 'while %more'", "then of 'if %c'": a level of a region that is not its own graph.
std::string body_name(const plan::Function &function, const plan::Region &region,
                      const plan::RegionLevel &level);
/// "from the call of @leaf in line 12, from the call of @twice in line 30": innermost first.
std::string calls_text(const plan::CallChain &chain);
/// "b*s <= 4096" for each of a function's constraints.
std::vector<std::string> constraint_texts(const plan::Plan &plan, const plan::Function &function);
/// "%x, result 0".
std::string slot_names(const plan::Function &function, const std::vector<uint32_t> &slots);
std::string key_names(const plan::Function &function, const std::vector<plan::SymbolId> &key);

/// Adds a note for each binding of `module`, as written, that `report` does not tell of by its
/// place: one that nothing uses is not in `used`, the module after EliminateDeadBindings; another
/// is part of the first binding that uses it and that the report tells of. Bindings without a place
/// in a text, and those of functions that nothing calls, get none.
void note_untold(const ir::Module &module, const ir::Module &used, const plan::Plan &plan,
                 plan::PlanReport &report);

} // namespace cugrt::runtime
