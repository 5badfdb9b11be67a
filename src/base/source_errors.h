// Errors that know a line and a column, told as diagnostics are.
#pragma once

#include "base/status.h"

#include <string_view>

namespace cugrt {

/// An error whose location is "line:column" as diagnostics are rendered: the location becomes
/// "file:line:column", the message "error: message" with the source line and a caret where `source`
/// has that line. Of other errors the file is named before the message.
Status in_source(Status status, std::string_view file, std::string_view source);

} // namespace cugrt
