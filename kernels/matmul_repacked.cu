// Product with a matrix of repacked blocks (repacked.cuh), on tensor cores: y[r] = x[r] x w^T +
// bias, of f16 and bf16.
//
//   x: [rows, k]   w: [n, k], k / 32 blocks a row   bias: [n], with HAS_BIAS   y: [rows, n]
//
// A block of threads computes 16 columns of y for 8 rows of x; its warps share the units of k. A
// warp's mma has 16 rows of w on the left and rows of x, as columns, on the right. Of a unit, lane
// 4 g + q reads what is its own of rows g and g + 8 of w, and the same elements of row g of x:
// which elements of k an mma multiplies with which others is all the same, as long as both sides
// agree. Quants are exact in f16 and bf16, and sums over a block are in f32, to which the scale
// comes once. Bound by reading w once, whatever the number of rows.
//
//   entry             block    grid
//   matmul_repacked   32 x 4   ceil(rows / 8) * ceil(n / 16)
//
// Options: HAS_BIAS; those of repacked.cuh, floating.cuh and assume.cuh.

#include <cuda_fp16.h>

#include "assume.cuh"
#include "floating.cuh"
#include "mma.cuh"
#include "programmatic.cuh"
#include "repacked.cuh"

#ifdef HAS_BIAS
#define BIAS_PARAMETER const T *__restrict__ bias,
#define BIAS_AT(column) Acc(bias[column])
#else
#define BIAS_PARAMETER
#define BIAS_AT(column) Acc(0)
#endif

typedef unsigned char Byte;

constexpr int kRows = 8, kColumns = 16, kWarps = 4;

#if __CUDA_ARCH__ >= 800

// A pair of small whole numbers in one register, as f16 or bf16: `pair` less `bias`, both exact.
__device__ __forceinline__ unsigned minus(unsigned pair, float bias) {
#ifdef DTYPE_F16
  const __half2 value = __hsub2(*reinterpret_cast<const __half2 *>(&pair), __float2half2_rn(bias));
#else
  const __nv_bfloat162 value =
      __hsub2(*reinterpret_cast<const __nv_bfloat162 *>(&pair), __float2bfloat162_rn(bias));
#endif
  return *reinterpret_cast<const unsigned *>(&value);
}

constexpr int kParts = kWordBytes / 4; // registers of a lane's word of a block

// Elements 2 j and 2 j + 1 of a word. Their bits are the last ones of a number whose steps are 1.
template <int j> __device__ __forceinline__ unsigned pair_of(const unsigned *word) {
#if FORMAT != 80
#ifdef DTYPE_F16
  constexpr unsigned kBits = 0x64006400; // 1024
  constexpr float kBase = 1024;
#else
  constexpr unsigned kBits = 0x43004300; // 128
  constexpr float kBase = 128;
#endif
  unsigned pair; // (a & b) | c, which is two instructions where both constants are immediate
  asm("lop3.b32 %0, %1, %2, %3, 0xea;"
      : "=r"(pair)
      : "r"(word[0] >> 4 * j), "r"(0x000f000fu), "r"(kBits));
  return minus(pair, FORMAT == 41 ? kBase : kBase + 8);
#elif defined(DTYPE_F16)
  return minus(__byte_perm(word[j / 2], 0x64646464, j % 2 ? 0x4342 : 0x4140), 1024 + 128);
#else // in bf16 there is no room for 256 steps of 1
  const float base = 8388608 + 128;
  const float low = __uint_as_float(__byte_perm(word[j / 2], 0x4b000000, 0x7440 + j % 2 * 2));
  const float high = __uint_as_float(__byte_perm(word[j / 2], 0x4b000000, 0x7441 + j % 2 * 2));
  const __nv_bfloat162 value = __floats2bfloat162_rn(low - base, high - base);
  return *reinterpret_cast<const unsigned *>(&value);
#endif
}

struct Lane {                                  // what a lane reads of a unit
  unsigned left[2][kUnit * kParts];            // of rows g and g + 8 of w
  unsigned scales[2][kUnit * kScaleBytes / 4]; // of both rows
  uint4 right[kUnit];                          // of row g of x
};

// `kWords` words that lie at a multiple of 16 bytes, or of their size.
template <int kWords> __device__ __forceinline__ void read_words(unsigned *to, const Byte *from) {
  if constexpr (kWords == 2) {
    const uint2 word = __ldg(reinterpret_cast<const uint2 *>(from));
    to[0] = word.x, to[1] = word.y;
  } else {
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i) {
      const uint4 word = __ldg(reinterpret_cast<const uint4 *>(from) + i);
      to[4 * i] = word.x, to[4 * i + 1] = word.y, to[4 * i + 2] = word.z, to[4 * i + 3] = word.w;
    }
  }
}

__device__ __forceinline__ float half_of(unsigned word, int which) {
  return __half2float(__ushort_as_half((unsigned short)(word >> which * 16)));
}

// A block's scale, in q4_1 also its least.
__device__ __forceinline__ float scale_of(const unsigned *scales, int i) {
  return FORMAT == 41 ? half_of(scales[i], 0) : half_of(scales[i / 2], i % 2);
}

