// A sum over k that SLICES warps of a block share, each with a part of it: warp w has slice
// w % SLICES of number w / SLICES. They are added in the order of the slices.
//
// Options: SLICES, 1, 2 or 4; 1 by default.
#pragma once

#include "floating.cuh"

#ifndef SLICES
#define SLICES 1
#endif

__device__ __forceinline__ int own_slice() { return threadIdx.y % SLICES; }

// Of kRows sums of each of kNumbers; every thread of the block takes part, and every slice has the
// whole sums.
template <int kNumbers, int kRows> __device__ __forceinline__ void add_slices(Acc (&sum)[kRows]) {
  if constexpr (SLICES > 1) {
    __shared__ Acc of[SLICES][kNumbers][kRows];
    const int number = threadIdx.y / SLICES;
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (threadIdx.x == 0)
        of[own_slice()][number][r] = sum[r];
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sum[r] = of[0][number][r];
#pragma unroll
      for (int s = 1; s < SLICES; ++s)
        sum[r] += of[s][number][r];
    }
  }
}
