// Tiles of a product with repacked blocks, on tensor cores. Part of matmul_repacked.cu.
//
// A block of threads computes 128 columns of y for 64 rows of x, a warp 32 of the columns for all
// of the rows: so a weight becomes a number once for 64 rows. Weights come into a ring of two units
// a warp, which no other warp reads (repacked_tiles.cuh), x by steps of 64 of k into a ring of
// three that all share.
//
//   x in shared memory, a step: 64 rows of 128 bytes, 16-byte chunks exchanged by swizzle()
//
// What a format's leasts are times are sums of x: of formats of 256 elements all eight of a unit
// are one mma, with the leasts, whole numbers, on its left. There the sums are two bf16 numbers
// each, the second what the first rounded off.
#pragma once

#include "linear/repacked_tiles.cuh"
#include "linear/strips.cuh"
#include "shared/bias.cuh"

#ifdef MULTIPLIES_BY_MMA

#include <cuda_bf16.h>

constexpr int kTileRows = 64, kTileWarps = 4, kTileColumns = 32 * kTileWarps, kTileTogether = 1024;
constexpr int kStep = 64, kStepBytes = kTileRows * kStep * 2, kStepSlots = 3;

// Which chunks of a row are exchanged: lanes that read together then read other banks.
__device__ __forceinline__ int swizzle(int row) { return (row & 1) << 2 | (row & 2); }

__device__ __forceinline__ unsigned bf16_pair(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const unsigned *>(&pair);
}
__device__ __forceinline__ float less_bf16(float value) {
  return value - __bfloat162float(__float2bfloat16_rn(value));
}
// Two bytes of a word, 2 `which` and the next, as bf16 pair.
__device__ __forceinline__ unsigned bf16_of_bytes(unsigned word, int which) {
  return bf16_pair(float(word >> which * 16 & 255), float(word >> (which * 16 + 8) & 255));
}
__device__ __forceinline__ void multiply_bf16(float (&sum)[4], const unsigned (&a)[2], unsigned c0,
                                              unsigned c1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %4, %5}, {%6, %7}, {%8, %8, %8, %8};"
               : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(c0), "r"(c1), "f"(0.0f));
}

template <bool kAligned> struct RowCopies {
  const T *from;
  unsigned own, left, to; // rows: its first, the last there is
  unsigned width;         // of rows, in elements

  // Rows beyond the last repeat it; they are not stored.
  __device__ __forceinline__ RowCopies(const T *x, long long first, long long rows, long long k,
                                       int thread)
      : own(thread / 8), left(unsigned(rows - 1 - first)), width(unsigned(k)) {
    const int chunk = thread % 8;
    from = x + first * k + chunk * 8;
    to = own * (kStep * 2) + (chunk ^ swizzle(own)) * 16;
  }
  __device__ __forceinline__ const T *row(int j) const {
    return from + (own + 16 * j < left ? own + 16 * j : left) * width;
  }
  // The next step, into a slot.
  __device__ __forceinline__ void copy(Byte *slot) {
    Byte *first = slot + to;
    if constexpr (kAligned) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        copy_bytes<16>(shared_address(first + j * 16 * (kStep * 2)), row(j));
    } else { // seldom
#pragma unroll 1
      for (int j = 0; j < 4; ++j) {
        const T *from = row(j);
        *reinterpret_cast<uint4 *>(first + j * 16 * (kStep * 2)) = {
            read_pair(from), read_pair(from + 2), read_pair(from + 4), read_pair(from + 6)};
      }
    }
    from += kStep;
  }
};

// A lane's elements of block b of a step, of row 8 j + g of x.
template <int kFormat>
__device__ __forceinline__ Right right_of(const Byte *slot, int j, int b, int lane) {
  const int row = 8 * j + lane / 4, q = lane % 4;
  const Byte *at = slot + row * (kStep * 2);
  if constexpr (!Repacked<kFormat>::kHasHalves)
    return *reinterpret_cast<const uint4 *>(at + ((b * 4 + q) ^ swizzle(lane / 4)) * 16);
  const int chunk = b * 4 + q / 2, within = q % 2 * 8;
  const uint2 first =
                  *reinterpret_cast<const uint2 *>(at + (chunk ^ swizzle(lane / 4)) * 16 + within),
              second = *reinterpret_cast<const uint2 *>(
                  at + ((chunk + 2) ^ swizzle(lane / 4)) * 16 + within);
  return {first.x, first.y, second.x, second.y};
}

// Sums of a warp: of columns 16 m + g and + 8, rows 8 j + 2 q and + 1.
typedef float TileSums[2][8][4];

