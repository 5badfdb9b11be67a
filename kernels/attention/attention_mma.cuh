// Attention of many queries on tensor cores, for f16 and bf16. Part of attention.cu.
//
// A block takes 64 queries of one head, a warp 16 of them, and goes over tiles of 64 positions:
//
//   scores (16 x 64 a warp) = queries x keys^T        mma, queries stay in registers
//   weights = 2^(scores - reference)                  in registers
//   values (16 x width) += weights x values           mma; a score's place in its fragment is a
//                                                     weight's place in the left operand's
//
// Two tiles of keys and two of values are in shared memory: while one is worked at, the next one is
// on its way. Tiles that no query of the block sees are skipped; of those that all see whole, which
// are most, no position is asked for. Of a mask that all queries have alike (MASK_OF_POSITIONS) a
// block reads each position once, and tiles where it is 0 are as those without; of others a warp
// reads its rows in pairs, and adds none where all are 0. A row's reference moves to the largest
// score, with what was summed, where a score exceeds it by 2^8: weights are within what f16 holds.
// It moves by the row's own scores. Weights are rounded to f16 or bf16 for the second product, and
// summed as they are.
//
// Heads wider than 128 have tiles of 32 positions, wider than 192 of 16, and what queries have
// beyond 128 elements waits in shared memory, as each lane will multiply it.
//
// An unseen position weighs 0, and 0 times a NaN or an infinity is a NaN, as in every product: so
// values of positions that a query does not see, within the length, must be finite.
//
// Dynamic shared memory: kMmaBytes.
#pragma once

#include "shared/mma.cuh"
#include "shared/vectors.cuh"

constexpr int kMmaWidth = MAX_WIDTH, kMmaStride = kMmaWidth + 8; // off a single bank
constexpr int kMmaPositions = kMmaWidth > 192 ? 16 : kMmaWidth > 128 ? 32 : 64;
constexpr int kMmaQueries = 64, kMmaThreads = 128;
constexpr int kWidthSteps = kMmaWidth / 16, kPositionSteps = kMmaPositions / 16;
constexpr int kHeldSteps = kWidthSteps < 8 ? kWidthSteps : 8; // of queries, in registers
// Bytes of a tile, and in shared memory: of two tiles of keys, two of values, and of queries that
// wait behind them. Queries at first, and results at last, are in the place of tiles.
constexpr int kMmaRow = 2 * kMmaStride, kMmaTile = kMmaPositions * kMmaRow,
              kMmaBytes = 4 * kMmaTile + (kWidthSteps - kHeldSteps) * kMmaThreads * 16;
// Queries have room beside the first keys.
constexpr bool kQueriesApart = kMmaQueries <= 2 * kMmaPositions;
static_assert(kMmaQueries * kMmaRow <= 4 * kMmaTile, "there is room for queries");

__device__ __forceinline__ unsigned pair_of(float low, float high) {
#ifdef DTYPE_F16
  const __half2 pair = __floats2half2_rn(low, high);
#else
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
#endif
  return *reinterpret_cast<const unsigned *>(&pair);
}

