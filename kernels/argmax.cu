// The position of the largest element (with SMALLEST, the smallest) along one axis of x: [outer,
// axis, inner]; y: [outer, inner], i64.
//
// The first of equal elements wins (with LAST, the last), and a NaN wins over any number, as in
// NumPy. Along an axis of no elements the result is 0.
//
// argmax_rows: inner is 1; one warp a row. argmax_columns: one thread a column.
//
// Options: SMALLEST, LAST; those of number.cuh and assume.cuh.

#include "assume.cuh"
#include "candidate.cuh"
#include "programmatic.cuh"

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
    if (before(next, best))
      best = next;
  }
  best = first_of_warp(best);
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
    if (before(next, best))
      best = next;
  }
  y[column] = best.position < 0 ? 0 : best.position;
}
