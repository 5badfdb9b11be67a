// Conditional branches, for the sources that are built for each instruction set.
#pragma once

#include "emulator/exec/isa/vectors.h"

namespace cugrt::emulator::CUGRT_ISA {

/// Sends the `taken` lanes to op->target, and the others to the next operation. Goes through the
/// scheduler after many backward branches, and to move past a path that waits.
template <bool Full> CUGRT_INLINE const Op *branch_to_target(const Op *op, Warp &w, u32 taken) {
  const u32 mask = Full ? ~0u : w.mask;
  const Op *target = op->target;
  if (taken == 0)
    return op + 1;
  Leave why = Leave::diverged;
  if (target <= op) {
    --w.fuel;
    if (taken == mask) {
      if (w.fuel >= 0) [[likely]]
        return target;
      why = Leave::yielded;
    }
  } else if (taken == mask) {
    if (target <= w.stop) [[likely]]
      return target;
    why = Leave::moved;
  }
  w.leave = why;
  w.at = op;
  w.taken = taken;
  w.resume = target;
  return w.stop;
}

/// The active lanes for which the guard holds.
template <bool Full> CUGRT_INLINE u32 guard_lanes(const Op *op, const Warp &w, u32 cell) {
  u32 lanes = true_lanes(w.lane<u32>(cell));
  lanes = op->flags & kFlagGuardNegated ? ~lanes : lanes;
  return Full ? lanes : lanes & w.mask;
}

} // namespace cugrt::emulator::CUGRT_ISA
