// Copies by cp.async that have not landed yet.
#pragma once

#include "emulator/exec/warps/warp.h"

namespace cugrt::emulator {

/// Lands the copies of `lanes`, in the order of issue, but those of a lane's last `groups_left`
/// committed groups; those in no group yet only with `uncommitted_too`.
void land_copies(Warp &w, uint32_t lanes, uint32_t groups_left, bool uncommitted_too);

/// The bytes of a bulk copy arrive.
void land(const BulkCopy &copy);
/// Lands the lanes' bulk copies from shared memory, by groups as land_copies does.
void land_bulk_stores(Warp &w, uint32_t lanes, uint32_t groups_left, bool uncommitted_too);

} // namespace cugrt::emulator
