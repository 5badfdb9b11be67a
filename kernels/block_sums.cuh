// Products with rows of blocks as GGUF stores them, by a warp: a column of y for kRows rows of x.
//
//   format   a block of 32 elements, in bytes                        element
//   q4_0     scale (f16), 16 bytes                                   (nibble - 8) * scale
//   q4_1     scale (f16), least (f16), 16 bytes                      nibble * scale + least
//   q8_0     scale (f16), 32 signed bytes                            byte * scale
//
// The low nibbles of the 16 bytes are elements 0 to 15, the high ones 16 to 31. Blocks begin at
// even addresses at best: two bytes are read at a time there, else one. Eight lanes share a block.
// Bound by waiting for w: what a lane needs of kAhead rounds is asked for before the first is used.
// Sums are in Acc, of products with elements that are exact in float.
//
// kFormat is 40, 41 or 80.
#pragma once

#include <cuda_fp16.h>

#include "floating.cuh"

typedef unsigned char Byte;

constexpr int kBlockLanes = 8, kBlockEach = 32 / kBlockLanes; // lanes at a block, their elements

template <int kFormat> struct StoredBlock {
  static constexpr int kHead = kFormat == 41 ? 4 : 2, kBytes = kHead + (kFormat == 80 ? 32 : 16);
  static constexpr int kQuants = kFormat == 80 ? 2 : 1; // pairs of bytes of a lane

  // What a lane reads of a block, two bytes each.
  unsigned short scale, least, quants[kQuants];

  template <bool kEven> static __device__ __forceinline__ unsigned short pair_at(const Byte *p) {
    if constexpr (kEven)
      return __ldg(reinterpret_cast<const unsigned short *>(p));
    return (unsigned short)(p[0] | p[1] << 8);
  }
  template <bool kEven> __device__ __forceinline__ void load(const Byte *block, int lane) {
    scale = pair_at<kEven>(block);
    least = kFormat == 41 ? pair_at<kEven>(block + 2) : 0;
#pragma unroll
    for (int i = 0; i < kQuants; ++i)
      quants[i] = pair_at<kEven>(block + kHead + (lane * kQuants + i) * 2);
  }
  // Of the four elements of lane `lane` of eight, where one is in the block, and its value.
  static __device__ __forceinline__ int place(int lane, int e) {
    return kFormat == 80 ? lane * kBlockEach + e : lane * 2 + e % 2 + (e < 2 ? 0 : 16);
  }
  __device__ __forceinline__ float element(int e) const {
    const float by = __half2float(__ushort_as_half(scale));
    if constexpr (kFormat == 80)
      return float((signed char)(quants[e / 2] >> e % 2 * 8)) * by;
    const int nibble = quants[0] >> (e % 2 * 8 + (e < 2 ? 0 : 4)) & 15;
    return kFormat == 41 ? fmaf(float(nibble), by, __half2float(__ushort_as_half(least)))
                         : float(nibble - 8) * by;
  }
};

// kAhead rounds from block `b` on; with kPartly some are behind the last.
template <int kFormat, int kRows, int kAhead, bool kEven, bool kPartly>
__device__ __forceinline__ void block_rounds(const T *const (&row)[kRows], const Byte *w,
                                             long long b, long long blocks, Acc (&sum)[kRows]) {
  constexpr int kStep = 32 / kBlockLanes;
  const int lane = threadIdx.x % kBlockLanes;
  StoredBlock<kFormat> block[kAhead];
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
    if (!kPartly || b + j * kStep < blocks)
      block[j].template load<kEven>(w + (b + j * kStep) * StoredBlock<kFormat>::kBytes, lane);
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
    if (!kPartly || b + j * kStep < blocks)
#pragma unroll
      for (int e = 0; e < kBlockEach; ++e) {
        const Acc element = Acc(block[j].element(e));
        const long long i = (b + j * kStep) * 32 + StoredBlock<kFormat>::place(lane, e);
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          sum[r] = fma(Acc(row[r][i]), element, sum[r]);
      }
}

template <int kFormat, bool kEven, int kRows>
__device__ __forceinline__ void block_sums_at(const T *const (&row)[kRows], const Byte *w,
                                              long long blocks, Acc (&sum)[kRows]) {
  constexpr int kAhead = kEven ? 4 : 1, kStep = 32 / kBlockLanes;
  long long b = threadIdx.x / kBlockLanes;
#pragma unroll 1
  for (; b + (kAhead - 1) * kStep < blocks; b += kAhead * kStep)
    block_rounds<kFormat, kRows, kAhead, kEven, false>(row, w, b, blocks, sum);
  if (b < blocks)
    block_rounds<kFormat, kRows, kAhead, kEven, true>(row, w, b, blocks, sum);
}

// The sums of kRows rows of x with `blocks` blocks from `w` on, in every lane.
template <int kFormat, int kRows>
__device__ __forceinline__ void block_sums(const T *const (&row)[kRows], const Byte *w,
                                           long long blocks, Acc (&sum)[kRows]) {
  if ((unsigned long long)(w) % 2 == 0) // and so are all blocks of this format
    block_sums_at<kFormat, true>(row, w, blocks, sum);
  else
    block_sums_at<kFormat, false>(row, w, blocks, sum);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], distance);
}
