// Products with a matrix of repacked blocks (repacked.cuh) on tensor cores, by a warp: 16 columns
// of y for 8 rows of x, of f16 and bf16.
//
// An mma has 16 rows of w on the left and rows of x, as columns, on the right. Of a unit, lane
// 4 g + q reads what is its own of rows g and g + 8 of w, and the same elements of row g of x:
// which elements of k an mma multiplies with which others is all the same, as long as both sides
// agree. Quants are exact in f16 and bf16, and sums over a block are in f32, to which the scale
// comes once. Bound by reading w once, whatever the number of rows.
#pragma once

#include <cuda_fp16.h>

#include "floating.cuh"
#include "mma.cuh"
#include "repacked.cuh"

typedef unsigned char Byte;

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

// Elements 2 j and 2 j + 1 of a word. Their bits are the last ones of a number whose steps are 1.
template <int kFormat, int j> __device__ __forceinline__ unsigned pair_of(const unsigned *word) {
  if constexpr (kFormat != 80) {
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
    return minus(pair, kFormat == 41 ? kBase : kBase + 8);
  } else {
#ifdef DTYPE_F16
    return minus(__byte_perm(word[j / 2], 0x64646464, j % 2 ? 0x4342 : 0x4140), 1024 + 128);
#else // in bf16 there is no room for 256 steps of 1
    const float base = 8388608 + 128;
    const float low = __uint_as_float(__byte_perm(word[j / 2], 0x4b000000, 0x7440 + j % 2 * 2));
    const float high = __uint_as_float(__byte_perm(word[j / 2], 0x4b000000, 0x7441 + j % 2 * 2));
    const __nv_bfloat162 value = __floats2bfloat162_rn(low - base, high - base);
    return *reinterpret_cast<const unsigned *>(&value);
#endif
  }
}

