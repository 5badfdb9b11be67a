// Products of bytes less their zero points, exactly: y = (a - a_zero) (b - b_zero), to i32, whose
// low bits are kept.
//
//   a: [batch, rows, inner]   b: [batch or 1, inner, columns], with B_COLUMNS [.., columns, inner]
//   y: [batch, rows, columns]
//
//   entry                     tile        block     for
//   matmul_integer            64 x 64     16 x 16   devices before sm_80: dp4a
//   matmul_integer_mma        128 x 128   32 x 4    tensor cores: byte_tile.cuh
//   matmul_integer_mma_small  64 x 64     32 x 4    likewise, few tiles
//
// What the zero points take away follows from the sums of rows and columns:
//   sum (a - p)(b - q) = sum a b - q sum a - p sum b + inner p q
// For dp4a bytes without a sign become signed ones, 128 less; a thread has 4 by 4 results.
//
// Options: A_UNSIGNED, B_UNSIGNED; HAS_A_ZERO and HAS_B_ZERO, one for each a_zero_step rows and
// b_zero_step columns (0: one for all); WITH_MMA and WITH_MMA_SMALL for the others, WITHOUT_DP4A;
// B_COLUMNS, on tensor cores with STAGES, of which a block has as many in dynamic shared memory,
// and COPY_BYTES (16, 8, 4 or 1), of which `inner` is a multiple; those of fusion.cuh and
// assume.cuh.

#include "shared/assume.cuh"
#include "shared/byte_sums.cuh"
#include "shared/byte_tile.cuh"
#include "shared/fusion.cuh"
#include "shared/options.cuh"
#include "shared/programmatic.cuh"

typedef Chosen<IS_SET(A_UNSIGNED), unsigned char, signed char>::type A;
typedef Chosen<IS_SET(B_UNSIGNED), unsigned char, signed char>::type B;
#define A_FLIP (IS_SET(A_UNSIGNED) ? 0x80808080u : 0u)
#define B_FLIP (IS_SET(B_UNSIGNED) ? 0x80808080u : 0u)
#ifdef HAS_A_ZERO
#define A_ZERO_PARAMETER const A *__restrict__ a_zero, long long a_zero_step,
#define A_ZERO_ARGUMENT a_zero, a_zero_step,
#define A_ZERO(row) int(a_zero[(row)*a_zero_step])
constexpr bool kHasAZero = true;
#else
#define A_ZERO_PARAMETER
#define A_ZERO_ARGUMENT
#define A_ZERO(row) 0
constexpr bool kHasAZero = false;
#endif
#ifdef HAS_B_ZERO
#define B_ZERO_PARAMETER const B *__restrict__ b_zero, long long b_zero_step,
#define B_ZERO_ARGUMENT b_zero, b_zero_step,
#define B_ZERO(column) int(b_zero[(column)*b_zero_step])
constexpr bool kHasBZero = true;
#else
#define B_ZERO_PARAMETER
#define B_ZERO_ARGUMENT
#define B_ZERO(column) 0
constexpr bool kHasBZero = false;
#endif

constexpr bool kColumnsOfB = IS_SET(B_COLUMNS);

#define PARAMETERS                                                                                 \
  const A *__restrict__ a, const B *__restrict__ b,                                                \
      A_ZERO_PARAMETER B_ZERO_PARAMETER SPLIT_PARAMETERS OUT *__restrict__ y, long long batch,     \
      long long rows, long long columns, long long inner,                                          \
      long long b_batch_stride FUSED_PARAMETERS
#define ARGUMENTS                                                                                  \
  a, b, A_ZERO_ARGUMENT B_ZERO_ARGUMENT SPLIT_ARGUMENTS y, batch, rows, columns, inner,            \
      b_batch_stride FUSED_ARGUMENTS

#ifndef WITHOUT_DP4A

constexpr int kSide = 64, kWords = 8, kEach = 4; // of a tile: rows, words along inner; of a thread

// Four signed bytes as a word; what lies behind the end is 0, as a signed byte.
template <class Byte>
__device__ __forceinline__ int word_of(const Byte *from, long long pitch, long long left,
                                       unsigned flip) {
  unsigned word = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e)
    if (e < left)
      word |= (unsigned((unsigned char)(from[e * pitch])) ^ (flip & 0xff)) << (8 * e);
  return int(word);
}

