// Products with rows of blocks as GGUF stores them, by a warp: a column of y for kRows rows of x,
// or a slice of it, one of kSlices whose sums are to be added. Sums are in Acc, of products with
// elements that are exact in float. block_sums has three formats, format_sums all others.
#pragma once

#include <cuda_fp16.h>

#include "linear/block_formats.cuh"
#include "linear/slices.cuh"
#include "shared/floating.cuh"

// --- Blocks of 32 with a scale, and a least -----------------------------------------------------
//
//   format   a block of 32 elements, in bytes                        element
//   q4_0     scale (f16), 16 bytes                                   (nibble - 8) * scale
//   q4_1     scale (f16), least (f16), 16 bytes                      nibble * scale + least
//   q8_0     scale (f16), 32 signed bytes                            byte * scale
//
// The low nibbles of the 16 bytes are elements 0 to 15, the high ones 16 to 31. Blocks begin at
// even addresses at best: two bytes are read at a time there, else one. Eight lanes share a block.
// Bound by waiting for w: what a lane needs of kAhead rounds is asked for before the first is used.
//
// kFormat is 40, 41 or 80.

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

// kAhead rounds from block `b` on, of kSlices warps; with kPartly some are behind the last. What a
// single row has for them is asked for with them.
template <int kFormat, int kRows, int kSlices, int kAhead, bool kEven, bool kPartly>
__device__ __forceinline__ void block_rounds(const T *const (&row)[kRows], const Byte *w, int b,
                                             int blocks, Acc (&sum)[kRows]) {
  constexpr int kStep = 32 / kBlockLanes * kSlices;
  constexpr bool kHolds = kRows == 1;
  const int lane = threadIdx.x % kBlockLanes;
  StoredBlock<kFormat> block[kAhead];
  T held[kAhead][kBlockEach];
  bool inside[kAhead];
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
    inside[j] = !kPartly || b + j * kStep < blocks;
    const int at = inside[j] ? b + j * kStep : 0;
    block[j].template load<kEven>(w + (long long)(at)*StoredBlock<kFormat>::kBytes, lane);
    if constexpr (kHolds)
#pragma unroll
      for (int e = 0; e < kBlockEach; ++e)
        held[j][e] = row[0][at * 32 + StoredBlock<kFormat>::place(lane, e)];
  }
  all_asked_for();
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
#pragma unroll
    for (int e = 0; e < kBlockEach; ++e) {
      const Acc element = Acc(block[j].element(e));
      const int at = inside[j] ? b + j * kStep : 0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const T left = kHolds ? held[j][e] : row[r][at * 32 + StoredBlock<kFormat>::place(lane, e)];
        const Acc next = fma(Acc(left), element, sum[r]);
        sum[r] = inside[j] ? next : sum[r];
      }
    }
}

template <int kFormat, int kSlices, int kAhead, bool kEven, int kRows>
__device__ __forceinline__ void block_sums_at(const T *const (&row)[kRows], const Byte *w,
                                              int blocks, int slice, Acc (&sum)[kRows]) {
  constexpr int kAtOnce = kEven ? kAhead : 1, kStep = 32 / kBlockLanes * kSlices;
  const int own = threadIdx.x / kBlockLanes;
  int b = slice * (32 / kBlockLanes); // of the warp's first lanes, so that all go the same way
  if (kAtOnce > 1 && blocks > kAtOnce * kStep) // else what follows takes all of them
#pragma unroll 1
    for (; b + 32 / kBlockLanes - 1 + (kAtOnce - 1) * kStep < blocks; b += kAtOnce * kStep)
      block_rounds<kFormat, kRows, kSlices, kAtOnce, kEven, false>(row, w, b + own, blocks, sum);
#pragma unroll 1
  for (; b < blocks; b += kAtOnce * kStep)
    block_rounds<kFormat, kRows, kSlices, kAtOnce, kEven, true>(row, w, b + own, blocks, sum);
}

// The sums of kRows rows of x with `blocks` blocks from `w` on, in every lane: those of blocks
// 4 i .. 4 i + 3 where i % kSlices is the slice.
template <int kFormat, int kSlices, int kAhead, int kRows>
__device__ __forceinline__ void block_sums(const T *const (&row)[kRows], const Byte *w, int blocks,
                                           int slice, Acc (&sum)[kRows]) {
  if ((unsigned long long)(w) % 2 == 0) // and so are all blocks of this format
    block_sums_at<kFormat, kSlices, kAhead, true>(row, w, blocks, slice, sum);
  else
    block_sums_at<kFormat, kSlices, kAhead, false>(row, w, blocks, slice, sum);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], distance);
}

// --- Any format (block_formats.cuh) --------------------------------------------------------------
//
// Eight lanes share a unit of 32 elements, four neighbours each, which are of one part. What a lane
// needs of kAhead rounds is read before the first is used.

// kAhead rounds from unit `u` on, of kSlices warps; with kPartly some are behind the last. What a
// single row has for them is asked for with them.
template <int kFormat, int kSlices, int kAlign, int kAhead, bool kPartly, int kRows>
__device__ __forceinline__ void format_rounds(const T *const (&row)[kRows], const Byte *w, int u,
                                              int units, Acc (&sum)[kRows]) {
  typedef BlockFormat<kFormat> Format;
  constexpr int kLanes = 8, kEach = kUnitSize / kLanes, kStep = 32 / kLanes * kSlices;
  constexpr bool kHolds = kRows == 1;
  const int lane = threadIdx.x % kLanes;
  Part part[kAhead];
  unsigned quants[kAhead];
  T held[kAhead][kEach];
  bool inside[kAhead];
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
    inside[j] = !kPartly || u + j * kStep < units;
    const int at = inside[j] ? u + j * kStep : 0, unit = at % Format::kUnits;
    const Byte *block = w + (long long)(at / Format::kUnits) * Format::kBytes;
    part[j] = Format::template part_of<kAlign>(block, unit, lane / 4);
    quants[j] = Format::template quants_of<kAlign>(block, unit, lane * kEach);
    if constexpr (kHolds)
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        held[j][e] = row[0][at * kUnitSize + lane * kEach + e];
  }
  all_asked_for();
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const Acc element = Acc(Format::element_of(part[j], quants[j], e));
      const int at = inside[j] ? u + j * kStep : 0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const T left = kHolds ? held[j][e] : row[r][at * kUnitSize + lane * kEach + e];
        const Acc next = fma(Acc(left), element, sum[r]);
        sum[r] = inside[j] ? next : sum[r];
      }
    }
}

template <int kFormat, int kSlices, int kAhead, int kAlign, int kRows>
__device__ __forceinline__ void format_sums_at(const T *const (&row)[kRows], const Byte *w,
                                               int units, int slice, Acc (&sum)[kRows]) {
  constexpr int kAtOnce = kAlign > 1 ? kAhead : 1, kStep = 4 * kSlices;
  const int own = threadIdx.x / 8;
  int u = slice * 4; // of the warp's first lanes, so that all go the same way
  if (kAtOnce > 1 && units > kAtOnce * kStep) // else what follows takes all of them
#pragma unroll 1
    for (; u + 3 + (kAtOnce - 1) * kStep < units; u += kAtOnce * kStep)
      format_rounds<kFormat, kSlices, kAlign, kAtOnce, false>(row, w, u + own, units, sum);
#pragma unroll 1
  for (; u < units; u += kAtOnce * kStep)
    format_rounds<kFormat, kSlices, kAlign, kAtOnce, true>(row, w, u + own, units, sum);
}

// The sums of kRows rows of x with `units` units from block `w` on, in every lane: those of units
// 4 i .. 4 i + 3 where i % kSlices is the slice.
template <int kFormat, int kSlices, int kAhead, int kRows>
__device__ __forceinline__ void format_sums(const T *const (&row)[kRows], const Byte *w, int units,
                                            int slice, Acc (&sum)[kRows]) {
  constexpr int kNatural = BlockFormat<kFormat>::kNatural;
  if ((unsigned long long)(w) % kNatural == 0) // and so are all blocks of this format
    format_sums_at<kFormat, kSlices, kAhead, kNatural>(row, w, units, slice, sum);
  else
    format_sums_at<kFormat, kSlices, kAhead, 1>(row, w, units, slice, sum);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], distance);
}
