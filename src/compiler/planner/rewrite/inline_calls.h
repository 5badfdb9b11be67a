// Inlining: a callee's bindings in the place of the call, so that they are part of the caller's
// regions and their storage is packed with the caller's.
//
// A call stays where inlining would lose something: a check of bounds at run time, the copy that
// keeps two results apart, an error about what is passed; and where the caller would have more
// steps than the limit. Dimensions that a run compares are matched in the caller. What a callee's
// match defines is the caller's dimension, where that is known. Functions remember what was inlined
// (ir::CallSite).
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <optional>
#include <string>
#include <vector>

namespace cugrt::plan {

inline constexpr uint32_t kMaxInlinedSteps = 65536;
/// A caller has no more bindings than this for each step that it may have, and a module no more
/// than kMaxModuleBindings that come from calls.
inline constexpr uint32_t kBindingsPerStep = 8;
inline constexpr uint64_t kMaxModuleBindings = uint64_t(1) << 16;

struct InlineOptions {
  uint32_t max_steps = kMaxInlinedSteps; // of a caller: a call that would make more of them stays
  /// A call that would make too many steps or bindings is an error, at the call.
  bool strict = false;
  /// A callee's results that its caller does not return get storage of their own. Off: they stay
  /// allocations, for a pass that plans them together with the caller's.
  bool plan_results = true;
};

struct InlinedCalls {
  ir::Module module; // functions keep their numbers
  /// By function: why its calls stay, in program order.
  std::vector<std::vector<std::string>> stays;
  uint64_t bindings = 0; // that come from calls
};

/// None where the verified module has no calls. Fails as callees_first and analyze_liveness do.
Result<std::optional<InlinedCalls>> inline_calls(const ir::Module &module,
                                                 const InlineOptions &options);

/// Removes functions that remove_dead_functions removes, and what is known about them.
void remove_dead_functions(InlinedCalls &calls);

} // namespace cugrt::plan
