// Elementwise operations with two operands that broadcast as NumPy does: y[i] = OP(a[..], b[..]).
//
// The result is contiguous, and so are both operands in OP_elementwise. OP_broadcast walks them
// (walk.cuh). Both take vectors.
//
// Options: -DOP=add names the operation (elementwise.cuh, or integers.cuh), and with it the
// entry. BROADCAST asks for OP_broadcast. TO_BOOL for comparisons, whose result is a bool. Those of
// number.cuh, vectors.cuh, walk.cuh and assume.cuh. y may be the same tensor as an operand of its
// shape and size of elements.

#include "shared/assume.cuh"
#include "shared/number.cuh"
#include "elementwise/operations.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

#define ENTRY_(operation, kind) operation##_##kind
#define ENTRY(operation, kind) ENTRY_(operation, kind)

__device__ __forceinline__ Result result_of(T a, T b) {
  return Result(OPERATIONS::OP(Acc(a), Acc(b)));
}

__device__ __forceinline__ void store_results(Result *y, Index p, const Vector<T> &a,
                                              const Vector<T> &b) {
  Vector<Result> out;
#pragma unroll
  for (int e = 0; e < VECTOR; ++e)
    out.element[e] = result_of(a.element[e], b.element[e]);
  store_vector(y, p, out);
}

#ifndef BROADCAST
extern "C" __global__ void ENTRY(OP, elementwise)(const T *a, const T *b, Result *y,
                                                  long long count) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  const Index first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index vectors = vector_count(count, a, b, y);
  for (Index p = first; p < vectors; p += step)
    store_results(y, p, load_vector(a, p), load_vector(b, p));
  for (Index i = vectors * VECTOR + first; i < Index(count); i += step)
    y[i] = result_of(a[i], b[i]);
}
#else
#include "shared/walk.cuh"

extern "C" __global__ void ENTRY(OP, broadcast)(const T *a, const T *b, Result *y, long long count,
                                                INNER(long long size), EACH(long long a_stride),
                                                EACH(long long b_stride)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Walk<2> walk = {{1, INNER(size)}, {{EACH(a_stride)}, {EACH(b_stride)}}};
  const Index step = Index(gridDim.x) * blockDim.x;
  const Index first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index vectors = vector_count(count, a, b, y);
  Index at[2];
  for (Index p = first; p < vectors; p += step) {
    walk.offsets(p * VECTOR, at);
    store_results(y, p, walk.vector_of(0, a, at[0]), walk.vector_of(1, b, at[1]));
  }
  for (Index i = vectors * VECTOR + first; i < Index(count); i += step) {
    walk.offsets(i, at);
    y[i] = result_of(a[at[0]], b[at[1]]);
  }
}
#endif
