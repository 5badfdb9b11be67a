// The handlers of one instruction set.
#include "emulator/exec/isa/lanes.h"

namespace cugrt::emulator::CUGRT_ISA {

void fill(HandlerTable &table) {
  fill_integer(table);
  fill_float(table);
  fill_rounded(table);
  fill_convert(table);
  fill_half(table);
  fill_memory(table);
}

} // namespace cugrt::emulator::CUGRT_ISA
