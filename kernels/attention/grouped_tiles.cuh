// Tiles of keys and values on tensor cores, and a warp's rows: attention_grouped.cu.
#pragma once

#include "attention/attention_parameters.cuh"
#include "shared/mma.cuh"

#ifndef QUERIES
#define QUERIES 1
#endif

constexpr int kWidth = MAX_WIDTH, kRows = SHARE * QUERIES, kRowTiles = (kRows + 7) / 8;
constexpr int kWarps = kWidth > 128 ? 2 : 4, kThreads = 32 * kWarps;
constexpr int kTile = 16, kStep = kTile * kWarps; // positions of a warp, and of a block, at a time
constexpr int kWidthTiles = kWidth / 16, kChunks = kWidth / 8; // of 16 bytes
// Either chunks change places by their row, or rows lie an odd number of chunks apart.
constexpr bool kExchanged = kChunks % 8 == 0;
constexpr int kPitch = 16 * (kExchanged ? kChunks : kChunks + 1); // bytes of a row
constexpr int kTileBytes = kTile * kPitch;                        // of keys, or of values
static_assert(kWidth % 16 == 0 && kRowTiles <= 2, "as the rule chooses them");

// Memory in which a warp leaves rows of values, references and sums for the others.
constexpr int kLeftRow = kWidth + 4, // different banks
    kLeftBytes = kRowTiles * 8 * (kLeftRow + 2) * 4;

#if __CUDA_ARCH__ >= 800

// Where a chunk of a row lies in a tile, in bytes.
__device__ __forceinline__ unsigned place_of(int row, int chunk) {
  return unsigned(row * kPitch + (kExchanged ? chunk ^ row % 8 : chunk) * 16);
}

__device__ __forceinline__ float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

__device__ __forceinline__ float inverse_of(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

__device__ __forceinline__ unsigned pair_of(T low, T high) {
  const T pair[2] = {low, high};
  return *reinterpret_cast<const unsigned *>(pair);
}

// Below every score; finite, so that differences with a score of -infinity are one.
__device__ __forceinline__ float no_reference() { return -3.402823466e38f; }

// A warp's rows. A lane has rows 2 (lane % 4) + h of each tile of eight, and of these values the
// columns 16 d + lane / 4 + 8 v at [d][2 v + h].
struct Rows {
  unsigned query[kRowTiles][kWidthTiles][2];
  float value[kRowTiles][kWidthTiles][4], sum[kRowTiles][2], reference[kRowTiles][2];

  // Begins to copy rows: is_there(row) says whether a row is there, at(row) where it begins.
  template <class IsThere, class At>
  __device__ __forceinline__ void begin(IsThere is_there, At at) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const int row = r * 8 + lane / 4;
      const T *const from = at(row) + lane % 4 * 2;
      const bool is_here = is_there(row);
#pragma unroll
      for (int d = 0; d < kWidthTiles; ++d)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const T *const two = from + d * 16 + h * 8;
          query[r][d][h] = !is_here ? 0
                           : (unsigned long long)(from) % 4 == 0
                               ? *reinterpret_cast<const unsigned *>(two)
                               : pair_of(two[0], two[1]);
        }
#pragma unroll
      for (int d = 0; d < kWidthTiles; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          value[r][d][e] = 0;
#pragma unroll
      for (int h = 0; h < 2; ++h)
        sum[r][h] = 0, reference[r][h] = no_reference();
    }
  }

  // Adds a tile of keys at `tile`, and of values behind it. hide(score, row, position) hides unseen
  // positions of a tile.
  template <class Hide>
  __device__ __forceinline__ void add(unsigned tile, float factor, bool is_edge, Hide hide) {
    const int lane = threadIdx.x % 32;
    // The second of the four fragments of eight positions and eight columns has other positions if
    // positions are rows of the mma, and other columns if they are turned.
    auto fragment_of = [&](int position, int chunk) {
      const unsigned own = tile + place_of(position, chunk);
      return [=](int d) {
        return kExchanged ? (own ^ unsigned(d % 4 * 32)) + d / 4 * 128 : own + d * 32;
      };
    };
    const auto key_at = fragment_of(lane % 16, lane / 16);
    const auto value_at = fragment_of(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    float part[2][kRowTiles][4] = {}, score[kRowTiles][4]; // two sums, so that neither waits long
#pragma unroll
    for (int d = 0; d < kWidthTiles; ++d) {
      unsigned key[4];
      load_fragments<false>(key_at(d), key);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
        multiply(part[d % 2][r], key, query[r][d][0], query[r][d][1]);
    }
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        score[r][e] = (part[0][r][e] + part[1][r][e]) * factor;
    if (is_edge)
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (hide(r * 8 + lane % 4 * 2 + e % 2, lane / 4 + e / 2 * 8))
            score[r][e] = -infinity();

    float most = 0; // above a reference
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        most = fmaxf(most, score[r][e] - reference[r][e % 2]);
    if (__any_sync(0xffffffffu, most > kMostAbove))
      move_references(score);
    unsigned weight[kRowTiles][2];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        float power[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          power[h] = power_of_two(score[r][2 * v + h] - reference[r][h]);
          sum[r][h] += power[h];
        }
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                     : "=r"(weight[r][v])
                     : "r"(pair_of(T(power[0]), T(power[1]))));
      }
#pragma unroll
    for (int d = 0; d < kWidthTiles; ++d) {
      unsigned column[4];
      load_fragments<true>(value_at(d) + kTileBytes, column);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
        multiply(value[r][d], column, weight[r][0], weight[r][1]);
    }
  }

  // To the largest score where that is far above.
  static constexpr float kMostAbove = 8;
  __device__ __forceinline__ void move_references(const float (&score)[kRowTiles][4]) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float largest = fmaxf(score[r][h], score[r][2 + h]);
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2)
          largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
        const float next = largest - reference[r][h] > kMostAbove ? largest : reference[r][h];
        const float keep = power_of_two(reference[r][h] - next);
        reference[r][h] = next;
        sum[r][h] *= keep;
#pragma unroll
        for (int d = 0; d < kWidthTiles; ++d)
          value[r][d][h] *= keep, value[r][d][2 + h] *= keep;
      }
  }

  // Leaves all in shared memory, as [row][column], references behind them and sums.
  __device__ __forceinline__ void leave(float *to) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = r * 8 + lane % 4 * 2 + h;
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2)
          sum[r][h] += __shfl_xor_sync(0xffffffffu, sum[r][h], distance);
#pragma unroll
        for (int d = 0; d < kWidthTiles; ++d)
#pragma unroll
          for (int v = 0; v < 2; ++v)
            to[row * kLeftRow + d * 16 + v * 8 + lane / 4] = value[r][d][2 * v + h];
        if (lane < 4) {
          to[kRowTiles * 8 * kLeftRow + row * 2] = reference[r][h];
          to[kRowTiles * 8 * kLeftRow + row * 2 + 1] = sum[r][h];
        }
      }
  }
};

#endif
