// Static regions: the rules of each policy, how a region is completed, and how a launch becomes a
// step.
#pragma once

#include "compiler/planner/analysis/region_rules.h"
#include "compiler/planner/lower/values.h"
#include "ir/module/module.h"
#include "plan/edges/region_levels.h"

#include <memory>

namespace cugrt::plan {

std::unique_ptr<RegionRules> make_patch_rules(const ModuleContext &context, uint32_t function,
                                              const ValueTable &values);
std::unique_ptr<RegionRules> make_published_rules(const ModuleContext &context, uint32_t function);
/// Those that the context's choices name.
std::unique_ptr<RegionRules> make_region_rules(const ModuleContext &context, uint32_t function,
                                               const ValueTable &values);

/// Completes regions by their steps: edges, key, slots, host values. May put empty steps between
/// the others; then everything that names a step is renumbered, and the result has the new numbers,
/// one more than there were steps. Otherwise it is empty.
std::vector<uint32_t> finish_regions(ModuleContext &context, uint32_t function, Function &out);

// --- Steps of launches and copies --------------------------------------------------------------

/// Appends the step of a launch binding at `time` to the function; gives its number.
Result<uint32_t> add_kernel_step(ModuleContext &context, uint32_t function, ValueTable &values,
                                 Function &out, const ir::Binding &binding, uint32_t time);

/// Appends a copy of buffer `from` to buffer `to`, which have the same size.
uint32_t add_copy_step(Function &out, uint32_t to, uint32_t from, SourceLocation location);

// Branches and loops that become steps of a region. Nothing in them may need the host: they hold
// launches, copies and further branches and loops, on storage whose address is known before the
// run.
//
//   over a device scalar    a conditional node, whose bodies are graphs of their own
//   a branch on a symbol    the steps of both branches, each with the condition that it needs; a
//                           graph has those that hold for its key
//
// A branch or a loop over another host scalar stays with the host, which runs only what is taken.

struct ConditionalCheck {
  std::string why_not; // in words; empty where it becomes steps of a region
  uint64_t steps = 0;  // at most so many, its own included
};

/// The condition of an if binding that follows from symbols: an expression, or an integer
/// parameter. Invalid where it is another scalar, on the device or the host.
ir::ExprId symbolic_condition(const ModuleContext &context, uint32_t function,
                              const ir::Binding &binding);

/// Checks an if or while binding of the function whose values are `values`.
ConditionalCheck check_conditional(const ModuleContext &context, uint32_t function,
                                   const ValueTable &values, const ir::Binding &binding);

} // namespace cugrt::plan
