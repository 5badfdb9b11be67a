// The handlers of one instruction set.
#include "emulator/exec/isa/lanes.h"

namespace cugrt::emulator::CUGRT_ISA {

void fill(HandlerTable &table, HandlerTable &branches) {
  fill_integer(table);
  fill_float(table);
  fill_rounded(table);
  fill_convert(table);
  fill_half(table);
  fill_memory(table);
  fill_lanewise(table);
  fill_integer_branches(branches);
  fill_float_branches(branches);
}

} // namespace cugrt::emulator::CUGRT_ISA
