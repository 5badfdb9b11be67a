// Attention of many queries on tensor cores, for f16 and bf16. Part of attention.cu.
//
// A block takes 64 queries of one head, a warp 16 of them, and goes over tiles of 64 positions:
//
//   scores (16 x 64 a warp) = queries x keys^T        mma, queries stay in registers
//   weights = 2^(scores - largest so far)             in registers; what was summed is rescaled
//   values (16 x width) += weights x values           mma; a score's place in its fragment is a
//                                                     weight's place in the left operand's
//
// While scores are computed, the tile's values are on their way into shared memory, and while
// values are, the next tile's keys. With CAUSAL, tiles that no query of the block sees are skipped.
// Weights are rounded to f16 or bf16 for the second product, and summed as they are rounded.
//
// Heads wider than 128 have tiles of 32 positions, wider than 192 of 16, and what queries have
// beyond 128 elements waits in shared memory, as each lane will multiply it.
//
// As with every product, what is not seen weighs 0, and 0 times a NaN or an infinity is a NaN:
// values of positions that a query does not see, within the length, are finite.
#pragma once

#include "shared/mma.cuh"
#include "shared/vectors.cuh"

constexpr int kMmaWidth = MAX_WIDTH, kMmaStride = kMmaWidth + 8; // off a single bank
constexpr int kMmaPositions = kMmaWidth > 192 ? 16 : kMmaWidth > 128 ? 32 : 64;
constexpr int kMmaQueries = 64, kMmaThreads = 128;
constexpr int kWidthSteps = kMmaWidth / 16, kPositionSteps = kMmaPositions / 16;
constexpr int kHeldSteps = kWidthSteps < 8 ? kWidthSteps : 8; // of queries, in registers
// Elements in shared memory: of a tile of keys and one of values, of queries that wait behind them,
// and of all queries at first, and results at last, in the place of both.
constexpr int kTiles = 2 * kMmaPositions * kMmaStride,
              kWaiting = (kWidthSteps - kHeldSteps) * kMmaThreads * 8,
              kRowsOfAll = kMmaQueries * kMmaStride;

// Rows of [.., width] into shared memory, `distance` elements apart; zeros from row `rows` on and
// beyond the width.
template <int kRows>
__device__ __forceinline__ void copy_rows(T *to, const T *from, long long distance, long long rows,
                                          int width, bool aligned) {
#if __CUDA_ARCH__ >= 800
  constexpr int kAcross = kMmaWidth / 8;
  if (aligned) {
#pragma unroll
    for (int j = 0; j < kRows * kAcross / kMmaThreads; ++j) {
      const int i = int(threadIdx.x) + j * kMmaThreads, row = i / kAcross, column = i % kAcross * 8;
      const bool inside = row < rows && column < width;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                       shared_address(to + row * kMmaStride + column)),
                   "l"(inside ? from + row * distance + column : from), "r"(inside ? 16 : 0)
                   : "memory");
    }
  } else {
#pragma unroll 1
    for (int i = threadIdx.x; i < kRows * kMmaWidth; i += kMmaThreads) {
      const int row = i / kMmaWidth, column = i % kMmaWidth;
      to[row * kMmaStride + column] =
          row < rows && column < width ? from[row * distance + column] : T(0.0f);
    }
  }
  end_copies();
#endif
}

// The same of a tile of keys or values, `distance` bytes or elements apart: what is of another
// dtype becomes T on the way.
#ifdef CACHE_IS_T
__device__ __forceinline__ void copy_cached(T *to, const Cached *from, long long distance,
                                            long long rows, int width, bool aligned) {
  copy_rows<kMmaPositions>(to, from, distance, rows, width, aligned);
}
#else
__device__ __forceinline__ void copy_cached(T *to, const Cached *from, long long distance,
                                            long long rows, int width, bool aligned) {
  constexpr int kAcross = kMmaWidth / kCachedVector;
#pragma unroll 2
  for (int i = threadIdx.x; i < kMmaPositions * kAcross; i += kMmaThreads) {
    const int row = i / kAcross, column = i % kAcross * kCachedVector;
    const int here = row < rows ? width : 0;
    CachedVector vector;
    if (aligned)
      load_cached<true>(from + row * distance, column, here, vector);
    else
      load_cached<false>(from + row * distance, column, here, vector);
#pragma unroll
    for (int e = 0; e < kCachedVector; ++e)
      to[row * kMmaStride + column + e] = T(vector.at(e));
  }
}
#endif

constexpr float kLog2e = 1.44269504088896340736f;

// What a mask adds to the exponent of 2. The least finite number hides without being -infinity.
__device__ __forceinline__ float exponent_of(float mask) {
  const float exponent = mask * kLog2e;
  return exponent == -infinity() && mask != exponent ? -3.402823466e38f : exponent;
}

