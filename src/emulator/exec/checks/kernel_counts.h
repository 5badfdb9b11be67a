// What each kernel of a process has executed: where emulated time goes.
#pragma once

#include <cstdint>
#include <string>

namespace cugrt::emulator::kernel_counts {

/// CUGRT_EMU_COUNTS names a file. Read once.
bool enabled();
/// Notes a launch. Thread-safe. When the process ends, a line for each kernel is appended to the
/// file, those of most lane operations first: its lane operations, warp instructions and launches,
/// and its name.
void launched(const std::string &kernel, uint64_t warp_instructions, uint64_t lane_operations);

} // namespace cugrt::emulator::kernel_counts
