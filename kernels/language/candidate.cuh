// Places along an axis in the order in which a search takes them: the largest value first (with
// SMALLEST, the smallest), a NaN before any number (with NAN_LAST, behind them), and of equal ones
// the first (with LAST, the last).
#pragma once

#include "shared/number.cuh"
#include "shared/options.cuh"

struct Candidate {
  Acc value;
  long long position; // -1: no candidate yet, after all others
};

// Whether `p` comes before `q`.
__device__ bool before(const Candidate &p, const Candidate &q) {
  if (p.position < 0 || q.position < 0)
    return q.position < 0 && p.position >= 0;
  const bool p_nan = p.value != p.value, q_nan = q.value != q.value;
  if (p_nan != q_nan)
    return IS_SET(NAN_LAST) ? q_nan : p_nan;
  if (!p_nan && p.value != q.value)
    return IS_SET(SMALLEST) ? p.value < q.value : p.value > q.value;
  return IS_SET(LAST) ? p.position > q.position : p.position < q.position;
}

// The first of the warp's candidates, in every lane.
__device__ Candidate first_of_warp(Candidate best) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const Candidate other = {__shfl_xor_sync(0xffffffffu, best.value, distance),
                             __shfl_xor_sync(0xffffffffu, best.position, distance)};
    if (before(other, best))
      best = other;
  }
  return best;
}
