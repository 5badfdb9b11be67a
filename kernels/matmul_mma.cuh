// Products on tensor cores, of f16 and bf16. Part of matmul.cu.
//
//         kDepth            kColumns
//        +------+         +---------+        A step takes kMmaDepth of k. While a block multiplies
//        one
//  kRows |  a   |  kDepth |    c    |        step's tiles in shared memory, those of the next
//        +------+         +---------+        kMmaStages - 1 steps are on their way into other
//        stages.
//
// Warps stand in a grid over the tile; each has kHigh x kWide fragments of 16 x 8 of the result in
// registers (f32), laid out over its lanes as mma.m16n8k16 says in the PTX ISA. A tile in shared
// memory has rows of chunks of eight elements; a row's chunks are exchanged so that the eight rows
// that ldmatrix reads lie in different banks (Chunks::at). Copies are asynchronous, of 16 bytes,
// where all rows begin at multiples of that; else one step's tiles are read element by element.
// Before sm_80, which has neither, the same fragments are summed without.
//
// The result goes through shared memory, so that it is stored in runs of eight elements.
#pragma once

#include "matmul_tile.cuh"
#include "mma.cuh"
#include "vectors.cuh"

#if defined(DTYPE_F16) || defined(DTYPE_BF16)

constexpr int kMmaDepth = 32, kMmaStages = 3, kChunk = 8;

// A tile of kHeight rows of kWidth elements in shared memory, and a thread's part of the copies
// into it: chunk `chunk` of the rows first + j * kStep.
template <int kHeight, int kWidth, int kThreads> struct Chunks {
  static constexpr int kAcross = kWidth / kChunk, kStep = kThreads / kAcross;
  static constexpr int kCopies = kHeight / kStep, kElements = kHeight * kWidth;

  // The place of element (row, column) in the tile.
  static __device__ __forceinline__ int at(int row, int column) {
    const int turn = kAcross == 4 ? row >> 1 & 3 : row & 7;
    return row * kWidth + ((column / kChunk ^ turn) * kChunk | column % kChunk);
  }
};

// Copies of tiles of a matrix whose rows have `width` elements, from (row, column) on; each step
// moves on along rows, or with kDown down. Elements that it does not have are zeros.
template <class C, bool kDown> struct TileCopies {
  const T *from;
  int place;            // in the tile, of the first row's chunk
  unsigned has;         // bit j: row j of this thread's is there
  int along;            // what is left of the matrix along the steps' direction
  long long down, step; // elements between rows of this thread's, and between steps

  __device__ __forceinline__ TileCopies(const T *matrix, long long row, long long column,
                                        long long height, long long width, int thread) {
    const int r = thread / C::kAcross, q = thread % C::kAcross * kChunk;
    from = matrix + (row + r) * width + column + q;
    place = C::at(r, q);
    has = 0;
#pragma unroll
    for (int j = 0; j < C::kCopies; ++j)
      if (kDown ? column + q < width : row + r + j * C::kStep < height)
        has |= 1u << j;
    along = int((kDown ? height - row - r : width - column - q));
    down = C::kStep * width;
    step = kDown ? kMmaDepth * width : kMmaDepth;
  }

  // The next step's tile into `to`.
  __device__ __forceinline__ void copy(T *to) {
#if __CUDA_ARCH__ >= 800
#pragma unroll
    for (int j = 0; j < C::kCopies; ++j) {
      const bool inside = (has >> j & 1) && (kDown ? j * C::kStep : 0) < along;
      // kStep rows are a multiple of the rows after which chunks are exchanged alike.
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(
                       to + place + j * C::kStep * (C::kElements / (C::kStep * C::kCopies)))),
                   "l"(inside ? from + j * down : from), "r"(inside ? 16 : 0)
                   : "memory");
    }
#endif
    from += step;
    along -= kMmaDepth;
  }
};

// The same tile, element by element.
template <class C, int kHeight, int kWidth, int kThreads>
__device__ __forceinline__ void read_tile(T *to, const T *matrix, long long row, long long column,
                                          long long height, long long width, int thread) {
  for (int i = thread; i < kHeight * kWidth; i += kThreads) {
    const int r = i / kWidth, q = i % kWidth;
    to[C::at(r, q)] =
        row + r < height && column + q < width ? matrix[(row + r) * width + column + q] : T(0.0f);
  }
}

