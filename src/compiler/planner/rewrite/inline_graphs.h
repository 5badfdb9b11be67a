// Lifted regions put back where they are run, for planning.
//
// A lifted function is given tensors and the storages that they lie in, so what it writes may be
// what it was given under another name. Only the caller knows, so the planner plans the caller with
// the function's bindings in the place of the call: hazards and lifetimes are then those of one
// function. That the bindings are one graph is kept aside, by binding. The storages of
// get_cached_alloc become storages of the function that asks for them, packed with the rest: the
// arena keeps addresses for as long as the session lives, and a callee's lie above what is alive in
// its caller.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <optional>
#include <vector>

namespace cugrt::plan {

/// Which call a function's bindings come from, by number (in program order over nested blocks);
/// kNoCapture for all others. Empty: the function runs no lifted ones.
using Captures = std::vector<uint32_t>;
inline constexpr uint32_t kNoCapture = UINT32_MAX;

struct InlinedGraphs {
  ir::Module module;              // without the functions that only the builtins name
  std::vector<Captures> captures; // by function of it
};

/// No more bindings than this come from lifted functions.
inline constexpr uint64_t kMaxInlinedBindings = uint64_t(1) << 24;

/// None if the verified module names no function to run or allocate from. Error out_of_range with
/// the place of the call that exceeds the bound.
Result<std::optional<InlinedGraphs>> inline_graphs(const ir::Module &module);

} // namespace cugrt::plan
