// Bindings of a module that the planner never saw, since the passes made them part of others or
// took them away: a plan's report tells of them too.
#pragma once

#include "compiler/planner/lower/planner.h"
#include "ir/module/module.h"

namespace cugrt::runtime {

/// Adds a note for each binding of `module`, as written, that `report` does not tell of by its
/// place: one that nothing uses is not in `used`, the module after EliminateDeadBindings; another
/// is part of the first binding that uses it and that the report tells of. Bindings without a place
/// in a text, and those of functions that nothing calls, get none.
void note_untold(const ir::Module &module, const ir::Module &used, const plan::Plan &plan,
                 plan::PlanReport &report);

} // namespace cugrt::runtime
