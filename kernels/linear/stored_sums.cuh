// Products with rows of blocks as GGUF stores them, by a warp: a column of y for kRows rows of x,
// or a slice of it, one of kSlices whose sums are to be added. Sums are in Acc, of products with
// elements that are exact in float (block_formats.cuh).
//
// Eight lanes share a unit of 32 elements, four neighbours each, which are of one part. What a lane
// needs of kAhead rounds is read before the first is used.
#pragma once

#include "linear/block_formats.cuh"
#include "linear/slices.cuh"
#include "shared/floating.cuh"

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