__device__ __forceinline__ unsigned pair_of(float low, float high) {
#ifdef DTYPE_F16
  const __half2 pair = __floats2half2_rn(low, high);
#else
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
#endif
  return *reinterpret_cast<const unsigned *>(&pair);
}

extern "C" __global__ void __launch_bounds__(kMmaThreads)
    attention_mma(PARAMETERS(T *__restrict__ y)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
#if __CUDA_ARCH__ >= 800
  __shared__ alignas(16) T tiles[kTiles + kWaiting > kRowsOfAll ? kTiles + kWaiting : kRowsOfAll];
  T *const key_tile = tiles, *const value_tile = tiles + kMmaPositions * kMmaStride;
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16, g = lane / 4;
  const long long across = (queries + kMmaQueries - 1) / kMmaQueries;
  // The last queries of a sequence see most: they come first.
  const long long first = (across - 1 - blockIdx.x % across) * kMmaQueries;
  const long long head = blockIdx.x / across % heads, sequence = blockIdx.x / across / heads;
  const long long row_width = KV_ROW;
  const long long stride = cached_offset(row_width);
  const long long begin =
      cached_offset(ROW_OF(sequence) * capacity * row_width + head / (heads / kv_heads) * width);
  const long long row = sequence * queries + first, result_row = heads * width;
  q += row * Q_ROW + head * width;
  y += row * result_row + head * width;
  keys += begin;
  values += begin;
  const bool aligned = width % 8 == 0 && Q_ROW % 8 == 0 && (unsigned long long)(q) % 16 == 0;
  const bool is_cache_aligned =
      width % 8 == 0 && KV_ROW % 8 == 0 &&
      ((unsigned long long)(keys) | (unsigned long long)(values)) % kCachedAlignment == 0;
  const long long rows = queries - first < kMmaQueries ? queries - first : kMmaQueries;
  const long long length = LENGTH_OF(sequence);
  const int most = int(seen_by(first + rows - 1, length, queries)); // of the block
  int seen[2];                                                      // by rows g and g + 8
#pragma unroll
  for (int h = 0; h < 2; ++h)
    seen[h] = int(seen_by(first + warp_row + g + h * 8, length, queries));

  unsigned query[kHeldSteps][4], later[kWidthSteps - kHeldSteps + 1][4];
  T *const query_tile = kWaiting ? tiles : value_tile;
  copy_rows<kMmaQueries>(query_tile, q, Q_ROW, rows, int(width), aligned);
  wait_for_copies<0>();
  __syncthreads();
  uint4 *const waiting = reinterpret_cast<uint4 *>(tiles + kTiles) + threadIdx.x;
#pragma unroll
  for (int d = 0; d < kWidthSteps; ++d)
    load_fragments<false>(query_tile + (warp_row + lane % 16) * kMmaStride + d * 16 + lane / 16 * 8,
                          d < kHeldSteps ? query[d % kHeldSteps] : later[d - kHeldSteps]);
  if constexpr (kWaiting > 0) {
    __syncthreads(); // queries have been read where keys go
#pragma unroll
    for (int d = 0; d < kWidthSteps - kHeldSteps; ++d)
      waiting[d * kMmaThreads] = {later[d][0], later[d][1], later[d][2], later[d][3]};
  }
  // The first query of a block sees the first positions; of tiles before these nothing is seen.
  const int first_at =
      int(first_seen(seen_by(first, length, queries))) / kMmaPositions * kMmaPositions;
  copy_cached(key_tile, keys + first_at * stride, stride, most - first_at, int(width),
              is_cache_aligned);

  const float factor = scale * kLog2e; // scores are powers of 2
#ifdef HAS_MASK
  const Mask *masks[2]; // of rows g and g + 8; those beyond the last read the first row of all
#pragma unroll
  for (int h = 0; h < 2; ++h)
    masks[h] = mask + sequence * mask_sequence + head * mask_head +
               (warp_row + g + h * 8 < rows ? first + warp_row + g + h * 8 : first) * mask_query;
#endif
  float sum[2] = {}, largest[2] = {-infinity(), -infinity()}, result[kMmaWidth / 8][4] = {};
#pragma unroll 1
  for (int at = first_at; at < most; at += kMmaPositions) {
    wait_for_copies<0>();
    __syncthreads(); // keys are there, and values, or at first queries, have been read
    copy_cached(value_tile, values + at * stride, stride, most - at, int(width), is_cache_aligned);

    float score[kMmaPositions / 8][4] = {};
#pragma unroll
    for (int d = 0; d < kWidthSteps; ++d) {
      unsigned left[4];
      if (d < kHeldSteps) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          left[e] = query[d % kHeldSteps][e];
      } else {
        const uint4 f = waiting[(d - kHeldSteps) * kMmaThreads];
        left[0] = f.x, left[1] = f.y, left[2] = f.z, left[3] = f.w;
      }
#pragma unroll
      for (int n = 0; n < kPositionSteps; ++n) {
        unsigned right[4];
        load_fragments<false>(key_tile + (n * 16 + lane / 16 * 8 + lane % 8) * kMmaStride + d * 16 +
                                  lane / 8 % 2 * 8,
                              right);
        multiply(score[2 * n], left, right[0], right[1]);
        multiply(score[2 * n + 1], left, right[2], right[3]);
      }
    }

    // Element e of tile n is of row g + e / 2 * 8, position n * 8 + lane % 4 * 2 + e % 2.
    float next[2] = {largest[0], largest[1]};
#pragma unroll
    for (int n = 0; n < kMmaPositions / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int position = at + n * 8 + lane % 4 * 2 + e % 2;
        const bool is_seen = position < seen[e / 2] && position >= first_seen(seen[e / 2]);
#ifdef HAS_MASK
        score[n][e] = is_seen ? fmaf(score[n][e], factor,
                                     exponent_of(float(masks[e / 2][position * mask_position])))
                              : -infinity();
#else
        score[n][e] = is_seen ? score[n][e] * factor : -infinity();
#endif
        next[e / 2] = fmaxf(next[e / 2], score[n][e]);
      }
    float keep[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      next[h] = fmaxf(next[h], __shfl_xor_sync(0xffffffffu, next[h], 1));
      next[h] = fmaxf(next[h], __shfl_xor_sync(0xffffffffu, next[h], 2));
      // Where nothing has been seen yet, all weights are 0, relative to any score.
      keep[h] = largest[h] == next[h] ? 1.0f : exp2f(largest[h] - next[h]);
      largest[h] = next[h];
      sum[h] *= keep[h];
      next[h] = next[h] == -infinity() ? 0.0f : next[h];
    }
#pragma unroll
    for (int n = 0; n < kMmaWidth / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        result[n][e] *= keep[e / 2];
    unsigned weight[kPositionSteps][4];
#pragma unroll
    for (int n = 0; n < kMmaPositions / 8; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const T low = T(exp2f(score[n][2 * h] - next[h])),
                high = T(exp2f(score[n][2 * h + 1] - next[h]));
        sum[h] += float(low) + float(high);
        weight[n / 2][n % 2 * 2 + h] = pair_of(float(low), float(high));
      }

    wait_for_copies<0>();
    __syncthreads(); // values are there, and keys have been read
    if (at + kMmaPositions < most)
      copy_cached(key_tile, keys + (at + kMmaPositions) * stride, stride, most - at - kMmaPositions,
                  int(width), is_cache_aligned);
#pragma unroll
    for (int n = 0; n < kPositionSteps; ++n)
#pragma unroll
      for (int d = 0; d < kWidthSteps; ++d) {
        unsigned right[4];
        load_fragments<true>(
            value_tile + (n * 16 + lane % 16) * kMmaStride + d * 16 + lane / 16 * 8, right);
        multiply(result[2 * d], weight[n], right[0], right[1]);
        multiply(result[2 * d + 1], weight[n], right[2], right[3]);
      }
  }
  wait_for_copies<0>();
  __syncthreads();

  float inverse[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
#ifdef HAS_MASK
    inverse[h] = sum[h] == 0 ? 0.0f : 1 / sum[h]; // of rows of NaN it is NaN
#else
    inverse[h] = largest[h] == -infinity() ? 0.0f : 1 / sum[h];
#endif
  }
  // Through shared memory, each warp its rows, so that runs of eight elements are stored.
  const int thread = thread_anew(), me = thread % 32, first_row = thread / 32 * 16;
#pragma unroll
  for (int n = 0; n < kMmaWidth / 8; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      *reinterpret_cast<unsigned *>(tiles + (first_row + me / 4 + h * 8) * kMmaStride + n * 8 +
                                    me % 4 * 2) =
          pair_of(result[n][2 * h] * inverse[h], result[n][2 * h + 1] * inverse[h]);
  __syncwarp();
  const bool whole = width % 8 == 0 && Run<8, T>::is_aligned(y);
#pragma unroll 1
  for (int i = me; i < 16 * kMmaWidth / 8; i += 32) {
    const int row = first_row + i / (kMmaWidth / 8), column = i % (kMmaWidth / 8) * 8;
    if (row >= rows || column >= width)
      continue;
    const T *from = tiles + row * kMmaStride + column;
    T *to = y + row * result_row + column;
    if (whole) {
      *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
    } else {
      for (int e = 0; e < 8 && column + e < width; ++e)
        to[e] = from[e];
    }
  }
#endif
}
