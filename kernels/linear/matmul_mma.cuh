// Products on tensor cores, of f16 and bf16, and of f32 with TF32. Part of matmul.cu.
//
//         kDepth            kColumns
//        +------+         +---------+    A step takes kDepth of k. While a block multiplies one
//  kRows |  a   |  kDepth |    c    |    step's tiles in shared memory, those of the next
//        +------+         +---------+    kStages - 1 steps are on their way into others.
//
// Warps stand in a grid over the tile; each has kHigh x kWide fragments (mma_tile.cuh). Copies are
// asynchronous, of COPY_BYTES (16, 8 or 4), where all rows begin at multiples of that; else one
// step's tiles are read in words.
//
// With SPLIT `splits` blocks share a tile's steps (join_splits.cuh).
//
// The result goes through shared memory, so that it is stored in runs of 16 bytes; with
// RESULT_ACROSS neighbours store elements of a column.
#pragma once

#include "linear/matmul_tile.cuh"
#include "shared/join_splits.cuh"
#include "shared/mma_tile.cuh"
#include "shared/vectors.cuh"

#if defined(DTYPE_F16) || defined(DTYPE_BF16) || defined(TF32)

// Bytes of stages in shared memory, without asking for more. Blocks of 64 x 64 have 16 KiB a stage,
// and a fourth one with SMALL_STAGES 4, in dynamic shared memory.
constexpr int kStagedBytes = 48 << 10, kMostStages = 4, kRowsOfTiles = 8;
#ifndef SMALL_STAGES
#define SMALL_STAGES 3
#endif

template <int kBytes> __device__ __forceinline__ T *staging() {
  if constexpr (kBytes > kStagedBytes) {
    extern __shared__ __align__(16) unsigned char staged[];
    return reinterpret_cast<T *>(staged);
  } else {
    __shared__ __align__(16) unsigned char staged[kBytes];
    return reinterpret_cast<T *>(staged);
  }
}

#ifndef COPY_BYTES // what k and n are known to be multiples of, up to 16
#define COPY_BYTES 16
#endif

template <int kWarpRows, int kWarpColumns, int kHigh, int kWide, int kDepth, bool kSplits,
          int kRoom = kStagedBytes>
__device__ __forceinline__ void multiply_tiles(PARAMETERS) {
  __builtin_assume(ASSUME);
  typedef MmaTile<kWarpRows, kWarpColumns, kHigh, kWide, kColumnsOfC, kDepth> M;
  constexpr int kRows = M::kRows, kColumns = M::kColumns, kThreads = M::kThreads;
  constexpr int kFit = kRoom / int(M::kStage * sizeof(T)),
                kStages = kFit < kMostStages ? kFit : kMostStages;
  constexpr int kResultWidth = kColumns + kChunk; // in shared memory, off a single bank
  // Rows of the result that are there at a time.
  constexpr int kPass = kRows * kResultWidth * int(sizeof(T)) > kRoom ? kRows / 2 : kRows;
  static_assert(kPass % (kHigh * 16) == 0 || kPass == kRows, "a warp's rows are of one pass");
  constexpr int kShared =
      kStages * M::kStage > kPass * kResultWidth ? kStages * M::kStage : kPass * kResultWidth;
  T *const shared = staging<kShared *int(sizeof(T))>();
  const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
  const int warp_row = warp / kWarpColumns * kHigh * 16,
            warp_column = warp % kWarpColumns * kWide * 8;
  const int all_steps = int((k + kDepth - 1) / kDepth);
#ifdef SPLIT
  const unsigned blocks = kSplits ? unsigned(splits) : 1u, split = blockIdx.x % blocks,
                 block = blockIdx.x / blocks;
  const int first_step = int(split * unsigned(all_steps) / blocks),
            steps = int((split + 1) * unsigned(all_steps) / blocks) - first_step;
#else
  const unsigned block = blockIdx.x;
  const int first_step = 0, steps = all_steps;
#endif
  constexpr int kTall = kRows > 128 ? kRowsOfTiles : 1;
  const Tile tile = tile_of_block<kTall>(block, m, n, kRows, kColumns);
  MOVE_TO_BATCH(tile.batch);
  const long long height_of_c = kColumnsOfC ? n : k, width_of_c = kColumnsOfC ? k : n;

  float sum[kHigh][kWide][4] = {};
#if __CUDA_ARCH__ >= 800
  constexpr int kCopied = COPY_BYTES / int(sizeof(T)); // elements
  const bool aligned =
      COPY_BYTES >= 4 && k % kCopied == 0 && n % kCopied == 0 &&
      (((unsigned long long)(a) | (unsigned long long)(c)) & (COPY_BYTES - 1)) == 0;
#else
  const bool aligned = false;
#endif
  if (aligned) {
    constexpr int kBytes = COPY_BYTES >= 4 ? COPY_BYTES : 4;
    const long long begin = (long long)(first_step)*kDepth;
    TileCopies<typename M::A, false, kDepth, kBytes> a_copies(a, tile.row, begin, m, k, thread);
    TileCopies<typename M::C, !kColumnsOfC, kDepth, kBytes> c_copies(
        c, kColumnsOfC ? tile.column : begin, kColumnsOfC ? begin : tile.column, height_of_c,
        width_of_c, thread);
    auto copy = [&](int stage) {
      a_copies.copy(shared + stage * M::kStage);
      c_copies.copy(shared + stage * M::kStage + M::A::kElements);
    };
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (s < steps)
        copy(s);
      end_copies();
    }
    int now = 0, next = kStages - 1; // stages
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      wait_for_copies<kStages - 2>();
      __syncthreads(); // the tiles are there for all, and those of the step before have been read
      if (s + kStages - 1 < steps)
        copy(next);
      end_copies();
      M::add(shared + now * M::kStage, lane, warp_row, warp_column, sum);
      now = now + 1 < kStages ? now + 1 : 0;
      next = next + 1 < kStages ? next + 1 : 0;
    }
    wait_for_copies<0>();
  } else {
#pragma unroll 1
    for (int s = first_step; s < first_step + steps; ++s) {
      const long long depth = (long long)(s)*kDepth;
      read_tile<typename M::A, kRows, kDepth, kThreads>(shared, a, tile.row, depth, m, k, thread);
      read_tile<typename M::C, M::kHeightOfC, M::kWidthOfC, kThreads>(
          shared + M::A::kElements, c, kColumnsOfC ? tile.column : depth,
          kColumnsOfC ? depth : tile.column, height_of_c, width_of_c, thread);
      __syncthreads();
      M::add(shared, lane, warp_row, warp_column, sum);
      __syncthreads(); // the next step's tiles overwrite what was read
    }
  }

