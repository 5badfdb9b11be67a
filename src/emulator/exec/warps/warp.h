// A warp while it runs, and the code it runs.
//
// A warp is a set of paths: disjoint sets of lanes, each at an operation of its own. The scheduler
// (scheduler.cpp) always runs the ready path with the lowest operation; where it meets another path
// of the same call frame, the two become one. Block layout puts every join behind the region it
// closes, so that this reconverges at immediate post-dominators; nothing depends on it for
// correctness.
#pragma once

#include "emulator/device/address_space.h"
#include "emulator/exec/executor.h"
#include "emulator/exec/opcodes/op.h"
#include "emulator/ptx/types.h"

#include <memory>
#include <string>
#include <vector>

namespace cugrt::emulator {

// Generic addresses outside of global memory. No host mapping reaches that high.
inline constexpr uint64_t kSharedWindow = uint64_t(1) << 56;
inline constexpr uint64_t kLocalWindow = uint64_t(2) << 56;
inline constexpr uint64_t kParamWindow = uint64_t(3) << 56;
inline constexpr uint64_t kWindowBytes = uint64_t(1) << 32;
// An address of shared memory of another block of the cluster has the block's rank, and one, above
// this bit; without, it is of the block that uses it.
inline constexpr uint32_t kRankShift = 24;

enum class Special : uint8_t {
#define SPECIAL(id, ...) id,
#include "emulator/exec/warps/special_registers.def"
};

struct ConstantCell {
  uint32_t cell;
  bool wide;
  uint64_t bits;
};
struct SpecialCell {
  uint32_t cell;
  Special special;
};
struct OpLocation {
  uint32_t line = 0, file = 0, source_line = 0;
  uint32_t instructions = 0; // PTX instructions that the operation stands for
};

/// Place of a function's .param variable in its call frame: lane after lane.
struct ParamPlace {
  uint32_t cell = 0, bytes = 0;
};

/// A decoded function or kernel.
struct FunctionCode {
  std::string name;
  bool is_kernel = false;
  std::vector<Op> ops;               // ends with an operation that never falls through
  std::vector<OpLocation> locations; // of each op
  uint32_t register_bytes = 0;
  uint32_t local_bytes = 0; // own .local variables of one thread
  bool allocates = false;   // by alloca
  /// Bytes of a thread's stack. A called function takes some for its return, so that every
  /// recursion ends.
  uint32_t stack_bytes() const {
    constexpr uint32_t kUnit = 16;
    const uint32_t own = (local_bytes + kUnit - 1) / kUnit * kUnit;
    return is_kernel || own ? own : kUnit;
  }
  std::vector<ConstantCell> constants;
  std::vector<SpecialCell> specials;
  std::vector<ParamPlace> parameters, returns;
};

struct Argument {
  uint32_t cell = 0, bytes = 0;
  bool is_register = false; // 4- or 8-byte lanes
};

/// Parts of a call beyond its cells.
struct CallSite {
  const FunctionCode *callee = nullptr; // null: through the register in Op::a, or a builtin
  uint32_t builtin = 0;
  std::vector<Argument> arguments, results;
};

struct SwitchTargets {
  std::vector<const Op *> targets;
};

struct CallFrame {
  const FunctionCode *code = nullptr;
  std::byte *registers = nullptr;
  uint32_t local_base = 0; // of this call frame's .local variables in each thread's local memory
  CallFrame *caller = nullptr;
  const CallSite *site = nullptr;
  const Op *return_to = nullptr;
  uint32_t lanes = 0; // that have not returned
  uint32_t depth = 0;
  std::unique_ptr<std::byte[]> storage;  // of called functions
  std::unique_ptr<uint64_t[]> stack_top; // the lanes', when one that allocates was called
};

enum class PathState : uint8_t { ready, converging, at_barrier, at_cluster };

struct Path {
  const Op *pc = nullptr;
  CallFrame *call = nullptr;
  uint32_t mask = 0;
  PathState state = PathState::ready;
  uint8_t barrier = 0;
  const Op *barrier_op = nullptr; // bar.red, whose result is written on release
  uint32_t yields = 0;            // and branches: Turn in scheduler.cpp
};

enum class Leave : uint8_t {
  none,     // the path met Warp::stop
  diverged, // Warp::taken go to Warp::resume
  moved,    // all go to Warp::resume, past a path that waits there or before
  yielded,  // likewise, after many backward branches
  waiting,  // Warp::taken wait at Warp::at for their member masks, Warp::able may execute it
  barrier,  // Warp::taken wait at barrier Warp::barrier_id, then go to Warp::resume
  cluster,  // Warp::taken wait for the barrier of the cluster, then execute Warp::at again
  called,   // Warp::taken enter the callee of Warp::at
  returned, // Warp::taken leave their function
  exited,   // Warp::taken end
  switched, // Warp::taken go where the table of Warp::at says
  fault,
};

struct Block;

/// How the addresses of one warp access relate; without the operation's offset.
enum class AddressKind : uint8_t { scattered, uniform, consecutive, halves };
struct AddressShape {
  uint64_t low, high; // lowest and highest of the active lanes
  uint64_t bits;      // their union: for alignment
  uint64_t first;     // lane 0's, or what it would be
  uint64_t second;    // lane 16's
  AddressKind kind;
  bool lower_runs, upper_runs; // unless scattered: consecutive rather than uniform
};

/// A copy by cp.async that has been issued and not waited for.
struct PendingCopy {
  const std::byte *from;
  std::byte *to;
  uint32_t read_bytes, bytes; // the rest of the destination becomes zero
  uint32_t lane, group;       // number of the lane's group that it belongs to
};

/// A bulk copy under way (exec/units/async_copy.cpp), with both addresses as the thread gave them.
struct BulkCopy {
  const std::byte *from = nullptr;
  std::byte *to = nullptr;
  uint32_t bytes = 0;
  uint64_t from_address = 0, to_address = 0;
  Warp *warp = nullptr;
  std::byte *barrier = nullptr; // that counts its bytes; null: it belongs to a bulk group
  uint32_t lane = 0, group = 0; // likewise, as of cp.async
};

struct alignas(64) Warp {
  std::byte *registers = nullptr;         // registers of the running path
  const Op *stop = nullptr;               // the next operation at which another path waits
  uint32_t mask = 0;                      // of the running path
  int32_t fuel = 0;                       // backward branches until it yields
  bool polled = false;                    // memory that another writes was read in this turn
  alignas(64) int32_t lanes[kLanes] = {}; // 0 or -1: mask, a lane each

