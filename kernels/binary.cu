// Elementwise operations with two operands that broadcast as NumPy does: y[i] = OP(a[..], b[..]).
//
// The result is contiguous, and so are both operands in OP_elementwise.
//
// In OP_broadcast the result's index is taken apart over at most MAX_RANK dimensions, outermost
// first (size0 is implied by count), and each operand has one stride a dimension, 0 where it
// broadcasts. The caller merges dimensions that both operands walk alike; with their sizes in
// ASSUME, unused dimensions cost nothing.
//
// Options: -DOP=add names the operation, and with it the entry. BROADCAST asks for OP_broadcast,
// with MAX_RANK 4 or 8. TO_BOOL for comparisons, whose result is a bool. Those of number.cuh and
// assume.cuh. y may be the same tensor as an operand of its shape and size of elements.

#include "assume.cuh"
#include "number.cuh"
#include "programmatic.cuh"

#ifdef TO_BOOL
typedef bool Result;
#else
typedef T Result;
#endif

namespace op {

#ifdef INTEGER

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

#else

__device__ Acc add(Acc a, Acc b) { return a + b; }
__device__ Acc sub(Acc a, Acc b) { return a - b; }
__device__ Acc mul(Acc a, Acc b) { return a * b; }
__device__ Acc div(Acc a, Acc b) { return a / b; }
// A NaN on either side is the result.
__device__ Acc maximum(Acc a, Acc b) { return a > b || a != a ? a : b; }
__device__ Acc minimum(Acc a, Acc b) { return a < b || a != a ? a : b; }
__device__ Acc pow(Acc a, Acc b) { return ::pow(a, b); }
// The remainder has the dividend's sign.
__device__ Acc fmod(Acc a, Acc b) { return ::fmod(a, b); }
// The remainder has the divisor's sign, as % of Python.
__device__ Acc mod(Acc a, Acc b) {
  const Acc rest = ::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
__device__ Acc prelu(Acc a, Acc b) { return a < 0 ? a * b : a; }

#endif

__device__ bool equal(Acc a, Acc b) { return a == b; }
__device__ bool not_equal(Acc a, Acc b) { return a != b; }
__device__ bool less(Acc a, Acc b) { return a < b; }
__device__ bool less_equal(Acc a, Acc b) { return a <= b; }
__device__ bool greater(Acc a, Acc b) { return a > b; }
__device__ bool greater_equal(Acc a, Acc b) { return a >= b; }

} // namespace op

#define ENTRY_(operation, kind) operation##_##kind
#define ENTRY(operation, kind) ENTRY_(operation, kind)

#ifndef BROADCAST
extern "C" __global__ void ENTRY(OP, elementwise)(const T *a, const T *b, Result *y, long long count) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = Result(op::OP(Acc(a[i]), Acc(b[i])));
}
#else
#if MAX_RANK == 4
#define INNER(name) name##1, name##2, name##3
#else
#define INNER(name) name##1, name##2, name##3, name##4, name##5, name##6, name##7
#endif
#define EACH(name) name##0, INNER(name)

extern "C" __global__ void ENTRY(OP, broadcast)(const T *a, const T *b, Result *y, long long count,
                                                INNER(long long size), EACH(long long a_stride),
                                                EACH(long long b_stride)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long size[] = {0, INNER(size)};
  const long long a_stride[] = {EACH(a_stride)};
  const long long b_stride[] = {EACH(b_stride)};
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step) {
    Index rest = i, a_offset = 0, b_offset = 0;
#pragma unroll
    for (int d = MAX_RANK - 1; d > 0; --d) {
      const Index outer = rest / Index(size[d]);
      const Index at = rest - outer * Index(size[d]);
      a_offset += at * Index(a_stride[d]);
      b_offset += at * Index(b_stride[d]);
      rest = outer;
    }
    a_offset += rest * Index(a_stride[0]);
    b_offset += rest * Index(b_stride[0]);
    y[i] = Result(op::OP(Acc(a[a_offset]), Acc(b[b_offset])));
  }
}
#endif
