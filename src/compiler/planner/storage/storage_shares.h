// Shares: a function's classes packed scope by scope, and where in the arenas the shares begin.
//
// Bases are found callers first: a callee starts above the bytes that are live at its call sites.
#pragma once

#include "compiler/planner/storage/storage.h"
#include "ir/module/module.h"

namespace cugrt::plan {

/// Gives the classes offsets from 0 on, and the shares their peaks. Lives are widened to fronts as
/// far as `reuse` lets storage grow.
Status fill_shares(const ir::Module &module, const ir::Function &function, const Liveness &live,
                   Reuse reuse, FunctionStorage &storage);

/// Gives the shares of all functions, which are packed, their lower bounds and bases, and makes the
/// arenas.
Status lay_out_shares(const ir::Module &module, ModuleStorage &storage);

} // namespace cugrt::plan
