// Products that share few rows x: what their generated kernel (products.h) is put together
// from. A block computes the sums of one tile, COLUMNS columns of one product, or of several at the
// same columns; what stands behind a product is then computed from the tile, in shared memory.
//
//   x [rows, k] --(norm)--> rows --(product)--> tile [ROWS][COLUMNS] --(epilogue)--> memory
//
// A norm before the products, or rounding, is computed anew by each block: rows are few and short,
// and come from the nearest cache. Everything is rounded where the ops one by one round, and added
// up in the same order, so that results have the same bits.
//
// Options: ROWS, at most, 1 to 8; COLUMNS, even; AHEAD, rounds of blocks as they are stored that
// are asked for at once, and SLICES of slices.cuh; HAS_FLOATS, HAS_NUMBERS, HAS_STORED,
// HAS_REPACKED: which kinds of products occur; BLOCKS of threads that a multiprocessor
// holds, on tensor cores alone; SLOTS of rings (stream.cuh); HAS_SUM before a norm; where a norm
// stands before them NORM_THREADS and NORM_VECTORS of a row, and VECTOR, as norm.cu has them;
// ROUND_ROWS where rounding does; those of floating.cuh and assume.cuh.
#pragma once

#include "attention/cache_row.cuh"
#include "attention/rotation.cuh"
#include "linear/slices.cuh"
#include "shared/assume.cuh"
#include "shared/floating.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

constexpr int kThreads = 256, kWarps = kThreads / 32;
// So many blocks a multiprocessor leave the registers that all loads of a round on tensor cores
// take, or rows, a residual and two norms' scales. NVRTC 12 takes 64 for sm_80, and on sm_75 for
// blocks as they are stored, where it is not told that two blocks are enough, and spills. 128 do
// not do on sm_75 for more rows than four or for bf16, which has no instructions there, nor for
// sm_107 and on for a sum of bf16.
#if defined(DTYPE_F64) || (defined(HAS_SUM) && defined(DTYPE_BF16) && __CUDA_ARCH__ >= 1070) ||    \
    (defined(HAS_STORED) && __CUDA_ARCH__ < 800 && (defined(DTYPE_BF16) || ROWS > 4))
#define PRODUCTS_BOUNDS __launch_bounds__(kThreads, 1)
#elif defined(BLOCKS)
#define PRODUCTS_BOUNDS __launch_bounds__(kThreads, BLOCKS)
#elif defined(HAS_SUM) || (__CUDACC_VER_MAJOR__ == 12 && __CUDA_ARCH__ == 800) ||                  \
    (__CUDACC_VER_MAJOR__ == 12 && __CUDA_ARCH__ < 800 && defined(HAS_STORED))
#define PRODUCTS_BOUNDS __launch_bounds__(kThreads, 2)
#else
#define PRODUCTS_BOUNDS __launch_bounds__(kThreads)
#endif

typedef T Sums[ROWS][COLUMNS];
typedef Acc Slices[SLICES][ROWS][COLUMNS]; // what the slices of a product's sums are

__device__ __forceinline__ Acc bias_at(const T *bias, long long column) {
  return bias ? Acc(bias[column]) : Acc(0);
}

#ifdef NORM_THREADS
#include "normalization/team_norm.cuh"
#endif

#ifdef ROUND_ROWS
// Rows of wider elements, as the products take them.
__device__ __forceinline__ void round_rows(const float *x, T *to, long long rows, long long k) {
  for (int i = threadIdx.y * 32 + threadIdx.x; i < int(rows * k); i += kThreads)
    to[i] = T(Acc(x[i]));
  __syncthreads();
}
#endif

// --- Which columns a tile has --------------------------------------------------------------------

// kTile: of a tile, COLUMNS or where whole heads of a head's elements are one (persistent.cuh) its
// width.
template <int kOfTile> struct InOrderOf {
  static constexpr int kTile = kOfTile;
  template <class Place> __device__ __forceinline__ Place column(Place place) const {
    return place;
  }
  // The 16 places from `place` on (stream.cuh) may be two runs of columns: these give the least
  // column, its distance to that of the second half, and the row of the two that the place `o`
  // further on is in.
  static constexpr bool kHasRuns = true;
  __device__ __forceinline__ unsigned least_column(unsigned place) const { return place; }
  __device__ __forceinline__ unsigned apart(unsigned) const { return 8; }
  __device__ __forceinline__ int row(unsigned, int o) const { return o; }
};
typedef InOrderOf<COLUMNS> InOrder;

