// What a kernel's PTX says about programmatic dependent launch.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cugrt::runtime {

struct ProgrammaticCode {
  /// Every thread executes griddepcontrol.wait before it touches memory that others write,
  /// branches, calls or ends; prefetches are hints that read nothing. Then all of the kernel that
  /// may meet others comes after all of its predecessors, and whatever follows the kernel does.
  bool waits_first = false;
  bool triggers = false; // it holds griddepcontrol.launch_dependents
};

/// What a parameter of a kernel holds. In this order: what is added to an address, or chosen in its
/// place, makes it an address of the greater kind.
enum class ParameterKind : uint8_t {
  number,
  constant, // an address of bytes that nothing writes while the kernel may run
  memory,   // any other address
};

/// Of function `entry`, whose parameters are of `kinds`; more of them are memory. Before the wait
/// it may copy from constant ones into its shared memory, whatever the lane. What is not understood
/// counts as touching memory; both are false where there is no such function.
ProgrammaticCode analyze_programmatic(std::string_view ptx, std::string_view entry,
                                      std::span<const ParameterKind> kinds = {});

} // namespace cugrt::runtime
