// Choice between two tensors: y[i] = condition[..] ? a[..] : b[..], which broadcast as NumPy does.
// Elements are moved, not read, so that only their width matters.
//
// where_elementwise: all are contiguous and alike. where_broadcast walks them (walk.cuh). Both take
// vectors.
//
// Options: BROADCAST asks for where_broadcast; those of bytes.cuh, vectors.cuh, walk.cuh and
// assume.cuh.

#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

typedef unsigned char Flag;

__device__ __forceinline__ void store_choices(T *y, Index p, const Vector<Flag> &condition,
                                              const Vector<T> &a, const Vector<T> &b) {
  Vector<T> out;
#pragma unroll
  for (int e = 0; e < VECTOR; ++e)
    out.element[e] = condition.element[e] ? a.element[e] : b.element[e];
  store_vector(y, p, out);
}

#ifndef BROADCAST
extern "C" __global__ void where_elementwise(const Flag *condition, const T *a, const T *b, T *y,
                                             long long count) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  const Index first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index vectors = vector_count(count, condition, a, b, y);
  for (Index p = first; p < vectors; p += step)
    store_choices(y, p, load_vector(condition, p), load_vector(a, p), load_vector(b, p));
  for (Index i = vectors * VECTOR + first; i < Index(count); i += step)
    y[i] = condition[i] ? a[i] : b[i];
}
#else
#include "shared/walk.cuh"

extern "C" __global__ void where_broadcast(const Flag *condition, const T *a, const T *b, T *y,
                                           long long count, INNER(long long size),
                                           EACH(long long condition_stride),
                                           EACH(long long a_stride), EACH(long long b_stride)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Walk<3> walk = {{1, INNER(size)},
                        {{EACH(condition_stride)}, {EACH(a_stride)}, {EACH(b_stride)}}};
  const Index step = Index(gridDim.x) * blockDim.x;
  const Index first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index vectors = vector_count(count, condition, a, b, y);
  Index at[3];
  for (Index p = first; p < vectors; p += step) {
    walk.offsets(p * VECTOR, at);
    store_choices(y, p, walk.vector_of(0, condition, at[0]), walk.vector_of(1, a, at[1]),
                  walk.vector_of(2, b, at[2]));
  }
  for (Index i = vectors * VECTOR + first; i < Index(count); i += step) {
    walk.offsets(i, at);
    y[i] = condition[at[0]] ? a[at[1]] : b[at[2]];
  }
}
#endif
