// The call frames of a warp's calls under way, and lanes that wait at one operation in different
// call frames of its function.
//
// Calls from different places, and at different depths, have call frames of their own, so that
// lanes cannot become one path: their values are brought together for the one operation.
#pragma once

#include "emulator/exec/warps/warp.h"

namespace cugrt::emulator {

/// The call frame that other lanes are in which have come to the running path's call before, and
/// which this path's lanes enter as well; else a new one, of no lanes.
CallFrame *frame_of_call(Warp &w, const CallSite *site, const FunctionCode *callee);
/// Lanes leave `call` for good; a call frame that none is in any more goes away.
void leave_call(Warp &w, CallFrame *call, uint32_t lanes);
/// Below which all the lanes' allocations (alloca) begin.
uint64_t lowest_stack_top(const Warp &w, uint32_t lanes);

enum class Meeting : uint8_t { none, met, fault };

/// Executes operations of shuffles, votes and the like at which lanes wait in different call
/// frames, for those lanes whose members all wait at it. An operation that a whole warp executes
/// together (.aligned), at which all lanes wait so, is a fault: the PTX ISA defines nothing for it.
Meeting meet_across_calls(Warp &w);

} // namespace cugrt::emulator
