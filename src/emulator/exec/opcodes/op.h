// The decoded form that the executor runs.
//
// A function is an array of Op, one cache line each. Every operand is a cell: a byte offset into
// the call's registers, where the 32 lanes of a value lie side by side:
//
// registers ─┬─ constants and special registers   filled when the call begins
//            ├─ registers and temporaries         32 x 4 bytes, or 32 x 8 for 64-bit registers
//            └─ .param variables of calls         32 x their size, lane after lane
//
// 8- and 16-bit values lie in 4-byte lanes, of which only their own bits count. Predicates are
// 4-byte lanes of 0 or -1. Since immediates and special registers are cells too, all operands look
// alike.
#pragma once

#include <cstdint>

namespace cugrt::emulator {

// The numbers of PTX.
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;

struct Op;
struct Warp;

/// Executes one operation for the warp's active lanes; returns the next, or Warp::stop after having
/// said in Warp::leave why the path cannot simply go on.
using Handler = const Op *(*)(const Op *, Warp &);

struct HandlerPair {
  Handler full = nullptr;   // all 32 lanes are active
  Handler masked = nullptr; // Warp::lanes says which
};

enum OpFlags : uint16_t {
  kFlagFtz = 1,
  kFlagSat = 2,
  kRoundingShift = 2, // two bits: Rounding
  kFlagRelu = 16,
  kFlagGuardNegated = 32,
  kFlagHasPredicate = 64, // shfl d|p
  kFlagVolatile = 128,    // volatile, relaxed, acquire, release: each lane by an atomic access; of
                          // atom: what may wait for another's write
  kSpaceShift = 8,        // three bits: ptx::Space, of atom and red
  kFlagWide = 4096,       // a 64-bit value or address where the handler serves both
  kFlagIntegral = 8192,   // cvt.rni and its like: to an integer, in whatever type
  kFlagAcquire = 16384,   // .acquire, .release, .acq_rel, .sc
  // Of isspacep, in the place of the arithmetic ones: not that of other blocks of the cluster.
  kFlagOwnShared = 1,
  // Of loads and stores, likewise:
  kShapeMask = 3, // which of Warp::shapes
  kFlagKnownShape =
      4, // an access before this one has left it there; decode/passes/address_groups.cpp
};

enum class Rounding : uint8_t { nearest, zero, down, up };

inline constexpr uint32_t kNoCell = UINT32_MAX;
inline constexpr uint32_t kLanes = 32;

/// The lanes of a mask, lowest first: for (uint32_t lane : lanes_of(mask)).
struct LaneSet {
  struct Iterator {
    uint32_t left;
    uint32_t operator*() const { return uint32_t(__builtin_ctz(left)); }
    void operator++() { left &= left - 1; }
    bool operator==(const Iterator &) const = default;
  };
  uint32_t mask;
  Iterator begin() const { return {mask}; }
  Iterator end() const { return {0}; }
};
inline LaneSet lanes_of(uint32_t mask) { return {mask}; }

struct alignas(64) Op {
  HandlerPair run;
  Handler inner = nullptr; // of a guarded operation: what the guard calls
  union {
    int64_t imm = 0;   // address offset, or what the handler says
    const Op *target;  // of branches
    const void *extra; // of calls and switches
  };
  uint32_t d = 0, a = 0, b = 0, c = 0, e = 0; // cells
  uint32_t guard = kNoCell;
  uint16_t flags = 0;
  uint16_t id = 0;    // row of opcodes.def
  uint32_t cache = 0; // of memory operations: index of the worker's remembered range

  Rounding rounding() const { return Rounding(flags >> kRoundingShift & 3); }
  uint32_t space() const { return flags >> kSpaceShift & 7; }
};
static_assert(sizeof(Op) == 64);

} // namespace cugrt::emulator
