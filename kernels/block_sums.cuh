// Products with rows of blocks as GGUF stores them, by a warp: a column of y for kRows rows of x.
//
//   format   a block of 32 elements, in bytes                        element
//   q4_0     scale (f16), 16 bytes                                   (nibble - 8) * scale
//   q4_1     scale (f16), least (f16), 16 bytes                      nibble * scale + least
//   q8_0     scale (f16), 32 signed bytes                            byte * scale
//
// The low nibbles of the 16 bytes are elements 0 to 15, the high ones 16 to 31. Blocks begin at
// even addresses at best, so that they are read byte by byte. Eight lanes share a block. Sums are
// in Acc, of products with elements that are exact in float.
//
// kFormat is 40, 41 or 80.
#pragma once

#include <cuda_fp16.h>

#include "floating.cuh"

typedef unsigned char Byte;

constexpr int kBlockLanes = 8, kBlockEach = 32 / kBlockLanes; // lanes at a block, their elements

template <int kFormat> struct StoredBlock {
  static constexpr int kHead = kFormat == 41 ? 4 : 2, kBytes = kHead + (kFormat == 80 ? 32 : 16);

  static __device__ __forceinline__ float half_at(const Byte *p) {
    return __half2float(__ushort_as_half((unsigned short)(p[0] | p[1] << 8)));
  }

  // The elements of a block that lane `lane` of eight takes, and their places in the block.
  static __device__ __forceinline__ void
  load(const Byte *block, int lane, float (&element)[kBlockEach], int (&place)[kBlockEach]) {
    const float scale = half_at(block), least = kFormat == 41 ? half_at(block + 2) : 0;
#pragma unroll
    for (int e = 0; e < kBlockEach; ++e) {
      if constexpr (kFormat == 80) {
        place[e] = lane * kBlockEach + e;
        element[e] = float((signed char)(block[kHead + place[e]])) * scale;
      } else {
        const int at = lane * 2 + e % 2;
        const int nibble = block[kHead + at] >> (e < 2 ? 0 : 4) & 15;
        place[e] = at + (e < 2 ? 0 : 16);
        element[e] = kFormat == 41 ? fmaf(float(nibble), scale, least) : float(nibble - 8) * scale;
      }
    }
  }
};

// The sums of kRows rows of x with `blocks` blocks from `w` on, in every lane.
template <int kFormat, int kRows>
__device__ __forceinline__ void block_sums(const T *const (&row)[kRows], const Byte *w,
                                           long long blocks, Acc (&sum)[kRows]) {
  const int lane = threadIdx.x % kBlockLanes, group = threadIdx.x / kBlockLanes;
  for (long long b = group; b < blocks; b += 32 / kBlockLanes) {
    float element[kBlockEach];
    int place[kBlockEach];
    StoredBlock<kFormat>::load(w + b * StoredBlock<kFormat>::kBytes, lane, element, place);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int e = 0; e < kBlockEach; ++e)
        sum[r] = fma(Acc(row[r][b * 32 + place[e]]), Acc(element[e]), sum[r]);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], distance);
}
