// The position of the largest element (with SMALLEST, the smallest) along one axis of x: [outer,
// axis, inner]; y: [outer, inner], i64.
//
// The first of equal elements wins (with LAST, the last), and a NaN wins over any number, as in
// NumPy. Along an axis of no elements the result is 0.
//
// argmax_rows: inner is 1; one warp a row. argmax_columns: 32 by 8 threads for 32 columns. Long
// rows, where they are few, are cut into `splits` chunks: argmax_split leaves the position of each
// chunk's largest (-1 of a chunk without elements), and argmax_join takes the largest of these.
//
//   entry            block     grid
//   argmax_rows      32 x 4    ceil(outer / 4)
//   argmax_split     256       outer * splits
//   argmax_join      256       outer
//   argmax_columns   32 x 8    ceil(outer * inner / 32)
//
// Options: SPLIT for the entries of rows that are cut; SMALLEST, LAST; those of number.cuh and
// assume.cuh; the places of fusion.cuh, where the stored value is a position, not an element.

#include "shared/assume.cuh"
#include "language/candidate.cuh"
#include "shared/programmatic.cuh"

#ifndef RESULT
#define RESULT(i, value) value
#define OUT long long
#endif
#include "shared/fusion.cuh"

#ifndef SPLIT
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

constexpr int kColumns = 32, kSlices = 8;

extern "C" __global__ void __launch_bounds__(kColumns *kSlices)
    argmax_columns(LOADED_PARAMETER OUT *__restrict__ y, long long outer, long long axis,
                   long long inner FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Candidate of_slice[kSlices][kColumns];
  const int slice = threadIdx.y;
  const long long column = (long long)(blockIdx.x) * kColumns + threadIdx.x;
  Candidate best = {0, -1};
  if (column < outer * inner) {
    const long long begin = column / inner * axis * inner + column % inner;
    for (long long i = slice; i < axis; i += kSlices) {
      const Candidate next = {Acc(LOAD(begin + i * inner)), i};
      if (before(next, best))
        best = next;
    }
  }
  of_slice[slice][threadIdx.x] = best;
  __syncthreads();
  if (slice > 0 || column >= outer * inner)
    return;
#pragma unroll
  for (int s = 1; s < kSlices; ++s)
    if (before(of_slice[s][threadIdx.x], best))
      best = of_slice[s][threadIdx.x];
  STORE(column, best.position < 0 ? 0 : best.position);
}

#else

constexpr int kSplitThreads = 256;

// The first of `count` candidates, in thread 0 of the block.
template <class At> __device__ __forceinline__ Candidate first_of_block(long long count, At at) {
  __shared__ Candidate of_warp[kSplitThreads / 32];
  Candidate best = {0, -1};
  for (long long i = threadIdx.x; i < count; i += kSplitThreads) {
    const Candidate next = at(i);
    if (before(next, best))
      best = next;
  }
  best = first_of_warp(best);
  if (threadIdx.x % 32 == 0)
    of_warp[threadIdx.x / 32] = best;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kSplitThreads / 32; ++w)
    if (before(of_warp[w], best))
      best = of_warp[w];
  return best;
}

extern "C" __global__ void __launch_bounds__(kSplitThreads)
    argmax_split(LOADED_PARAMETER long long *__restrict__ parts, long long outer, long long axis,
                 long long splits, long long chunk FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long row = blockIdx.x / splits, begin = blockIdx.x % splits * chunk;
  const long long rest = axis - begin;
  const Candidate best = first_of_block(rest < chunk ? rest : chunk, [&](long long i) {
    return Candidate{Acc(LOAD(row * axis + begin + i)), begin + i};
  });
  if (threadIdx.x == 0)
    parts[blockIdx.x] = best.position;
}

extern "C" __global__ void __launch_bounds__(kSplitThreads)
    argmax_join(LOADED_PARAMETER const long long *__restrict__ parts, OUT *__restrict__ y,
                long long outer, long long axis, long long splits FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long row = blockIdx.x;
  const Candidate best = first_of_block(splits, [&](long long i) {
    const long long position = parts[row * splits + i];
    return Candidate{position < 0 ? Acc(0) : Acc(LOAD(row * axis + position)), position};
  });
  if (threadIdx.x == 0)
    STORE(row, best.position < 0 ? 0 : best.position);
}
#endif
