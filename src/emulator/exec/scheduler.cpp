// Runs the paths of a warp: the ready one with the lowest operation first, deeper calls before
// their callers, and those that gave way after those that did not. See exec/warps/warp.h.
//
// Progress: a path that has branched backward kSliceFuel times while others are ready gives way to
// them, however often it was stopped, split or called between. Where paths join, the one that gave
// way the least decides when they run, and the longest turn how long: otherwise one that gives way
// could be called back for ever by one that has not. A warp that has used up its budget gives way
// to the other warps of its block, and so does one that goes round without any register changing,
// or reads what others may write (volatile, relaxed, acquire, atomically): it waits for another
// warp or block, however it counts. To find that early, the turn of a path that runs alone begins
// short and grows for as long as registers change and nothing such is read.
#include "emulator/exec/block.h"
#include "emulator/exec/execute.h"
#include "emulator/exec/units/async_copy.h"
#include "emulator/exec/units/cluster.h"
#include "emulator/exec/warps/call_frames.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator {

namespace {

constexpr int32_t kSliceFuel = 1 << 8, kFirstLoneFuel = 1 << 5, kLoneFuel = 1 << 15;
constexpr int32_t kLoneGrowth = 4; // so that no turn of a lone path is as long as kSliceFuel
constexpr uint32_t kMaxYields = 8; // of one warp, before the others of its block get their turn
constexpr uint32_t kMaxSlices = 1 << 12;
constexpr uint64_t kMaxCallBytes = 512 << 20; // of the host, for call frames of one block

/// How often a path gave way to others, and its backward branches since: across operations at which
/// it stops, calls and splits, so that no loop goes round for ever while others are ready.
/// Path::yields holds both.
struct Turn {
  static constexpr uint32_t kBranchBits = 16, kManyYields = 1 << 15;
  static_assert(kLoneFuel + 2 < 1 << kBranchBits);

  explicit Turn(const Path &path)
      : yields(path.yields >> kBranchBits), branches(path.yields & ((1u << kBranchBits) - 1)) {}
  uint32_t packed() const { return yields << kBranchBits | branches; }
  void give_way() {
    ++yields;
    branches = 0;
  }

  uint32_t yields, branches;
};

Path &running(Warp &w) { return w.paths[w.running]; }

void add_path(Warp &w, CallFrame *call, const Op *pc, uint32_t mask, PathState state, Turn turn) {
  if (!mask)
    return;
  Path path;
  path.pc = pc;
  path.call = call;
  path.mask = mask;
  path.state = state;
  path.yields = turn.packed();
  w.paths[w.path_count++] = path;
}

/// The turn of lanes that go from `at` to `to`, which the handler has not counted.
Turn turn_at(Turn turn, int32_t slice, const Op *at, const Op *to, uint32_t uncounted) {
  if (to > at)
    return turn;
  turn.branches += uncounted;
  if (turn.branches > uint32_t(slice))
    turn.give_way();
  return turn;
}

/// Takes `lanes` out of the running path; what remains goes on at `next`.
void detach(Warp &w, uint32_t lanes, const Op *next) {
  Path &path = running(w);
  path.mask &= ~lanes;
  path.pc = next;
  if (path.mask == 0)
    path = w.paths[--w.path_count];
}

bool precedes(const Path &a, const Path &b) {
  uint32_t first = Turn(a).yields, second = Turn(b).yields;
  if (first != second)
    return first < second;
  if (a.call->depth != b.call->depth)
    return a.call->depth > b.call->depth;
  return a.pc < b.pc;
}

/// Counts from the running path on, which gave way the least of the ready ones: only differences
/// matter, and they stay small.
void rebase(Warp &w) {
  uint32_t least = Turn(running(w)).yields;
  for (uint32_t i = 0; i < w.path_count; ++i) {
    Turn turn(w.paths[i]);
    turn.yields -= std::min(least, turn.yields);
    w.paths[i].yields = turn.packed();
  }
}

/// The path to run, or false when every path waits.
bool pick(Warp &w) {
  bool found = false;
  for (uint32_t i = 0; i < w.path_count; ++i) {
    if (w.paths[i].state != PathState::ready || (found && !precedes(w.paths[i], running(w))))
      continue;
    w.running = i;
    found = true;
  }
  if (found && Turn(running(w)).yields >= Turn::kManyYields)
    rebase(w);
  return found;
}

/// Joins every other path of the running path's call frame that stands at its operation.
void join(Warp &w, bool waiting_too) {
  for (uint32_t i = 0; i < w.path_count;) {
    Path &path = running(w), &other = w.paths[i];
    bool joins =
        i != w.running && other.pc == path.pc && other.call == path.call &&
        (other.state == PathState::ready || (waiting_too && other.state == PathState::converging));
    if (!joins) {
      ++i;
      continue;
    }
    path.mask |= other.mask;
    Turn turn(path), others(other);
    turn.yields = std::min(turn.yields, others.yields);
    turn.branches = std::max(turn.branches, others.branches);
    path.yields = turn.packed();
    uint32_t last = --w.path_count;
    if (w.running == last)
      w.running = i;
    w.paths[i] = w.paths[last];
  }
}

/// The registers of the running path and where it goes on: the same twice, and it has got nowhere,
/// or has at most written to memory, and is worth no long turn.
uint64_t fingerprint(const Warp &w) {
  constexpr size_t kStreams = 4; // side by side, so that none waits for the multiplication before
  uint64_t sums[kStreams] = {reinterpret_cast<uintptr_t>(w.resume), 1, 2, 3};
  size_t words = w.current->code->register_bytes / sizeof(uint64_t);
  for (size_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, w.registers + i * sizeof word, sizeof word);
    uint64_t &sum = sums[i % kStreams];
    sum = (sum ^ word) * 0x9E3779B97F4A7C15;
    sum ^= sum >> 32;
  }
  uint64_t all = 0;
  for (uint64_t sum : sums)
    all = (all ^ sum) * 0x9E3779B97F4A7C15;
  return all;
}

