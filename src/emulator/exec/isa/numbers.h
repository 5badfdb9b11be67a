// Arithmetic of single values as PTX defines it, written so that loops over it vectorise.
#pragma once

#include "emulator/exec/isa/lanes.h"

namespace cugrt::emulator::CUGRT_ISA {

CUGRT_INLINE u32 bits_of(f32 a) { return __builtin_bit_cast(u32, a); }
CUGRT_INLINE f32 float_of(u32 a) { return __builtin_bit_cast(f32, a); }
CUGRT_INLINE u64 bits_of(f64 a) { return __builtin_bit_cast(u64, a); }
CUGRT_INLINE f64 double_of(u64 a) { return __builtin_bit_cast(f64, a); }

CUGRT_INLINE f32 canonical(f32 r) { return r != r ? float_of(0x7fffffff) : r; }
CUGRT_INLINE f32 flushed(f32 a) {
  return (bits_of(a) & 0x7f800000) == 0 ? float_of(bits_of(a) & 0x80000000) : a;
}
/// .sat: NaN becomes +0.
CUGRT_INLINE f32 saturated(f32 a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }

/// Effects of .ftz and .sat around an operation.
struct Modifiers {
  bool ftz, sat;
  explicit Modifiers(const Op *op) : ftz(op->flags & kFlagFtz), sat(op->flags & kFlagSat) {}
  f32 in(f32 a) const { return ftz ? flushed(a) : a; }
  f32 out(f32 r) const {
    r = ftz ? flushed(r) : r;
    return sat ? saturated(r) : canonical(r);
  }
  f64 in(f64 a) const { return a; }
  f64 out(f64 r) const { return r; }
};

CUGRT_INLINE f32 magnitude(f32 a) { return float_of(bits_of(a) & 0x7fffffff); }
CUGRT_INLINE f32 with_sign(f32 value, f32 a, f32 b) {
  return float_of((bits_of(value) & 0x7fffffff) | ((bits_of(a) ^ bits_of(b)) & 0x80000000));
}

// One NaN operand: the other one. -0 is less than +0.
template <class T> CUGRT_INLINE T minimum(T a, T b) {
  T equal = __builtin_bit_cast(T, bits_of(a) | bits_of(b));
  T ordered = a < b ? a : b < a ? b : equal;
  return a != a ? b : b != b ? a : ordered;
}
template <class T> CUGRT_INLINE T maximum(T a, T b) {
  T equal = __builtin_bit_cast(T, bits_of(a) & bits_of(b));
  T ordered = a > b ? a : b > a ? b : equal;
  return a != a ? b : b != b ? a : ordered;
}

// Approximate functions: computed in double, good to well under half an ulp of f32.

/// 2^x by argument reduction and the series of exp; |remainder| <= ln2/2. The error relative to the
/// result is below 2^-42 with eleven terms, below 2^-32 with eight.
template <int Terms> CUGRT_INLINE f64 exp2_double(f64 x) {
  constexpr f64 kMagic = 0x1.8p52;
  constexpr f64 kFactorials[] = {1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800, 39916800};
  x = x < -1000.0 ? -1000.0 : x > 1000.0 ? 1000.0 : x;
  f64 shifted = x + kMagic;
  f64 n = shifted - kMagic;
  f64 t = (x - n) * 0.69314718055994530942;
  // In pairs of terms, so that fewer products wait for one another.
  f64 square = t * t;
  f64 p = Terms % 2 ? 1.0 / kFactorials[Terms - 1] + t * (1.0 / kFactorials[Terms])
                    : 1.0 / kFactorials[Terms];
#pragma GCC unroll 16
  for (int i = (Terms - 1) / 2 * 2 - (Terms % 2 ? 2 : 0); i >= 0; i -= 2)
    p = p * square + (1.0 / kFactorials[i] + t * (1.0 / kFactorials[i + 1]));
  return p * double_of((bits_of(shifted) + 1023) << 52);
}

CUGRT_INLINE f32 exp2_of(f32 a) {
  f32 r = f32(exp2_double<8>(f64(a)));
  return a != a ? a : r;
}

/// log2 x = e + 2/ln2 atanh((m - 1) / (m + 1)), with m between sqrt(1/2) and sqrt(2).
CUGRT_INLINE f32 log2_of(f32 a) {
  u64 bits = bits_of(f64(a));
  u64 biased = bits + 0x00095f619980c433; // carries where the mantissa exceeds sqrt(2)
  f64 e = double_of((biased >> 52) | 0x4330000000000000) - 0x1p52 - 1023.0;
  f64 m = double_of(bits - (biased & 0x7ff0000000000000) + 0x3ff0000000000000);
  f64 s = (m - 1.0) / (m + 1.0), z = s * s;
  f64 p = 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  f32 r = f32(e + 2.8853900817779268147 * s * p);
  f32 special = a == 0.0f ? -float_of(0x7f800000) : a > 0.0f ? a : float_of(0x7fffffff);
  return a > 0.0f && a < float_of(0x7f800000) ? r : special;
}

CUGRT_INLINE f32 tanh_of(f32 a) {
  f64 x = a, magnitude = x < 0 ? -x : x;
  f64 e = exp2_double<11>((magnitude > 20.0 ? 20.0 : magnitude) * 2.8853900817779268147);
  f64 large = (e - 1.0) / (e + 1.0);
  f64 small = magnitude - magnitude * magnitude * magnitude * (1.0 / 3);
  f64 r = magnitude < 1e-3 ? small : large;
  return a != a ? a : float_of((bits_of(f32(r)) & 0x7fffffff) | (bits_of(a) & 0x80000000));
}

/// The upper half of 1/a, the rest zero, as PTX says of rcp.approx.ftz.f64.
CUGRT_INLINE f64 reciprocal_head(f64 a) {
  f64 r = (bits_of(a) & 0x7ff0000000000000) == 0 ? __builtin_copysign(__builtin_inf(), a) : 1.0 / a;
  return double_of(bits_of(r) & 0xffffffff00000000);
}
CUGRT_INLINE f64 reciprocal_root_head(f64 a) {
  f64 r = (bits_of(a) & 0x7ff0000000000000) == 0 ? __builtin_copysign(__builtin_inf(), a)
                                                 : 1.0 / __builtin_sqrt(a);
  return double_of(bits_of(r) & 0xffffffff00000000);
}

// f16 and bf16.

// Subnormals become whole numbers first: as subnormal floats they would take a processor's slow
// path.
CUGRT_INLINE f32 f16_to_float(u32 h) {
  const u32 magnitude = (h & 0x7fff) << 13, exponent = h & 0x7c00;
  const u32 subnormal = bits_of(f32(s32(h & 0x3ff)) * 0x1p-24f);
  const u32 bits = exponent == 0        ? subnormal
                   : exponent == 0x7c00 ? magnitude | 0x7f800000
                                        : magnitude + (112u << 23);
  return float_of(bits | (h & 0x8000) << 16);
}

/// To nearest even; overflow to infinity; NaN to 0x7fff.
CUGRT_INLINE u32 float_to_f16(f32 a) {
  u32 bits = bits_of(a), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  u32 normal = magnitude - 0x38000000;
  normal = (normal + 0xfff + (normal >> 13 & 1)) >> 13;
  normal = normal > 0x7c00 ? 0x7c00 : normal;
  // Adding 2^-1 aligns a subnormal's bits with the float's last ones; the adder rounds them.
  u32 tiny = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
  u32 r = magnitude < 0x38800000 ? tiny : normal;
  r = magnitude >= 0x7f800000 ? 0x7c00 : r;
  return magnitude > 0x7f800000 ? 0x7fff : r | sign;
}

CUGRT_INLINE f32 bf16_to_float(u32 h) { return float_of(h << 16); }
CUGRT_INLINE u32 float_to_bf16(f32 a) {
  u32 bits = bits_of(a);
  u32 r = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : r;
}

/// Toward zero, with the last bit set when anything was lost: a later rounding to a narrower format
/// is then as if it had been the only one.
CUGRT_INLINE f32 odd_float(f64 a) {
  f32 r = f32(a);
  f64 back = f64(r);
  u32 bits = bits_of(r);
  // Nearest may have gone away from zero: step back.
  f64 magnitude_a = a < 0 ? -a : a, magnitude_r = back < 0 ? -back : back;
  bits = magnitude_r > magnitude_a ? bits - 1 : bits;
  bits = back != a && a == a ? bits | 1 : bits;
  return float_of(bits);
}

/// a + c rounded to odd.
CUGRT_INLINE f64 odd_sum(f64 a, f64 c) {
  f64 s = a + c;
  f64 t = s - a;
  f64 error = (a - (s - t)) + (c - t);
  u64 bits = bits_of(s);
  bool inexact = error != 0.0 && s - s == 0.0;
  bool away = (error < 0) == (s > 0); // the exact sum is nearer to zero than s
  bits = inexact && away ? bits - 1 : bits;
  bits = inexact ? bits | 1 : bits;
  return double_of(bits);
}

/// .relu: a negative number becomes +0; NaN stays.
CUGRT_INLINE f32 positive(f32 a) { return a > 0.0f || a != a ? a : 0.0f; }

/// To a format of 8 bits with `Mantissa` bits and an exponent bias, to nearest even; magnitudes
/// above `Largest`, infinity among them, become it.
template <u32 Mantissa, s32 Bias, u32 Largest, u32 NaN> CUGRT_INLINE u32 float_to_byte(f32 a) {
  constexpr u32 kDropped = 23 - Mantissa;
  u32 bits = bits_of(a), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
  u32 normal = magnitude - (u32(127 - Bias) << 23);
  normal = (normal + ((1u << (kDropped - 1)) - 1) + (normal >> kDropped & 1)) >> kDropped;
  // Subnormals: adding 2^k aligns the last bit with the float's last one.
  constexpr u32 kAligner = u32(127 + 1 - Bias + s32(kDropped)) << 23;
  u32 tiny = bits_of(float_of(magnitude) + float_of(kAligner)) - kAligner;
  u32 r = magnitude < (u32(127 - Bias + 1) << 23) ? tiny : normal;
  r = r > Largest || magnitude >= 0x7f800000 ? Largest : r;
  return magnitude > 0x7f800000 ? NaN : r | sign;
}
CUGRT_INLINE u32 float_to_e4m3(f32 a) { return float_to_byte<3, 7, 0x7e, 0x7f>(a); }
CUGRT_INLINE u32 float_to_e5m2(f32 a) { return float_to_byte<2, 15, 0x7b, 0x7f>(a); }

/// S.1111.111 is the only NaN of e4m3, which has no infinities; e5m2 is the upper half of an f16.
CUGRT_INLINE f32 e4m3_to_float(u32 bits) {
  u32 magnitude = bits & 0x7f;
  f32 value = float_of(magnitude << 20) * 0x1p120f;
  value = magnitude == 0x7f ? float_of(0x7fffffff) : value;
  return float_of(bits_of(value) | (bits & 0x80) << 24);
}
CUGRT_INLINE f32 e5m2_to_float(u32 bits) { return f16_to_float((bits & 0xff) << 8); }

struct f16 {
  static constexpr u32 kExponent = 0x7c00;
  static f32 load(u32 bits) { return f16_to_float(bits & 0xffff); }
  static u32 store(f32 value) { return float_to_f16(value); }
};
struct bf16 {
  static constexpr u32 kExponent = 0x7f80;
  static f32 load(u32 bits) { return bf16_to_float(bits & 0xffff); }
  static u32 store(f32 value) { return float_to_bf16(value); }
};

} // namespace cugrt::emulator::CUGRT_ISA
