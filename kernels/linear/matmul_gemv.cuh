// Products with few rows, on columns of c that are runs of k elements (C_COLUMNS): a warp computes
// kOut columns for kRows rows of a (gemv_sums.cuh); of f16 and bf16 a block computes 16 columns for
// up to 8 rows on tensor cores (gemv_mma.cuh). Part of matmul.cu.
#pragma once

#include "linear/gemv_mma.cuh"
#include "linear/gemv_sums.cuh"
#include "linear/matmul_tile.cuh"

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
  if (have_vectors(a, c, k))
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

#if __CUDA_ARCH__ >= 800 && (defined(DTYPE_F16) || defined(DTYPE_BF16))
__device__ __forceinline__ void multiply_rows_on_tensor_cores(PARAMETERS) {
  __builtin_assume(ASSUME);
  constexpr int kRows = 8, kColumns = 16, kWarps = 8;
  __shared__ float partial[kWarps][kRows][kColumns + 1];
  const Tile tile = tile_of_block(m, n, kRows, kColumns);
  MOVE_TO_BATCH(tile.batch);
  // Rows and columns beyond the last repeat it; they are not stored.
  const int g = threadIdx.x / 4;
  auto column = [&](int o) { return c + (tile.column + o < n ? tile.column + o : n - 1) * k; };
  const T *const own[2] = {column(g), column(g + 8)};
  const T *row = a + (tile.row + g < m ? tile.row + g : m - 1) * k;
  float sum[4] = {};
  gemv_mma_sums(own, row, have_vectors(a, c, k), threadIdx.y, kWarps, k, sum);
  store_sums(sum, partial);
  __syncthreads();
  const int thread = threadIdx.y * 32 + threadIdx.x, r = thread / kColumns, o = thread % kColumns;
  if (r < kRows && tile.row + r < m && tile.column + o < n) {
    Acc total = BIAS_AT(tile.column + o);
#pragma unroll
    for (int s = 0; s < kWarps; ++s)
      total += partial[s][r][o];
    STORE(AT(tile.batch, tile.row + r, tile.column + o), total);
  }
}
#endif