// Heads whose pairs lie beside each other: the first `turned` elements of a head are pairs, (2 i,
// 2 i + 1) with kInterleaved, else (i, i + turned / 2). kInSixteens: both are multiples of 16.
template <bool kInterleaved, bool kInSixteens, int kOfTile = COLUMNS> struct InPairs {
  static constexpr int kTile = kOfTile;
  int width, turned;
  __device__ __forceinline__ int element(int place) const { // of a head
    return kInterleaved || place >= turned ? place : place % 2 * (turned / 2) + place / 2;
  }
  __device__ __forceinline__ int place(int element) const {
    const int half = turned / 2;
    return kInterleaved || element >= turned ? element
           : element < half                  ? 2 * element
                                             : 2 * (element - half) + 1;
  }
  template <class Place> __device__ __forceinline__ Place column(Place place) const {
    const Place within = place % Place(width);
    return place - within + element(int(within));
  }
  // The same members for columns in pairs.
  static constexpr bool kHasRuns = kInterleaved || kInSixteens;
  __device__ __forceinline__ bool has_halves(unsigned place) const {
    return !kInterleaved && kInSixteens &&
           (turned == width || place % unsigned(width) < unsigned(turned));
  }
  __device__ __forceinline__ unsigned least_column(unsigned place) const {
    return has_halves(place) ? place - place % unsigned(width) / 2 : place;
  }
  __device__ __forceinline__ unsigned apart(unsigned place) const {
    return has_halves(place) ? turned / 2 : 8;
  }
  __device__ __forceinline__ int row(unsigned place, int o) const {
    return has_halves(place) ? o % 2 * 8 + o / 2 : o;
  }
};

// --- Ahead of the rest ---------------------------------------------------------------------------

// Asks for what this block reads of a product's weights, rows of kRowBytes, before it waits for the
// kernels in front and while it computes a norm. These are hints for the L2 cache, where writes of
// others meet, so that they may come before the wait; and there is no branch, so that the wait is
// still the first thing that a kernel does. `tile` is the block's of this product, if within it.
template <int kRowBytes, class Columns>
__device__ __forceinline__ void ask_for_rows(const void *w, long long tile, long long n,
                                             Columns columns) {
  constexpr int kLine = 128, kLines = (kRowBytes + kLine - 1) / kLine + (kRowBytes % kLine != 0);
  constexpr int kAll = (COLUMNS * kLines + kThreads - 1) / kThreads, kRounds = kAll < 2 ? kAll : 2;
  const int thread = threadIdx.y * 32 + threadIdx.x;
#pragma unroll
  for (int j = 0; j < kRounds; ++j) {
    const int i = thread + j * kThreads, c = i / kLines;
    const long long place = tile * COLUMNS + c;
    const int begin = i % kLines * kLine;
    const bool inside = (place >= 0) & (place < n) & (c < COLUMNS);
    const long long offset = columns.column(inside ? place : 0) * kRowBytes +
                             (begin < kRowBytes ? begin : kRowBytes - 1);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(
        __cvta_generic_to_global(static_cast<const char *>(w) + (inside ? offset : 0))));
  }
}

// --- Products ------------------------------------------------------------------------------------

// The warps that compute a product: all of the block's, or a share of them where several products
// are computed side by side.
struct Team {
  int warp, warps; // this one's number; those that are not of the team have one beyond all columns

  static __device__ __forceinline__ Team of(int product, int products) {
    const int warps = kWarps / products, warp = warp_number() - product * warps;
    return {warp >= 0 && warp < warps ? warp : COLUMNS * SLICES, warps};
  }
};

// A header stands where it is first named.
#ifdef HAS_FLOATS
#include "linear/gemv_sums.cuh"

// Columns of w that are runs of k elements, a warp each.
template <class Columns>
__device__ __forceinline__ void
multiply_floats(const T *x, const T *w, const T *bias, long long rows, long long n, long long k,
                long long first, Columns columns, Team team, Sums &to) {
  const T *row[ROWS]; // those beyond the last repeat it
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    row[r] = x + (r < rows ? r : rows - 1) * k;
  const bool aligned = have_vectors(x, w, k);
#pragma unroll 1
  for (int c = team.warp; c < COLUMNS && first + c < n; c += team.warps) {
    const long long at = columns.column(first + c);
    const T *const column[1] = {w + at * k};
    Acc sum[ROWS][1] = {};
    if (aligned)
      gemv_sums<ROWS, 1, 4, true>(row, column, k, sum);
    else
      gemv_sums<ROWS, 1, 1, false>(row, column, k, sum);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        sum[r][0] += __shfl_xor_sync(0xffffffffu, sum[r][0], distance);
      if (threadIdx.x == 0)
        to[r][c] = T(sum[r][0] + bias_at(bias, at));
    }
  }
}
#endif