// Rows of [.., width] into shared memory, `distance` elements apart; zeros from row `rows` on and
// beyond the width. kAligned: rows begin at multiples of 16 bytes.
template <int kRows, bool kAligned>
__device__ __forceinline__ void copy_rows(unsigned to, const T *from, long long distance, int rows,
                                          int width) {
#if __CUDA_ARCH__ >= 800
  constexpr int kAcross = kMmaWidth / 8, kPass = kMmaThreads / kAcross;
  auto copy = [](bool is_there, unsigned to, const T *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_there ? 16 : 0)
                 : "memory");
  };
  if constexpr (kAligned) {
    constexpr bool kEven = kMmaThreads % kAcross == 0 && kRows % kPass == 0;
    const int row = int(threadIdx.x) / kAcross, column = int(threadIdx.x) % kAcross * 8;
    const bool is_mine = kEven || row < kPass; // else threads are left over
    from += row * distance + column;
    to += row * kMmaRow + column * 2;
    rows = column < width ? rows - row : 0;
#pragma unroll
    for (int r = 0; r < kRows; r += kPass, from += kPass * distance)
      if constexpr (kEven)
        copy(r < rows, to + r * kMmaRow, from);
      else
        copy_bytes_or_zeros(is_mine && (r + kPass <= kRows || row + r < kRows), r < rows,
                            to + r * kMmaRow, from);
  } else {
#pragma unroll 1
    for (int i = threadIdx.x; i < kRows * kMmaWidth; i += kMmaThreads) {
      const int row = i / kMmaWidth, column = i % kMmaWidth;
      const T x = row < rows && column < width ? from[row * distance + column] : T(0.0f);
      asm volatile("st.shared.u16 [%0], %1;" ::"r"(to + row * kMmaRow + column * 2),
                   "h"(*reinterpret_cast<const unsigned short *>(&x))
                   : "memory");
    }
  }
  end_copies();
#endif
}

// The same for a tile of keys or values, `distance` bytes or elements apart; elements of another
// dtype become T on the way.
template <bool kAligned>
__device__ __forceinline__ void copy_cached(unsigned to, const Cached *from, long long distance,
                                            int rows, int width) {
#ifdef CACHE_IS_T
  copy_rows<kMmaPositions, kAligned>(to, from, distance, rows, width);
#else
  constexpr int kAcross = kMmaWidth / kCachedVector;
#pragma unroll 2
  for (int i = threadIdx.x; i < kMmaPositions * kAcross; i += kMmaThreads) {
    const int row = i / kAcross, column = i % kAcross * kCachedVector;
    CachedVector vector;
    load_cached<kAligned>(from + row * distance, column, row < rows ? width : 0, vector);
#pragma unroll
    for (int e = 0; e < kCachedVector; e += 2)
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + row * kMmaRow + (column + e) * 2),
                   "r"(pair_of(float(vector.at(e)), float(vector.at(e + 1))))
                   : "memory");
  }
  end_copies();
#endif
}

constexpr float kLog2e = 1.44269504088896340736f, kMostAbove = 8;

__device__ __forceinline__ float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

// The mask's part of the exponent of 2. The least finite number hides without being -infinity.
__device__ __forceinline__ float exponent_of(float mask) {
  const float exponent = mask * kLog2e;
  constexpr bool kHasNone = IS_SET(DTYPE_F16) && !IS_SET(MASK_F32); // f16 has no such elements
  return !kHasNone && exponent == -infinity() && mask != exponent ? -3.402823466e38f : exponent;
}

// NVRTC 13.5 takes 128 registers for sm_120 where it is not told that three blocks a multiprocessor
// are enough, and spills.
#if __CUDA_ARCH__ >= 1200 && MAX_WIDTH == 64
#define MMA_BOUNDS __launch_bounds__(kMmaThreads, 3)
#else
#define MMA_BOUNDS __launch_bounds__(kMmaThreads)
#endif

