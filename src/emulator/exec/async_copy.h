// Copies by cp.async that have not landed yet.
#pragma once

#include "emulator/exec/warp.h"

namespace cugrt::emulator {

/// Lands the copies of `lanes`, in the order of issue, but those of a lane's last `groups_left`
/// committed groups; those in no group yet only with `uncommitted_too`.
void land_copies(Warp &w, uint32_t lanes, uint32_t groups_left, bool uncommitted_too);

} // namespace cugrt::emulator