#if defined(HAS_REPACKED) || defined(HAS_NUMBERS)
#include "linear/stream.cuh"
#endif
#ifdef HAS_REPACKED

#if __CUDA_ARCH__ >= 800

// Columns 16 at a time by all warps, which share k: add_up(column g, column g + 8, partial) leaves
// what each has.
#if defined(DTYPE_F16) || defined(DTYPE_BF16)
constexpr int kTall = 8;
#else
constexpr int kTall = ROWS;
#endif
template <class Columns, class AddUp>
__device__ __forceinline__ void multiply_in_sixteens(const T *bias, long long n, long long first,
                                                     Columns columns, Sums &to, AddUp add_up) {
  constexpr int kWide = 16;
  __shared__ float partial[kWarps][kTall][kWide + 1];
  const int g = threadIdx.x / 4;
#pragma unroll 1
  for (int c = 0; c < COLUMNS; c += kWide) {
    // Columns beyond the last repeat it; they are not stored.
    auto inside = [&](int o) {
      const long long place = first + c + o;
      return columns.column(place < n ? place : n - 1);
    };
    const long long own[2] = {inside(g), inside(g + 8)};
    add_up(own, partial);
    __syncthreads();
    const int thread = threadIdx.y * 32 + threadIdx.x, r = thread / kWide, o = thread % kWide;
    if (r < ROWS && c + o < COLUMNS) {
      float total = bias_at(bias, inside(o));
#pragma unroll
      for (int s = 0; s < kWarps; ++s)
        total += partial[s][r][o];
      to[r][c + o] = T(total);
    }
    __syncthreads(); // before the next are written
  }
}
#endif
#endif

#if defined(HAS_STORED) || defined(HAS_REPACKED)
#include "linear/block_formats.cuh"
#endif

#ifdef HAS_STORED
#include "linear/stored_sums.cuh"

