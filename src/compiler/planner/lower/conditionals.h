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

#include "compiler/planner/lower/values.h"
#include "ir/module/module.h"
#include "plan/edges/region_levels.h"

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

} // namespace cugrt::plan
