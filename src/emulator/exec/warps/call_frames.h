// The call frames of a warp's calls under way.
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

} // namespace cugrt::emulator
