// Matrix multiplication, y[b] = a[b] x c[b] + bias, row-major, over a batch.
//
//   a: [m, k] (+ batches)   c: [k, n] (+ batches)   bias: [n], with HAS_BIAS   y: [batches, m, n]
//
// The batch index is taken apart into two dimensions, (batch / inner_batch, batch % inner_batch),
// and a and c have one stride, in elements, for each: 0 where they broadcast. With MANY_BATCHES
// there are six, for operands that broadcast in turns, and sizes as in binary.cu. Sums are in float
// (double for f64). A block computes one tile of y; tiles are numbered along x only, since y and z
// of a grid are bounded by 65535.
//
//   entry              tile      block    for
//   matmul_gemv        4 x 32    32 x 8   few rows: k is split over the block's 8 warps
//   matmul_tiled       16 x 16   16 x 16  small results: one element a thread
//   matmul_register    64 x 64   16 x 16  large ones: 4 x 4 elements a thread
//   matmul_mma         128 x 128 32 x 8   f16 and bf16, large: tensor cores
//   matmul_mma_small   64 x 64   32 x 4   f16 and bf16, small: tensor cores
//
// Options: those of floating.cuh, fusion.cuh and assume.cuh; HAS_BIAS adds the bias parameter;
// WITHOUT_GEMV and the like leave out what no launch takes.

#include "assume.cuh"
#include "floating.cuh"
#include "fusion.cuh"
#include "programmatic.cuh"

#ifdef HAS_BIAS
#define BIAS_PARAMETER const T *__restrict__ bias,
#define BIAS_ARGUMENT bias,
#define BIAS_AT(column) Acc(bias[column])
#else
#define BIAS_PARAMETER
#define BIAS_ARGUMENT
#define BIAS_AT(column) Acc(0)
#endif

#ifdef MANY_BATCHES
#define MAX_RANK 6
#include "dimensions.cuh"
#define BATCH_PARAMETERS                                                                           \
  INNER(long long batch_size), EACH(long long a_stride), EACH(long long c_stride)
#define BATCH_ARGUMENTS INNER(batch_size), EACH(a_stride), EACH(c_stride)
#else
#define BATCH_PARAMETERS                                                                           \
  long long inner_batch, long long a_outer_stride, long long a_inner_stride,                       \
      long long c_outer_stride, long long c_inner_stride
#define BATCH_ARGUMENTS inner_batch, a_outer_stride, a_inner_stride, c_outer_stride, c_inner_stride
#endif

#define PARAMETERS                                                                                 \
  const T *__restrict__ a, const T *__restrict__ c, BIAS_PARAMETER OUT *__restrict__ y,            \
      long long m, long long n, long long k, long long batch, BATCH_PARAMETERS FUSED_PARAMETERS

// Where this block's tile lies.
struct Tile {
  long long batch, row, column;
};

// Element (row, column) of the result's matrix `batch`.
#define AT(batch, row, column) (((batch)*m + (row)) * n + (column))