extern "C" __global__ void MMA_BOUNDS attention_mma(PARAMETERS(T *__restrict__ y)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char tiles[];
  const unsigned key_tiles = shared_address(tiles), value_tiles = key_tiles + 2 * kMmaTile;
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
  const bool is_cache_aligned =
      width % 8 == 0 && KV_ROW % 8 == 0 &&
      ((unsigned long long)(keys) | (unsigned long long)(values)) % kCachedAlignment == 0;
  const int rows = queries - first < kMmaQueries ? int(queries - first) : kMmaQueries;
  const long long length = LENGTH_OF(sequence);
  // Ends of what the block's first row and its last see, and begins of it.
  const int least = int(seen_by(first, length, queries)),
            most = int(seen_by(first + rows - 1, length, queries)),
            first_at = int(first_seen(least)) / kMmaPositions * kMmaPositions,
            last_begin = int(first_seen(most));
  int seen[2]; // by rows g and g + 8
#pragma unroll
  for (int h = 0; h < 2; ++h)
    seen[h] = int(seen_by(first + warp_row + g + h * 8, length, queries));

  auto copy_tile = [&](unsigned to, const Cached *from, int at) {
    if (is_cache_aligned)
      copy_cached<true>(to, from + at * stride, stride, most - at, int(width));
    else
      copy_cached<false>(to, from + at * stride, stride, most - at, int(width));
  };
  unsigned query[kHeldSteps][4], later[kWidthSteps - kHeldSteps + 1][4];
  const unsigned query_tile = kQueriesApart ? value_tiles : key_tiles;
  if (width % 8 == 0 && Q_ROW % 8 == 0 && (unsigned long long)(q) % 16 == 0)
    copy_rows<kMmaQueries, true>(query_tile, q, Q_ROW, rows, int(width));
  else
    copy_rows<kMmaQueries, false>(query_tile, q, Q_ROW, rows, int(width));
  if (kQueriesApart)
    copy_tile(key_tiles, keys, first_at);
  wait_for_copies<kQueriesApart ? 1 : 0>();
  __syncthreads();
  uint4 *const waiting = reinterpret_cast<uint4 *>(tiles + 4 * kMmaTile) + threadIdx.x;
#pragma unroll
  for (int d = 0; d < kWidthSteps; ++d)
    load_fragments<false>(query_tile + (warp_row + lane % 16) * kMmaRow + d * 32 + lane / 16 * 16,
                          d < kHeldSteps ? query[d % kHeldSteps] : later[d - kHeldSteps]);
  const unsigned sign = scale < 0 ? 0x80008000u : 0; // of both elements: the factor has none
#pragma unroll
  for (int d = 0; d < kWidthSteps; ++d)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      (d < kHeldSteps ? query[d % kHeldSteps] : later[d - kHeldSteps])[e] ^= sign;
#pragma unroll
  for (int d = 0; d < kWidthSteps - kHeldSteps; ++d)
    waiting[d * kMmaThreads] = {later[d][0], later[d][1], later[d][2], later[d][3]};
#ifdef MASK_OF_POSITIONS
  // Exponents of a tile's positions, and of the next one's; 0 beyond the seen ones.
  __shared__ float hiding[2][kMmaPositions];
  const int own_position = threadIdx.x;
  mask += sequence * mask_sequence + head * mask_head + own_position * mask_position;
  auto own_exponent = [&](int at) {
    return own_position < kMmaPositions && at + own_position < most
               ? exponent_of(float(mask[at * mask_position]))
               : 0.0f;
  };
  // Keeps it, and says whether any position of the tile has one.
  auto meet_with = [&](float exponent, int tile) {
    if (own_position < kMmaPositions)
      hiding[tile][own_position] = exponent;
    return bool(__syncthreads_or(exponent != 0));
  };
  bool is_masked = meet_with(own_exponent(first_at), 0); // and queries have been read
#else
  const bool is_masked = false;
  __syncthreads(); // queries have been read where tiles go
#endif
  if (!kQueriesApart)
    copy_tile(key_tiles, keys, first_at);
  copy_tile(value_tiles, values, first_at);

  const float factor = fabsf(scale) * kLog2e; // scores are exponents of 2
#ifdef MASK_OF_ROWS
  const Mask *masks[2]; // of rows g and g + 8; those beyond the last read the first row of all
#pragma unroll
  for (int h = 0; h < 2; ++h)
    masks[h] = mask + sequence * mask_sequence + head * mask_head +
               (warp_row + g + h * 8 < rows ? first + warp_row + g + h * 8 : first) * mask_query;
  const bool has_mask_pairs = mask_position == 1 && Run<2, Mask>::is_aligned(masks[0]) &&
                              Run<2, Mask>::is_aligned(masks[1]);
#endif
  // A reference is below every score at first; finite, so that what a score of -infinity is above
  // it is one.
  float sum[2] = {}, reference[2] = {-3.402823466e38f, -3.402823466e38f},
        result[kMmaWidth / 8][4] = {};
  unsigned turn = 0; // of the tiles that are there: 0 or kMmaTile
  const unsigned own_keys = key_tiles + (lane / 16 * 8 + lane % 8) * kMmaRow + lane / 8 % 2 * 16;
  const unsigned own_values = value_tiles + lane % 16 * kMmaRow + lane / 16 * 16;

  // The tile at a position; is_inside, a constant: all rows see all of it, no mask changes it, and
  // copies may be asked for.
  auto add_tile = [&](const bool is_inside, int at) __attribute__((always_inline)) {
    auto copy_next = [&](unsigned tiles, const Cached *from) {
      if (at + kMmaPositions >= most)
        end_copies();
      else if (is_inside)
        copy_cached<true>(tiles + (kMmaTile - turn), from + (at + kMmaPositions) * stride, stride,
                          most - at - kMmaPositions, int(width));
      else
        copy_tile(tiles + (kMmaTile - turn), from, at + kMmaPositions);
    };
#ifdef MASK_OF_ROWS
    Run<2, Mask> hiding[kMmaPositions / 8][2]; // on its way while scores are summed
    unsigned hiding_bits = 0;                  // but for signs
    const bool is_by_pairs = has_mask_pairs && at + kMmaPositions <= capacity;
#pragma unroll
    for (int n = 0; n < kMmaPositions / 8; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int position = at + n * 8 + lane % 4 * 2;
        if (is_by_pairs)
          hiding[n][h].load(masks[h] + position);
        else
#pragma unroll
          for (int e = 0; e < 2; ++e)
            hiding[n][h].element[e] =
                position + e < most ? masks[h][(position + e) * mask_position] : Mask(0.0f);
      }
#endif
    wait_for_copies<1>();
    __syncthreads(); // keys are there, and the tiles before have been read
    copy_next(key_tiles, keys);
#ifdef MASK_OF_POSITIONS
    const float next_exponent = own_exponent(at + kMmaPositions);
#endif
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
        load_fragments<false>(own_keys + turn + n * 16 * kMmaRow + d * 32, right);
        multiply(score[2 * n], left, right[0], right[1]);
        multiply(score[2 * n + 1], left, right[2], right[3]);
      }
    }

    // Element e of tile n is of row g + e / 2 * 8, position n * 8 + lane % 4 * 2 + e % 2.
    if (!is_inside) {
#ifdef MASK_OF_ROWS
#pragma unroll
      for (int n = 0; n < kMmaPositions / 8; ++n)
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
          for (int w = 0; w < int(sizeof(Mask)) / 2; ++w)
            hiding_bits |= hiding[n][h].pair[w] * 2;
      const bool is_masked = __any_sync(0xffffffffu, hiding_bits != 0);
#endif
#pragma unroll
      for (int n = 0; n < kMmaPositions / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
#if defined(MASK_OF_ROWS)
          score[n][e] = is_masked ? fmaf(score[n][e], factor,
                                         exponent_of(float(hiding[n][e / 2].element[e % 2])))
                                  : score[n][e] * factor;
#elif defined(MASK_OF_POSITIONS)
          score[n][e] = fmaf(score[n][e], factor, hiding[turn != 0][n * 8 + lane % 4 * 2 + e % 2]);
#else
          score[n][e] *= factor;
#endif
#ifdef HAS_MASK
      if (at < last_begin || at + kMmaPositions > least)
#endif
#pragma unroll
        for (int n = 0; n < kMmaPositions / 8; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int position = at + n * 8 + lane % 4 * 2 + e % 2;
            if (position >= seen[e / 2] || position < first_seen(seen[e / 2]))
              score[n][e] = -infinity();
          }
    }
    // Scores as exponents: of whole tiles they are what they are times the factor.
    auto above = [&](int n, int e) { // the reference
      return is_inside ? fmaf(score[n][e], factor, -reference[e / 2])
                       : score[n][e] - reference[e / 2];
    };
    float largest[2] = {-infinity(), -infinity()};
#pragma unroll
    for (int n = 0; n < kMmaPositions / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        largest[e / 2] = fmaxf(largest[e / 2], score[n][e]);
#pragma unroll
    for (int h = 0; h < 2; ++h)
      largest[h] = is_inside ? largest[h] * factor : largest[h];
    const bool is_above =
        largest[0] - reference[0] > kMostAbove || largest[1] - reference[1] > kMostAbove;
    if (__any_sync(0xffffffffu, is_above)) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float next = largest[h];
        next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, 1));
        next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, 2));
        next = next - reference[h] > kMostAbove ? next : reference[h];
        const float keep = power_of_two(reference[h] - next);
        reference[h] = next;
        sum[h] *= keep;