/// Makes the running path the warp's; returns how many backward branches its turn may have, `lone`
/// when no other path is ready.
int32_t enter(Warp &w, int32_t lone) {
  join(w, false);
  Path &path = running(w);
  w.stop = no_stop();
  bool others = false;
  for (uint32_t i = 0; i < w.path_count; ++i) {
    const Path &other = w.paths[i];
    if (i == w.running || other.state == PathState::at_barrier ||
        other.state == PathState::at_cluster)
      continue;
    others |= other.state == PathState::ready;
    if (other.call == path.call && other.pc > path.pc && other.pc < w.stop)
      w.stop = other.pc;
  }
  int32_t slice = others ? kSliceFuel : lone;
  w.fuel = slice - int32_t(Turn(path).branches);
  w.current = path.call;
  w.registers = path.call->registers;
  if (w.mask != path.mask)
    set_mask(w, path.mask);
  return slice;
}

void copy_lanes(const std::byte *from, uint32_t from_stride, std::byte *to, uint32_t to_stride,
                uint32_t mask) {
  for (uint32_t i : lanes_of(mask))
    std::memcpy(to + i * to_stride, from + i * from_stride, std::min(from_stride, to_stride));
}

/// The callee of a call through a register, when all lanes agree; they are split where not.
const FunctionCode *indirect_callee(Warp &w, uint32_t &lanes) {
  const uint64_t *target = w.lane<uint64_t>(w.at->a);
  uint64_t number = target[__builtin_ctz(lanes)];
  uint32_t same = 0;
  for (uint32_t i = 0; i < kLanes; ++i)
    same |= uint32_t(target[i] == number) << i;
  lanes &= same;
  const auto &functions = *w.block->launch->functions;
  return number - 1 < functions.size() ? functions[number - 1] : nullptr;
}

bool call(Warp &w) {
  const auto *site = static_cast<const CallSite *>(w.at->extra);
  CallFrame *caller = w.current;
  uint32_t lanes = w.taken;
  const FunctionCode *callee = site->callee ? site->callee : indirect_callee(w, lanes);
  uint32_t first = uint32_t(__builtin_ctz(lanes));
  if (!callee || callee->is_kernel || callee->parameters.size() != site->arguments.size() ||
      callee->returns.size() < site->results.size()) {
    raise_fault(w, w.at, FaultKind::illegal_instruction, first,
                "a call through a register to no function of this signature that is executed");
    return false;
  }
  const uint32_t local_base = caller->local_base + caller->code->stack_bytes();
  const uint64_t stack_end = local_base + callee->stack_bytes();
  Block &block = *w.block;
  if (stack_end > lowest_stack_top(w, lanes) || block.call_bytes > kMaxCallBytes) {
    raise_fault(w, w.at, FaultKind::stack_overflow, first,
                "stack overflow: " + std::to_string(caller->depth + 1) + " calls deep, with " +
                    std::to_string(w.local_stride) +
                    " bytes a thread (cuCtxSetLimit, CU_LIMIT_STACK_SIZE)");
    return false;
  }
  if (callee->local_bytes && stack_end > block.launch->known_stack_bytes)
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
      std::memset(w.local + uint32_t(__builtin_ctz(rest)) * w.local_stride + local_base,
                  AddressSpace::kPoison, callee->local_bytes);
  CallFrame *call = frame_of_call(w, site, callee);
  call->lanes |= lanes;
  if (callee->allocates)
    copy_lanes(reinterpret_cast<const std::byte *>(w.stack_top), sizeof(uint64_t),
               reinterpret_cast<std::byte *>(call->stack_top.get()), sizeof(uint64_t), lanes);
  for (size_t i = 0; i < site->arguments.size(); ++i)
    copy_lanes(caller->registers + site->arguments[i].cell, site->arguments[i].bytes,
               call->registers + callee->parameters[i].cell, callee->parameters[i].bytes, lanes);
  if (w.block->init)
    w.block->init->called(*call, lanes);
  Turn turn(running(w));
  // Lanes with other callees execute the call again.
  uint32_t again = w.taken & ~lanes;
  detach(w, w.taken, w.at + 1);
  add_path(w, caller, w.at, again, PathState::ready, turn);
  add_path(w, call, callee->ops.data(), lanes, PathState::ready, turn);
  return true;
}

