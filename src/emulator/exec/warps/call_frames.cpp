// Making, finding and leaving call frames; see call_frames.h.
#include "emulator/exec/warps/call_frames.h"

#include "emulator/exec/block.h"

#include <algorithm>

namespace cugrt::emulator {

CallFrame *frame_of_call(Warp &w, const CallSite *site, const FunctionCode *callee) {
  CallFrame *caller = w.current;
  for (size_t i = w.path_count > 1 ? w.calls.size() : 0; i-- > 0;) {
    CallFrame &call = *w.calls[i];
    if (call.caller == caller && call.site == site && call.code == callee)
      return &call;
  }
  auto call = std::make_unique<CallFrame>();
  call->code = callee;
  call->storage.reset(new std::byte[callee->register_bytes + 64]);
  auto raw = reinterpret_cast<uintptr_t>(call->storage.get());
  call->registers = reinterpret_cast<std::byte *>((raw + 63) & ~uintptr_t(63));
  call->local_base = caller->local_base + caller->code->stack_bytes();
  call->caller = caller;
  call->site = site;
  call->return_to = w.at + 1;
  call->depth = caller->depth + 1;
  if (callee->allocates)
    call->stack_top.reset(new uint64_t[kLanes]);
  fill_constants(*callee, call->registers);
  fill_specials(w, *callee, call->registers, true);
  w.block->call_bytes += callee->register_bytes;
  w.calls.push_back(std::move(call));
  return w.calls.back().get();
}

void leave_call(Warp &w, CallFrame *call, uint32_t lanes) {
  call->lanes &= ~lanes;
  if (call->lanes || call == &w.base)
    return;
  auto it = std::find_if(w.calls.begin(), w.calls.end(),
                         [&](const auto &owned) { return owned.get() == call; });
  if (it == w.calls.end())
    return;
  w.block->call_bytes -= call->code->register_bytes;
  w.calls.erase(it);
}

uint64_t lowest_stack_top(const Warp &w, uint32_t lanes) {
  uint64_t lowest = w.local_stride;
  for (uint32_t i : lanes_of(lanes))
    lowest = std::min(lowest, w.stack_top[i]);
  return lowest;
}

} // namespace cugrt::emulator