// Adds the products of block i of the unit.
__device__ __forceinline__ void add_block(const Lane &lane, int i, float (&sum)[4]) {
  const uint4 &x = lane.right[i];
  const unsigned *up = &lane.left[0][i * kParts], *down = &lane.left[1][i * kParts];
  float products[4] = {};
  const unsigned first[4] = {pair_of<0>(up), pair_of<0>(down), pair_of<1>(up), pair_of<1>(down)};
  multiply(products, first, x.x, x.y);
  const unsigned second[4] = {pair_of<2>(up), pair_of<2>(down), pair_of<3>(up), pair_of<3>(down)};
  multiply(products, second, x.z, x.w);
#pragma unroll
  for (int e = 0; e < 4; ++e)
    sum[e] = fma(products[e], scale_of(lane.scales[e / 2], i), sum[e]);
#if FORMAT == 41 // the least comes to the sum over x
#ifdef DTYPE_F16
  constexpr unsigned kOnes = 0x3c003c00;
#else
  constexpr unsigned kOnes = 0x3f803f80;
#endif
  const unsigned ones[4] = {kOnes, kOnes, kOnes, kOnes};
  float sums[4] = {};
  multiply(sums, ones, x.x, x.y);
  multiply(sums, ones, x.z, x.w);
#pragma unroll
  for (int e = 0; e < 4; ++e)
    sum[e] = fma(sums[e], half_of(lane.scales[e / 2][i], 1), sum[e]);
#endif
}

// Where a lane reads.
struct Places {
  const T *right;   // row g of x, from this lane's elements on
  bool has_row;     // else zeros stand for it
  long long row[2]; // of w
  const Byte *w;
  long long n, blocks;
  int q;
};

// Eight elements of x, wherever they begin.
__device__ __forceinline__ uint4 read_right(const T *from) {
  const unsigned short *bits = reinterpret_cast<const unsigned short *>(from);
  return {bits[0] | unsigned(bits[1]) << 16, bits[2] | unsigned(bits[3]) << 16,
          bits[4] | unsigned(bits[5]) << 16, bits[6] | unsigned(bits[7]) << 16};
}

// All of a unit of kUnit blocks, where rows of x begin at multiples of 16 bytes.
__device__ __forceinline__ void add_unit(const Places &at, long long unit, float (&sum)[4]) {
  Lane lane;
  const long long b = unit * kUnit;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    read_words<kUnit * kParts>(lane.left[s], at.w + word_at<true>(at.row[s], b, at.q, at.blocks));
    read_words<kUnit * kScaleBytes / 4>(lane.scales[s],
                                        at.w + scale_at<true>(at.row[s], b, at.n, at.blocks));
  }
#pragma unroll
  for (int i = 0; i < kUnit; ++i)
    lane.right[i] = at.has_row ? __ldg(reinterpret_cast<const uint4 *>(at.right + (b + i) * kBlock))
                               : uint4{0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < kUnit; ++i)
    add_block(lane, i, sum);
}

// A unit of whatever size, block by block.
__device__ __forceinline__ void add_blocks(const Places &at, long long unit, float (&sum)[4]) {
  const long long begin = unit * kUnit, end = begin + blocks_of_unit(begin, at.blocks);
#pragma unroll 1
  for (long long b = begin; b < end; ++b) {
    Lane lane;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Byte *word = at.w + word_at(at.row[s], b, at.q, at.blocks);
#pragma unroll
      for (int j = 0; j < kParts; ++j)
        lane.left[s][j] = reinterpret_cast<const unsigned *>(word)[j];
      const unsigned short *scale =
          reinterpret_cast<const unsigned short *>(at.w + scale_at(at.row[s], b, at.n, at.blocks));
      lane.scales[s][0] = FORMAT == 41 ? scale[0] | unsigned(scale[1]) << 16 : scale[0];
    }
    lane.right[0] = at.has_row ? read_right(at.right + b * kBlock) : uint4{0, 0, 0, 0};
    add_block(lane, 0, sum);
  }
}

#endif

extern "C" __global__ void __launch_bounds__(32 * kWarps)
    matmul_repacked(const T *__restrict__ x, const Byte *__restrict__ w,
                    BIAS_PARAMETER T *__restrict__ y, long long rows, long long n, long long k) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
#if __CUDA_ARCH__ >= 800
  __shared__ float partial[kWarps][kRows][kColumns + 1];
  const long long across = (n + kColumns - 1) / kColumns;
  const long long column = blockIdx.x % across * kColumns, row = blockIdx.x / across * kRows;
  const int g = threadIdx.x / 4, q = threadIdx.x % 4;
  // Columns of y beyond the last repeat it; they are not stored.
  auto inside = [&](long long o) { return o < n ? o : n - 1; };
  const Places at = {x + (row + g) * k + q * 8,
                     row + g < rows,
                     {inside(column + g), inside(column + g + 8)},
                     w,
                     n,
                     k / kBlock,
                     q};
  float sum[4] = {};
  const long long units = (at.blocks + kUnit - 1) / kUnit;
  long long unit = threadIdx.y;
  if ((unsigned long long)(x) % 16 == 0)
#pragma unroll 1
    for (; unit < at.blocks / kUnit; unit += kWarps)
      add_unit(at, unit, sum);
#pragma unroll 1
  for (; unit < units; unit += kWarps)
    add_blocks(at, unit, sum);

    // sum[e] is of column g + 8 * (e / 2) and row 2 q + e % 2.
#pragma unroll
  for (int e = 0; e < 4; ++e)
    partial[threadIdx.y][2 * q + e % 2][g + e / 2 * 8] = sum[e];
  __syncthreads();
  const int thread = threadIdx.y * 32 + threadIdx.x, r = thread / kColumns, o = thread % kColumns;
  if (row + r < rows && column + o < n) {
    float total = BIAS_AT(column + o);
#pragma unroll
    for (int s = 0; s < kWarps; ++s)
      total += partial[s][r][o];
    y[(row + r) * n + column + o] = T(total);
  }
#endif
}