#pragma unroll
        for (int n = 0; n < kMmaWidth / 8; ++n)
          result[n][2 * h] *= keep, result[n][2 * h + 1] *= keep;
      }
    }
    unsigned weight[kPositionSteps][4];
#pragma unroll
    for (int n = 0; n < kMmaPositions / 8; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float low = power_of_two(above(n, 2 * h)), high = power_of_two(above(n, 2 * h + 1));
        sum[h] += low + high;
        weight[n / 2][n % 2 * 2 + h] = pair_of(low, high);
      }

    wait_for_copies<1>();
#ifdef MASK_OF_POSITIONS
    is_masked = meet_with(next_exponent, turn == 0);
#else
    __syncthreads(); // values are there
#endif
    copy_next(value_tiles, values);
#pragma unroll
    for (int n = 0; n < kPositionSteps; ++n)
#pragma unroll
      for (int d = 0; d < kWidthSteps; ++d) {
        unsigned right[4];
        load_fragments<true>(own_values + turn + n * 16 * kMmaRow + d * 32, right);
        multiply(result[2 * d], weight[n], right[0], right[1]);
        multiply(result[2 * d + 1], weight[n], right[2], right[3]);
      }
    turn = kMmaTile - turn;
  };

#pragma unroll 1
  for (int at = first_at; at < most; at += kMmaPositions) {
#ifndef MASK_OF_ROWS
    if (is_cache_aligned && at >= last_begin) {
#pragma unroll 1
      for (; at + kMmaPositions <= least && !is_masked; at += kMmaPositions)
        add_tile(true, at);
      if (at >= most)
        break;
    }
#endif
    add_tile(false, at);
  }
  wait_for_copies<0>();
  __syncthreads();

  float inverse[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
    inverse[h] = sum[h] == 0 ? 0.0f : 1 / sum[h]; // of rows of NaN it is NaN
  }
  // Through shared memory, each warp its rows, so that runs of eight elements are stored.
  const int thread = thread_anew(), me = thread % 32, first_row = thread / 32 * 16;
  T *const results = reinterpret_cast<T *>(tiles);
#pragma unroll
  for (int n = 0; n < kMmaWidth / 8; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      *reinterpret_cast<unsigned *>(results + (first_row + me / 4 + h * 8) * kMmaStride + n * 8 +
                                    me % 4 * 2) =
          pair_of(result[n][2 * h] * inverse[h], result[n][2 * h + 1] * inverse[h]);
  __syncwarp();
  const bool whole = width % 8 == 0 && Run<8, T>::is_aligned(y);
#pragma unroll 1
  for (int i = me; i < 16 * kMmaWidth / 8; i += 32) {
    const int row = first_row + i / (kMmaWidth / 8), column = i % (kMmaWidth / 8) * 8;
    if (row >= rows || column >= width)
      continue;
    const T *from = results + row * kMmaStride + column;
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
