// Pieces of the text of generated kernels.
#pragma once

#include "compiler/fused/element_code.h"

#include <span>
#include <string>
#include <vector>

namespace cugrt::codegen {

/// A list, broken behind commas where lines would be too long. `between` ends a line and begins the
/// next.
std::string wrapped(const std::string &begin, const std::vector<std::string> &items,
                    const std::string &end, const std::string &between = "\n    ");
/// A macro of a list that begins with a comma, or of nothing.
std::string list_macro(const std::string &name, const std::vector<std::string> &items);
/// The line of a macro where that holds, "" where not. `name` may have what stands for it behind.
std::string defined(bool holds, const std::string &name);
/// The ops, in a comment, and the options of the headers that follow.
std::string heading(const FusedGroup &group, std::span<const uint32_t> ops,
                    const ElementParameters &uses);
/// What `uses` needs, then `more` (may be empty) and `last`.
std::string includes(const ElementParameters &uses, std::string_view more, std::string_view last);
/// "float": of a value of the group.
std::string element_of(const ir::Module &module, const FusedGroup &group, uint32_t value);
/// "long long i_size1", or for a function of a kernel's "const Divisor &i_size1".
std::string declared(const ElementParameters::Size &size, bool in_function);
/// "const float *x0", "long long i_size1".
std::vector<std::string> declared(const ir::Module &module, const FusedGroup &group,
                                  const ElementParameters &parameters, std::string_view qualifier,
                                  bool in_function = false);
/// The parameters' names, as arguments.
std::vector<std::string> named(const ElementParameters &parameters);

} // namespace cugrt::codegen