// Adds block 2 p + b of a unit of a format of 32 elements.
template <int kFormat, int b>
__device__ __forceinline__ void add_block_of_tile(const Byte *slot, const Byte *step, int p,
                                                  int lane, TileSums &sum) {
  typedef WeightTile<kFormat> Tile;
  static_assert(!BlockFormat<kFormat>::kHasLeast, "sums of x take too many registers");
  unsigned number[4][4];
  float scale[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    Tile::template plain_numbers<b>(Tile::words(slot, j, p, lane), number[j]);
    const unsigned *scales = reinterpret_cast<const unsigned *>(
        slot + Tile::kScalesAt + (lane / 4 + 8 * j) * Tile::kScaleBytes);
    scale[j] = half_of(scales[p], b);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const Right x = right_of<kFormat>(step, i, b, lane);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      float product[4];
      const unsigned(&up)[4] = number[2 * m], (&down)[4] = number[2 * m + 1];
      multiply_first(product, {up[0], down[0], up[1], down[1]}, x.x, x.y);
      multiply(product, {up[2], down[2], up[3], down[3]}, x.z, x.w);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sum[m][i][e] = fma(product[e], scale[2 * m + e / 2], sum[m][i][e]);
    }
  }
}

#ifdef DTYPE_F16
// Adds block 2 p + b of a unit of a format of 256 elements, ahead of d; `xs`: sums of x, of rows
// 16 j + g and + 8 and blocks 2 q and 2 q + 1.
template <int kFormat, int b>
__device__ __forceinline__ void add_scaled_block(const Byte *slot, const Byte *step, int p,
                                                 int lane, const unsigned (&scales)[4],
                                                 TileSums &part, float (&xs)[4][4]) {
  typedef WeightTile<kFormat> Tile;
  unsigned number[4][Tile::kNumbers][4];
#pragma unroll
  for (int j = 0; j < 4; ++j)
    Tile::template scaled_numbers<b>(Tile::words(slot, j, p, lane), Tile::factors(scales[j]),
                                     number[j]);
  const unsigned one = lane / 4 == 2 * p + b ? 0x3c003c00 : 0;
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    const Right x[2] = {right_of<kFormat>(step, i, b, lane),
                        right_of<kFormat>(step, i + 1, b, lane)};
    if constexpr (BlockFormat<kFormat>::kHasLeast) {
      multiply(xs[i / 2], {x[0].x, x[1].x, x[0].y, x[1].y}, one, one);
      multiply(xs[i / 2], {x[0].z, x[1].z, x[0].w, x[1].w}, one, one);
    }
#pragma unroll
    for (int s = 0; s < Tile::kNumbers; ++s)
#pragma unroll
      for (int h = 0; h < 4; h += 2)
#pragma unroll
        for (int c = 0; c < 2; ++c)
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            const unsigned(&up)[4] = number[2 * m][s], (&down)[4] = number[2 * m + 1][s];
            multiply(part[m][i + c], {up[h], down[h], up[h + 1], down[h + 1]},
                     h == 0 ? x[c].x : x[c].z, h == 0 ? x[c].y : x[c].w);
          }
  }
}

// A unit's sums with d, and its leasts.
template <int kFormat>
__device__ __forceinline__ void end_unit(const Byte *slot, int lane, const unsigned (&d)[4],
                                         TileSums &part, float (&xs)[4][4], TileSums &sum) {
  typedef WeightTile<kFormat> Tile;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    const float own[2] = {half_of(d[2 * m], 0) * 16777216, half_of(d[2 * m + 1], 0) * 16777216};
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sum[m][i][e] = fma(part[m][i][e], own[e / 2], sum[m][i][e]);
        part[m][i][e] = 0;
      }
  }
  if constexpr (BlockFormat<kFormat>::kHasLeast) {
    const int q = lane % 4;
    unsigned least[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint4 words = *reinterpret_cast<const uint4 *>(slot + Tile::kScalesAt +
                                                           (lane / 4 + 8 * j) * Tile::kScaleBytes);
      const unsigned own[4] = {words.x, words.y, words.z, words.w};
      const UnitScales<kFormat> scales(own);
      least[j] = bf16_of_bytes(q < 2 ? scales.least[0] : scales.least[1], q % 2);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float(&two)[4] = xs[i / 2];
      const int at = i % 2 * 2;
      const unsigned c0 = bf16_pair(two[at], two[at + 1]),
                     c1 = bf16_pair(less_bf16(two[at]), less_bf16(two[at + 1]));
      two[at] = two[at + 1] = 0;
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        float below[4];
        multiply_bf16(below, {least[2 * m], least[2 * m + 1]}, c0, c1);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          sum[m][i][e] = fma(below[e], -half_of(d[2 * m + e / 2], 1), sum[m][i][e]);
      }
    }
  }
}
#endif

