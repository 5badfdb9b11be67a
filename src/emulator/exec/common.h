// Handlers that are the same for every instruction set, by source: each fills its own rows.
#pragma once

#include "emulator/exec/handlers.h"

namespace cugrt::emulator {

void fill_atomics(HandlerTable &table);
void fill_control(HandlerTable &table);
void fill_warp_ops(HandlerTable &table);

} // namespace cugrt::emulator