#ifdef C_COLUMNS
constexpr bool kColumnsOfC = true;
#else
constexpr bool kColumnsOfC = false;
#endif

// Each of kWarpRows x kWarpColumns warps has kHigh x kWide fragments.
template <int kWarpRows, int kWarpColumns, int kHigh, int kWide> struct MmaTile {
  static constexpr int kRows = kWarpRows * kHigh * 16, kColumns = kWarpColumns * kWide * 8;
  static constexpr int kThreads = kWarpRows * kWarpColumns * 32;
  static constexpr int kHeightOfC = kColumnsOfC ? kColumns : kMmaDepth;
  static constexpr int kWidthOfC = kColumnsOfC ? kMmaDepth : kColumns;
  typedef Chunks<kRows, kMmaDepth, kThreads> A;
  typedef Chunks<kHeightOfC, kWidthOfC, kThreads> C;
  static constexpr int kStage = A::kElements + C::kElements; // elements

  // Adds a step's products; `stage` has its tiles.
  static __device__ __forceinline__ void add(const T *stage, int lane, int warp_row,
                                             int warp_column, float (&sum)[kHigh][kWide][4]) {
    const T *a_tile = stage, *c_tile = stage + A::kElements;
#if __CUDA_ARCH__ >= 800
#pragma unroll
    for (int d = 0; d < kMmaDepth; d += 16) {
      unsigned left[kHigh][4], right[kWide / 2][4];
#pragma unroll
      for (int r = 0; r < kHigh; ++r)
        load_fragments<false>(a_tile + A::at(warp_row + r * 16 + lane % 16, d + lane / 16 * 8),
                              left[r]);
#pragma unroll
      for (int q = 0; q < kWide / 2; ++q)
        if constexpr (kColumnsOfC)
          load_fragments<false>(
              c_tile + C::at(warp_column + q * 16 + lane / 16 * 8 + lane % 8, d + lane / 8 % 2 * 8),
              right[q]);
        else
          load_fragments<true>(c_tile + C::at(d + lane % 16, warp_column + q * 16 + lane / 16 * 8),
                               right[q]);
#pragma unroll
      for (int r = 0; r < kHigh; ++r)
#pragma unroll
        for (int q = 0; q < kWide; ++q)
          multiply(sum[r][q], left[r], right[q / 2][q % 2 * 2], right[q / 2][q % 2 * 2 + 1]);
    }
#else
    for (int d = 0; d < kMmaDepth; ++d)
#pragma unroll
      for (int r = 0; r < kHigh; ++r)
#pragma unroll
        for (int q = 0; q < kWide; ++q)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int row = warp_row + r * 16 + lane / 4 + e / 2 * 8;
            const int column = warp_column + q * 8 + lane % 4 * 2 + e % 2;
            const T right = c_tile[kColumnsOfC ? C::at(column, d) : C::at(d, column)];
            sum[r][q][e] = fma(float(a_tile[A::at(row, d)]), float(right), sum[r][q][e]);
          }
#endif
  }
};

template <int kWarpRows, int kWarpColumns, int kHigh, int kWide>
__device__ __forceinline__ void multiply_tiles(PARAMETERS) {
  __builtin_assume(ASSUME);
  typedef MmaTile<kWarpRows, kWarpColumns, kHigh, kWide> M;
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
        const bool inside = tile.column + column < n;
        shared[row * kResultWidth + column] =
            T(sum[r][q][e] + (inside ? BIAS_AT(tile.column + column) : Acc(0)));
      }
  __syncthreads();
  const bool whole = n % kChunk == 0 && Run<kChunk, OUT>::is_aligned(y);
  constexpr int kAcross = kColumns / kChunk;
#pragma unroll 1
  for (int i = thread; i < kRows * kAcross; i += kThreads) {
    const int r = i / kAcross, q = i % kAcross * kChunk;
    const long long row = tile.row + r, column = tile.column + q;
    if (row >= m || column >= n)
      continue;
    const long long first = AT(tile.batch, row, column);
    const T *values = shared + r * kResultWidth + q;
    if (whole) {
      Run<kChunk, OUT> run;
#pragma unroll
      for (int e = 0; e < kChunk; ++e)
        run.element[e] = RESULT(first + e, values[e]);
      run.store(y + first, true);
    } else {
      for (int e = 0; e < kChunk && column + e < n; ++e)
        STORE(first + e, values[e]);
    }
  }
}

#endif