extern "C" __global__ void __launch_bounds__(256) matmul_integer(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ int of_a[kWords][kSide + 1], of_b[kWords][kSide + 1];
  const long long across = (columns + kSide - 1) / kSide, down = (rows + kSide - 1) / kSide;
  const long long tile = (long long)(blockIdx.x) % (across * down);
  const long long image = (long long)(blockIdx.x) / (across * down);
  const long long top = tile / across * kSide, left = tile % across * kSide;
  const int thread = threadIdx.y * 16 + threadIdx.x;
  a += image * rows * inner;
  b += image * b_batch_stride;
  int sum[kEach][kEach] = {}, a_sum[kEach] = {}, b_sum[kEach] = {};
  for (long long begin = 0; begin < inner; begin += 4 * kWords) {
    for (int i = thread; i < kWords * kSide; i += 256) {
      const int a_word = i % kWords, a_row = i / kWords, b_word = i / kSide, b_column = i % kSide;
      const long long a_at = begin + 4 * a_word, b_at = begin + 4 * b_word;
      of_a[a_word][a_row] = top + a_row < rows
                                ? word_of(a + (top + a_row) * inner + a_at, 1, inner - a_at, A_FLIP)
                                : 0;
      of_b[b_word][b_column] =
          left + b_column < columns
              ? kColumnsOfB
                    ? word_of(b + (left + b_column) * inner + b_at, 1, inner - b_at, B_FLIP)
                    : word_of(b + b_at * columns + left + b_column, columns, inner - b_at, B_FLIP)
              : 0;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      int a_words[kEach], b_words[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        a_words[e] = of_a[k][threadIdx.y + 16 * e];
        b_words[e] = of_b[k][threadIdx.x + 16 * e];
        a_sum[e] = dot4(a_words[e], 0x01010101, a_sum[e]);
        b_sum[e] = dot4(b_words[e], 0x01010101, b_sum[e]);
      }
#pragma unroll
      for (int r = 0; r < kEach; ++r)
#pragma unroll
        for (int c = 0; c < kEach; ++c)
          sum[r][c] = dot4(a_words[r], b_words[c], sum[r][c]);
    }
    __syncthreads(); // all have read before the next tile is written
  }
#pragma unroll
  for (int r = 0; r < kEach; ++r)
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      const long long row = top + threadIdx.y + 16 * r, column = left + threadIdx.x + 16 * c;
      if (row >= rows || column >= columns)
        continue;
      const unsigned p = unsigned(A_ZERO(row)) - (A_FLIP & 0xff); // sums wrap
      const unsigned q = unsigned(B_ZERO(column)) - (B_FLIP & 0xff);
      const int value = int(unsigned(sum[r][c]) - q * unsigned(a_sum[r]) - p * unsigned(b_sum[c]) +
                            unsigned(inner) * p * q);
      STORE((image * rows + row) * columns + column, value);
    }
}

#endif

#if __CUDA_ARCH__ >= 800
#ifdef B_COLUMNS

template <class Tile, int kBytes, class Sum>
__device__ __forceinline__ void
add_products(const A *a, const B *b, long long rows, long long columns, long long inner,
             ByteSteps steps, unsigned char *stages, Sum &sum, int *row_sums, int *column_sums) {
  RowCopies<Tile, Tile::kRows, kBytes, A> left(a, rows, inner, steps.first * Tile::kDepth);
  RowCopies<Tile, Tile::kColumns, kBytes, B> right(b, columns, inner, steps.first * Tile::kDepth);
  Tile::template add_copied<kHasBZero, kHasAZero, STAGES, kBytes == 1>(
      steps.count,
      [&](unsigned char *stage) {
        left.copy(stage, 0);
        right.copy(stage, Tile::kRows);
      },
      stages, sum, row_sums, column_sums);
}

#else

// What a thread has of the tile of b: four rows along `inner` of kEach columns, turned when they
// are written.
template <class Tile, bool kAligned> struct TurnedRows {
  static constexpr int kEach = Tile::kWords, kGroups = Tile::kDepth / 4;
  const B *from; // this thread's first column
  long long pitch, inner, left;
  unsigned row[4][kEach / 4];

  static __device__ __forceinline__ int group() { return Tile::thread() % kGroups; }
  static __device__ __forceinline__ int column() { return Tile::thread() / kGroups * kEach; }

  __device__ __forceinline__ void read(long long begin) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const long long at = begin + group() * 4 + i;
      read_bytes<kEach, kAligned>(from + at * pitch, at < inner ? left : 0, row[i]);
    }
  }
  template <class Store> __device__ __forceinline__ void words(Store store) const {
#pragma unroll
    for (int c = 0; c < kEach; c += 4) {
      const unsigned low[2] = {__byte_perm(row[0][c / 4], row[1][c / 4], 0x5140),
                               __byte_perm(row[2][c / 4], row[3][c / 4], 0x5140)};
      const unsigned high[2] = {__byte_perm(row[0][c / 4], row[1][c / 4], 0x7362),
                                __byte_perm(row[2][c / 4], row[3][c / 4], 0x7362)};
      store(column() + c, group(), __byte_perm(low[0], low[1], 0x5410));
      store(column() + c + 1, group(), __byte_perm(low[0], low[1], 0x7632));
      store(column() + c + 2, group(), __byte_perm(high[0], high[1], 0x5410));
      store(column() + c + 3, group(), __byte_perm(high[0], high[1], 0x7632));
    }
  }
};

