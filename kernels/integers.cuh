// The elementwise operations on integers and bools, in 64 bits (number.cuh): what elementwise.cuh is
// for floats. Arithmetic wraps.
#pragma once

#include "number.cuh"

namespace op {

__device__ Acc relu(Acc x) { return x > 0 ? x : 0; }
__device__ Acc neg(Acc x) { return Acc(Bits(0) - Bits(x)); }
__device__ Acc abs(Acc x) { return x < 0 ? neg(x) : x; }
__device__ Acc sign(Acc x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
__device__ bool logical_not(Acc x) { return x == 0; }

// Both bounds fit the type: whoever launches has limited them.
__device__ Acc clip(Acc x, Parameter least, Parameter most) {
  x = x < Acc(least) ? Acc(least) : x;
  return x > Acc(most) ? Acc(most) : x;
}

__device__ Acc add(Acc a, Acc b) { return Acc(Bits(a) + Bits(b)); }
__device__ Acc sub(Acc a, Acc b) { return Acc(Bits(a) - Bits(b)); }
__device__ Acc mul(Acc a, Acc b) { return Acc(Bits(a) * Bits(b)); }
#ifdef UNSIGNED
__device__ Acc div(Acc a, Acc b) { return b == 0 ? 0 : a / b; }
__device__ Acc fmod(Acc a, Acc b) { return b == 0 ? 0 : a % b; }
__device__ Acc mod(Acc a, Acc b) { return fmod(a, b); }
#else
// By 0 the result is 0; by -1 the negation, which wraps where the division would trap.
__device__ Acc div(Acc a, Acc b) { return b == 0 ? 0 : b == -1 ? sub(0, a) : a / b; }
__device__ Acc fmod(Acc a, Acc b) { return b == 0 || b == -1 ? 0 : a % b; }
__device__ Acc mod(Acc a, Acc b) {
  const Acc rest = fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
#endif
__device__ Acc maximum(Acc a, Acc b) { return a > b ? a : b; }
__device__ Acc minimum(Acc a, Acc b) { return a < b ? a : b; }

// A negative power is the truncated reciprocal: of 1 and -1 a power of it, else 0.
__device__ Acc pow(Acc a, Acc b) {
#ifndef UNSIGNED
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
#endif
  Bits result = 1, factor = Bits(a);
  for (Bits rest = Bits(b); rest != 0; rest >>= 1) {
    result *= rest & 1 ? factor : 1;
    factor *= factor;
  }
  return Acc(result);
}

__device__ bool logical_and(Acc a, Acc b) { return a != 0 && b != 0; }
__device__ bool logical_or(Acc a, Acc b) { return a != 0 || b != 0; }
__device__ bool logical_xor(Acc a, Acc b) { return (a != 0) != (b != 0); }

__device__ bool equal(Acc a, Acc b) { return a == b; }
__device__ bool not_equal(Acc a, Acc b) { return a != b; }
__device__ bool less(Acc a, Acc b) { return a < b; }
__device__ bool less_equal(Acc a, Acc b) { return a <= b; }
__device__ bool greater(Acc a, Acc b) { return a > b; }
__device__ bool greater_equal(Acc a, Acc b) { return a >= b; }

} // namespace op
