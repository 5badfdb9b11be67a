// Operations across the lanes of a warp: matches, reductions, barriers. Shuffles and votes stand in
// isa/lanewise.cpp.
//
// A .sync operation executes once every lane of its member mask that has not exited is active at
// it. Lanes of one path may name different masks (tiles of a warp): those whose masks are complete
// go ahead, the others wait.
#include "emulator/exec/block.h"
#include "emulator/exec/opcodes/handlers.h"

namespace cugrt::emulator {

namespace {

bool active(const Warp &w, u32 lane) { return w.mask >> lane & 1; }

bool converged(const Op *op, Warp &w) { return w.mask == w.live || members_arrived(op, w); }

template <class T, bool All> const Op *match(const Op *op, Warp &w) {
  if (!converged(op, w))
    return w.stop;
  const T *a = w.lane<T>(op->a);
  const u32 *members = w.lane<u32>(op->e);
  u32 result[kLanes] = {};
  for (u32 i = 0; i < kLanes; ++i)
    for (u32 j = 0; j < kLanes && active(w, i); ++j)
      result[i] |= u32(active(w, j) && (members[i] >> j & 1) && a[i] == a[j]) << j;
  u32 *d = w.lane<u32>(op->d);
  for (u32 i = 0; i < kLanes; ++i) {
    if (!active(w, i))
      continue;
    bool whole = result[i] == (members[i] & w.mask);
    d[i] = All && !whole ? 0 : result[i];
    if (op->flags & kFlagHasPredicate)
      w.lane<u32>(op->cache)[i] = whole ? ~0u : 0;
  }
  return op + 1;
}

/// 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor.
template <class T, int Kind> const Op *reduce(const Op *op, Warp &w) {
  if (!converged(op, w))
    return w.stop;
  const u32 *a = w.lane<u32>(op->a), *members = w.lane<u32>(op->e);
  u32 result[kLanes];
  for (u32 i = 0; i < kLanes; ++i) {
    result[i] = a[i];
    for (u32 j = 0; j < kLanes && active(w, i); ++j) {
      if (j == i || !active(w, j) || !(members[i] >> j & 1))
        continue;
      T x = T(result[i]), y = T(a[j]);
      result[i] = Kind == 0   ? result[i] + a[j]
                  : Kind == 1 ? u32(x < y ? x : y)
                  : Kind == 2 ? u32(x < y ? y : x)
                  : Kind == 3 ? result[i] & a[j]
                  : Kind == 4 ? result[i] | a[j]
                              : result[i] ^ a[j];
    }
  }
  u32 *d = w.lane<u32>(op->d);
  for (u32 i = 0; i < kLanes; ++i)
    d[i] = w.lanes[i] ? result[i] : d[i];
  return op + 1;
}

const Op *active_mask(const Op *op, Warp &w) {
  u32 *d = w.lane<u32>(op->d);
  for (u32 i = 0; i < kLanes; ++i)
    d[i] = w.lanes[i] ? w.mask : d[i];
  return op + 1;
}

/// The lowest active lane of the member mask is elected.
const Op *elect(const Op *op, Warp &w) {
  if (!converged(op, w))
    return w.stop;
  const u32 *members = w.lane<u32>(op->e);
  for (u32 i = 0; i < kLanes; ++i) {
    u32 all = members[i] & w.mask;
    if (!active(w, i) || all == 0)
      continue;
    u32 leader = u32(__builtin_ctz(all));
    w.lane<u32>(op->d)[i] = leader;
    w.lane<u32>(op->cache)[i] = leader == i ? ~0u : 0;
  }
  return op + 1;
}

const Op *warp_barrier(const Op *op, Warp &w) { return converged(op, w) ? op + 1 : w.stop; }

/// Modes 0 sync, 1 arrive, 2 red.popc, 3 red.and, 4 red.or. Cells: a the barrier's number, b the
/// number of threads (0: all), c the predicate of bar.red.
template <int Mode> const Op *block_barrier(const Op *op, Warp &w) {
  u32 first = u32(__builtin_ctz(w.mask));
  u32 number = w.lane<u32>(op->a)[first], threads = w.lane<u32>(op->b)[first];
  if (number >= kBarriers)
    return raise_fault(w, op, FaultKind::illegal_instruction, first,
                       "barrier " + std::to_string(number) + " does not exist");
  u32 ones = 0;
  if (Mode >= 2)
    ones = lanes_set(w, op->c) & w.mask;
  u32 count = u32(__builtin_popcount(w.mask));
  if (Mode == 1) {
    arrive(w, number, count, threads, 0);
    return op + 1;
  }
  // Parked before it is counted: the last arrival releases every path, this one too.
  w.leave = Leave::barrier;
  w.at = op;
  w.taken = w.mask;
  w.resume = op + 1;
  w.barrier_id = number;
  w.barrier_threads = threads;
  w.barrier_ones = u32(__builtin_popcount(ones));
  return w.stop;
}

} // namespace

bool members_arrived(const Op *op, Warp &w) {
  const u32 *members = w.lane<u32>(op->e);
  u32 missing = w.live & ~w.mask, able = 0;
  for (u32 i = 0; i < kLanes; ++i)
    able |= u32((members[i] & missing) == 0) << i;
  able &= w.mask;
  if (able == w.mask)
    return true;
  w.leave = Leave::waiting;
  w.at = op;
  w.able = able;
  w.taken = w.mask & ~able;
  return false;
}

bool release_warp_barriers(Warp &w) {
  uint32_t waiting = 0;
  auto waits = [&](const Path &path) {
    return path.state == PathState::converging && OpId(path.pc->id) == OpId::bar_warp_sync;
  };
  for (uint32_t i = 0; i < w.path_count; ++i)
    if (waits(w.paths[i]))
      waiting |= w.paths[i].mask;
  bool released = false;
  for (uint32_t i = 0; i < w.path_count; ++i) {
    Path &path = w.paths[i];
    if (!waits(path))
      continue;
    auto *members = reinterpret_cast<const uint32_t *>(path.call->registers + path.pc->e);
    uint32_t needed = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      needed |= path.mask >> lane & 1 ? members[lane] : 0;
    if (needed & w.live & ~waiting)
      continue;
    ++path.pc;
    path.state = PathState::ready;
    released = true;
  }
  return released;
}

void fill_warp_ops(HandlerTable &table) {
#define WARP(id, names, cls, cells, ...) table[size_t(OpId::id)] = {__VA_ARGS__, __VA_ARGS__};
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator
