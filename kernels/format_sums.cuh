// Products with rows of blocks of any format (block_formats.cuh), by a warp: a column of y for
// kRows rows of x.
//
// Eight lanes share a unit of 32 elements, four neighbours each, which are of one part. What a lane
// needs of kAhead rounds is read before the first is used. Sums are in Acc, of products with
// elements that are exact in float.
#pragma once

#include "block_formats.cuh"
#include "floating.cuh"

template <int kFormat, int kAlign, int kAhead, bool kPartly, int kRows>
__device__ __forceinline__ void format_rounds(const T *const (&row)[kRows], const Byte *w,
                                              long long u, long long units, Acc (&sum)[kRows]) {
  typedef BlockFormat<kFormat> Format;
  constexpr int kLanes = 8, kEach = kUnitSize / kLanes, kStep = 32 / kLanes;
  const int lane = threadIdx.x % kLanes;
  Part part[kAhead];
  unsigned quants[kAhead];
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
    if (const long long at = u + j * kStep; !kPartly || at < units) {
      const Byte *block = w + at / Format::kUnits * Format::kBytes;
      const int unit = int(at % Format::kUnits);
      part[j] = Format::template part_of<kAlign>(block, unit, lane / 4);
      quants[j] = Format::template quants_of<kAlign>(block, unit, lane * kEach);
    }
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
    if (const long long at = u + j * kStep; !kPartly || at < units)
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const Acc element = Acc(Format::element_of(part[j], quants[j], e));
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          sum[r] = fma(Acc(row[r][at * kUnitSize + lane * kEach + e]), element, sum[r]);
      }
}

template <int kFormat, int kAlign, int kRows>
__device__ __forceinline__ void format_sums_at(const T *const (&row)[kRows], const Byte *w,
                                               long long units, Acc (&sum)[kRows]) {
  constexpr int kAhead = kAlign > 1 ? 4 : 1, kStep = 4;
  long long u = threadIdx.x / 8;
#pragma unroll 1
  for (; u + (kAhead - 1) * kStep < units; u += kAhead * kStep)
    format_rounds<kFormat, kAlign, kAhead, false>(row, w, u, units, sum);
  if (u < units)
    format_rounds<kFormat, kAlign, kAhead, true>(row, w, u, units, sum);
}

// The sums of kRows rows of x with `units` units from block `w` on, in every lane.
template <int kFormat, int kRows>
__device__ __forceinline__ void format_sums(const T *const (&row)[kRows], const Byte *w,
                                            long long units, Acc (&sum)[kRows]) {
  constexpr int kNatural = BlockFormat<kFormat>::kNatural;
  if ((unsigned long long)(w) % kNatural == 0) // and so are all blocks of this format
    format_sums_at<kFormat, kNatural>(row, w, units, sum);
  else
    format_sums_at<kFormat, 1>(row, w, units, sum);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], distance);
}
