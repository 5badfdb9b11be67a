// Elementwise operations with two operands that broadcast as NumPy does: y[i] = OP(a[..], b[..]).
//
// The result is contiguous, and so are both operands in OP_elementwise.
//
// In OP_broadcast the result's index is taken apart over at most MAX_RANK dimensions, outermost
// first (size0 is implied by count), and each operand has one stride a dimension, 0 where it
// broadcasts. The caller merges dimensions that both operands walk alike; with their sizes in
// ASSUME, unused dimensions cost nothing.
//
// Options: -DOP=add names the operation (elementwise.cuh, or integers.cuh), and with it the
// entry. BROADCAST asks for OP_broadcast,
// with MAX_RANK 4 or 8. TO_BOOL for comparisons, whose result is a bool. Those of number.cuh and
// assume.cuh. y may be the same tensor as an operand of its shape and size of elements.

#include "assume.cuh"
#include "number.cuh"
#include "operations.cuh"
#include "programmatic.cuh"

#define ENTRY_(operation, kind) operation##_##kind
#define ENTRY(operation, kind) ENTRY_(operation, kind)

#ifndef BROADCAST
extern "C" __global__ void ENTRY(OP, elementwise)(const T *a, const T *b, Result *y,
                                                  long long count) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = Result(OPERATIONS::OP(Acc(a[i]), Acc(b[i])));
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
    y[i] = Result(OPERATIONS::OP(Acc(a[a_offset]), Acc(b[b_offset])));
  }
}
#endif