void exit_lanes(Warp &w, uint32_t lanes) {
  if (!w.copies.empty())
    land_copies(w, lanes, 0, true);
  if (!w.bulk_stores.empty())
    land_bulk_stores(w, lanes, 0, true);
  for (CallFrame *call = w.current; call;) {
    CallFrame *caller = call->caller;
    leave_call(w, call, lanes);
    call = caller;
  }
  detach(w, lanes, w.at + 1);
  w.live &= ~lanes;
  leave_cluster_barrier(w, lanes);
  // Paths that waited for these lanes wait no more.
  for (uint32_t i = 0; i < w.path_count; ++i)
    if (w.paths[i].state == PathState::converging)
      w.paths[i].state = PathState::ready;
  if (w.block->races && w.live == 0)
    w.block->races->exited(w.index);
  threads_exited(*w.block, uint32_t(__builtin_popcount(lanes)));
}

void return_lanes(Warp &w) {
  CallFrame *call = w.current;
  uint32_t lanes = w.taken;
  if (call == &w.base)
    return exit_lanes(w, lanes);
  for (size_t i = 0; i < call->site->results.size(); ++i) {
    const Argument &result = call->site->results[i];
    copy_lanes(call->registers + call->code->returns[i].cell, call->code->returns[i].bytes,
               call->caller->registers + result.cell, result.bytes, lanes);
  }
  if (w.block->init)
    w.block->init->returned(*call, lanes);
  for (uint32_t i = 0; call->stack_top && i < kLanes; ++i)
    if (lanes >> i & 1)
      w.stack_top[i] = call->stack_top[i];
  Turn turn(running(w));
  CallFrame *caller = call->caller;
  const Op *return_to = call->return_to;
  detach(w, lanes, w.at + 1);
  add_path(w, caller, return_to, lanes, PathState::ready, turn);
  leave_call(w, call, lanes);
}

bool switch_lanes(Warp &w, int32_t slice) {
  const auto *table = static_cast<const SwitchTargets *>(w.at->extra);
  const uint32_t *index = w.lane<uint32_t>(w.at->a);
  const Op *at = w.at;
  Turn turn(running(w));
  CallFrame *call = w.current;
  uint32_t left = w.taken;
  for (uint32_t rest = left; rest; rest &= rest - 1)
    if (uint32_t lane = uint32_t(__builtin_ctz(rest)); index[lane] >= table->targets.size()) {
      raise_fault(w, w.at, FaultKind::illegal_instruction, lane, "brx.idx beyond its table");
      return false;
    }
  detach(w, left, at + 1);
  while (left) {
    uint32_t value = index[__builtin_ctz(left)], same = 0;
    for (uint32_t i = 0; i < kLanes; ++i)
      same |= uint32_t(index[i] == value) << i;
    const Op *target = table->targets[value];
    add_path(w, call, target, left & same, PathState::ready, turn_at(turn, slice, at, target, 1));
    left &= ~same;
  }
  return true;
}

/// The lanes that are taken leave their path for one that goes on at `resume`; it makes way until
/// it is released.
void park(Warp &w, const Op *resume, PathState state) {
  Turn turn(running(w));
  turn.branches = 0;
  CallFrame *call = w.current;
  detach(w, w.taken, w.at + 1);
  add_path(w, call, resume, w.taken, state, turn);
}

void wait_at_barrier(Warp &w) {
  park(w, w.resume, PathState::at_barrier);
  Path &parked = w.paths[w.path_count - 1];
  parked.barrier = uint8_t(w.barrier_id);
  parked.barrier_op = w.at;
  arrive(w, w.barrier_id, uint32_t(__builtin_popcount(w.taken)), w.barrier_threads, w.barrier_ones);
}

