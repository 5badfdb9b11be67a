// What a process has executed, for its whole life: rows of the opcode table, for the test that
// every row has a test, and kernels, for where emulated time goes. Thread-safe; written when it
// ends.
#pragma once

#include "emulator/exec/opcodes/handlers.h"

#include <string>

namespace cugrt::emulator {

namespace coverage {
/// CUGRT_EMU_COVERAGE names a file. Read once.
bool enabled();
/// Notes a row. Of each a line is appended to the file: "+" if it was executed, otherwise "-", and
/// its names.
void executed(OpId id);
} // namespace coverage

namespace kernel_counts {
/// CUGRT_EMU_COUNTS names a file. Read once.
bool enabled();
/// Notes a launch. Of each kernel a line is appended to the file, those of most lane operations
/// first: its lane operations, warp instructions and launches, and its name.
void launched(const std::string &kernel, uint64_t warp_instructions, uint64_t lane_operations);
} // namespace kernel_counts

} // namespace cugrt::emulator