__device__ Tile tile_of_block(long long m, long long n, int rows, int columns) {
  const long long across = (n + columns - 1) / columns, down = (m + rows - 1) / rows;
  const long long tile = blockIdx.x / across;
  return {tile / down, tile % down * rows, blockIdx.x % across * columns};
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
  a += (batch) / inner_batch * a_outer_stride + (batch) % inner_batch * a_inner_stride;            \
  c += (batch) / inner_batch * c_outer_stride + (batch) % inner_batch * c_inner_stride
#endif

#ifndef WITHOUT_GEMV
extern "C" __global__ void __launch_bounds__(256) matmul_gemv(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kRows = 4, kColumns = 32, kSlices = 8;
  __shared__ Acc partial[kSlices][kRows][kColumns];
  const int x = threadIdx.x, slice = threadIdx.y;
  const Tile tile = tile_of_block(m, n, kRows, kColumns);
  MOVE_TO_BATCH(tile.batch);
  const long long column = tile.column + x;
  // Rows beyond the last repeat it, so that the inner loop needs no test; they are not stored.
  const T *a_row[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    a_row[r] = a + (tile.row + r < m ? tile.row + r : m - 1) * k;

  Acc sum[kRows] = {};
  if (column < n) {
    for (long long i = slice; i < k; i += kSlices) {
      const Acc value = Acc(c[i * n + column]);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        sum[r] = fma(Acc(a_row[r][i]), value, sum[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    partial[slice][r][x] = sum[r];
  __syncthreads();

  // Warp r adds up row r.
  const long long row = tile.row + slice;
  if (slice < kRows && row < m && column < n) {
    Acc total = BIAS_AT(column);
#pragma unroll
    for (int s = 0; s < kSlices; ++s)
      total += partial[s][slice][x];
    STORE(AT(tile.batch, row, column), total);
  }
}
#endif

#ifndef WITHOUT_TILED
extern "C" __global__ void __launch_bounds__(256) matmul_tiled(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kSize = 16;
  __shared__ Acc a_tile[kSize][kSize], c_tile[kSize][kSize];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const Tile tile = tile_of_block(m, n, kSize, kSize);
  MOVE_TO_BATCH(tile.batch);
  const long long row = tile.row + ty, column = tile.column + tx;

  Acc sum = 0;
  for (long long begin = 0; begin < k; begin += kSize) {
    a_tile[ty][tx] = row < m && begin + tx < k ? Acc(a[row * k + begin + tx]) : Acc(0);
    c_tile[ty][tx] = begin + ty < k && column < n ? Acc(c[(begin + ty) * n + column]) : Acc(0);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      sum = fma(a_tile[ty][i], c_tile[i][tx], sum);
    __syncthreads();
  }
  if (row < m && column < n)
    STORE(AT(tile.batch, row, column), sum + BIAS_AT(column));
}
#endif

#ifndef WITHOUT_REGISTER
extern "C" __global__ void __launch_bounds__(256) matmul_register(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kSize = 64, kDepth = 16, kEach = 4, kThreads = 256;
  // The tile of a is kept transposed: a thread then reads its four rows from consecutive words. One
  // word of padding keeps the transposing stores off a single bank.
  __shared__ Acc a_tile[kDepth][kSize + 1], c_tile[kDepth][kSize];
  const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * 16 + tx;
  const Tile tile = tile_of_block(m, n, kSize, kSize);
  MOVE_TO_BATCH(tile.batch);

  Acc sum[kEach][kEach] = {};
  for (long long begin = 0; begin < k; begin += kDepth) {
#pragma unroll
    for (int j = 0; j < kSize * kDepth / kThreads; ++j) { // a count that is known: no test inside
      const int i = thread + j * kThreads;
      const long long row = tile.row + i / kDepth, depth = begin + i % kDepth;
      a_tile[i % kDepth][i / kDepth] = row < m && depth < k ? Acc(a[row * k + depth]) : Acc(0);
    }
#pragma unroll
    for (int j = 0; j < kSize * kDepth / kThreads; ++j) { // a count that is known: no test inside
      const int i = thread + j * kThreads;
      const long long depth = begin + i / kSize, column = tile.column + i % kSize;
      c_tile[i / kSize][i % kSize] = depth < k && column < n ? Acc(c[depth * n + column]) : Acc(0);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      Acc left[kEach], right[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        left[e] = a_tile[i][ty * kEach + e];
        right[e] = c_tile[i][e * 16 + tx];
      }
#pragma unroll
      for (int r = 0; r < kEach; ++r)
#pragma unroll
        for (int q = 0; q < kEach; ++q)
          sum[r][q] = fma(left[r], right[q], sum[r][q]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
#pragma unroll
    for (int q = 0; q < kEach; ++q) {
      const long long row = tile.row + ty * kEach + r, column = tile.column + q * 16 + tx;
      if (row < m && column < n)
        STORE(AT(tile.batch, row, column), sum[r][q] + BIAS_AT(column));
    }
  }
}
#endif

// --- Tensor cores --------------------------------------------------------------------------------
//
//         kDepth            kColumns
//        +------+         +---------+        A step takes kDepth of k. While a block multiplies one
//  kRows |  a   |  kDepth |    c    |        step's tiles in shared memory, the next step's are on
//        +------+         +---------+        their way into the other half of it.
//
// Warps stand in a grid over the tile; each has 16 x 8 fragments of the result in registers (f32),
// laid out over its lanes as mma.m16n8k16 says in the PTX ISA. Rows of tiles in shared memory have
// eight elements of padding, so that the eight rows that ldmatrix reads lie in different banks.
// Copies are asynchronous, of 16 bytes, where all rows begin at multiples of that; else element by
// element. Before sm_80, which has neither, the same fragments are summed without.

#if defined(DTYPE_F16) || defined(DTYPE_BF16)

constexpr int kMmaDepth = 32, kMmaPadding = 8;

__device__ __forceinline__ unsigned shared_address(const void *p) {
  return unsigned(__cvta_generic_to_shared(p));
}

// Elements [row, row + kHeight) x [column, column + kWidth) of a matrix, zeros where it has none.
template <int kHeight, int kWidth, int kThreads>
__device__ __forceinline__ void load_tile(T (*to)[kWidth + kMmaPadding], const T *from,
                                          long long row, long long column, long long height,
                                          long long width, bool aligned, int thread) {
  constexpr int kChunk = 8, kAcross = kWidth / kChunk;
#pragma unroll
  for (int j = 0; j < kHeight * kAcross / kThreads; ++j) {
    const int i = thread + j * kThreads, r = i / kAcross, q = i % kAcross * kChunk;
    const long long at = (row + r) * width + column + q;
#if __CUDA_ARCH__ >= 800
    if (aligned) { // a chunk lies inside or outside as a whole
      const bool inside = row + r < height && column + q < width;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(&to[r][q])),
                   "l"(inside ? from + at : from), "r"(inside ? 16 : 0)
                   : "memory");
      continue;
    }
#endif
#pragma unroll
    for (int e = 0; e < kChunk; ++e)
      to[r][q + e] = row + r < height && column + q + e < width ? from[at + e] : T(0.0f);
  }
}

// The copies asked for so far are one group; `kPending` of the groups may still be on their way.
template <int kPending> __device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}
__device__ __forceinline__ void end_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void load_a(const T *p, unsigned (&a)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(shared_address(p))
               : "memory");
}

// Two fragments of c, of neighbouring columns.
__device__ __forceinline__ void load_c(const T *p, unsigned (&c)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
               : "r"(shared_address(p))
               : "memory");
}

__device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned c0,
                                         unsigned c1) {
#ifdef DTYPE_F16
#define MMA_TYPES "f16.f16"
#else
#define MMA_TYPES "bf16.bf16"
#endif
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPES
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(c0), "r"(c1));
}
#endif

// Each of kWarpRows x kWarpColumns warps has kHigh x kWide fragments.
template <int kWarpRows, int kWarpColumns, int kHigh, int kWide>
__device__ __forceinline__ void multiply_tiles(PARAMETERS) {
  __builtin_assume(ASSUME);
  constexpr int kRows = kWarpRows * kHigh * 16, kColumns = kWarpColumns * kWide * 8;
  constexpr int kThreads = kWarpRows * kWarpColumns * 32;
  __shared__ alignas(16) T a_tile[2][kRows][kMmaDepth + kMmaPadding];
  __shared__ alignas(16) T c_tile[2][kMmaDepth][kColumns + kMmaPadding];
  const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
  const int warp_row = warp / kWarpColumns * kHigh * 16,
            warp_column = warp % kWarpColumns * kWide * 8;
  const Tile tile = tile_of_block(m, n, kRows, kColumns);
  MOVE_TO_BATCH(tile.batch);
  const bool aligned =
      k % 8 == 0 && n % 8 == 0 && (((unsigned long long)(a) | (unsigned long long)(c)) & 15) == 0;

  float sum[kHigh][kWide][4] = {};
  auto load = [&](int half, long long depth) {
    load_tile<kRows, kMmaDepth, kThreads>(a_tile[half], a, tile.row, depth, m, k, aligned, thread);
    load_tile<kMmaDepth, kColumns, kThreads>(c_tile[half], c, depth, tile.column, k, n, aligned,
                                             thread);
    end_copies();
  };
  if (k > 0)
    load(0, 0);
  for (long long depth = 0, step = 0; depth < k; depth += kMmaDepth, ++step) {
    const int half = int(step & 1);
    if (depth + kMmaDepth < k) {
      load(1 - half, depth + kMmaDepth);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
#if __CUDA_ARCH__ >= 800
#pragma unroll
    for (int d = 0; d < kMmaDepth; d += 16) {
      unsigned left[kHigh][4], right[kWide / 2][4];
#pragma unroll
      for (int r = 0; r < kHigh; ++r)
        load_a(&a_tile[half][warp_row + r * 16 + lane % 16][d + lane / 16 * 8], left[r]);
#pragma unroll
      for (int q = 0; q < kWide / 2; ++q)
        load_c(&c_tile[half][d + lane % 16][warp_column + q * 16 + lane / 16 * 8], right[q]);
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
          for (int e = 0; e < 4; ++e)
            sum[r][q][e] = fma(float(a_tile[half][warp_row + r * 16 + lane / 4 + e / 2 * 8][d]),
                               float(c_tile[half][d][warp_column + q * 8 + lane % 4 * 2 + e % 2]),
                               sum[r][q][e]);
#endif
    __syncthreads(); // the next step's copies write what was read
  }
#pragma unroll
  for (int r = 0; r < kHigh; ++r)
#pragma unroll
    for (int q = 0; q < kWide; ++q)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const long long row = tile.row + warp_row + r * 16 + lane / 4 + e / 2 * 8;
        const long long column = tile.column + warp_column + q * 8 + lane % 4 * 2 + e % 2;
        if (row < m && column < n)
          STORE(AT(tile.batch, row, column), sum[r][q][e] + BIAS_AT(column));
      }
}

#define ARGUMENTS a, c, BIAS_ARGUMENT y, m, n, k, batch, BATCH_ARGUMENTS FUSED_ARGUMENTS

#ifndef WITHOUT_MMA
extern "C" __global__ void __launch_bounds__(256) matmul_mma(PARAMETERS) {
  BEGIN_EARLY();
  multiply_tiles<2, 4, 4, 4>(ARGUMENTS);
}
#endif

#ifndef WITHOUT_MMA_SMALL
extern "C" __global__ void __launch_bounds__(128) matmul_mma_small(PARAMETERS) {
  BEGIN_EARLY();
  multiply_tiles<2, 2, 2, 4>(ARGUMENTS);
}
#endif

#endif
