// Places along an axis in the order in which a search takes them: the largest value first (with
// SMALLEST, the smallest), a NaN before any number (with NAN_LAST, behind them), and of equal ones
// the first (with LAST, the last).
#pragma once

#include "shared/number.cuh"

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
#ifdef NAN_LAST
    return q_nan;
#else
    return p_nan;
#endif
#ifdef SMALLEST
  if (!p_nan && p.value != q.value)
    return p.value < q.value;
#else
  if (!p_nan && p.value != q.value)
    return p.value > q.value;
#endif
#ifdef LAST
  return p.position > q.position;
#else
  return p.position < q.position;
#endif
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
