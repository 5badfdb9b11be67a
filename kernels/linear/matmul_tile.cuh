// Parts that the forms of matmul.cu share: their parameters, and the place of a block's tile.
#pragma once

#include "shared/assume.cuh"
#include "shared/bias.cuh"
#include "shared/floating.cuh"
#include "shared/fusion.cuh"
#include "shared/options.cuh"
#include "shared/programmatic.cuh"

constexpr bool kColumnsOfC = IS_SET(C_COLUMNS);

#ifdef MANY_BATCHES
#define MAX_RANK 6
#include "shared/dimensions.cuh"
#define BATCH_PARAMETERS                                                                           \
  INNER(long long batch_size), EACH(long long a_stride), EACH(long long c_stride)
#define BATCH_ARGUMENTS INNER(batch_size), EACH(a_stride), EACH(c_stride)
#else
#define BATCH_PARAMETERS                                                                           \
  long long inner_batch, long long a_outer_stride, long long a_inner_stride,                       \
      long long c_outer_stride, long long c_inner_stride
#define BATCH_ARGUMENTS inner_batch, a_outer_stride, a_inner_stride, c_outer_stride, c_inner_stride
#endif

#ifdef SPLIT
#define SPLIT_PARAMETERS float *parts, unsigned *__restrict__ counters, long long splits,
#define SPLIT_ARGUMENTS parts, counters, splits,
#elif defined(HAS_TILES)
#define SPLIT_PARAMETERS float *parts, unsigned *__restrict__ counters,
#define SPLIT_ARGUMENTS parts, counters,
#else
#define SPLIT_PARAMETERS
#define SPLIT_ARGUMENTS
#endif

#define PARAMETERS                                                                                 \
  const T *__restrict__ a, const T *__restrict__ c,                                                \
      BIAS_PARAMETER SPLIT_PARAMETERS OUT *__restrict__ y, long long m, long long n, long long k,  \
      long long batch, BATCH_PARAMETERS FUSED_PARAMETERS

// The bias is one for each column, or with BIAS_OF_ROWS for each row.
#ifdef BIAS_OF_ROWS
#define BIAS_OF(row, column) BIAS_AT(row)
#else
#define BIAS_OF(row, column) BIAS_AT(column)
#endif

// The place of this block's tile.
struct Tile {
  long long batch, row, column;
};

// Element (row, column) of the result's matrix `batch`, which RESULT_ACROSS stores transposed; the
// distance of columns.
#ifdef RESULT_ACROSS
#define AT(batch, row, column) (((batch)*n + (column)) * m + (row))
#define COLUMN_STEP m
#else
#define AT(batch, row, column) (((batch)*m + (row)) * n + (column))
#define COLUMN_STEP 1
#endif

// Tiles are numbered in 32 bits, as blocks are: divisions of 64 bits are calls, which cost
// registers. They are numbered along rows, or with kTall rows of tiles at once, down first, so that
// neighbours read the same of both operands.
template <int kTall = 1>
__device__ __forceinline__ Tile tile_of_block(unsigned block, long long m, long long n, int rows,
                                              int columns) {
  const unsigned across = unsigned((n + columns - 1) / columns);
  const unsigned down = unsigned((m + rows - 1) / rows);
  if constexpr (kTall > 1) {
    const unsigned image = block / (across * down), tile = block % (across * down);
    const unsigned first = tile / (across * kTall) * kTall, place = tile % (across * kTall);
    const unsigned tall = down - first < kTall ? down - first : kTall;
    return {image, (long long)(first + place % tall) * rows, (long long)(place / tall) * columns};
  }
  const unsigned tile = block / across;
  return {tile / down, (long long)(tile % down) * rows, (long long)(block % across) * columns};
}
__device__ __forceinline__ Tile tile_of_block(long long m, long long n, int rows, int columns) {
  return tile_of_block(blockIdx.x, m, n, rows, columns);
}

#ifdef MANY_BATCHES
#define MOVE_TO_BATCH(batch)                                                                       \
  do {                                                                                             \
    const long long size[] = {1, INNER(batch_size)};                                               \
    const long long a_stride[] = {EACH(a_stride)}, c_stride[] = {EACH(c_stride)};                  \
    long long rest = (batch);                                                                      \
    for (int d = MAX_RANK - 1; d >= 0; --d) {                                                      \
      const long long outer = d > 0 ? rest / size[d] : 0, at = rest - outer * size[d];             \
      a += at * a_stride[d];                                                                       \
      c += at * c_stride[d];                                                                       \
      rest = outer;                                                                                \
    }                                                                                              \
  } while (0)
#else
#define MOVE_TO_BATCH(batch)                                                                       \
  const unsigned outer_at = unsigned(batch) / unsigned(inner_batch);                               \
  const unsigned inner_at = unsigned(batch) % unsigned(inner_batch);                               \
  a += outer_at * a_outer_stride + inner_at * a_inner_stride;                                      \
  c += outer_at * c_outer_stride + inner_at * c_inner_stride
#endif
