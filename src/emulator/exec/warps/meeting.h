// Lanes of a warp that wait at one operation in different call frames of its function.
//
// Calls from different places, and at different depths, have call frames of their own, so that
// lanes cannot become one path: their values are brought together for the one operation.
#pragma once

#include "emulator/exec/warps/warp.h"

namespace cugrt::emulator {

enum class Meeting : uint8_t { none, met, fault };

/// Executes operations of shuffles, votes and the like at which lanes wait in different call
/// frames, for those lanes whose members all wait at it. An operation that a whole warp executes
/// together (.aligned), at which all lanes wait so, is a fault: the PTX ISA defines nothing for it.
Meeting meet_across_calls(Warp &w);

} // namespace cugrt::emulator
