// Branches and loops that become steps of a region. Nothing in them may need the host: they hold
// launches, copies and further branches and loops, on storage whose address is known before the
// run.
//
//   over a device scalar    a conditional node, whose bodies are graphs of their own
//   a branch on a symbol    the steps of both branches, each with the condition that it needs; a
//                           graph has those that hold for its key
//
// A branch or a loop over another host scalar stays with the host, which runs only what is taken.
#pragma once

#include "plan/values.h"

namespace cugrt::plan {

struct ConditionalCheck {
  std::string why_not; // in words; empty where it becomes steps of a region
  uint64_t steps = 0;  // at most so many, its own included
};

/// The condition of an if binding that follows from symbols: an expression, or an integer
/// parameter. Invalid where it is another scalar, on the device or the host.
ir::ExprId symbolic_condition(const ModuleContext &context, uint32_t function,
                              const ir::Binding &binding);

/// Of an if or while binding of the function whose values are `values`.
ConditionalCheck check_conditional(const ModuleContext &context, uint32_t function,
                                   const ValueTable &values, const ir::Binding &binding);

// --- Steps of a region by graph ------------------------------------------------------------------

/// The region's own graph is level 0; every body is a level.
struct RegionLevel {
  uint32_t parent = kNone;       // the level that holds the conditional
  uint32_t step = kNone;         // the conditional's, counted from the region's first
  uint32_t body = 0;             // of the conditional
  std::vector<uint32_t> steps{}; // counted likewise, those of bodies in them left out; ascending
};

struct RegionLevels {
  std::vector<RegionLevel> levels;
  std::vector<uint32_t> level_of; // by step, counted from the region's first
};

/// No bodies may be nested more deeply.
inline constexpr uint32_t kMaxConditionalNesting = 64;

/// None where bodies do not nest, or too deeply, or conditionals do not exist.
std::optional<RegionLevels> find_region_levels(const Function &function, ir::Range steps);
bool has_conditionals(const Function &function, const Region &region);

} // namespace cugrt::plan
