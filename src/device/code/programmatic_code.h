// Reads from a kernel's PTX how it uses programmatic dependent launch.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cugrt::runtime {

struct ProgrammaticCode {
  /// Every thread executes griddepcontrol.wait before it touches memory that others write,
  /// branches, calls or ends; prefetches are hints that read nothing. So all of the kernel that
  /// others can see, and whatever follows the kernel, comes after all of its predecessors.
  bool waits_first = false;
  bool triggers = false; // it holds griddepcontrol.launch_dependents
};

/// Content of a kernel's parameter. In this order: adding a value to an address, or choosing one in
/// its place, makes an address of the greater kind.
enum class ParameterKind : uint8_t {
  number,
  constant, // an address of bytes that nothing writes while the kernel may run
  memory,   // any other address
};

/// Analyzes function `entry`, whose parameters have `kinds`; further parameters count as memory.
/// Before the wait it may copy from constant ones into its shared memory, whatever the lane.
/// Unknown instructions count as touching memory; both flags are false if the function is missing.
ProgrammaticCode analyze_programmatic(std::string_view ptx, std::string_view entry,
                                      std::span<const ParameterKind> kinds = {});

} // namespace cugrt::runtime
