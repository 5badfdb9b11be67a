// Reads of memory that nothing was ever written to.
//
// The rule gives no false alarms, and so misses much: what is reported is a read of an allocation
// of device memory of which no copy, fill or kernel has written a single byte since it was
// allocated. Reading beyond what was written of an allocation is common and harmless (padding,
// whole vectors at a ragged end, rows that are masked afterwards); reading one that holds nothing
// at all is not. The rest is for the poison in fresh memory to show. Memory that the host or a
// mapping can write in other ways does not count: pinned, registered, mapped.
#pragma once

#include "emulator/driver/driver.h"

namespace cugrt::emulator::api {

/// Whether the accesses of what runs next are wanted: the check is on, and there is such memory.
bool wants_accesses(const Driver &driver);
/// Work that `name` says, to people, has touched these bytes. What it has written itself counts as
/// written before it read.
void check_initialized(Driver &driver, const std::string &name, const LaunchAccesses &accesses);

} // namespace cugrt::emulator::api
