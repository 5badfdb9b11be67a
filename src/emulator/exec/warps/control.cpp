// Branches, calls, guards, parameters, carry chains: handlers that move the path or look at the
// call frame.
#include "emulator/exec/warps/control.h"
#include "emulator/exec/block.h"
#include "emulator/exec/memory.h"
#include "emulator/exec/opcodes/handlers.h"

#include <array>
#include <chrono>
#include <cstring>
#include <mutex>

namespace cugrt::emulator {

namespace {

const Op *leave(Warp &w, const Op *op, Leave why, uint32_t taken, const Op *resume) {
  w.leave = why;
  w.at = op;
  w.taken = taken;
  w.resume = resume;
  return w.stop;
}

/// Goes to `target`; if that is past a waiting path, that path runs first.
const Op *jump(Warp &w, const Op *op, const Op *target) {
  if (target > w.stop) [[unlikely]]
    return leave(w, op, Leave::moved, w.mask, target);
  return target;
}
const Op *jump_back(Warp &w, const Op *op, const Op *target) {
  if (--w.fuel < 0) [[unlikely]]
    return leave(w, op, Leave::yielded, w.mask, target);
  return target;
}

const Op *branch(const Op *op, Warp &w) { return jump(w, op, op->target); }
const Op *branch_back(const Op *op, Warp &w) { return jump_back(w, op, op->target); }

const Op *branch_indexed(const Op *op, Warp &w) {
  return leave(w, op, Leave::switched, w.mask, nullptr);
}

const Op *return_from(const Op *op, Warp &w) {
  return leave(w, op, Leave::returned, w.mask, nullptr);
}
const Op *exit_lanes(const Op *op, Warp &w) { return leave(w, op, Leave::exited, w.mask, nullptr); }

const Op *trap(const Op *op, Warp &w) {
  return raise_fault(w, op, FaultKind::trap, u32(__builtin_ctz(w.mask)), "trap executed");
}

const Op *nop(const Op *op, Warp &) { return op + 1; }
const Op *fence(const Op *op, Warp &) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return op + 1;
}

const Op *call_function(const Op *op, Warp &w) {
  const auto *site = static_cast<const CallSite *>(op->extra);
  if (!site->callee && site->builtin)
    return call_builtin(op, w, *site);
  return leave(w, op, Leave::called, w.mask, op + 1);
}

const Op *read_clock(const Op *op, Warp &w) {
  auto now = uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
  for (uint32_t i : lanes_of(w.mask)) {
    if (op->flags & kFlagWide)
      w.lane<uint64_t>(op->d)[i] = now;
    else
      w.lane<uint32_t>(op->d)[i] = uint32_t(now);
  }
  return op + 1;
}

void write_lane(Warp &w, uint32_t cell, uint32_t lane, bool wide, uint64_t bits) {
  if (wide)
    w.lane<uint64_t>(cell)[lane] = bits;
  else
    w.lane<uint32_t>(cell)[lane] = uint32_t(bits);
}

uint64_t extend(uint64_t bits, uint32_t bytes, bool is_signed) {
  if (!is_signed || bytes == 8)
    return bits;
  return uint64_t(int64_t(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
}

// Parameters. Op::cache packs the element: bytes, count, whether signed (ParamElement).

const Op *load_kernel_param(const Op *op, Warp &w) {
  ParamElement element = ParamElement::unpack(op->cache);
  const uint32_t cells[] = {op->d, op->b, op->c, op->e};
  for (uint32_t n = 0; n < element.count; ++n) {
    uint64_t bits = 0;
    std::memcpy(&bits, w.params + op->imm + n * element.bytes, element.bytes);
    bits = extend(bits, element.bytes, element.is_signed);
    for (uint32_t i : lanes_of(w.mask))
      write_lane(w, cells[n], i, element.bytes == 8, bits);
  }
  return op + 1;
}

// Op::a is the place of the variable, element.stride its bytes.
const Op *load_call_param(const Op *op, Warp &w) {
  ParamElement element = ParamElement::unpack(op->cache);
  const uint32_t cells[] = {op->d, op->b, op->c, op->e};
  for (uint32_t n = 0; n < element.count; ++n)
    for (uint32_t i : lanes_of(w.mask)) {
      uint64_t bits = 0;
      std::memcpy(&bits,
                  w.registers + op->a + i * ParamElement::stride(op) + ParamElement::offset(op) +
                      n * element.bytes,
                  element.bytes);
      write_lane(w, cells[n], i, element.bytes == 8,
                 extend(bits, element.bytes, element.is_signed));
    }
  return op + 1;
}

const Op *store_call_param(const Op *op, Warp &w) {
  ParamElement element = ParamElement::unpack(op->cache);
  const uint32_t cells[] = {op->d, op->b, op->c, op->e};
  for (uint32_t n = 0; n < element.count; ++n)
    for (uint32_t i : lanes_of(w.mask)) {
      uint64_t bits =
          element.bytes == 8 ? w.lane<uint64_t>(cells[n])[i] : w.lane<uint32_t>(cells[n])[i];
      std::memcpy(w.registers + op->a + i * ParamElement::stride(op) + ParamElement::offset(op) +
                      n * element.bytes,
                  &bits, element.bytes);
    }
  return op + 1;
}

const Op *local_address(const Op *op, Warp &w) {
  uint64_t address = uint64_t(op->imm) + w.current->local_base;
  for (uint32_t i : lanes_of(w.mask))
    write_lane(w, op->d, i, op->flags & kFlagWide, address);
  return op + 1;
}

/// Two cells of 64 bits side by side for each value: d gets the old value of b and c. A process
/// runs all of these in one queue: not every host has an atomic operation of this size.
template <bool Compares> const Op *atomic_128(const Op *op, Warp &w) {
  constexpr u32 kHigh = kLanes * sizeof(u64);
  static std::mutex mutex;
  std::byte *places[kLanes];
  if (!translate_own(op, w, ptx::Space(op->space()), 16, places))
    return w.stop;
  w.polled = true;
  std::lock_guard lock(mutex);
  for (u32 i : lanes_of(w.mask)) {
    u64 old[2];
    std::memcpy(old, places[i], sizeof old);
    auto value = [&](u32 cell) {
      return std::array{w.lane<u64>(cell)[i], w.lane<u64>(cell + kHigh)[i]};
    };
    const auto first = value(op->b);
    const bool stores = !Compares || (first[0] == old[0] && first[1] == old[1]);
    const auto stored = Compares ? value(op->c) : first;
    if (stores)
      std::memcpy(places[i], stored.data(), sizeof old);
    w.lane<u64>(op->d)[i] = old[0];
    w.lane<u64>(op->d + kHigh)[i] = old[1];
  }
  return op + 1;
}

/// op->imm is the alignment; the lane's memory ends where its other allocations begin.
template <class T> const Op *allocate_stack(const Op *op, Warp &w) {
  const CallFrame &call = *w.current;
  const u64 used = u64(call.local_base) + call.code->stack_bytes();
  for (u32 i : lanes_of(w.mask)) {
    const u64 bytes = w.lane<T>(op->a)[i], top = w.stack_top[i];
    const u64 begin = bytes > top ? 0 : (top - bytes) & ~u64(op->imm - 1);
    if (begin < used || bytes > top)
      return raise_fault(w, op, FaultKind::stack_overflow, i,
                         "stack overflow: alloca of " + std::to_string(bytes) + " bytes, with " +
                             std::to_string(w.local_stride) +
                             " bytes a thread (cuCtxSetLimit, CU_LIMIT_STACK_SIZE)");
    w.stack_top[i] = begin;
    std::memset(w.local + i * w.local_stride + begin, AddressSpace::kPoison, bytes);
    w.lane<T>(op->d)[i] = T(begin);
  }
  return op + 1;
}
template <class T> const Op *save_stack(const Op *op, Warp &w) {
  for (u32 i : lanes_of(w.mask))
    w.lane<T>(op->d)[i] = T(w.stack_top[i]);
  return op + 1;
}
template <class T> const Op *restore_stack(const Op *op, Warp &w) {
  for (u32 i : lanes_of(w.mask)) {
    const u64 top = w.lane<T>(op->a)[i];
    if (top < w.stack_top[i] || top > w.local_stride)
      return raise_fault(w, op, FaultKind::illegal_instruction, i,
                         "stackrestore of what no stacksave gave");
    w.stack_top[i] = top;
  }
  return op + 1;
}

const Op *is_space(const Op *op, Warp &w) {
  const uint64_t *a = w.lane<uint64_t>(op->a);
  uint64_t window = op->space() == u32(ptx::Space::shared)  ? kSharedWindow
                    : op->space() == u32(ptx::Space::local) ? kLocalWindow
                    : op->space() == u32(ptx::Space::param) ? kParamWindow
                                                            : 0;
  for (uint32_t i : lanes_of(w.mask)) {
    bool inside = window ? (a[i] & ~(kWindowBytes - 1)) == window : a[i] < kSharedWindow;
    if (inside && (op->flags & kFlagOwnShared)) {
      const u32 rank = u32(a[i]) >> kRankShift;
      inside = rank == 0 || rank == w.block->rank + 1;
    }
    w.lane<uint32_t>(op->d)[i] = inside ? ~0u : 0;
  }
  return op + 1;
}

/// The launch says what these do; without, the grid that it follows has ended and none waits for
/// it.
const Op *wait_for_grids(const Op *op, Warp &w) {
  w.block->waited |= 1u << w.index;
  if (const auto *wait = w.block->launch->config->wait_for_predecessors)
    (*wait)();
  return op + 1;
}
const Op *launch_dependents(const Op *op, Warp &w) {
  if (const auto *launch = w.block->launch->config->launch_dependents)
    (*launch)();
  return op + 1;
}

/// Kind 0 add.cc, 1 addc, 2 sub.cc, 3 subc. CC.CF is the carry out of an adder that subtracts by
/// adding the complement and one: after a subtraction it says that there was no borrow, and subc
/// borrows where it is 0. Chains that mix additions and subtractions depend on it.
template <class T, int Kind, bool Writes> const Op *carry(const Op *op, Warp &w) {
  constexpr bool kSubtracts = Kind >= 2, kReads = Kind & 1;
  const T *a = w.lane<T>(op->a), *b = w.lane<T>(op->b);
  T *d = w.lane<T>(op->d);
  uint32_t *code = w.lane<uint32_t>(op->e);
  for (uint32_t i : lanes_of(w.mask)) {
    T in = kReads ? T(code[i]) : T(kSubtracts), sum;
    bool out = __builtin_add_overflow(a[i], kSubtracts ? T(~b[i]) : b[i], &sum);
    out |= __builtin_add_overflow(sum, in, &d[i]);
    if (Writes)
      code[i] = out;
  }
  return op + 1;
}

} // namespace

void fill_control(HandlerTable &table) {
#define CONTROL(id, names, cls, cells, ...) table[size_t(OpId::id)] = {__VA_ARGS__, __VA_ARGS__};
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator
