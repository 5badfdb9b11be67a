// Product with a matrix of repacked blocks (repacked_sums.cuh), of f16 and bf16 on tensor cores, of
// f32 without: y[r] = x[r] x w^T + bias.
//
//   x: [rows, k]   w: [n, k], k / 32 units a row   bias: [n], with HAS_BIAS   y: [rows, n]
//
// Few rows take strips: a block of threads computes 16 columns of y for some rows of x; its warps
// share the units of k. More take tiles.
//
// clang-format off
//   entry                     rows      block    grid                               for
//   matmul_repacked           8, 4      32 x 8   ceil(rows / 8, 4) * ceil(n / 16)   f16, bf16; f32
//   matmul_repacked_tiles     128       32 x 8   tiles, of 16 EACH columns          f16, bf16
//   matmul_repacked_tiles_32  32        32 x 4   tiles, of 128 columns              likewise
//     with IN_REGISTERS       128, 32            tiles, of 64 columns               all
//   matmul_stream             8         32 x 8   at most n / 16                     few rows
//   matmul_stream_4           4         32 x 8   at most n / 16                     fewer, of f32
//   matmul_stream_1           1         32 x 8   at most n / 16                     one row
// clang-format on
//
// Tiles on tensor cores (matmul_repacked_tiles.cuh) want whole units, or with HALF_UNIT half of one
// behind them, and words that hold a d of two bytes within w; those in registers
// (repacked_registers.cuh) want nothing. Of their grid, ceil(rows / height) * ceil(n / width),
// whole waves are as many blocks as PLACES or PLACES_32 says, and the rest times the parts that
// each of these is cut into (TilePlace).
//
// Blocks of matmul_stream stay for several tiles (stream.cuh), and want whole units and 16 columns
// each (repacked_stream.cuh).
//
// Options: -DFORMAT, a name of block_formats.cuh or its number; HAS_BIAS; HAS_TILES: kernels have
// parameters `parts`, a tile's sums for each block that is not of a whole wave, and `counters`, one
// for each such tile, which are 0 and stay so; HALF_UNIT; EACH: rows of a warp of large tiles, by
// 8, 8 or 4; PLACES and PLACES_32, SLOTS, SLOTS_4 and SLOTS_1 of the rings of matmul_stream and its
// like, without each of which its entry is left out; WITHOUT_STRIPS, which leaves out
// matmul_repacked; X_ALIGNED: x begins at a multiple of 16 bytes; and those of floating.cuh,
// fusion.cuh and assume.cuh.
//
// Dynamic shared memory: of tiles two units of each 32 columns and three steps of x (of q6_k, 128
// columns and rows, two), or in registers two stages.

#include "linear/repacked_stream.cuh"
#include "shared/assume.cuh"
#include "shared/bias.cuh"
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"
#ifdef HAS_TILES
#include "shared/join_splits.cuh"
#ifdef IN_REGISTERS
#include "linear/repacked_registers.cuh"
#else
#include "linear/matmul_repacked_tiles.cuh"
#endif
#define RESULT_PARAMETERS float *parts, unsigned *__restrict__ counters, OUT *__restrict__ y
#else
#define RESULT_PARAMETERS OUT *__restrict__ y
#endif

constexpr int kColumns = 16, kWarps = 8;
// So many blocks a multiprocessor leave the registers that all loads of a unit take, with every
// compiler: bf16 and what has more planes of bits take more, and so do four rows of f32.
constexpr bool kIsLarge = Repacked<FORMAT>::kIsLarge;
#ifdef MULTIPLIES_BY_MMA
constexpr int kRows = 8;
#else
constexpr int kRows = 4;
#endif
#if __CUDACC_VER_MAJOR__ > 12 && defined(DTYPE_F16)
constexpr int kOfLarge =
    FORMAT == FORMAT_q3_k || FORMAT == FORMAT_q5_k || FORMAT == FORMAT_q6_k ? 1 : 2;
#else
constexpr int kOfLarge = 1;
#endif
constexpr int kBlocks = kRows == 4 ? 1 : kIsLarge ? kOfLarge : 2;

template <int kTall>
__device__ __forceinline__ void multiply_rows(const T *x, const Byte *w, BIAS_PARAMETER OUT *y,
                                              long long rows, long long n,
                                              long long k FUSED_PARAMETERS) {
  __builtin_assume(ASSUME);
#if __CUDA_ARCH__ >= 800
  __shared__ float partial[kWarps][kTall][kColumns + 1];
  const unsigned strips = unsigned((rows + kTall - 1) / kTall); // of a tile, one after the other
  const long long column = (long long)(blockIdx.x / strips) * kColumns;
  const long long row = (long long)(blockIdx.x % strips) * kTall;
  const int g = threadIdx.x / 4;
  // Columns of y beyond the last repeat it; they are not stored.
  auto inside = [&](long long o) { return o < n ? o : n - 1; };
  const long long own[2] = {inside(column + g), inside(column + g + 8)};
  store_repacked_sums<FORMAT>(x + row * k, rows - row, w, own, n, k, partial);
  __syncthreads();
  const int thread = threadIdx.y * 32 + threadIdx.x, r = thread / kColumns, o = thread % kColumns;
  if (r < kTall && row + r < rows && column + o < n) {
    float total = BIAS_AT(column + o);
#pragma unroll
    for (int s = 0; s < kWarps; ++s)
      total += partial[s][r][o];
    STORE((row + r) * n + column + o, total);
  }
#endif
}

#define ENTRY(name, tall, blocks)                                                                  \
  extern "C" __global__ void __launch_bounds__(32 * kWarps, blocks)                                \
      name(const T *__restrict__ x, const Byte *__restrict__ w, BIAS_PARAMETER RESULT_PARAMETERS,  \
           long long rows, long long n, long long k FUSED_PARAMETERS) {                            \
    BEGIN_EARLY();                                                                                 \
    multiply_rows<tall>(x, w, BIAS_ARGUMENT y, rows, n, k FUSED_ARGUMENTS);                        \
  }

#ifndef WITHOUT_STRIPS
ENTRY(matmul_repacked, kRows, kBlocks)
#endif

#if __CUDA_ARCH__ >= 800
#ifdef IN_REGISTERS
#define MULTIPLY(each, warps) multiply_number_tile<RepackedNumbers<FORMAT>, each, warps>
#define ALIGNED_ARGUMENT , is_x_aligned(x)
#else
#define MULTIPLY(each, warps) multiply_tile<FORMAT, each, warps>
#define ALIGNED_ARGUMENT
#endif
#define MULTIPLY_TILE(each, warps, places)                                                         \
  __builtin_assume(ASSUME);                                                                        \
  extern __shared__ __align__(16) Byte shared_bytes[];                                             \
  MULTIPLY(each, warps)                                                                            \
  (x, w, BIAS_ARGUMENT y, parts, counters, places, rows, n, k,                                     \
   shared_bytes ALIGNED_ARGUMENT FUSED_ARGUMENTS)
#else
#define MULTIPLY_TILE(each, warps, places)
#endif
#define TILES(name, each, warps, blocks, places)                                                   \
  extern "C" __global__ void __launch_bounds__(32 * warps, blocks)                                 \
      name(const T *__restrict__ x, const Byte *__restrict__ w, BIAS_PARAMETER RESULT_PARAMETERS,  \
           long long rows, long long n, long long k FUSED_PARAMETERS) {                            \
    BEGIN_EARLY();                                                                                 \
    MULTIPLY_TILE(each, warps, places);                                                            \
  }

#ifdef PLACES
#ifdef IN_REGISTERS
TILES(matmul_repacked_tiles, 8, 8, 2, PLACES)
#else
TILES(matmul_repacked_tiles, EACH, 8, 1, PLACES)
#endif
#endif
#ifdef PLACES_32
#ifdef DTYPE_BF16 // scales and leasts beside the numbers
constexpr int kSmallTiles = 2;
#elif defined(IN_REGISTERS)
constexpr int kSmallTiles = 3;
#else // of q8_0 three would spill, of q4_0 before sm_90, of q5_k from there on
constexpr int kSmallTiles =
    FORMAT == FORMAT_q8_0 || FORMAT == (__CUDA_ARCH__ < 900 ? FORMAT_q4_0 : FORMAT_q5_k) ? 2 : 3;
#endif
TILES(matmul_repacked_tiles_32, 4, 4, kSmallTiles, PLACES_32)
#endif

#if __CUDA_ARCH__ >= 800
template <int kTall, int kSlots>
__device__ __forceinline__ void stream_rows(const T *x, const Byte *w, BIAS_PARAMETER OUT *y,
                                            long long rows, long long n,
                                            long long k FUSED_PARAMETERS) {
  __builtin_assume(ASSUME);
  extern __shared__ __align__(16) Byte ring[];
  __shared__ StreamSums partial;
  const unsigned tiles = unsigned(n / kColumns), each = tiles / gridDim.x, more = tiles % gridDim.x;
  const unsigned before = blockIdx.x < more ? blockIdx.x : more;
  const NeighbourGroups<true> groups = {w, blockIdx.x * each + before, unsigned(n)};
  Stream<RepackedUnit<FORMAT>, kTall, true, kSlots, NeighbourGroups<true>> stream = {
      groups, each + (blockIdx.x < more ? 1 : 0), n, k, ring};
  stream.begin();
  BEGIN_EARLY();
  const auto store = [&](unsigned group, int r, int o, const float(&sums)[kWarps][8][17]) {
    const long long column = (long long)(groups.begin + group) * kColumns + o;
    float total = BIAS_AT(column);
#pragma unroll
    for (int s = 0; s < kWarps; ++s)
      total += sums[s][r][o];
    STORE(r * n + column, total);
  };
  if (RepackedUnit<FORMAT>::is_aligned(x, w, k))
    stream.template run<true>(x, int(rows), partial, store);
  else
    stream.template run<false>(x, int(rows), partial, store);
}
#define STREAM_ROWS(tall, slots)                                                                   \
  stream_rows<tall, slots>(x, w, BIAS_ARGUMENT y, rows, n, k FUSED_ARGUMENTS)
#else
#define STREAM_ROWS(tall, slots)
#endif

// Two, as their rings are made for; of f32 one, where sums of several rows take the registers.
template <int kTall> constexpr int kStreams = sizeof(T) == 4 && kTall > 1 ? 1 : 2;

#define STREAM(name, tall, slots)                                                                  \
  extern "C" __global__ void __launch_bounds__(32 * kWarps, kStreams<tall>)                        \
      name(const T *__restrict__ x, const Byte *__restrict__ w, BIAS_PARAMETER RESULT_PARAMETERS,  \
           long long rows, long long n, long long k FUSED_PARAMETERS) {                            \
    STREAM_ROWS(tall, slots);                                                                      \
  }

#ifdef SLOTS_1
STREAM(matmul_stream_1, 1, SLOTS_1)
#endif
#ifdef SLOTS_4
STREAM(matmul_stream_4, 4, SLOTS_4)
#endif
#ifdef SLOTS
STREAM(matmul_stream, 8, SLOTS)
#endif
