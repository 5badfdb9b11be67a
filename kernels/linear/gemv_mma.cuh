// Products of up to 8 rows with columns that are runs of k elements, as gemv_sums.cuh has them, of
// f16 and bf16 on tensor cores: 16 columns by a block, whose warps share k.
//
// An mma has 16 columns on the left and rows, as its columns, on the right. Lane 4 g + q reads
// elements 8 q .. 8 q + 7 of a chunk of columns g and g + 8 and of row g: which elements of k an
// mma multiplies with which others is all the same, as long as both sides agree.
//
//   column | chunk 0: 32 elements | chunk 1 | ..     warp w has the chunks w, w + kWarps, ..
//
// Bound by reading the columns once, whatever the number of rows: four chunks are asked for before
// the first is used.
#pragma once

#include "linear/gemv_sums.cuh"
#include "shared/mma.cuh"

#if __CUDA_ARCH__ >= 800 && (defined(DTYPE_F16) || defined(DTYPE_BF16))

// Chunks chunk, chunk + warps, .. of two columns and a row; with kPartly some are behind the last.
template <int kAhead, bool kAligned, bool kPartly>
__device__ __forceinline__ void add_chunks(const T *const (&column)[2], const T *row, int chunk,
                                           int warps, long long k, float (&sum)[4]) {
  GemvVector left[kAhead][2], right[kAhead];
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
    const int p = (chunk + j * warps) * 4 + int(threadIdx.x) % 4;
    if (!kPartly || p * kGemvVector < k) {
      left[j][0] = gemv_vector<kAligned>(column[0], p, k);
      left[j][1] = gemv_vector<kAligned>(column[1], p, k);
      right[j] = gemv_vector<kAligned>(row, p, k);
    } else {
      left[j][0].word = left[j][1].word = right[j].word = uint4{0, 0, 0, 0};
    }
  }
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
    const uint4 a = left[j][0].word, b = left[j][1].word, x = right[j].word;
    multiply(sum, {a.x, b.x, a.y, b.y}, x.x, x.y);
    multiply(sum, {a.z, b.z, a.w, b.w}, x.z, x.w);
  }
}

// The share of warp `warp` of sums: sum[e] is of column g + 8 * (e / 2) and row 2 q + e % 2.
template <int kAhead, bool kAligned>
__device__ __forceinline__ void gemv_mma_sums(const T *const (&column)[2], const T *row, int warp,
                                              int warps, long long k, float (&sum)[4]) {
  const int whole = int(k / 32), chunks = int((k + 31) / 32);
  int chunk = warp;
#pragma unroll 1
  for (; chunk + (kAhead - 1) * warps < whole; chunk += kAhead * warps)
    add_chunks<kAhead, kAligned, false>(column, row, chunk, warps, k, sum);
  if (chunk < chunks)
    add_chunks<kAhead, kAligned, true>(column, row, chunk, warps, k, sum);
}

__device__ __forceinline__ void gemv_mma_sums(const T *const (&column)[2], const T *row,
                                              bool aligned, int warp, int warps, long long k,
                                              float (&sum)[4]) {
  if (aligned)
    gemv_mma_sums<4, true>(column, row, warp, warps, k, sum);
  else
    gemv_mma_sums<1, false>(column, row, warp, warps, k, sum);
}

#endif
