// Matrix multiplication, y[b] = a[b] x c[b] + bias, row-major, over a batch.
//
//   a: [m, k] (+ batches)   c: [k, n] (+ batches)   bias: [n], with HAS_BIAS   y: [batches, m, n]
//
// With C_COLUMNS c is [n, k], so that its columns are runs of elements: the layout of checkpoints.
// The batch index is taken apart into two dimensions, (batch / inner_batch, batch % inner_batch),
// and a and c have one stride, in elements, for each: 0 where they broadcast. With MANY_BATCHES
// there are six, for operands that broadcast in turns, and sizes as in binary.cu. Sums are in float
// (double for f64). A block computes one tile of y; tiles are numbered along x only, since y and z
// of a grid are bounded by 65535.
//
//   entry                  tile       block    for
//   matmul_gemv            8 x 32     32 x 8   few rows: k is split over the block's 8 warps
//   matmul_gemv_R          R x 4, 8   32 x 4   C_COLUMNS, f64 and before sm_80, R of 1 to 8 rows
//   matmul_stream_1, _8    1, 8 x 16  32 x 8   C_COLUMNS, from sm_80 on: blocks that stay
//   matmul_tiles, _32      128, 32 x  32 x 8,  C_COLUMNS, f32 of many rows, as many as come with
//                          64         32 x 4   the launch: shared/number_tile.cuh
//   matmul_tiled           8 x 32     32 x 8   small results: k is split over the block's 8 warps
//   matmul_register        64 x 64    16 x 16  large ones: matmul_register.cuh
//   matmul_register_large  128 x 128  16 x 16  larger ones, but of f64
//   matmul_mma             128 x 128  32 x 4   f16, bf16 and TF32, large: matmul_mma.cuh
//   matmul_mma_tall        128 x 64   32 x 4   likewise, C_COLUMNS, fewer of them
//   matmul_mma_small       64 x 64    32 x 4   likewise, small
//   matmul_mma_least       32 x 64    32 x 4   likewise, with few tiles
//
// Streams of f16 and bf16 and what has mma in its name multiply on tensor cores.
//
// Options: those of floating.cuh, fusion.cuh and assume.cuh; TF32 for the forms on tensor cores in
// f32, whose factors they round to tf32; COPY_BYTES; SPLIT for the two smaller ones; HAS_BIAS adds
// the bias parameter, of [m] with BIAS_OF_ROWS; RESULT_ACROSS stores y as [batches, n, m], and the
// forms for C_COLUMNS know neither of these; WITHOUT_GEMV and the like leave out what no launch
// takes; HAS_TILES with PLACES and PLACES_32, the blocks of matmul_tiles and its like that the
// device holds at once, brings these.

#include "linear/matmul_gemv.cuh"
#include "linear/matmul_mma.cuh"
#include "linear/matmul_register.cuh"
#include "linear/matmul_tile.cuh"
#include "shared/number_tile.cuh"

#define ARGUMENTS                                                                                  \
  a, c, BIAS_ARGUMENT SPLIT_ARGUMENTS y, m, n, k, batch, BATCH_ARGUMENTS FUSED_ARGUMENTS
#if !defined(WITHOUT_GEMV) && !defined(C_COLUMNS)
extern "C" __global__ void __launch_bounds__(256, 2) matmul_gemv(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kRows = 8, kColumns = 32, kSlices = 8;
  __shared__ Acc partial[kSlices][kRows][kColumns];
  const int x = threadIdx.x, slice = threadIdx.y;
  const Tile tile = tile_of_block(m, n, kRows, kColumns);
  MOVE_TO_BATCH(tile.batch);
  const long long column = tile.column + x;
  const T *const first = a + tile.row * k;
  const int rows = m - tile.row < kRows ? int(m - tile.row) : kRows;
  if (rows == 1)
    multiply_across<1>(first, rows, c, n, k, tile.column, partial);
  else if (rows <= 4)
    multiply_across<4>(first, rows, c, n, k, tile.column, partial);
  else
    multiply_across<kRows>(first, rows, c, n, k, tile.column, partial);
  __syncthreads();

  // Warp r adds up row r.
  const long long row = tile.row + slice;
  if (row < m && column < n) {
    Acc total = BIAS_OF(row, column);
#pragma unroll
    for (int s = 0; s < kSlices; ++s)
      total += partial[s][slice][x];
    STORE(AT(tile.batch, row, column), total);
  }
}
#endif

