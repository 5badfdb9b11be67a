// Tiles of products on tensor cores: how they lie in shared memory, and their products. For f16 and
// bf16, and f32 with TF32; matmul_mma.cuh and conv2d_mma.cuh stand on it.
//
// A tile in shared memory has rows of chunks of 16 bytes; a row's chunks are exchanged so that the
// eight rows that ldmatrix reads lie in different banks (Chunks::at). The fragments of a warp are
// 16 x 8 elements of the result in registers (f32), laid out over its lanes as mma.m16n8k16, or
// m16n8k8 of tf32, says in the PTX ISA. Before sm_80, which has neither, the same fragments are
// summed without.
#pragma once

#include "shared/mma.cuh"
#include "shared/words.cuh"

#if defined(DTYPE_F16) || defined(DTYPE_BF16) || defined(TF32)

// Elements of a step of k, of a chunk, and of what an mma takes of k.
constexpr int kMmaDepth = 64 / sizeof(T), kChunk = 16 / sizeof(T), kMmaPart = 32 / sizeof(T);

// A tile of kHeight rows of kWidth elements in shared memory, and a thread's part of the copies
// into it: chunk `chunk` of the rows first + j * kStep. With kByWords four rows of it are read at
// once, a word a lane, and not by ldmatrix.
template <int kHeight, int kWidth, int kThreads, bool kByWords = false> struct Chunks {
  static constexpr int kAcross = kWidth / kChunk, kStep = kThreads / kAcross;
  static constexpr int kCopies = kHeight / kStep, kElements = kHeight * kWidth;

  // The place of element (row, column) in the tile.
  static __device__ __forceinline__ int at(int row, int column) {
    const int turn = kByWords ? (row & 3) * 2 : kAcross == 4 ? row >> 1 & 3 : row & 7;
    return row * kWidth + ((column / kChunk ^ turn) * kChunk | column % kChunk);
  }
};

// Copies of tiles of a matrix whose rows have `width` elements, from (row, column) on; each step
// moves on along rows, or with kDown down. Elements that it does not have are zeros. A copy is of
// kBytes, of which the matrix's beginning and its rows' length are multiples.
template <class C, bool kDown, int kSteps = kMmaDepth, int kBytes = 16> struct TileCopies {
  static constexpr int kEach = kBytes / int(sizeof(T));
  const T *from;
  int place;            // in the tile, of the first row's chunk
  unsigned has;         // bit j: row j of this thread's is there
  int along;            // what is left of the matrix along the steps' direction
  int across;           // with kDown: what is left of the rows
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
    across = kDown ? int(width - column - q) : 0;
    down = C::kStep * width;
    step = kDown ? kSteps * width : kSteps;
  }

  // The next step's tile into `to`.
  __device__ __forceinline__ void copy(T *to) {
#if __CUDA_ARCH__ >= 800
#pragma unroll
    for (int j = 0; j < C::kCopies; ++j) {
      const bool inside = (has >> j & 1) && (kDown ? j * C::kStep : 0) < along;
      // kStep rows are a multiple of the rows after which chunks are exchanged alike.
      const unsigned address =
          shared_address(to + place + j * C::kStep * (C::kElements / (C::kStep * C::kCopies)));
#pragma unroll
      for (int e = 0; e < kChunk; e += kEach)
        copy_or_zeros<kBytes>(inside && (kBytes == 16 || e < (kDown ? across : along)),
                              address + e * unsigned(sizeof(T)),
                              inside ? from + j * down + e : from);
    }
#endif
    from += step;
    along -= kSteps;
  }
};

// The same tile of rows that begin anywhere, in words.
template <class C, int kHeight, int kWidth, int kThreads>
__device__ __forceinline__ void read_tile(T *to, const T *matrix, long long row, long long column,
                                          long long height, long long width, int thread) {
  constexpr int kAcross = kWidth / kChunk;
#pragma unroll 2
  for (int i = thread; i < kHeight * kAcross; i += kThreads) {
    const int r = i / kAcross, q = i % kAcross * kChunk;
    const long long left = row + r < height ? width - column - q : 0;
    const T *from = matrix + (row + r) * width + column + q;
    unsigned words[4];
#ifdef TF32
#pragma unroll
    for (int e = 0; e < kChunk; ++e)
      words[e] = e < left ? __float_as_uint(from[e]) : 0;
#else
    read_words<kChunk>(from, left, words);
#endif
    *reinterpret_cast<uint4 *>(to + C::at(r, q)) = {words[0], words[1], words[2], words[3]};
  }
}

// Each of kWarpRows x kWarpColumns warps has kHigh x kWide fragments. The right operand lies as it
// is, [k, n], or with kColumnsOfC as [n, k].
template <int kWarpRows, int kWarpColumns, int kHigh, int kWide, bool kColumnsOfC,
          int kDepth = kMmaDepth>
struct MmaTile {
  static constexpr int kRows = kWarpRows * kHigh * 16, kColumns = kWarpColumns * kWide * 8;
  static constexpr int kThreads = kWarpRows * kWarpColumns * 32;
  static constexpr int kHeightOfC = kColumnsOfC ? kColumns : kDepth;
  static constexpr int kWidthOfC = kColumnsOfC ? kDepth : kColumns;
  typedef Chunks<kRows, kDepth, kThreads> A;
  typedef Chunks<kHeightOfC, kWidthOfC, kThreads, sizeof(T) == 4 && !kColumnsOfC> C;
  static constexpr int kStage = A::kElements + C::kElements; // elements

  // Adds a step's products; `stage` has its tiles.
  static __device__ __forceinline__ void add(const T *stage, int lane, int warp_row,
                                             int warp_column, float (&sum)[kHigh][kWide][4]) {
    const T *a_tile = stage, *c_tile = stage + A::kElements;
#if __CUDA_ARCH__ >= 800
#pragma unroll
    for (int d = 0; d < kDepth; d += kMmaPart) {
      unsigned left[kHigh][4], right[kWide / 2][4];
#pragma unroll
      for (int r = 0; r < kHigh; ++r) {
        load_fragments<false>(a_tile + A::at(warp_row + lane % 16, d + lane / 16 * kChunk) +
                                  r * 16 * kDepth, // chunks of rows so far apart lie alike
                              left[r]);
        make_factors(left[r]);
      }
#pragma unroll
      for (int q = 0; q < kWide / 2; ++q) {
        if constexpr (kColumnsOfC) {
          load_fragments<false>(
              c_tile + C::at(warp_column + lane / 16 * 8 + lane % 8, d + lane / 8 % 2 * kChunk) +
                  q * 16 * kDepth,
              right[q]);
        } else if constexpr (sizeof(T) == 4) { // ldmatrix turns pairs of bytes alone
#pragma unroll
          for (int e = 0; e < 4; ++e)
            right[q][e] = __float_as_uint(float(c_tile[C::at(
                d + lane % 4 + e % 2 * 4, warp_column + q * 16 + e / 2 * 8 + lane / 4)]));
        } else {
          load_fragments<true>(c_tile + C::at(d + lane % 16, warp_column + q * 16 + lane / 16 * 8),
                               right[q]);
        }
        make_factors(right[q]);
      }
#pragma unroll
      for (int r = 0; r < kHigh; ++r)
#pragma unroll
        for (int q = 0; q < kWide; ++q)
          multiply(sum[r][q], left[r], right[q / 2][q % 2 * 2], right[q / 2][q % 2 * 2 + 1]);
    }
#else
    for (int d = 0; d < kDepth; ++d)
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

#endif
