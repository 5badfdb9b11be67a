// A sum over k that SLICES warps of a block share, each with a part of it: warp w has slice
// w % SLICES of number w / SLICES. They are added in the order of the slices.
//
// Options: SLICES, 1, 2 or 4; 1 by default.
#pragma once

#include "shared/floating.cuh"

#ifndef SLICES
#define SLICES 1
#endif

// The warp's number, of which ptxas knows that it is the same for all lanes: what depends on it
// does not divide a warp. All lanes ask for it.
__device__ __forceinline__ int warp_number() {
  return __shfl_sync(0xffffffffu, int(threadIdx.y), 0);
}

// Loads before it are on their way before the first is used: ptxas moves none behind it. For older
// devices it would call a function here.
__device__ __forceinline__ void all_asked_for() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
#endif
}

__device__ __forceinline__ int own_slice() { return unsigned(warp_number()) % SLICES; }

// Adds up kRows sums of each of kNumbers over the slices. Every thread of the block takes part, and
// every slice gets the whole sums.
template <int kNumbers, int kRows> __device__ __forceinline__ void add_slices(Acc (&sum)[kRows]) {
  if constexpr (SLICES > 1) {
    __shared__ Acc of[SLICES][kNumbers][kRows];
    const int number = threadIdx.y / SLICES, slice = own_slice();
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (threadIdx.x == 0)
        of[slice][number][r] = sum[r];
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
