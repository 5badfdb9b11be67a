// The position of the largest element (with SMALLEST, the smallest) along one axis of x: [outer,
// axis, inner]; y: [outer, inner], i64.
//
// The first of equal elements wins (with LAST, the last), and a NaN wins over any number, as in
// NumPy. Along an axis of no elements the result is 0.
//
// argmax_rows: inner is 1; one warp a row. argmax_columns: one thread a column.
//
// Options: SMALLEST, LAST; those of number.cuh and assume.cuh; the places of fusion.cuh, where what
// is stored is a position, not an element.

#include "assume.cuh"
#include "candidate.cuh"
#include "programmatic.cuh"

#ifndef STORE
#define STORE(i, value) y[i] = value
#define OUT long long
#endif
#include "fusion.cuh"

extern "C" __global__ void argmax_rows(LOADED_PARAMETER OUT *__restrict__ y, long long outer,
                                       long long axis, long long inner FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long row = (long long)(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= outer) // the same for the whole warp
    return;
  Candidate best = {0, -1};
  for (long long i = threadIdx.x; i < axis; i += 32) {
    const Candidate next = {Acc(LOAD(row * axis + i)), i};
    if (before(next, best))
      best = next;
  }
  best = first_of_warp(best);
  if (threadIdx.x == 0)
    STORE(row, best.position < 0 ? 0 : best.position);
}

extern "C" __global__ void argmax_columns(LOADED_PARAMETER OUT *__restrict__ y, long long outer,
                                          long long axis, long long inner FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long column = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= outer * inner)
    return;
  const long long begin = column / inner * axis * inner + column % inner;
  Candidate best = {0, -1};
  for (long long i = 0; i < axis; ++i) {
    const Candidate next = {Acc(LOAD(begin + i * inner)), i};
    if (before(next, best))
      best = next;
  }
  STORE(column, best.position < 0 ? 0 : best.position);
}