#ifdef SPLIT
  if constexpr (kSplits)
    if (splits > 1 && !join_splits<kThreads>(parts, counters, blockIdx.x / unsigned(splits),
                                             blockIdx.x % unsigned(splits), unsigned(splits),
                                             thread, shared, sum))
      return;
#endif
#ifndef RESULT_ACROSS
  const bool whole = n % kChunk == 0 && Run<kChunk, OUT>::is_aligned(y) && RESULTS_ALIGNED(kChunk);
  constexpr int kAcross = kColumns / kChunk;
#endif
#pragma unroll 1
  for (int pass = 0; pass < kRows; pass += kPass) {
    __syncthreads(); // what is there has been read
    if (kPass == kRows || (warp_row >= pass && warp_row < pass + kPass))
#pragma unroll
      for (int r = 0; r < kHigh; ++r)
#pragma unroll
        for (int q = 0; q < kWide; ++q)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = warp_row + r * 16 + lane / 4 + e / 2 * 8;
            const int column = warp_column + q * 8 + lane % 4 * 2 + e % 2;
            const bool inside = tile.row + row < m && tile.column + column < n;
            shared[(row - pass) * kResultWidth + column] =
                T(sum[r][q][e] + (inside ? BIAS_OF(tile.row + row, tile.column + column) : Acc(0)));
          }
    __syncthreads();
#ifdef RESULT_ACROSS
#pragma unroll 1
    for (int i = thread; i < kPass * kColumns; i += kThreads) {
      const long long row = tile.row + pass + i % kPass, column = tile.column + i / kPass;
      if (row < m && column < n)
        STORE(AT(tile.batch, row, column), shared[i % kPass * kResultWidth + i / kPass]);
    }
#else
#pragma unroll 1
    for (int i = thread; i < kPass * kAcross; i += kThreads) {
      const int r = i / kAcross, q = i % kAcross * kChunk;
      const long long row = tile.row + pass + r, column = tile.column + q;
      if (row >= m || column >= n)
        continue;
      const long long first = AT(tile.batch, row, column);
      const T *values = shared + r * kResultWidth + q;
      STORE_RUN(kChunk, first, values[e], whole, int(n - column));
    }
#endif
  }
}

#endif
