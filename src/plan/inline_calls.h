// Calls planned through: a callee's bindings in the place of the call, so that they are part of the
// caller's regions and their storage is packed with the caller's.
//
// A call stays where inlining would lose something: a check of bounds or of equal dimensions at run
// time, the copy that keeps two results apart, an error about what is passed; and where the caller
// would have more steps than the limit.
#pragma once

#include "ir/module.h"
#include "support/status.h"

#include <optional>
#include <string>
#include <vector>

namespace cugrt::plan {

struct InlinedCall {
  uint32_t function; // the caller
  SourceLocation location;
  std::string call; // as printed
  uint32_t callee, steps;
};

struct InlinedCalls {
  ir::Module module; // functions keep their numbers
  std::vector<InlinedCall> inlined;
  /// By function: why its calls stay, in program order.
  std::vector<std::vector<std::string>> stays;
};

/// None where the verified module has no calls. Fails as callees_first and analyze_liveness do.
Result<std::optional<InlinedCalls>> inline_calls(const ir::Module &module, uint32_t max_steps);

} // namespace cugrt::plan
