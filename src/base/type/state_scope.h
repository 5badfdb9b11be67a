// The storage scope of a session's state: what kernels leave for the kernels of later runs, such as
// counters.
//
// Tensors of it lie apart from all others, of whatever function, for as long as the session lives.
// They are zeros when it opens, and again after a kernel gave up waiting
// (kernels/shared/device_symbol.cuh). Sessions share none.
#pragma once

#include <string_view>

namespace cugrt::ir {

inline constexpr std::string_view kStateScope = "state";

} // namespace cugrt::ir
