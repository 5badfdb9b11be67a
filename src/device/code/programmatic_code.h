// What a kernel's PTX says about programmatic dependent launch.
#pragma once

#include <string_view>

namespace cugrt::runtime {

struct ProgrammaticCode {
  /// Every thread executes griddepcontrol.wait before it touches memory, branches, calls or ends;
  /// prefetches are hints that read nothing. Then all of the kernel comes after all of its
  /// predecessors, and whatever follows the kernel does.
  bool waits_first = false;
  bool triggers = false; // it holds griddepcontrol.launch_dependents
};

/// Of function `entry`. What is not understood counts as touching memory; both are false where
/// there is no such function.
ProgrammaticCode analyze_programmatic(std::string_view ptx, std::string_view entry);

} // namespace cugrt::runtime
