// Inlining: a callee's bindings replace the call, so that they are part of the caller's regions and
// their storage is packed with the caller's.
//
// A call stays where inlining would lose something: a check of bounds at run time, the copy that
// keeps two results apart, an error about what is passed; and where the caller would have more
// steps than the limit. Dimensions that a run compares are matched in the caller. What a callee's
// match defines is the caller's dimension, where that is known. Functions remember what was inlined
// (ir::CallSite), and why other calls stay (ir::Function::kept_calls).
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cugrt::plan {

/// A caller has no more steps than this.
inline constexpr uint32_t kMaxInlinedSteps = 65536;
/// A caller has no more bindings than this for each step that it may have, and a module no more
/// than kMaxModuleBindings that come from calls.
inline constexpr uint32_t kBindingsPerStep = 8;
inline constexpr uint64_t kMaxModuleBindings = uint64_t(1) << 16;

/// Functions keep their numbers. None where the verified module has no calls. `strict`: a call that
/// would make too many steps or bindings is an error, at the call. Fails as callees_first and
/// analyze_liveness do.
Result<std::optional<ir::Module>> inline_calls(const ir::Module &module, bool strict);

// Calls that hand over no tuples: what is planned has tensors and numbers as parameters, whether
// its calls are inlined or stay.
//
//   private func @f(%t: tuple<A, B>)   becomes   private func @f(%t.0: A, %t.1: B)
//   %y = call @f(%p)                             %p.0 = get %p, 0
//                                                %p.1 = get %p, 1
//                                                %y = call @f(%p.0, %p.1)
//
// and @f begins with `%t = tuple(%t.0, %t.1)`. A tuple within a tuple is taken apart in turn, down
// to tensors and numbers.

/// None if no private function of the verified module takes a tuple. Functions keep their numbers.
/// Functions that a cuda_graph builtin runs stay unchanged, and those that would have more than
/// kMaxOperands parameters.
std::optional<ir::Module> flatten_tuples(const ir::Module &module);

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

/// For each function, the barrier above which its bindings were moved, by block and place.
using Moves = std::vector<std::map<std::pair<uint32_t, uint32_t>, std::string>>;

/// Reorders bindings of the module's blocks and changes nothing else. None if nothing moves. Fails
/// as analyze_liveness does.
Result<std::optional<std::pair<ir::Module, Moves>>> move_steps(const ir::Module &module);

} // namespace cugrt::plan