template <int kFormat> struct Lane { // what a lane reads of a unit
  // registers of its word of a block
  static constexpr int kParts = Repacked<kFormat>::kWordBytes / 4;
  unsigned left[2][kUnit * kParts];                               // of rows g and g + 8 of w
  unsigned scales[2][kUnit * Repacked<kFormat>::kScaleBytes / 4]; // of both rows
  uint4 right[kUnit];                                             // of row g of x
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
template <int kFormat> __device__ __forceinline__ float scale_of(const unsigned *scales, int i) {
  return kFormat == 41 ? half_of(scales[i], 0) : half_of(scales[i / 2], i % 2);
}

// The least beside a scale, as pairs of itself. The eleven bits of an f16 are those of two bf16.
#ifdef DTYPE_F16
constexpr int kLeastTerms = 1;
template <class Take> __device__ __forceinline__ void split_least(unsigned scale, Take take) {
  take(0, __byte_perm(scale, 0, 0x3232));
}
#else
constexpr int kLeastTerms = 2;
template <class Take> __device__ __forceinline__ void split_least(unsigned scale, Take take) {
  const float least = half_of(scale, 1);
  const unsigned high = __float_as_uint(least) & 0xffff0000u;
  take(0, __byte_perm(high, 0, 0x3232));
  take(1, __byte_perm(__float_as_uint(least - __uint_as_float(high)), 0, 0x3232));
}
#endif

// Adds the products of block i of the unit.
template <int kFormat>
__device__ __forceinline__ void add_block(const Lane<kFormat> &lane, int i, float (&sum)[4]) {
  constexpr int kParts = Lane<kFormat>::kParts;
  const uint4 &x = lane.right[i];
  const unsigned *up = &lane.left[0][i * kParts], *down = &lane.left[1][i * kParts];
  float products[4] = {};
  const unsigned first[4] = {pair_of<kFormat, 0>(up), pair_of<kFormat, 0>(down),
                             pair_of<kFormat, 1>(up), pair_of<kFormat, 1>(down)};
  multiply(products, first, x.x, x.y);
  const unsigned second[4] = {pair_of<kFormat, 2>(up), pair_of<kFormat, 2>(down),
                              pair_of<kFormat, 3>(up), pair_of<kFormat, 3>(down)};
  multiply(products, second, x.z, x.w);
#pragma unroll
  for (int e = 0; e < 4; ++e)
    sum[e] = fma(products[e], scale_of<kFormat>(lane.scales[e / 2], i), sum[e]);
  if constexpr (kFormat == 41) {
    // The least times the sum over x is the product of x with rows that repeat the least.
    unsigned least[kLeastTerms][4];
#pragma unroll
    for (int e = 0; e < 2; ++e)
      split_least(lane.scales[e][i],
                  [&](int t, unsigned pair) { least[t][e] = least[t][e + 2] = pair; });
#pragma unroll
    for (int t = 0; t < kLeastTerms; ++t) {
      multiply(sum, least[t], x.x, x.y);
      multiply(sum, least[t], x.z, x.w);
    }
  }
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
template <int kFormat>
__device__ __forceinline__ void add_unit(const Places &at, long long unit, float (&sum)[4]) {
  Lane<kFormat> lane;
  const long long b = unit * kUnit;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    read_words<kUnit * Lane<kFormat>::kParts>(
        lane.left[s],
        at.w + Repacked<kFormat>::template word_at<true>(at.row[s], b, at.q, at.blocks));
    read_words<kUnit * Repacked<kFormat>::kScaleBytes / 4>(
        lane.scales[s],
        at.w + Repacked<kFormat>::template scale_at<true>(at.row[s], b, at.n, at.blocks));
  }
#pragma unroll
  for (int i = 0; i < kUnit; ++i)
    lane.right[i] = at.has_row ? *reinterpret_cast<const uint4 *>(at.right + (b + i) * kBlock)
                               : uint4{0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < kUnit; ++i)
    add_block<kFormat>(lane, i, sum);
}

// A unit of whatever size, block by block.
template <int kFormat>
__device__ __forceinline__ void add_blocks(const Places &at, long long unit, float (&sum)[4]) {
  const long long begin = unit * kUnit,
                  end = begin + Repacked<kFormat>::blocks_of_unit(begin, at.blocks);
#pragma unroll 1
  for (long long b = begin; b < end; ++b) {
    Lane<kFormat> lane;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Byte *word = at.w + Repacked<kFormat>::word_at(at.row[s], b, at.q, at.blocks);
#pragma unroll
      for (int j = 0; j < Lane<kFormat>::kParts; ++j)
        lane.left[s][j] = reinterpret_cast<const unsigned *>(word)[j];
      const unsigned short *scale = reinterpret_cast<const unsigned short *>(
          at.w + Repacked<kFormat>::scale_at(at.row[s], b, at.n, at.blocks));
      lane.scales[s][0] = kFormat == 41 ? scale[0] | unsigned(scale[1]) << 16 : scale[0];
    }
    lane.right[0] = at.has_row ? read_right(at.right + b * kBlock) : uint4{0, 0, 0, 0};
    add_block<kFormat>(lane, 0, sum);
  }
}

// The sums of rows of x with 16 rows of w, of the share of a warp: units `warp`, `warp` + `warps`,
// .. `row` is row g of x; sum[e] is of column g + 8 * (e / 2) and row 2 q + e % 2.
template <int kFormat>
__device__ __forceinline__ void repacked_sums(const Places &at, bool aligned, int warp, int warps,
                                              float (&sum)[4]) {
  const long long units = (at.blocks + kUnit - 1) / kUnit;
  long long unit = warp;
  if (aligned)
#pragma unroll 1
    for (; unit < at.blocks / kUnit; unit += warps)
      add_unit<kFormat>(at, unit, sum);
#pragma unroll 1
  for (; unit < units; unit += warps)
    add_blocks<kFormat>(at, unit, sum);
}

#endif
