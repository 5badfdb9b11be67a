// Number formats and arithmetic for expected results, written from their definitions.
//
// A value is held in a long double, whose exponent range and 64 or more bits of significand exceed
// every format here. Operations round to odd: a result that is inexact is truncated and its last
// bit set. Rounding that once more, to a format two or more bits narrower, gives what rounding the
// exact result would have given, in any rounding mode; so one engine serves f16, bf16, f32 and f64.
#pragma once

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>

namespace cugrt::conformance {

using Bits = uint64_t;
using Real = long double;
__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

/// A binary format of IEEE 754's build: sign, exponent, `mantissa` bits.
struct Format {
  const char *name;
  int bits, mantissa, bias;

  Bits sign() const { return Bits(1) << (bits - 1); }
  Bits infinity() const { return (sign() - 1) & ~((Bits(1) << mantissa) - 1); }
  bool is_nan(Bits v) const { return (v & (sign() - 1)) > infinity(); }
  bool is_subnormal(Bits v) const { return (v & infinity()) == 0 && (v & (sign() - 1)) != 0; }
  /// Subnormal numbers become zeros of their sign.
  Bits flushed(Bits v) const { return is_subnormal(v) ? v & sign() : v; }
};
inline constexpr Format kF16{"f16", 16, 10, 15}, kBf16{"bf16", 16, 7, 127},
    kF32{"f32", 32, 23, 127}, kF64{"f64", 64, 52, 1023};

/// The exact value of the low bits of `v`.
Real decode(const Format &format, Bits v);
/// Rounded in a mode of <cfenv>. A NaN becomes the one of all ones but the sign.
Bits encode(const Format &format, Real value, int mode = FE_TONEAREST);
/// Rounded to an integer.
Real integral(Real value, int mode);

enum class Operation { add, multiply, divide, root };
/// x op y, or the root of x, rounded to odd. Sums that are exactly zero have the sign of nearest.
Real odd(Operation operation, Real x, Real y = 0);
/// Sums that are exactly zero of operands that are not both of one sign are negative in
/// FE_DOWNWARD.
Real sum(Real x, Real y, int mode = FE_TONEAREST);

/// Of PTX's min and max: a NaN operand yields the other one; +0.0 > -0.0.
inline Real least(Real x, Real y) {
  if (x != x || y != y)
    return x != x ? y : x;
  return x == y ? (std::signbit(x) ? x : y) : std::min(x, y);
}
inline Real most(Real x, Real y) { return -least(-x, -y); }

/// PTX's modes of rounding, as its modifiers spell them, and <cfenv>'s.
struct RoundingMode {
  const char *name;
  int mode;
};
inline constexpr RoundingMode kRoundingModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

/// Distance of two results in units of the last place; NaNs are all equal, and infinitely far from
/// numbers.
Bits ulps_apart(const Format &format, Bits x, Bits y);

/// The same bits, or both a NaN.
inline bool same_number(const Format &format, Bits x, Bits y) {
  return ulps_apart(format, x, y) == 0;
}

/// The low `bits` bits of `v` as a number, with or without a sign.
Wide integer(Bits v, int bits, bool is_signed);

/// Random bits that are the same everywhere (SplitMix64).
class Random {
public:
  explicit Random(Bits seed) : state_(seed) {}
  Bits operator()();

private:
  Bits state_;
};

} // namespace cugrt::conformance
