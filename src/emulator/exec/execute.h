// The loops that execute a path's operations: plain, with checks, counting. For scheduler.cpp only.
#pragma once

#include "emulator/exec/block.h"
#include "emulator/exec/checks/accesses.h"
#include "emulator/exec/checks/process_counts.h"

namespace cugrt::emulator {

/// Executes one operation, after the checks that look at it.
inline const Op *step_checking(Warp &w, const Op *pc) {
  if (w.block->races)
    w.block->races->observe(w, pc);
  if (w.block->init)
    w.block->init->before(w, pc);
  pc = (w.mask == ~0u ? pc->run.full : pc->run.masked)(pc, w);
  if (w.block->init)
    w.block->init->after(w);
  return pc;
}

/// A path is left before `pc`, where nothing but a drawn order stops it.
inline void cut_at(Warp &w, const Op *pc) {
  if (pc == w.stop)
    return;
  w.leave = Leave::moved;
  w.resume = pc;
}

/// Runs until the path stops, at most so many operations; counts lane-operations as PTX writes
/// them, and records accesses before they are made.
inline uint64_t execute_counting(Warp &w, const Op *pc, uint64_t limit) {
  const FunctionCode &code = *w.current->code;
  ExecutionCounters &counted = w.block->counted;
  uint64_t count = 0, instructions = 0;
  const Op *stop = w.stop;
  do {
    instructions += code.locations[size_t(pc - code.ops.data())].instructions;
    if (w.block->accesses)
      record_access(pc, w, *w.block->accesses);
    coverage::executed(OpId(pc->id));
    if (pc->inner)
      coverage::executed(OpId::guard);
    pc = step_checking(w, pc);
    ++count;
  } while (pc != stop && count != limit);
  cut_at(w, pc);
  counted.warp_instructions += instructions;
  counted.lane_operations += instructions * uint32_t(__builtin_popcount(w.mask));
  return count;
}

/// The same without counting.
inline uint64_t execute_checking(Warp &w, const Op *pc, uint64_t limit) {
  uint64_t count = 0;
  const Op *stop = w.stop;
  do {
    pc = step_checking(w, pc);
    ++count;
  } while (pc != stop && count != limit);
  cut_at(w, pc);
  return count;
}

template <bool Full> uint64_t execute(Warp &w, const Op *pc) {
  uint64_t count = 0;
  const Op *stop = w.stop;
  do {
    pc = (Full ? pc->run.full : pc->run.masked)(pc, w);
    ++count;
  } while (pc != stop);
  return count;
}

inline constexpr uint64_t kNoLimit = UINT64_MAX;

/// How many operations a warp executes before others may go first: often until it stops by itself,
/// otherwise few as likely as many.
inline uint64_t draw_limit(Draws &draws) {
  constexpr uint64_t kMaxBits = 12;
  return draws.once_in(2) ? kNoLimit : 1 + draws.below(uint64_t(1) << draws.below(kMaxBits + 1));
}

} // namespace cugrt::emulator
