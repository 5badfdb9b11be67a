// Bringing lanes of different call frames together; see call_frames.h.
#include "emulator/exec/warps/call_frames.h"

#include "base/whole_number.h"
#include "emulator/exec/execute.h"
#include "emulator/exec/opcodes/opcode.h"
#include "emulator/exec/opcodes/operand_roles.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator {

namespace {

/// Paths that wait at one operation, a bit each.
struct Waiting {
  const Op *op = nullptr;
  uint32_t paths = 0, lanes = 0;
  bool apart = false; // in more than one call frame
};

Waiting waiting_with(const Warp &w, uint32_t first) {
  Waiting found{w.paths[first].pc};
  for (uint32_t i = 0; i < w.path_count; ++i) {
    const Path &path = w.paths[i];
    if (path.state != PathState::converging || path.pc != found.op)
      continue;
    found.paths |= 1u << i;
    found.lanes |= path.mask;
    found.apart |= path.call != w.paths[first].call;
  }
  return found;
}

template <class Visit> void for_each_path(Warp &w, uint32_t paths, Visit visit) {
  for (uint32_t rest = paths; rest; rest &= rest - 1)
    visit(w.paths[__builtin_ctz(rest)]);
}

/// The lanes whose members are all among `waiting`.
uint32_t complete_lanes(Warp &w, const Waiting &waiting) {
  for (uint32_t able = waiting.lanes, before = 0;;) {
    before = able;
    for_each_path(w, waiting.paths, [&](const Path &path) {
      auto *members = reinterpret_cast<const uint32_t *>(path.call->registers + waiting.op->e);
      for (uint32_t rest = path.mask & before; rest; rest &= rest - 1)
        if (auto lane = uint32_t(__builtin_ctz(rest)); members[lane] & w.live & ~before)
          able &= ~(1u << lane);
    });
    if (able == before)
      return able;
  }
}

bool is_wide(const Op &op, const uint32_t &field) {
  const OpId id = OpId(op.id);
  return (id == OpId::match_any_64 || id == OpId::match_all_64) && &field == &op.a;
}

void move_lanes(const CallFrame &from, const CallFrame &to, uint32_t cell, bool wide,
                uint32_t lanes) {
  const size_t bytes = wide ? sizeof(uint64_t) : sizeof(uint32_t);
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const size_t at = cell + size_t(__builtin_ctz(rest)) * bytes;
    std::memcpy(to.registers + at, from.registers + at, bytes);
  }
}

/// Executes with `able` lanes of all the paths in one call frame; false at a fault.
bool execute_together(Warp &w, const Waiting &waiting, uint32_t able) {
  const CallFrame &first = *w.paths[__builtin_ctz(waiting.paths)].call;
  const Op &op = *waiting.op;
  constexpr uintptr_t kAlignment = 64;
  CallFrame together;
  together.code = first.code;
  together.storage.reset(new std::byte[first.code->register_bytes + kAlignment]);
  auto raw = reinterpret_cast<uintptr_t>(together.storage.get());
  together.registers = reinterpret_cast<std::byte *>((raw + kAlignment - 1) & ~(kAlignment - 1));
  std::memcpy(together.registers, first.registers, first.code->register_bytes);
  InitCheck *init = w.block->init.get();
  const OperandRoles roles = roles_of(op);
  auto move = [&](const CallFrame &from, const CallFrame &to, uint8_t fields, uint32_t lanes) {
    for_each_cell(op, fields, [&](const uint32_t &cell) {
      move_lanes(from, to, cell, is_wide(op, cell), lanes);
      if (init)
        init->move_cell(from, to, cell, lanes);
    });
  };
  for_each_path(w, waiting.paths, [&](const Path &path) {
    move(*path.call, together, roles.reads | roles.writes, path.mask & able);
  });

  w.current = &together;
  w.registers = together.registers;
  w.stop = no_stop();
  w.leave = Leave::none;
  set_mask(w, able);
  if (w.block->launch->counting)
    execute_counting(w, &op, 1);
  else
    step_checking(w, &op);
  w.block->warp_instructions += 1;
  w.block->lane_operations += uint32_t(__builtin_popcount(able));
  if (w.leave == Leave::fault)
    return false;

  for (uint32_t rest = waiting.paths; rest; rest &= rest - 1) {
    Path &path = w.paths[__builtin_ctz(rest)];
    const uint32_t lanes = path.mask & able;
    move(together, *path.call, roles.writes, lanes);
    if (!lanes)
      continue;
    Path on = path;
    on.mask = lanes;
    on.pc = &op + 1;
    on.state = PathState::ready;
    if (lanes == path.mask) {
      path = on;
    } else {
      path.mask &= ~lanes;
      w.paths[w.path_count++] = on;
    }
  }
  if (init)
    init->forget(together);
  return true;
}

bool is_aligned(const Op &op) {
  return OpId(op.id) >= OpId::mma_k16_f16_f32 && OpId(op.id) <= OpId::wmma_u8;
}

void refuse_apart(Warp &w, const Waiting &waiting) {
  std::vector<uint32_t> masks;
  for_each_path(w, waiting.paths, [&](const Path &path) {
    masks.push_back(path.mask);
    w.current = path.call;
  });
  std::sort(masks.begin(), masks.end());
  std::string lanes;
  for (uint32_t mask : masks)
    lanes += (lanes.empty() ? "" : " and ") + hex_digits(mask, 8);
  std::string_view name = op_info(OpId(waiting.op->id)).names;
  raise_fault(w, waiting.op, FaultKind::illegal_instruction, uint32_t(__builtin_ctz(waiting.lanes)),
              std::string(name.substr(0, name.find(' '))) + " by lanes " + lanes +
                  " in different calls of its function, which a whole warp executes together "
                  "(.aligned),");
}

} // namespace

Meeting meet_across_calls(Warp &w) {
  Meeting result = Meeting::none;
  for (uint32_t first = 0; first < w.path_count; ++first) {
    if (w.paths[first].state != PathState::converging)
      continue;
    const Waiting waiting = waiting_with(w, first);
    if (!waiting.apart)
      continue;
    if (is_aligned(*waiting.op)) {
      if (waiting.lanes != w.live)
        continue;
      refuse_apart(w, waiting);
      return Meeting::fault;
    }
    const uint32_t able = complete_lanes(w, waiting);
    if (!able)
      continue;
    if (!execute_together(w, waiting, able))
      return Meeting::fault;
    result = Meeting::met;
  }
  return result;
}

} // namespace cugrt::emulator
