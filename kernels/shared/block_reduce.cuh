// Reduction over a block, in the type that number.cuh names.
//
// Option: THREADS of a block, where that is known.
#pragma once

#include "shared/number.cuh"

// Every thread of the block gets the reduction of all their values. `shared` holds one value a
// warp; the block is a whole number of warps.
template <class Combine> __device__ Acc block_reduce(Acc value, Acc *shared, Combine combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
#ifdef THREADS
  constexpr int warps = THREADS / 32;
#else
  const int warps = blockDim.x / 32;
#endif
  if (warps == 1)
    return value;
  __syncthreads(); // the last reduction may still be reading
  if (threadIdx.x % 32 == 0)
    shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
#pragma unroll
  for (int w = 1; w < warps; ++w)
    value = combine(value, shared[w]);
  return value;
}
