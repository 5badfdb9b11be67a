// Whether a block's threads have registers, which PTX alone does not tell: an assembler decides.
#pragma once

#include "emulator/driver/driver.h"

namespace cugrt::emulator::api {

/// False when a block of so many threads needs more registers than a multiprocessor has. Where it
/// could, the module is given to ptxas (of PATH, or /usr/local/cuda/bin), once; where there is
/// none, or it does not take the module, the block is taken to fit. Needs the lock.
bool has_registers(Driver &driver, Module &module, const KernelInfo &kernel, uint32_t threads);

} // namespace cugrt::emulator::api
