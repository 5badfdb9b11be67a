// Choice between two tensors: y[i] = condition[..] ? a[..] : b[..], which broadcast as NumPy does.
// Elements are moved, not read, so that only their width matters.
//
// where_elementwise: all are contiguous and alike. where_broadcast: the result's index is taken
// apart over at most MAX_RANK dimensions, as in binary.cu.
//
// Options: BROADCAST asks for where_broadcast, with MAX_RANK 4 or 8; those of bytes.cuh and
// assume.cuh.

#include "assume.cuh"
#include "bytes.cuh"
#include "programmatic.cuh"

typedef unsigned char Flag;

#ifndef BROADCAST
extern "C" __global__ void where_elementwise(const Flag *condition, const T *a, const T *b, T *y,
                                             long long count) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = condition[i] ? a[i] : b[i];
}
#else
#if MAX_RANK == 4
#define INNER(name) name##1, name##2, name##3
#else
#define INNER(name) name##1, name##2, name##3, name##4, name##5, name##6, name##7
#endif
#define EACH(name) name##0, INNER(name)

extern "C" __global__ void where_broadcast(const Flag *condition, const T *a, const T *b, T *y,
                                           long long count, INNER(long long size),
                                           EACH(long long condition_stride),
                                           EACH(long long a_stride), EACH(long long b_stride)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long size[] = {0, INNER(size)};
  const long long condition_stride[] = {EACH(condition_stride)};
  const long long a_stride[] = {EACH(a_stride)}, b_stride[] = {EACH(b_stride)};
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step) {
    Index rest = i, condition_at = 0, a_at = 0, b_at = 0;
#pragma unroll
    for (int d = MAX_RANK - 1; d >= 0; --d) {
      const Index outer = d > 0 ? rest / Index(size[d]) : 0;
      const Index at = d > 0 ? rest - outer * Index(size[d]) : rest;
      condition_at += at * Index(condition_stride[d]);
      a_at += at * Index(a_stride[d]);
      b_at += at * Index(b_stride[d]);
      rest = outer;
    }
    y[i] = condition[condition_at] ? a[a_at] : b[b_at];
  }
}
#endif
