// Products on tensor cores, of f16 and bf16. Part of matmul.cu.
//
//         kDepth            kColumns
//        +------+         +---------+    A step takes kMmaDepth of k. While a block multiplies
//  kRows |  a   |  kDepth |    c    |    one step's tiles in shared memory, those of the next
//        +------+         +---------+    kMmaStages - 1 steps are on their way into others.
//
// Warps stand in a grid over the tile; each has kHigh x kWide fragments (mma_tile.cuh). Copies are
// asynchronous, of 16 bytes, where all rows begin at multiples of that; else one step's tiles are
// read in words.
//
// The result goes through shared memory, so that it is stored in runs of eight elements.
#pragma once

#include "linear/matmul_tile.cuh"
#include "shared/mma_tile.cuh"
#include "shared/vectors.cuh"

#if defined(DTYPE_F16) || defined(DTYPE_BF16)

constexpr int kMmaStages = 3;

#ifdef C_COLUMNS
constexpr bool kColumnsOfC = true;
#else
constexpr bool kColumnsOfC = false;
#endif

template <int kWarpRows, int kWarpColumns, int kHigh, int kWide>
__device__ __forceinline__ void multiply_tiles(PARAMETERS) {
  __builtin_assume(ASSUME);
  typedef MmaTile<kWarpRows, kWarpColumns, kHigh, kWide, kColumnsOfC> M;
  constexpr int kRows = M::kRows, kColumns = M::kColumns, kThreads = M::kThreads;
  constexpr int kResultWidth = kColumns + kChunk; // in shared memory, off a single bank
  constexpr int kShared =
      kMmaStages * M::kStage > kRows * kResultWidth ? kMmaStages * M::kStage : kRows * kResultWidth;
  __shared__ alignas(16) T shared[kShared];
  const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
  const int warp_row = warp / kWarpColumns * kHigh * 16,
            warp_column = warp % kWarpColumns * kWide * 8;
  const Tile tile = tile_of_block(m, n, kRows, kColumns);
  MOVE_TO_BATCH(tile.batch);
  const long long height_of_c = kColumnsOfC ? n : k, width_of_c = kColumnsOfC ? k : n;
  const int steps = int((k + kMmaDepth - 1) / kMmaDepth);

  float sum[kHigh][kWide][4] = {};
#if __CUDA_ARCH__ >= 800
  const bool aligned = k % kChunk == 0 && n % kChunk == 0 &&
                       (((unsigned long long)(a) | (unsigned long long)(c)) & 15) == 0;
#else
  const bool aligned = false;
#endif
  if (aligned) {
    TileCopies<typename M::A, false> a_copies(a, tile.row, 0, m, k, thread);
    TileCopies<typename M::C, !kColumnsOfC> c_copies(c, kColumnsOfC ? tile.column : 0,
                                                     kColumnsOfC ? 0 : tile.column, height_of_c,
                                                     width_of_c, thread);
    auto copy = [&](int stage) {
      a_copies.copy(shared + stage * M::kStage);
      c_copies.copy(shared + stage * M::kStage + M::A::kElements);
    };
#pragma unroll
    for (int s = 0; s < kMmaStages - 1; ++s) {
      if (s < steps)
        copy(s);
      end_copies();
    }
    int now = 0, next = kMmaStages - 1; // stages
    for (int s = 0; s < steps; ++s) {
      wait_for_copies<kMmaStages - 2>();
      __syncthreads(); // the tiles are there for all, and those of the step before have been read
      if (s + kMmaStages - 1 < steps)
        copy(next);
      end_copies();
      M::add(shared + now * M::kStage, lane, warp_row, warp_column, sum);
      now = now + 1 < kMmaStages ? now + 1 : 0;
      next = next + 1 < kMmaStages ? next + 1 : 0;
    }
    wait_for_copies<0>();
  } else {
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      const long long depth = (long long)(s)*kMmaDepth;
      read_tile<typename M::A, kRows, kMmaDepth, kThreads>(shared, a, tile.row, depth, m, k,
                                                           thread);
      read_tile<typename M::C, M::kHeightOfC, M::kWidthOfC, kThreads>(
          shared + M::A::kElements, c, kColumnsOfC ? tile.column : depth,
          kColumnsOfC ? depth : tile.column, height_of_c, width_of_c, thread);
      __syncthreads();
      M::add(shared, lane, warp_row, warp_column, sum);
      __syncthreads(); // the next step's tiles overwrite what was read
    }
  }

  __syncthreads();
#pragma unroll
  for (int r = 0; r < kHigh; ++r)
#pragma unroll
    for (int q = 0; q < kWide; ++q)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = warp_row + r * 16 + lane / 4 + e / 2 * 8;
        const int column = warp_column + q * 8 + lane % 4 * 2 + e % 2;
        const bool inside = tile.row + row < m && tile.column + column < n;
        shared[row * kResultWidth + column] =
            T(sum[r][q][e] + (inside ? BIAS_OF(tile.row + row, tile.column + column) : Acc(0)));
      }
  __syncthreads();
  const bool whole = n % kChunk == 0 && Run<kChunk, OUT>::is_aligned(y) && RESULTS_ALIGNED(kChunk);
  constexpr int kAcross = kColumns / kChunk;
#pragma unroll 1
  for (int i = thread; i < kRows * kAcross; i += kThreads) {
    const int r = i / kAcross, q = i % kAcross * kChunk;
    const long long row = tile.row + r, column = tile.column + q;
    if (row >= m || column >= n)
      continue;
    const long long first = AT(tile.batch, row, column);
    const T *values = shared + r * kResultWidth + q;
    Run<kChunk, OUT> run;
    if (whole) {
      RESULTS(kChunk, run, first, values[e], true, kChunk);
      run.store(y + first, true);
    } else {
      const int left = int(n - column);
      RESULTS(kChunk, run, first, values[e], false, left);
#pragma unroll
      for (int e = 0; e < kChunk; ++e)
        if (e < left)
          y[first + e] = run.element[e];
    }
  }
}

#endif
