// Finds uses of bytes that nothing was ever written to.
//
// Loading such bytes is no finding, nor is moving, storing or copying them: whole vectors at a
// ragged end, the padding of a structure and rows that are masked afterwards are read like that by
// programs that are right. What was loaded is followed, a lane at a time, through the registers:
//
//     moved      mov, selp, shuffles, and, or, shifts, prmt, ld, st: bit by bit, as they move them
//     computed   anything else: the whole result is undefined
//
// and where it matters is a finding, once for each place in the code:
//
//     a guard or branch, an index of brx, a call's target, a condition of the graph depends on it
//     the address of an access is computed from it
//     an atomic operation uses it
//     a store to global memory is of a value that was computed from it
//
// So a copy of undefined bytes is itself undefined, and a sum with one of them is found when it
// leaves the kernel. Behind a finding the bytes count as written, so that one cause is told once.
//
// Global memory has a bit a byte (device/undefined_bytes.h), shared and local memory a state a byte
// here. Constants, parameters and registers that were never written count as defined. One object a
// block, used again for the next one; one thread at a time.
#pragma once

#include "emulator/device/undefined_bytes.h"
#include "emulator/exec/warps/warp.h"

#include <string_view>
#include <unordered_map>
#include <vector>

namespace cugrt::emulator {

struct Launch;

/// Lanes of one register cell that hold undefined bits.
struct Taint {
  uint32_t lanes = 0;    // the others' entries mean nothing
  uint32_t computed = 0; // of them: not merely moved
  uint64_t bits[kLanes];
  uint32_t origin[kLanes]; // index of InitCheck's origins

  void add(uint32_t lane, uint64_t more_bits, uint32_t from, bool is_computed) {
    bits[lane] = lanes >> lane & 1 ? bits[lane] | more_bits : more_bits;
    lanes |= 1u << lane;
    computed |= uint32_t(is_computed) << lane;
    origin[lane] = from;
  }
};

class InitCheck {
public:
  InitCheck(UndefinedBytes &memory, const Launch &launch, uint32_t warps);

  void begin_block();
  /// Checks the next operation of the active lanes. Reports uses and notes writes at once;
  /// registers wait for `after`.
  void before(Warp &w, const Op *op);
  /// The operation has been executed, unless the path left because it has to wait.
  void after(Warp &w);
  /// Lanes have entered a callee, or are about to return from it.
  void called(const CallFrame &callee, uint32_t lanes);
  void returned(const CallFrame &callee, uint32_t lanes);
  /// Lanes of one cell of `to` take their state from `from`, a call frame of the same function.
  void move_cell(const CallFrame &from, const CallFrame &to, uint32_t cell, uint32_t lanes);
  /// The call frame is no more.
  void forget(const CallFrame &call) { calls_.erase(&call); }
  /// A cp.async is asked for: until it arrives its destination may hold old bytes or new ones.
  void issue(const Warp &w, const PendingCopy &copy);
  /// It arrives.
  void land(const Warp &w, const PendingCopy &copy);
  void land(const BulkCopy &copy);

private:
  using Registers = std::unordered_map<uint32_t, Taint>; // by cell
  enum ByteState : uint8_t { kDefined = 0, kUndefined = 1, kComputed = 3 };
  struct Origin {
    const OpLocation *at = nullptr;
    ptx::Space space = ptx::Space::global;
    uint64_t address = 0;
  };
  struct Result {
    uint32_t cell = 0, lanes = 0; // all lanes that the operation writes
    Taint taint;
  };
  /// Which of a lane's bytes in memory are undefined, a bit each.
  struct Loaded {
    uint32_t undefined = 0;
    bool computed = false;
  };

  // init_check.cpp: memory, uses, calls.
  const OpLocation *location(const Warp &w, const Op *op) const;
  Loaded loaded(const Warp &w, uint32_t lane, ptx::Space space, uint64_t address, uint32_t bytes);
  void stored(const Warp &w, uint32_t lane, ptx::Space space, uint64_t address, uint32_t bytes,
              Loaded what);
  ByteState *states(const Warp &w, uint32_t lane, ptx::Space space, uint64_t address,
                    uint32_t bytes);
  uint32_t new_origin(const Warp &w, const Op *op, ptx::Space space, uint64_t address);
  void use(Warp &w, const Op *op, uint32_t lane, uint32_t origin, std::string_view what);
  /// Reports the lanes of a cell that are undefined, and takes them for defined from then on.
  void use_cell(Warp &w, const Op *op, uint32_t lanes, uint32_t cell, std::string_view what);
  void check_addresses(Warp &w, const Op *op, uint32_t lanes, uint32_t cell);
  void load(Warp &w, const Op *op, uint32_t lanes);
  void store(Warp &w, const Op *op, uint32_t lanes);
  void atomic(Warp &w, const Op *op, uint32_t lanes);
  void matrix_load(Warp &w, const Op *op, uint32_t lanes);
  void matrix_store(Warp &w, const Op *op, uint32_t lanes);
  void transposed(Warp &w, const Op *op, uint32_t lanes, Result &out);
  void copy_cells(const CallFrame &from, uint32_t from_cell, const CallFrame &to, uint32_t to_cell,
                  uint32_t bytes, uint32_t lanes);

  // init_tiles.cpp: wmma.
  void tile_load(Warp &w, const Op *op, uint32_t lanes);
  void tile_store(Warp &w, const Op *op, uint32_t lanes);
  void tile_product(Warp &w, const Op *op, uint32_t lanes);

  // init_rules.cpp: registers.
  const Taint *taint(const CallFrame *call, uint32_t cell) const;
  Result &result(uint32_t cell, uint32_t lanes);
  /// The lane of the result becomes undefined in these bits, as `from`'s lane is.
  static void spread(Result &result, uint32_t lane, uint64_t bits, const Taint &from,
                     uint32_t from_lane, bool computed);
  void in_registers(Warp &w, const Op *op, uint32_t lanes);
  void lane_by_lane(Warp &w, const Op *op, uint32_t lanes, uint8_t reads, Result &out);
  void selected(Warp &w, const Op *op, uint32_t lanes, Result &out);
  void shuffled(Warp &w, const Op *op, uint32_t lanes, Result &out);
  void across_lanes(Warp &w, const Op *op, uint32_t lanes, Result &out);
  void call_parameter(Warp &w, const Op *op, uint32_t lanes, bool is_store);
  void matrix_product(Warp &w, const Op *op, uint32_t lanes);
  void call_builtin(Warp &w, const Op *op, uint32_t lanes);

  static constexpr size_t kMaxOrigins = 1 << 16;
  UndefinedBytes &memory_;
  const Launch &launch_;
  uint64_t local_bytes_; // of a warp
  std::vector<ByteState> shared_, local_;
  std::vector<Origin> origins_;                            // 0: not remembered
  std::unordered_map<const CallFrame *, Registers> calls_; // those with any
  Result results_[8];
  uint32_t result_count_ = 0;
};

} // namespace cugrt::emulator
