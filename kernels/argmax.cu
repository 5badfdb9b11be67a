// The position of the largest element along one axis of x: [outer, axis, inner]; y: [outer, inner],
// i64.
//
// The first of equal elements wins, and a NaN is larger than any number, as in NumPy. Along an axis
// of no elements the result is 0.
//
// argmax_rows: inner is 1; one warp a row. argmax_columns: one thread a column.
//
// Options: those of floating.cuh and assume.cuh.

#include "assume.cuh"
#include "floating.cuh"
#include "programmatic.cuh"

struct Candidate {
  Acc value;
  long long position;
};

// Whether `p` beats `q`. A position of -1 is no candidate yet.
__device__ bool beats(const Candidate &p, const Candidate &q) {
  if (p.position < 0 || q.position < 0)
    return q.position < 0 && p.position >= 0;
  const bool p_nan = p.value != p.value, q_nan = q.value != q.value;
  if (p_nan != q_nan)
    return p_nan;
  if (!p_nan && p.value != q.value)
    return p.value > q.value;
  return p.position < q.position;
}

extern "C" __global__ void argmax_rows(const T *__restrict__ x, long long *__restrict__ y,
                                       long long outer, long long axis, long long inner) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long row = (long long)(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= outer) // the same for the whole warp
    return;
  Candidate best = {0, -1};
  for (long long i = threadIdx.x; i < axis; i += 32) {
    const Candidate next = {Acc(x[row * axis + i]), i};
    if (beats(next, best))
      best = next;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const Candidate other = {__shfl_xor_sync(0xffffffffu, best.value, distance),
                             __shfl_xor_sync(0xffffffffu, best.position, distance)};
    if (beats(other, best))
      best = other;
  }
  if (threadIdx.x == 0)
    y[row] = best.position < 0 ? 0 : best.position;
}

extern "C" __global__ void argmax_columns(const T *__restrict__ x, long long *__restrict__ y,
                                          long long outer, long long axis, long long inner) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long column = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= outer * inner)
    return;
  const long long begin = column / inner * axis * inner + column % inner;
  Candidate best = {0, -1};
  for (long long i = 0; i < axis; ++i) {
    const Candidate next = {Acc(x[begin + i * inner]), i};
    if (beats(next, best))
      best = next;
  }
  y[column] = best.position < 0 ? 0 : best.position;
}
