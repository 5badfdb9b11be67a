// The k largest elements (with SMALLEST, the smallest) along one axis of x: [outer, axis, inner],
// in order, and their positions; values and positions: [outer, k, inner].
//
// A NaN is larger than any number and wins in either order; of equal elements the first comes
// first. One block a line. Each round finds the first of the elements that come after the last one
// found, so that nothing is kept but that one: k passes over the line, which stays in cache.
//
// Options: SMALLEST; those of number.cuh and assume.cuh.

#include "assume.cuh"
#include "candidate.cuh"
#include "programmatic.cuh"

extern "C" __global__ void __launch_bounds__(256)
    top_k(const T *__restrict__ x, T *__restrict__ values, long long *__restrict__ positions,
          long long outer, long long axis, long long inner, long long k) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Candidate of_warp[32];
  const long long line = blockIdx.x;
  x += line / inner * axis * inner + line % inner;
  const long long out = line / inner * k * inner + line % inner;
  Candidate last = {0, -1};
  for (long long round = 0; round < k; ++round) {
    Candidate best = {0, -1};
    for (long long i = threadIdx.x; i < axis; i += blockDim.x) {
      const Candidate next = {Acc(x[i * inner]), i};
      if ((round == 0 || before(last, next)) && before(next, best))
        best = next;
    }
    best = first_of_warp(best);
    if (threadIdx.x % 32 == 0)
      of_warp[threadIdx.x / 32] = best;
    __syncthreads();
    for (int w = 0; w < int(blockDim.x) / 32; ++w)
      if (before(of_warp[w], best))
        best = of_warp[w];
    __syncthreads(); // all have read before the next round writes
    if (threadIdx.x == 0) {
      values[out + round * inner] = T(best.value);
      positions[out + round * inner] = best.position;
    }
    last = best;
  }
}