void wait_for_cluster(Warp &w) { park(w, w.at, PathState::at_cluster); }

/// Lanes that wait join those that wait at the same operation already, which then execute it again
/// together: what begins its turn at the operation was not stopped there.
void wait_for_members(Warp &w) {
  const Op *at = w.at;
  uint32_t able = w.able, waiting = w.taken;
  Turn turn(running(w));
  CallFrame *call = w.current;
  detach(w, able | waiting, at + 1);
  add_path(w, call, at, waiting, PathState::converging, turn);
  if (waiting) {
    w.running = w.path_count - 1;
    join(w, true);
    if (running(w).mask != waiting)
      running(w).state = PathState::ready;
  }
  add_path(w, call, at, able, PathState::ready, turn);
}

/// Decides on the path that has stopped, in a turn of `slice`. False at a fault.
bool settle(Warp &w, int32_t slice) {
  Path &path = running(w);
  Turn turn(path);
  turn.branches = uint32_t(slice - std::max(w.fuel, -1)); // what is beyond its turn does not count
  path.yields = turn.packed();
  switch (w.leave) {
  case Leave::none:
    path.pc = w.stop;
    join(w, true);
    return true;
  case Leave::diverged: {
    turn = turn_at(turn, slice, w.at, w.resume, 0);
    uint32_t taken = w.taken;
    detach(w, taken, w.at + 1);
    add_path(w, w.current, w.resume, taken, PathState::ready, turn);
    return true;
  }
  case Leave::yielded:
    turn.give_way();
    path.yields = turn.packed();
    path.pc = w.resume;
    return true;
  case Leave::moved:
    path.pc = w.resume;
    return true;
  case Leave::waiting:
    wait_for_members(w);
    return true;
  case Leave::barrier:
    wait_at_barrier(w);
    return true;
  case Leave::cluster:
    wait_for_cluster(w);
    return true;
  case Leave::called:
    return call(w);
  case Leave::returned:
    return_lanes(w);
    return true;
  case Leave::exited:
    exit_lanes(w, w.taken);
    return true;
  case Leave::switched:
    return switch_lanes(w, slice);
  case Leave::fault:
    return false;
  }
  return false;
}

/// Lanes that wait for one another, at different barriers of the warp or in different calls, and
/// are all there go on, whatever else is ready: that may wait for them.
Meeting release_waiting(Warp &w) {
  return release_warp_barriers(w) ? Meeting::met : meet_across_calls(w);
}

} // namespace

WarpState run_warp(Warp &w) {
  uint64_t limit = w.block->draws ? draw_limit(*w.block->draws) : kNoLimit;
  uint32_t yields = 0;
  int32_t lone = kFirstLoneFuel;
  uint64_t before = 0;
  w.polled = false;
  for (uint32_t n = 0; n < kMaxSlices; ++n) {
    if (!pick(w)) {
      if (w.path_count == 0)
        return WarpState::finished;
      const Meeting meeting = release_waiting(w);
      if (meeting == Meeting::met)
        continue;
      return meeting == Meeting::none ? WarpState::blocked : WarpState::fault;
    }
    int32_t slice = enter(w, lone);
    w.leave = Leave::none;
    const Path &path = running(w);
    uint32_t lanes = uint32_t(__builtin_popcount(path.mask));
    // Paths of one warp share remembered addresses: with several, none is cut.
    const uint64_t may_run = w.path_count == 1 ? limit : kNoLimit;
    uint64_t count = w.block->launch->counting ? execute_counting(w, path.pc, may_run)
                     : w.block->checking()     ? execute_checking(w, path.pc, may_run)
                     : path.mask == ~0u        ? execute<true>(w, path.pc)
                                               : execute<false>(w, path.pc);
    w.block->warp_instructions += count;
    w.block->lane_operations += count * lanes;
    const bool cut = count == may_run && w.leave == Leave::moved;
    bool spins = false;
    if (w.leave == Leave::yielded) {
      if (slice == lone && w.polled) {
        spins = true;
      } else if (slice == lone && lone < kLoneFuel) {
        uint64_t now = fingerprint(w);
        spins = now == before;
        before = now;
        lone *= kLoneGrowth;
      } else {
        ++yields;
      }
      w.polled = false;
    }
    const bool waits = w.leave == Leave::waiting;
    if (!settle(w, slice) || (waits && release_waiting(w) == Meeting::fault))
      return WarpState::fault;
    if (cut)
      return WarpState::cut;
    if (spins)
      return WarpState::ready;
    if (yields && (w.path_count == 1 || yields == kMaxYields))
      return WarpState::ready;
  }
  return WarpState::ready;
}

} // namespace cugrt::emulator