template <int kFormat, bool kAligned>
__device__ __forceinline__ void add_tile(const T *x, const Byte *w, long long row, long long column,
                                         long long rows, long long n, long long k, Byte *shared,
                                         TileSums &sum) {
  typedef WeightTile<kFormat> Tile;
  constexpr int kSteps = Tile::kUnit * kBlock / kStep; // of a unit
  const int lane = threadIdx.x, warp = threadIdx.y;
  Byte *ring = shared + kStepSlots * kStepBytes + warp * 2 * Tile::kSlot;
  const long long blocks = k / kBlock;
  const int units = int(blocks / Tile::kUnit), steps = units * kSteps;
  Tile weights(w, column + warp * 32, n, blocks, lane);
  RowCopies<kAligned> copies(x, row, rows, k, warp * 32 + lane);
  weights.copy(shared_address(ring), lane);
  copies.copy(shared);
  end_copies();
  copies.copy(shared + kStepBytes);
  end_copies();
  int now = 0, next = 2 * kStepBytes, step = 0;
#ifdef DTYPE_F16
  TileSums part = {};
  float xs[4][4] = {};
#endif
#pragma unroll 1
  for (int unit = 0; unit < units; ++unit) {
    const Byte *slot = ring + unit % 2 * Tile::kSlot;
    __syncwarp(); // the slot before has been read
    if (unit + 1 < units)
      weights.copy(shared_address(ring + (unit + 1) % 2 * Tile::kSlot), lane);
#pragma unroll 1
    for (int p = 0; p < kSteps; ++p) {
      wait_for_copies<1>();
      __syncthreads(); // the step is there for all, and the one before has been read
      if (step + 2 < steps)
        copies.copy(shared + next);
      end_copies();
      ++step;
      const Byte *own = shared + now;
      if constexpr (Tile::kFolds) {
#ifdef DTYPE_F16
        unsigned scales[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          scales[j] = Tile::scales_of(slot, j, p, lane);
        add_scaled_block<kFormat, 0>(slot, own, p, lane, scales, part, xs);
        add_scaled_block<kFormat, 1>(slot, own, p, lane, scales, part, xs);
#endif
      } else {
        add_block_of_tile<kFormat, 0>(slot, own, p, lane, sum);
        add_block_of_tile<kFormat, 1>(slot, own, p, lane, sum);
      }
      now = now == 2 * kStepBytes ? 0 : now + kStepBytes;
      next = next == 2 * kStepBytes ? 0 : next + kStepBytes;
    }
#ifdef DTYPE_F16
    if constexpr (Tile::kFolds) {
      unsigned d[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        d[j] = Tile::d_of(slot, j, unit, column + warp * 32, n, lane);
      end_unit<kFormat>(slot, lane, d, part, xs, sum);
    }
#endif
  }
  wait_for_copies<0>();
}

template <int kFormat>
__device__ __forceinline__ void multiply_tile(const T *x, const Byte *w, BIAS_PARAMETER T *y,
                                              long long rows, long long n, long long k,
                                              Byte *shared) {
  __builtin_assume(ASSUME);
  const StripTile<kTileRows, kTileTogether> own(blockIdx.x, rows,
                                                unsigned((n + kTileColumns - 1) / kTileColumns));
  const long long row = (long long)(own.strip) * kTileRows,
                  column = (long long)(own.tile) * kTileColumns;
  TileSums sum = {};
  if ((unsigned long long)(x) % 16 == 0)
    add_tile<kFormat, true>(x, w, row, column, rows, n, k, shared, sum);
  else
    add_tile<kFormat, false>(x, w, row, column, rows, n, k, shared, sum);

  // Through shared memory, so that it is stored in runs.
  constexpr float kFactor = WeightTile<kFormat>::kFolds ? 1.0f : Numbers<kFormat>::kFactor;
  constexpr int kWidth = kTileColumns + 8;
  T *result = reinterpret_cast<T *>(shared);
  const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
  __syncthreads();
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int at = warp * 32 + 16 * m + lane / 4 + e / 2 * 8;
        const float added = column + at < n ? BIAS_AT(column + at) : Acc(0);
        result[(8 * i + lane % 4 * 2 + e % 2) * kWidth + at] = T(sum[m][i][e] * kFactor + added);
      }
  __syncthreads();
  if (column + thread < n)
#pragma unroll 4
    for (int r = 0; r < kTileRows; ++r)
      if (row + r < rows)
        y[(row + r) * n + column + thread] = result[r * kWidth + thread];
}

#endif
