// The words of PTX text.
#pragma once

#include <cctype>

namespace cugrt::runtime {

/// Of names, registers and directives.
inline bool is_ptx_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

} // namespace cugrt::runtime
