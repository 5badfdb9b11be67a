// Policy `patch`: steps that do not depend on what ended a region are moved into that region.
//
// clang-format off
//   launch @k(%x, %a)             launch @k(%x, %a)
//   if %flag { ... %b ... }       launch @k(%y, %c)         moved: the branches touch neither %y nor %c
//   launch @k(%y, %c)             if %flag { ... %b ... }
//   launch @k(%b, %c)             launch @k(%b, %c)
// clang-format on
//
// Host builtins and externs are full barriers: what they do is not known when the plan is made, so
// nothing moves above one, nor above a construct or a call that runs one.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cugrt::plan {

/// By function: above what its bindings were moved, by block and place in the block.
using Moves = std::vector<std::map<std::pair<uint32_t, uint32_t>, std::string>>;

/// Reorders bindings of the module's blocks; what they are stays the same. None where nothing
/// moves. Fails as analyze_liveness does.
Result<std::optional<std::pair<ir::Module, Moves>>> move_steps(const ir::Module &module);

} // namespace cugrt::plan
