// Counts what a process executes in its whole life: rows of the opcode table, for the test that
// every row has a test, and kernels, for finding where emulated time goes. Thread-safe; written at
// its end.
#pragma once

#include "emulator/exec/opcodes/handlers.h"

#include <string>

namespace cugrt::emulator {

namespace coverage {
/// CUGRT_EMU_COVERAGE names a file. Read once.
bool enabled();
/// Notes a row. The file gets a line for each: "+" if it was executed, otherwise "-", and its
/// names.
void executed(OpId id);
} // namespace coverage

namespace kernel_counts {
/// CUGRT_EMU_COUNTS names a file. Read once.
bool enabled();
/// Notes a launch. The file gets a line for each kernel, those of most lane operations first: its
/// lane operations, warp instructions and launches, and its name.
void launched(const std::string &kernel, uint64_t warp_instructions, uint64_t lane_operations);
} // namespace kernel_counts

} // namespace cugrt::emulator