template <class Tile, bool kAligned, class Sum>
__device__ __forceinline__ void
add_products(const A *a, const B *b, long long rows, long long columns, long long inner,
             long long pitch, unsigned char *stages, Sum &sum, int *row_sums, int *column_sums) {
  TurnedRows<Tile, kAligned> right;
  right.from = b + right.column(), right.pitch = pitch, right.inner = inner;
  right.left = columns - right.column();
  Tile::template add<kHasBZero, kHasAZero>(
      inner,
      [&](int j, long long at, unsigned(&word)[4]) {
        const int row = Tile::left_row(j);
        read_bytes<16, kAligned>(a + row * inner + at, row < rows ? inner - at : 0, word);
      },
      right, stages, sum, row_sums, column_sums);
}

#endif

// Where a block's tile lies, and which block of it this is.
template <class Tile> struct ByteTilePlace {
  long long image, top, left;
  unsigned tile, own;
  __device__ __forceinline__ ByteTilePlace(long long rows, long long columns, unsigned blocks) {
    unsigned block; // read each time, so that a place is not kept in registers over the loop
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    tile = block / blocks, own = block % blocks;
    const long long across = (columns + Tile::kColumns - 1) / Tile::kColumns;
    const long long down = (rows + Tile::kRows - 1) / Tile::kRows, place = tile % (across * down);
    image = tile / (across * down);
    top = place / across * Tile::kRows, left = place % across * Tile::kColumns;
  }
};

template <int kHigh, int kWide> __device__ __forceinline__ void multiply_byte_tiles(PARAMETERS) {
  __builtin_assume(ASSUME);
  typedef ByteTile<A, B, kHigh, kWide> Tile;
#ifdef B_COLUMNS
  extern __shared__ __align__(16) unsigned char stages[];
#else
  __shared__ alignas(16) unsigned char stages[2 * Tile::kStage];
#endif
#ifdef SPLIT
  const unsigned blocks = unsigned(splits);
#else
  const unsigned blocks = 1;
#endif
  __shared__ int row_sums[Tile::kRows], column_sums[Tile::kColumns];
  for (int i = Tile::thread(); i < Tile::kRows; i += Tile::kThreads)
    row_sums[i] = 0;
  for (int i = Tile::thread(); i < Tile::kColumns; i += Tile::kThreads)
    column_sums[i] = 0;
  const ByteTilePlace<Tile> from(rows, columns, blocks);
  a += (from.image * rows + from.top) * inner;
  b += from.image * b_batch_stride + from.left * (kColumnsOfB ? inner : 1);

  int sum[kHigh][kWide][4] = {};
  const unsigned long long places = (unsigned long long)(a) | (unsigned long long)(b);
  const long long down = rows - from.top, across = columns - from.left;
  const ByteSteps steps(unsigned(inner), Tile::kDepth, from.own, blocks);
#ifdef B_COLUMNS
  if (COPY_BYTES > 1 && inner % COPY_BYTES == 0 && places % COPY_BYTES == 0)
    add_products<Tile, COPY_BYTES>(a, b, down, across, inner, steps, stages, sum, row_sums,
                                   column_sums);
  else
    add_products<Tile, 1>(a, b, down, across, inner, steps, stages, sum, row_sums, column_sums);
#else
  if (inner % 16 == 0 && columns % 16 == 0 && places % 16 == 0)
    add_products<Tile, true>(a, b, down, across, inner, columns, stages, sum, row_sums,
                             column_sums);
  else
    add_products<Tile, false>(a, b, down, across, inner, columns, stages, sum, row_sums,
                              column_sums);
#endif
  __syncthreads();
  const ByteTilePlace<Tile> to(rows, columns, blocks);
  Tile::template take_zeros<kHasBZero, kHasAZero>(
      sum, row_sums, column_sums, steps.bytes,
      [&](int r) { return to.top + r < rows ? A_ZERO(to.top + r) : 0; },
      [&](int c) { return to.left + c < columns ? B_ZERO(to.left + c) : 0; });
#ifdef SPLIT
  if (!join_splits<Tile::kThreads>(parts, counters, to.tile, to.own, blocks, Tile::thread(), stages,
                                   sum))
    return;
  __syncthreads(); // the counter has been read
#endif
  Tile::each_sum(sum, stages, [&](int r, int c, int value) {
    const long long row = to.top + r, column = to.left + c;
    if (row < rows && column < columns)
      STORE((to.image * rows + row) * columns + column, value);
  });
}

#ifdef WITH_MMA
extern "C" __global__ void __launch_bounds__(128) matmul_integer_mma(PARAMETERS) {
  BEGIN_EARLY();
  multiply_byte_tiles<4, 8>(ARGUMENTS);
}
#endif
#ifdef WITH_MMA_SMALL
extern "C" __global__ void __launch_bounds__(128) matmul_integer_mma_small(PARAMETERS) {
  BEGIN_EARLY();
  multiply_byte_tiles<2, 4>(ARGUMENTS);
}
#endif

#endif
