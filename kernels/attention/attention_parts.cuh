// Parts of one query's attention, each over positions of its own: a part has its largest score, and
// the sum of its weights and its weighted values relative to that score. Joined, they are relative
// to the largest score of all.
#pragma once

#include "shared/floating.cuh"

// The largest score of a part without positions.
__device__ __forceinline__ Acc no_score() { return -infinity(); }

// The weight of a score beside the largest one, and the factor by which sums shrink when their
// largest score moves from `score` to it. No branch: a part without positions weighs nothing.
__device__ __forceinline__ Acc weight_of(Acc score, Acc largest) {
  return exp(score - (largest == no_score() ? Acc(0) : largest));
}

__device__ __forceinline__ Acc larger(Acc a, Acc b) {
  return b > a || b != b ? b : a;
} // a NaN stays