  // Why the path stopped. Lanes that are in none of the sets go on after `at`.
  Leave leave = Leave::none;
  uint32_t taken = 0, able = 0;
  uint32_t barrier_id = 0, barrier_threads = 0, barrier_ones = 0;
  const Op *at = nullptr, *resume = nullptr;
  CallFrame *current = nullptr;

  uint32_t live = 0; // lanes that have not exited
  uint32_t index = 0;
  uint32_t path_count = 0, running = 0;
  Path paths[kLanes];
  CallFrame base;
  std::vector<std::unique_ptr<CallFrame>> calls; // of calls under way
  std::vector<PendingCopy> copies;
  uint32_t copy_groups[kLanes] = {}; // committed so far, by lane
  std::vector<BulkCopy> bulk_stores; // from shared memory
  uint32_t bulk_groups[kLanes] = {};
  // Below which a lane's allocations (alloca) begin, down from the end of its local memory.
  uint64_t stack_top[kLanes] = {};
  // Lanes that have arrived at the cluster's barrier: in its present phase, or in the one before,
  // which they have not waited for yet.
  uint32_t cluster_arrived = 0, cluster_done = 0;

  Block *block = nullptr;
  const std::byte *params = nullptr;
  uint64_t param_bytes = 0;
  std::byte *shared = nullptr;
  uint64_t shared_bytes = 0;
  std::byte *local = nullptr; // lane after lane
  uint64_t local_stride = 0;
  uint64_t global_offset = 0; // from device address to backing bytes
  AddressShape shapes[kShapeMask + 1];
  AddressRange *ranges = nullptr; // the worker's remembered ranges, one a memory operation
  const AddressSpace *memory = nullptr;

  template <class T> T *lane(uint32_t cell) const {
    return reinterpret_cast<T *>(registers + cell);
  }
};

/// Sets the active lanes of the running path.
inline void set_mask(Warp &w, uint32_t mask) {
  w.mask = mask;
  for (uint32_t i = 0; i < kLanes; ++i)
    w.lanes[i] = -int32_t(mask >> i & 1);
}

/// Bit i: lane i of a predicate cell.
inline uint32_t lanes_set(const Warp &w, uint32_t cell) {
  const uint32_t *p = w.lane<uint32_t>(cell);
  uint32_t mask = 0;
  for (uint32_t i = 0; i < kLanes; ++i)
    mask |= p[i] & 1u << i;
  return mask;
}

/// The stop of a path that no other of its call frame waits for: behind every operation.
inline const Op *no_stop() { return reinterpret_cast<const Op *>(UINTPTR_MAX - 63); }

/// Kernel, block, thread and place in the code, for people.
std::string access_place(const Warp &w, const Op *op, uint32_t lane);
/// Ends the path at a fault of `lane`; the block's facts complete the message.
const Op *raise_fault(Warp &w, const Op *op, FaultKind kind, uint32_t lane, std::string what);

} // namespace cugrt::emulator