// Columns of blocks as they are stored, SLICES warps each. With slices the sums are theirs until
// join_slices has been called.
template <int kFormat, class Columns>
__device__ __forceinline__ void
multiply_stored(const T *x, const Byte *w, const T *bias, long long rows, long long n, long long k,
                long long first, Columns columns, Team team, Slices &slices, Sums &to) {
  typedef BlockFormat<kFormat> Format;
  const long long units = k / kUnitSize;
  const int slice = own_slice();
  const T *row[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    row[r] = x + (r < rows ? r : rows - 1) * k;
#pragma unroll 1
  for (int c = team.warp / SLICES; c < COLUMNS && first + c < n; c += team.warps / SLICES) {
    const long long at = columns.column(first + c);
    Acc sum[ROWS] = {};
    format_sums<kFormat, SLICES, AHEAD>(row, w + at * (units / Format::kUnits) * Format::kBytes,
                                        int(units), slice, sum);
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
      if (threadIdx.x == 0) {
        if (SLICES > 1)
          slices[slice][r][c] = sum[r];
        else
          to[r][c] = T(sum[r] + bias_at(bias, at));
      }
  }
}
#endif

#ifdef HAS_REPACKED
#include "linear/repacked_sums.cuh"

// Columns of blocks that are repacked.
template <int kFormat, class Columns>
__device__ __forceinline__ void multiply_repacked(const T *x, const Byte *w, const T *bias,
                                                  long long rows, long long n, long long k,
                                                  long long first, Columns columns, Sums &to) {
#if __CUDA_ARCH__ >= 800
  multiply_in_sixteens(bias, n, first, columns, to,
                       [&](const long long(&own)[2], float(&partial)[kWarps][kTall][17]) {
                         store_repacked_sums<kFormat>(x, rows, w, own, n, k, partial);
                       });
#endif
}
#endif

#ifdef SLOTS
#include "linear/product_stream.cuh"
#endif

// --- Behind a product ----------------------------------------------------------------------------

// The sums of a tile from those of its slices; the block has met since they were written, and meets
// again before they are read.
template <class Columns>
__device__ __forceinline__ void join_slices(const Slices &slices, const T *bias, long long n,
                                            long long first, Columns columns, Sums &to) {
#pragma unroll 1
  for (int i = threadIdx.y * 32 + threadIdx.x; i < ROWS * COLUMNS; i += kThreads) {
    const int r = i / COLUMNS, c = i % COLUMNS;
    if (first + c >= n) // was not computed
      continue;
    Acc sum = slices[0][r][c];
#pragma unroll
    for (int s = 1; s < SLICES; ++s)
      sum += slices[s][r][c];
    to[r][c] = T(sum + bias_at(bias, columns.column(first + c)));
  }
}

// Elements of a tile that a thread has, and pairs of neighbours.
template <int kTile> constexpr int kOwnOf = (ROWS * kTile + kThreads - 1) / kThreads;
template <int kTile> constexpr int kOwnPairsOf = (ROWS * kTile / 2 + kThreads - 1) / kThreads;
constexpr int kOwn = kOwnOf<COLUMNS>, kOwnPairs = kOwnPairsOf<COLUMNS>;

// A thread of the block. In phases (persistent.cuh) its number is read anew: else what follows from
// it, of heads for many elements, is kept through all phases.
__device__ __forceinline__ int thread_of_tile() {
#ifdef WARP_RING
  return warp_anew() * 32 + thread_anew();
#else
  return threadIdx.y * 32 + threadIdx.x;
#endif
}

// f(own, row, place, column) for the elements of a tile; own: their numbers among a thread's own.
template <class Columns, class F>
__device__ __forceinline__ void each_element(long long rows, long long n, long long first,
                                             Columns columns, F f) {
  constexpr int kTile = Columns::kTile;
  const int thread = thread_of_tile();
#pragma unroll
  for (int own = 0; own < kOwnOf<kTile>; ++own) {
    const int i = own * kThreads + thread;
    const int r = i / kTile, c = i % kTile;
    if (r < ROWS && r < rows && first + c < n)
      f(own, r, c, columns.column(first + c));
  }
}

// f(own, row, place, element of its head) for the pairs of a tile.
template <class Columns, class F>
__device__ __forceinline__ void each_pair(long long rows, long long n, long long first,
                                          Columns columns, F f) {
  constexpr int kTile = Columns::kTile;
  const int thread = thread_of_tile();
#pragma unroll
  for (int own = 0; own < kOwnPairsOf<kTile>; ++own) {
    const int i = own * kThreads + thread;
    const int r = i / (kTile / 2), c = i % (kTile / 2) * 2;
    if (r < ROWS && r < rows && first + c < n)
      f(own, r, c, int((first + c) % columns.width));
  }
}

// The heads of a tile, which has whole ones, normalised one by one, as rms_norm of [heads, width]
// does it: a warp a head.
template <class Columns>
__device__ __forceinline__ void normalize_heads(T (&sums)[ROWS][Columns::kTile], const T *scale,
                                                Columns columns, Acc epsilon) {
  constexpr int kVector = 16 / sizeof(T);
  const int heads = Columns::kTile / columns.width, vectors = columns.width / kVector;
#pragma unroll 1
  for (int i = threadIdx.y; i < ROWS * heads; i += kWarps) {
    T *head = &sums[i / heads][i % heads * columns.width];
    Acc squares = 0;
    for (int p = threadIdx.x; p < vectors; p += 32)
      for (int e = 0; e < kVector; ++e) {
        const Acc value = Acc(head[columns.place(p * kVector + e)]);
        squares = fma(value, value, squares);
      }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      squares += __shfl_xor_sync(0xffffffffu, squares, distance);
    const Acc factor = 1 / sqrt(squares / Acc(columns.width) + epsilon);
    for (int e = threadIdx.x; e < columns.width; e += 32) {
      T &value = head[columns.place(e)];
      value = T(Acc(value) * factor * (scale ? Acc(scale[e]) : Acc(1)));
    }
  }
  __syncthreads();
}

// f(own, row, column, value) for the elements of a tile whose pairs are turned, as rotary.cu does
// it, by what each_pair has found for them.
template <class Columns, class F>
__device__ __forceinline__ void
each_turned(const T (&sums)[ROWS][Columns::kTile], long long rows, long long n, long long first,
            Columns columns, const Rotation (&turns)[kOwnPairsOf<Columns::kTile>], F f) {
  each_pair(rows, n, first, columns, [&](int own, int r, int c, int place) {
    const T p = sums[r][c], q = sums[r][c + 1];
    const long long left = columns.column(first + c), right = columns.column(first + c + 1);
    if (place >= columns.turned) {
      f(own, r, left, p);
      f(own, r, right, q);
      return;
    }
    const Rotation by = turns[own];
    const Acc a = Acc(p), b = Acc(q);
    f(own, r, left, T(a * by.cosine - b * by.sine));
    f(own, r, right, T(a * by.sine + b * by.cosine));
  });
}
