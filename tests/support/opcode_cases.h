// Single instructions against references: inputs that break things and random ones, one kernel an
// instruction, all of a table in one module.
#pragma once

#include "support/emulated.h"

#include <bit>
#include <functional>

namespace cugrt::test {

using U = uint64_t;
using Reference = std::function<U(U a, U b, U c, U e)>;

/// An instruction from %a, %b, %c, %e to %d, each written %Xa where X is its kind: r (32 bits), l
/// (64), h (16). The reference gets and gives bits; what lies beyond the kind's width is ignored.
struct OpcodeCase {
  std::string instruction;
  char d, a, b, c, e; // kinds, or 0
  Reference reference;
  U ulps = 0; // by how much a float result may differ; NaNs are all equal then
};
inline constexpr U kAnyNaN = ~U(0); // ulps: bit for bit, but NaNs are all equal

inline constexpr size_t kOpcodeInputs = 32 * 12;

/// Values that break things, then random ones: bits of every width.
std::vector<U> opcode_inputs(uint64_t seed);
/// Runs every case on every input; fails with the instruction and the values that differ first.
void check_opcodes(const std::vector<OpcodeCase> &cases, const std::string &target = "sm_90");

// Bits and values.
inline float f(U bits) { return std::bit_cast<float>(uint32_t(bits)); }
inline U bits(float value) { return value != value ? 0x7fffffff : std::bit_cast<uint32_t>(value); }
inline double d(U v) { return std::bit_cast<double>(v); }
inline U dbits(double value) { return std::bit_cast<U>(value); }
inline int32_t s(U v) { return int32_t(v); }
inline uint32_t u(U v) { return uint32_t(v); }

} // namespace cugrt::test
