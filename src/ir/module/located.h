// Errors about a function, with their place in the module's text.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <string>

namespace cugrt::ir {

/// "in @function: message" at "line:column", or at "@function" where no place is known.
inline Status located(Code code, const Function &function, SourceLocation location,
                      const std::string &message) {
  std::string place = location.known()
                          ? std::to_string(location.line) + ":" + std::to_string(location.column)
                          : "@" + function.name;
  return Status::error(code, "in @" + function.name + ": " + message).at(std::move(place));
}

} // namespace cugrt::ir
