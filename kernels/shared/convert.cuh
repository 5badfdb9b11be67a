// The plain types by the IR's names (bool is boolean), and conversion between them.
//
// Floating point to integer truncates toward zero; out of range it gives the nearest value of the
// integer type, and a NaN gives 0. Integer to integer keeps the low bits. To bool: whether the
// value is not 0. A shorter float is rounded once, to nearest even, from whatever type. f16 and
// bf16 are there with USES_F16 and USES_BF16.
#pragma once

#ifdef USES_F16
#include <cuda_fp16.h>
#endif
#ifdef USES_BF16
#include <cuda_bf16.h>
#endif

namespace type {

typedef bool boolean;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
#ifdef USES_F16
typedef __half f16;
#endif
#ifdef USES_BF16
typedef __nv_bfloat16 bf16;
#endif

} // namespace type

// What a type's values are converted from: itself for integers and f64, float for the shorter ones,
// which holds them all.
template <class T> struct Wide {
  typedef T type;
  static constexpr bool kFloating = false;
};
template <> struct Wide<double> {
  typedef double type;
  static constexpr bool kFloating = true;
};
template <> struct Wide<float> {
  typedef float type;
  static constexpr bool kFloating = true;
};
#ifdef USES_F16
template <> struct Wide<__half> : Wide<float> {};
#endif
#ifdef USES_BF16
template <> struct Wide<__nv_bfloat16> : Wide<float> {};
#endif

// From floating point to an integer type of `bits` bits.
template <class To, class From> __device__ To saturate(From value) {
  constexpr bool is_signed = To(-1) < To(0);
  constexpr int bits = sizeof(To) * 8 - is_signed;
  constexpr From above =
      From(1ull << (bits - 1)) * 2; // 2^bits, exact; the largest value is below it
  constexpr To largest = To(~0ull >> (64 - bits)), least = is_signed ? To(-largest - 1) : To(0);
  if (value != value)
    return 0;
  if (value >= above)
    return largest;
  if (value <= (is_signed ? -above : From(0)))
    return least;
  return To(value);
}

template <class To, class From> __device__ To convert(From stored) {
  const typename Wide<From>::type value = stored;
  if constexpr (sizeof(To) == 1 && To(2) == To(1)) // bool
    return value != typename Wide<From>::type(0);
  else if constexpr (Wide<From>::kFloating && !Wide<To>::kFloating)
    return saturate<To>(value);
  else
    return To(value);
}
