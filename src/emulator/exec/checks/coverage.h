// Which rows of the opcode table a process has executed: for the test that every row has a test.
#pragma once

#include "emulator/exec/opcodes/handlers.h"

namespace cugrt::emulator::coverage {

/// CUGRT_EMU_COVERAGE names a file. Read once.
bool enabled();
/// Notes a row. Thread-safe. When the process ends, a line for each row is appended to the file:
/// "+" if it was executed, otherwise "-", and its names.
void executed(OpId id);

} // namespace cugrt::emulator::coverage
