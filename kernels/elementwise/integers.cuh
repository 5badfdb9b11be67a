// The elementwise operations on integers and bools, under the names of those on floats
// (elementwise.cuh). Arithmetic wraps. Each works in the type that it is given, of whatever width,
// with equal low bits.
#pragma once

#include "elementwise/comparisons.cuh"

namespace integer {

using namespace comparison;

typedef unsigned long long Bits; // arithmetic that wraps
template <class A> constexpr bool kSigned = A(-1) < A(0);

template <class A> __device__ A relu(A x) { return x > 0 ? x : A(0); }
template <class A> __device__ A neg(A x) { return A(Bits(0) - Bits(x)); }
template <class A> __device__ A abs(A x) { return kSigned<A> && x < 0 ? neg(x) : x; }
template <class A> __device__ A sign(A x) {
  return x > 0 ? A(1) : kSigned<A> && x < 0 ? A(-1) : A(0);
}
template <class A> __device__ bool logical_not(A x) { return x == 0; }

// Both bounds fit the type: whoever calls has limited them.
template <class A> __device__ A clip(A x, long long least, long long most) {
  x = x < A(least) ? A(least) : x;
  return x > A(most) ? A(most) : x;
}

template <class A> __device__ A add(A a, A b) { return A(Bits(a) + Bits(b)); }
template <class A> __device__ A sub(A a, A b) { return A(Bits(a) - Bits(b)); }
template <class A> __device__ A mul(A a, A b) { return A(Bits(a) * Bits(b)); }

// Division by 0 gives 0; by -1 it negates, which wraps where the division would trap.
template <class A> __device__ A div(A a, A b) {
  return b == 0 ? A(0) : kSigned<A> && b == A(-1) ? neg(a) : A(a / b);
}
// The remainder has the dividend's sign.
template <class A> __device__ A fmod(A a, A b) {
  return b == 0 || (kSigned<A> && b == A(-1)) ? A(0) : A(a % b);
}
// The remainder has the divisor's sign.
template <class A> __device__ A mod(A a, A b) {
  const A rest = fmod(a, b);
  return kSigned<A> && rest != 0 && (rest < 0) != (b < 0) ? A(rest + b) : rest;
}
template <class A> __device__ A maximum(A a, A b) { return a > b ? a : b; }
template <class A> __device__ A minimum(A a, A b) { return a < b ? a : b; }

// A negative power is the truncated reciprocal: of 1 and -1 a power of it, else 0.
template <class A> __device__ A pow(A a, A b) {
  if (kSigned<A> && b < 0)
    return a == 1 ? A(1) : a == A(-1) ? A(b % 2 ? -1 : 1) : A(0);
  Bits result = 1, factor = Bits(a);
  for (Bits rest = Bits(b); rest != 0; rest >>= 1) {
    result *= rest & 1 ? factor : 1;
    factor *= factor;
  }
  return A(result);
}

template <class A> __device__ A bitwise_not(A x) { return A(~Bits(x)); }
template <class A> __device__ A bitwise_and(A a, A b) { return A(Bits(a) & Bits(b)); }
template <class A> __device__ A bitwise_or(A a, A b) { return A(Bits(a) | Bits(b)); }
template <class A> __device__ A bitwise_xor(A a, A b) { return A(Bits(a) ^ Bits(b)); }
// Shifting by a negative number, or by more bits than there are, leaves none; to the right a sign
// fills them.
template <class A> __device__ A shift_left(A a, A b) {
  return (kSigned<A> && b < 0) || Bits(b) > 63 ? A(0) : A(Bits(a) << int(b));
}
template <class A> __device__ A shift_right(A a, A b) {
  if ((kSigned<A> && b < 0) || Bits(b) > 63)
    return kSigned<A> && a < 0 ? A(-1) : A(0);
  return kSigned<A> ? A((long long)(a) >> int(b)) : A(Bits(a) >> int(b));
}

template <class A> __device__ A range(long long i, long long start, long long step) {
  return A(Bits(start) + Bits(i) * Bits(step));
}

template <class A> __device__ bool logical_and(A a, A b) { return a != 0 && b != 0; }
template <class A> __device__ bool logical_or(A a, A b) { return a != 0 || b != 0; }
template <class A> __device__ bool logical_xor(A a, A b) { return (a != 0) != (b != 0); }

} // namespace integer
