// Launch steps: a launch binding as arguments, launch rules and accesses over the function's
// symbols.
#pragma once

#include "compiler/planner/lower/values.h"
#include "ir/module/module.h"

namespace cugrt::plan {

/// Appends the step of a launch binding at `time` to the function; gives its number.
Result<uint32_t> add_kernel_step(ModuleContext &context, uint32_t function, ValueTable &values,
                                 Function &out, const ir::Binding &binding, uint32_t time);

/// Appends a copy of buffer `from` to buffer `to`, which have the same size.
uint32_t add_copy_step(Function &out, uint32_t to, uint32_t from, SourceLocation location);

} // namespace cugrt::plan
