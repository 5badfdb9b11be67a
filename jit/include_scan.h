// Finds the files that a source may include, in its text, without preprocessing it.
//
// Conditions are not evaluated: names in a branch that is not compiled, in a comment or in a string
// count, too. So no file that the compiler reads is missed, and one too many costs nothing but a
// compilation when it changes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cugrt::jit {

struct IncludeScan {
  std::vector<std::string> names; // of "name" and <name>, in the text's order; also __has_include's
  bool computed = false;          // a name is made by a macro: it cannot be told from the text
};

IncludeScan scan_includes(std::string_view source);

} // namespace cugrt::jit
