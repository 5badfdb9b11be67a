// How findings speak of accesses.
#pragma once

#include "base/whole_number.h"
#include "emulator/exec/checks/accesses.h"

#include <string>

namespace cugrt::emulator::api {

inline const char *verb(AccessKind kind) { return is_write(kind) ? "writes" : "reads"; }

/// "16 bytes at 0x7f0000000200"
inline std::string bytes_at(const AccessSet::Range &range) {
  return std::to_string(range.end - range.begin) + " bytes at " + hex_text(range.begin);
}

} // namespace cugrt::emulator::api
