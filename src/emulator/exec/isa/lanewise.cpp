// Operations that look at all lanes at once: conditional branches, guards, shuffles, votes.
#include "emulator/exec/isa/branch.h"
#include "emulator/exec/opcodes/handlers.h"

namespace cugrt::emulator::CUGRT_ISA {

namespace {

template <bool Full> const Op *branch_if(const Op *op, Warp &w) {
  return branch_to_target<Full>(op, w, guard_lanes<Full>(op, w, op->guard));
}

inline void activate(Warp &w, u32 mask) {
  w.mask = mask;
  for (u32 i = 0; i < kLanes; ++i)
    w.lanes[i] = -s32(mask >> i & 1);
}

/// Runs the inner operation for the lanes whose guard holds.
template <bool Full> const Op *guarded(const Op *op, Warp &w) {
  u32 active = guard_lanes<Full>(op, w, op->guard), mask = w.mask;
  if (active == 0)
    return op + 1;
  if (active == mask)
    return op->inner(op, w);
  activate(w, active);
  const Op *next = op->inner(op, w);
  activate(w, mask);
  return next;
}

inline bool converged(const Op *op, Warp &w) { return w.mask == w.live || members_arrived(op, w); }

/// PTX ISA, shfl.sync: 0 idx, 1 up, 2 down, 3 bfly.
template <bool Full, int Mode> const Op *shuffle(const Op *op, Warp &w) {
  if (!converged(op, w))
    return w.stop;
  const u32 *a = w.lane<u32>(op->a), *b = w.lane<u32>(op->b), *c = w.lane<u32>(op->c);
  u32 from[kLanes], valid[kLanes], result[kLanes];
  for (u32 i = 0; i < kLanes; ++i) {
    s32 lane = s32(i), offset = s32(b[i] & 31), clamp = s32(c[i] & 31);
    s32 segment = s32(c[i] >> 8 & 31);
    s32 highest = (lane & segment) | (clamp & ~segment), lowest = lane & segment;
    s32 source = Mode == 0   ? lowest | (offset & ~segment)
                 : Mode == 1 ? lane - offset
                 : Mode == 2 ? lane + offset
                             : lane ^ offset;
    bool inside = Mode == 1 ? source >= highest : source <= highest;
    from[i] = u32(inside ? source : lane) & 31;
    valid[i] = inside ? ~0u : 0;
  }
  u32 *d = w.lane<u32>(op->d);
  permute_lanes(result, a, from);
  for (u32 i = 0; i < kLanes; ++i)
    keep<Full>(w, d, i, result[i]);
  if (op->flags & kFlagHasPredicate) {
    u32 *p = w.lane<u32>(op->cache);
    for (u32 i = 0; i < kLanes; ++i)
      keep<Full>(w, p, i, valid[i]);
  }
  return op + 1;
}

/// 0 all, 1 any, 2 uni, 3 ballot; over the active lanes of each lane's member mask.
template <int Mode> const Op *vote(const Op *op, Warp &w) {
  if (!converged(op, w))
    return w.stop;
  const u32 mask = w.mask, holds = true_lanes(w.lane<u32>(op->a)) & mask;
  const u32 *members = w.lane<u32>(op->e);
  u32 *d = w.lane<u32>(op->d);
  for (u32 i = 0; i < kLanes; ++i) {
    u32 all = members[i] & mask, mine = holds & all;
    bool truth = Mode == 0 ? mine == all : Mode == 1 ? mine != 0 : mine == 0 || mine == all;
    keep<false>(w, d, i, Mode == 3 ? mine : truth ? ~0u : 0u);
  }
  return op + 1;
}

} // namespace

void fill_lanewise(HandlerTable &table) {
  auto both = [](Handler full, Handler masked) { return HandlerPair{full, masked}; };
#define LANEWISE(id, names, cls, cells, ...)                                                       \
  {                                                                                                \
    constexpr auto handler = []<bool Full>() -> Handler { return __VA_ARGS__; };                   \
    table[size_t(OpId::id)] =                                                                      \
        both(handler.template operator()<true>(), handler.template operator()<false>());           \
  }
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator::CUGRT_ISA
