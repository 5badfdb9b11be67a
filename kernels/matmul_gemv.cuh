// Products with few rows, on columns of c that are runs of k elements (C_COLUMNS): a warp computes
// kOut columns for kRows rows of a (gemv_sums.cuh). Part of matmul.cu.
#pragma once

#include "gemv_sums.cuh"
#include "matmul_tile.cuh"

constexpr int kGemvWarps = 4;

template <int kRows> __device__ __forceinline__ void multiply_rows(PARAMETERS) {
  __builtin_assume(ASSUME);
  constexpr int kOut = kRows > 2 ? 2 : 1, kAhead = 4 / kOut;
  const Tile tile = tile_of_block(m, n, kRows, kGemvWarps * kOut);
  MOVE_TO_BATCH(tile.batch);
  const long long first = tile.column + threadIdx.y * kOut;
  if (first >= n) // the same for the whole warp
    return;
  // Rows and columns beyond the last repeat it; they are not stored.
  const T *row[kRows], *column[kOut];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    row[r] = a + (tile.row + r < m ? tile.row + r : m - 1) * k;
#pragma unroll
  for (int o = 0; o < kOut; ++o)
    column[o] = c + (first + o < n ? first + o : n - 1) * k;

  Acc sum[kRows][kOut] = {};
  if (k % kGemvVector == 0 && (((unsigned long long)(a) | (unsigned long long)(c)) & 15) == 0)
    gemv_sums<kRows, kOut, kAhead, true>(row, column, k, sum);
  else
    gemv_sums<kRows, kOut, 1, false>(row, column, k, sum);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int o = 0; o < kOut; ++o) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        sum[r][o] += __shfl_xor_sync(0xffffffffu, sum[r][o], distance);
      if (threadIdx.x == 0 && tile.row + r < m && first + o < n)
        STORE(AT(tile.batch, tile.row + r, first + o), sum[r][o] + BIAS_AT(first + o));
    }
}
