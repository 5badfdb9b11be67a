// Texts that several reports share.
#pragma once

#include "device/driver/node_params.h"

#include <string>

namespace cugrt::runtime {

/// "(1, 2, 3)"
inline std::string dim3_text(const driver::Dim3 &dim) {
  return "(" + std::to_string(dim.x) + ", " + std::to_string(dim.y) + ", " + std::to_string(dim.z) +
         ")";
}

/// A string of Graphviz's language.
inline std::string dot_quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + "\"";
}

} // namespace cugrt::runtime
