// How findings speak of accesses.
#pragma once

#include "emulator/exec/checks/accesses.h"

#include <cstdio>
#include <string>

namespace cugrt::emulator::api {

inline const char *verb(AccessKind kind) { return is_write(kind) ? "writes" : "reads"; }

/// "16 bytes at 0x7f0000000200"
inline std::string bytes_at(const AccessSet::Range &range) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(range.begin));
  return std::to_string(range.end - range.begin) + " bytes at " + text;
}

} // namespace cugrt::emulator::api