#ifndef WITHOUT_TILED
// A step takes 256 of k: its part of a in shared memory, for all; of c each warp reads its fours.
// Devices from 10.0 on take more registers for it.
#if __CUDA_ARCH__ >= 1000
#define TILED_BLOCKS 2
#else
#define TILED_BLOCKS 3
#endif
extern "C" __global__ void __launch_bounds__(256, TILED_BLOCKS) matmul_tiled(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kRows = 8, kColumns = 32, kSlices = 8, kStep = 256, kEach = 4;
  __shared__ alignas(16) Acc a_tile[kRows][kStep];
  __shared__ Acc partial[kSlices][kRows][kColumns];
  const int lane = threadIdx.x, slice = threadIdx.y, thread = slice * kColumns + lane;
  const Tile tile = tile_of_block(m, n, kRows, kColumns);
  MOVE_TO_BATCH(tile.batch);
  const long long column = tile.column + lane;

  Acc sum[kRows] = {};
  for (long long begin = 0; begin < k; begin += kStep) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      a_tile[r][thread] = tile.row + r < m && begin + thread < k
                              ? Acc(a[(tile.row + r) * k + begin + thread])
                              : Acc(0);
    __syncthreads();
    const int left = int(k - begin < kStep ? k - begin : kStep);
    for (int i = slice * kEach; i < left; i += kSlices * kEach) {
      Acc value[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const long long at =
            kColumnsOfC ? column * k + begin + i + e : (begin + i + e) * n + column;
        value[e] = column < n && i + e < left ? Acc(c[at]) : Acc(0);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          sum[r] = fma(a_tile[r][i + e], value[e], sum[r]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    partial[slice][r][lane] = sum[r];
  __syncthreads();

  // Warp r adds up row r.
  const long long row = tile.row + slice;
  if (row < m && column < n) {
    Acc total = BIAS_OF(row, column);
#pragma unroll
    for (int s = 0; s < kSlices; ++s)
      total += partial[s][slice][lane];
    STORE(AT(tile.batch, row, column), total);
  }
}
#endif

#ifndef WITHOUT_REGISTER
extern "C" __global__ void __launch_bounds__(256) matmul_register(PARAMETERS) {
  BEGIN_EARLY();
  multiply_in_registers<4>(ARGUMENTS);
}
#endif

#if !defined(WITHOUT_REGISTER_LARGE) && !defined(DTYPE_F64)
// Two blocks a multiprocessor, where 128 registers a thread are enough for the loop.
#if __CUDA_ARCH__ >= 1000 || defined(DTYPE_F16) || defined(DTYPE_BF16)
#define LARGE_BLOCKS 1
#else
#define LARGE_BLOCKS 2
#endif
extern "C" __global__ void __launch_bounds__(256, LARGE_BLOCKS) matmul_register_large(PARAMETERS) {
  BEGIN_EARLY();
  multiply_in_registers<8>(ARGUMENTS);
}
#endif

// Rows of the gemv forms, one by one: each is compiled where a launch takes it.
#define GEMV(rows)                                                                                 \
  extern "C" __global__ void __launch_bounds__(32 * kGemvWarps, sizeof(Acc) * rows < 64 ? 3 : 2)   \
      matmul_gemv_##rows(PARAMETERS) {                                                             \
    BEGIN_EARLY();                                                                                 \
    multiply_rows<rows>(ARGUMENTS);                                                                \
  }
#if defined(C_COLUMNS) && !defined(WITHOUT_GEMV_1)
GEMV(1)
#endif
#if defined(C_COLUMNS) && !defined(WITHOUT_GEMV_2)
GEMV(2)
#endif
#if defined(C_COLUMNS) && !defined(WITHOUT_GEMV_3)
GEMV(3)
#endif
#if defined(C_COLUMNS) && !defined(WITHOUT_GEMV_4)
GEMV(4)
#endif
#if defined(C_COLUMNS) && !defined(WITHOUT_GEMV_5)
GEMV(5)
#endif
#if defined(C_COLUMNS) && !defined(WITHOUT_GEMV_6)
GEMV(6)
#endif
#if defined(C_COLUMNS) && !defined(WITHOUT_GEMV_7)
GEMV(7)
#endif
#if defined(C_COLUMNS) && !defined(WITHOUT_GEMV_8)
GEMV(8)
#endif

#ifndef DTYPE_F64

#define STREAM(rows)                                                                               \
  extern "C" __global__ void __launch_bounds__(256, 2) matmul_stream_##rows(PARAMETERS) {          \
    STREAM_ROWS(rows, SLOTS_##rows);                                                               \
  }
#ifdef SLOTS_1
STREAM(1)
#endif
#ifdef SLOTS_8
STREAM(8)
#endif

#endif

#ifdef HAS_TILES

// Numbers as they are: a lane has eight neighbours of a step.
struct PlainNumbers {
  typedef T Weight;
  static constexpr bool kHalves = false, kMayEnd = true;
  static constexpr int kUnit = 1;
  Acc eight[8];

  __device__ __forceinline__ void read(const T *w, long long row, int b, long long, long long k,
                                       int q) {
    const long long begin = b * 32ll + q * 8, left = k - begin;
    const T *from = w + row * k + begin;
    Run<8, T> run;
    if (left >= 8 && Run<8, T>::is_aligned(from))
      run.load(from);
    else
#pragma unroll
      for (int e = 0; e < 8; ++e)
        run.element[e] = e < left ? from[e] : T(0.0f);
#pragma unroll
    for (int e = 0; e < 8; ++e)
      eight[e] = Acc(run.element[e]);
  }
  template <int> __device__ __forceinline__ void numbers(int, Acc (&number)[8]) const {
#pragma unroll
    for (int e = 0; e < 8; ++e)
      number[e] = eight[e];
  }
};

#define NUMBER_TILES(name, each, warps, blocks, places)                                            \
  extern "C" __global__ void __launch_bounds__(32 * warps, blocks) name(PARAMETERS) {              \
    BEGIN_EARLY();                                                                                 \
    __builtin_assume(ASSUME);                                                                      \
    extern __shared__ __align__(16) unsigned char shared_bytes[];                                  \
    multiply_number_tile<PlainNumbers, each, warps>(                                               \
        a, c, BIAS_ARGUMENT y, parts, counters, places, m, n, k, shared_bytes,                     \
        k % 4 == 0 && Run<4, T>::is_aligned(a) FUSED_ARGUMENTS);                                   \
  }
#ifdef PLACES_32
NUMBER_TILES(matmul_tiles_32, 4, 4, 3, PLACES_32)
#endif
#ifdef PLACES
NUMBER_TILES(matmul_tiles, 8, 8, 2, PLACES)
#endif
#endif

#if defined(DTYPE_F16) || defined(DTYPE_BF16) || defined(TF32)

#ifdef LARGE_STAGES
extern "C" __global__ void __launch_bounds__(256, 1) matmul_mma_large(PARAMETERS) {
  BEGIN_EARLY();
  multiply_tiles<4, 2, 4, 8, 2 * kMmaDepth, false, LARGE_STAGES *(48 << 10)>(ARGUMENTS);
}
#endif

#ifndef WITHOUT_MMA
extern "C" __global__ void __launch_bounds__(128) matmul_mma(PARAMETERS) {
  BEGIN_EARLY();
  multiply_tiles<2, 2, 4, 8, kMmaDepth, false>(ARGUMENTS);
}
#endif

#ifdef WITH_MMA_TALL
extern "C" __global__ void __launch_bounds__(128, 3) matmul_mma_tall(PARAMETERS) {
  BEGIN_EARLY();
  multiply_tiles<2, 2, 4, 4, kMmaDepth, false>(ARGUMENTS);
}
#endif

#ifndef WITHOUT_MMA_SMALL
extern "C" __global__ void __launch_bounds__(128, 4) matmul_mma_small(PARAMETERS) {
  BEGIN_EARLY();
  multiply_tiles<2, 2, 2, 4, 2 * kMmaDepth, true, SMALL_STAGES *(16 << 10)>(ARGUMENTS);
}
#endif

#ifndef WITHOUT_MMA_LEAST
extern "C" __global__ void __launch_bounds__(128, 4) matmul_mma_least(PARAMETERS) {
  BEGIN_EARLY();
  multiply_tiles<2, 2, 1, 4, 2 * kMmaDepth, true>(ARGUMENTS);
}
#endif

#endif
