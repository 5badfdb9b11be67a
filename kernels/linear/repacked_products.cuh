// What a warp multiplies of a repacked block (repacked.cuh), ahead of its scales: quants as
// numbers, the elements of x that belong to them, and their products.
//
// Lane 4 g + q has what is its own of rows g and g + 8 of w. Of f16 and bf16 tensor cores multiply:
// an mma has 16 rows of w on the left and 8 rows of x, as columns, on the right, of which the lane
// reads row g, and has the sums of rows 2 q and 2 q + 1. Which elements of k an mma multiplies with
// which others is all the same, as long as both sides agree. Of f32 the lane multiplies kRows rows
// of x itself; its sums are those of its own elements.
//
// Quants are exact in all three, and sums over a block, or half of one, are in f32. What belongs to
// all quants of a block alike, an offset or a least, is times the sum over x, which on tensor cores
// is the product of x with a row of one value. An infinity in x gives NaN.
#pragma once

#include <cuda_fp16.h>

#include "linear/repacked.cuh"
#include "shared/floating.cuh"
#include "shared/mma.cuh"

#if __CUDA_ARCH__ >= 800

#if defined(DTYPE_F16) || defined(DTYPE_BF16)
#define MULTIPLIES_BY_MMA
#endif

// What f16 alone does: quants of two low bits are multiplied by their scales first, since both are
// so small that products are exact, and all sums of a unit are one; and leasts of large formats,
// whole numbers, are multiplied with x as quants are.
#ifdef DTYPE_F16
constexpr bool kIsF16 = true;
#else
constexpr bool kIsF16 = false;
#endif
template <int kFormat> constexpr bool kFoldsScales = kIsF16 &&Repacked<kFormat>::kLow == 2;
template <int kFormat>
constexpr bool kMultipliesLeasts =
    kIsF16 &&BlockFormat<kFormat>::kIsLarge &&BlockFormat<kFormat>::kHasLeast;

__device__ __forceinline__ __half2 halves_of(unsigned pair) {
  return *reinterpret_cast<const __half2 *>(&pair);
}
__device__ __forceinline__ unsigned pair_of(__half2 halves) {
  return *reinterpret_cast<const unsigned *>(&halves);
}

// Quants in a register of two f16 or bf16, with how far they are off: value = (number - kOffset) *
// kFactor. As f16 a whole number is the last bits of a subnormal one, a multiple of 2^-24; as bf16,
// where products of such would be lost, of 128, whose steps are 1. Of 8 bits there is no room for
// that in bf16. Of f32 they begin as f16, or are whole.
template <int kFormat> struct Numbers {
  static constexpr int kBias = kFormat == 49 ? 128 : BlockFormat<kFormat>::kBias;
#ifdef DTYPE_BF16
  static constexpr unsigned kBits = 0x43004300, kOne = 0x3f803f80;
  static constexpr float kFactor = 1;
  static constexpr int kOff = kFormat == 49 || kFormat == 80 ? 0 : 128 + kBias;
#else
  static constexpr unsigned kBits = 0, kOne = 0x00010001;
  static constexpr int kOff = kBias;
  static constexpr float kFactor = kFormat == 80 && !kIsF16 ? 1 : 16777216;
#endif
#ifdef MULTIPLIES_BY_MMA
  static constexpr bool kSubtracts = false; // it is times the sum over x
#else
  static constexpr bool kSubtracts = true;
#endif
  static constexpr int kOffset = kSubtracts ? 0 : kOff;
  static constexpr unsigned kLessOffset = kBits | 0x80008000u | kBias * 0x00010001u;
  // Whether sums of x are wanted, in the same steps.
  static constexpr bool kHasSums = BlockFormat<kFormat>::kHasLeast && !kMultipliesLeasts<kFormat>;

  static __device__ __forceinline__ unsigned subtracted(unsigned pair) {
#ifdef DTYPE_BF16
    const __nv_bfloat162 value =
        __hsub2(*reinterpret_cast<const __nv_bfloat162 *>(&pair), __float2bfloat162_rn(kOff));
    return *reinterpret_cast<const unsigned *>(&value);
#else
    return pair_of(__hsub2(halves_of(pair), halves_of(kOff * 0x00010001u)));
#endif
  }
};

#ifdef MULTIPLIES_BY_MMA
// As multiply, of sums that begin at 0.
__device__ __forceinline__ void multiply_first(float (&sum)[4], const unsigned (&a)[4], unsigned c0,
                                               unsigned c1) {
  asm volatile("mma.sync.aligned." MMA_FORM
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
               : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(c0), "r"(c1), "f"(0.0f));
}
#endif

// Bits kPlace .. and 16 + kPlace .. of a word, kBits each, at kFrom and 16 + kFrom of `into`:
// (a & b) | c is one instruction where constants are immediate.
template <int kBits, int kPlace, int kFrom>
__device__ __forceinline__ unsigned with_bits(unsigned word, unsigned into) {
  constexpr unsigned kMask = ((1u << kBits) - 1) * 0x00010001u << kFrom;
  constexpr int kRight = kPlace >= kFrom ? kPlace - kFrom : 0,
                kLeft = kPlace >= kFrom ? 0 : kFrom - kPlace;
  unsigned pair;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;"
      : "=r"(pair)
      : "r"(word >> kRight << kLeft), "r"(kMask), "r"(into));
  return pair;
}

// Four bytes of two words; __byte_perm would clear each upper bit of what chooses them first.
__device__ __forceinline__ unsigned chosen(unsigned a, unsigned b, unsigned which) {
  unsigned bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(which));
  return bytes;
}
// The entries of a table that four nibbles choose, from bit `shift` on: their lower three bits are
// in `within`, and `half`'s nibble e is e where the upper one is 0, else 4 + e.
__device__ __forceinline__ unsigned entries(const unsigned (&table)[4], unsigned within,
                                            unsigned half, int shift) {
  return chosen(chosen(table[0], table[1], within >> shift),
                chosen(table[2], table[3], within >> shift), half >> shift);
}

// Byte e of a word less 128, without a conversion: as the last bits of 2^23 and itself.
__device__ __forceinline__ float byte_less_128(unsigned word, int e) {
  return __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + e)) - (8388608.0f + 128.0f);
}

// Quants of q5_k in f16 begin at bit 4 in odd blocks: their high bits then lie as far from there as
// those of the block before do from bit 0, and one shift serves both. The scale makes up for it.
template <int kFormat> constexpr __host__ __device__ int first_bit(int i) {
  return kIsF16 && kFormat == 56 ? i % 2 * 4 : 0;
}

// What a lane has of block i of its unit, all eight elements: pair j is elements 2 j and 2 j + 1.
template <int kFormat, int i>
__device__ __forceinline__ void pairs_of(const unsigned *low, const unsigned *high,
                                         unsigned (&pair)[4]) {
  typedef Repacked<kFormat> Layout;
  if constexpr (kFormat == 49) {
    const unsigned within = low[i] & 0x77777777u, half = low[i] >> 1 & 0x44444444u | 0x32103210u;
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
#ifndef DTYPE_BF16 // the 16 values, with 128 added
      const unsigned table[4] = {0x3f2d1801, 0x766a5d4f, 0xa6998d81, 0xf1d9c5b5};
      const unsigned four = entries(table, within, half, j * 8);
      pair[j] = __byte_perm(four, 0, 0x4140);
      pair[j + 1] = __byte_perm(four, 0, 0x4342);
#else // their lower bytes and their upper ones
      const unsigned lows[4] = {0x82a6d0fe, 0x20b00c44, 0x18c85080, 0xe2b28a54},
                     highs[4] = {0xc2c2c2c2, 0xc1c1c2c2, 0x4241413f, 0x42424242};
      const unsigned lower = entries(lows, within, half, j * 8),
                     upper = entries(highs, within, half, j * 8);
      pair[j] = __byte_perm(lower, upper, 0x5140);
      pair[j + 1] = __byte_perm(lower, upper, 0x7362);
#endif
    }
  } else if constexpr (kFormat != 80) {
    constexpr int kLow = Layout::kLow, kHigh = Layout::kHigh, kWord = i * kLow / 4;
    constexpr unsigned kBits = Numbers<kFormat>::kBits;
    constexpr int kPlace = i % (4 / kLow) * 4 * kLow, kFirst = first_bit<kFormat>(i),
                  kTop = kFirst + kLow;
    pair[0] = with_bits<kLow, kPlace, kFirst>(low[kWord], kBits);
    pair[1] = with_bits<kLow, kPlace + kLow, kFirst>(low[kWord], kBits);
    pair[2] = with_bits<kLow, kPlace + 2 * kLow, kFirst>(low[kWord], kBits);
    pair[3] = with_bits<kLow, kPlace + 3 * kLow, kFirst>(low[kWord], kBits);
    if constexpr (kHigh > 0) {
      const unsigned word = high[i * kHigh / 4];
      pair[0] = with_bits<kHigh, Layout::template bit<kHigh>(i, 0), kTop>(word, pair[0]);
      pair[1] = with_bits<kHigh, Layout::template bit<kHigh>(i, 2), kTop>(word, pair[1]);
      pair[2] = with_bits<kHigh, Layout::template bit<kHigh>(i, 4), kTop>(word, pair[2]);
      pair[3] = with_bits<kHigh, Layout::template bit<kHigh>(i, 6), kTop>(word, pair[3]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const unsigned word = low[2 * i + j / 2];
#ifndef DTYPE_BF16
      pair[j] = __byte_perm(word, 0, j % 2 ? 0x4342 : 0x4140);
#else
      const __nv_bfloat162 value =
          __floats2bfloat162_rn(byte_less_128(word, j % 2 * 2), byte_less_128(word, j % 2 * 2 + 1));
      pair[j] = *reinterpret_cast<const unsigned *>(&value);
#endif
    }
  }
  if constexpr (kFormat != 80 && Numbers<kFormat>::kSubtracts && Numbers<kFormat>::kOff != 0)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      pair[j] = Numbers<kFormat>::subtracted(pair[j]);
}

#ifdef MULTIPLIES_BY_MMA
// Two elements of x, wherever they begin.
__device__ __forceinline__ unsigned read_pair(const T *from) {
  const unsigned short *bits = reinterpret_cast<const unsigned short *>(from);
  return bits[0] | unsigned(bits[1]) << 16;
}

// A lane's elements of a block of row g of x, of which `from` is the first.
typedef uint4 Right;
template <int kFormat, bool kAligned> __device__ __forceinline__ Right read_right(const T *from) {
  constexpr int kNext = Repacked<kFormat>::kHasHalves ? 16 : 4;
  if constexpr (!kAligned)
    return {read_pair(from), read_pair(from + 2), read_pair(from + kNext),
            read_pair(from + kNext + 2)};
  if constexpr (!Repacked<kFormat>::kHasHalves)
    return *reinterpret_cast<const uint4 *>(from);
  const uint2 first = *reinterpret_cast<const uint2 *>(from),
              second = *reinterpret_cast<const uint2 *>(from + kNext);
  return {first.x, first.y, second.x, second.y};
}

// Products of block i of the unit with x: of its halves, or of all of it in the first, kRows of one
// row of w and then those of the other; `xs`: sums of x, likewise, where they are wanted.
template <int kFormat, int i, int kRows>
__device__ __forceinline__ void
block_products(const unsigned *(&low)[2], const unsigned *(&high)[2], const Right (&rows)[1],
               float (&products)[2][2 * kRows], float (&xs)[2][2 * kRows]) {
  typedef Numbers<kFormat> Numbers;
  const uint4 x = rows[0];
  constexpr int kSecond = Repacked<kFormat>::kHasHalves ? 1 : 0;
  unsigned up[4], down[4];
  pairs_of<kFormat, i>(low[0], high[0], up);
  pairs_of<kFormat, i>(low[1], high[1], down);
  multiply_first(products[0], {up[0], down[0], up[1], down[1]}, x.x, x.y);
  if constexpr (kSecond)
    multiply_first(products[1], {up[2], down[2], up[3], down[3]}, x.z, x.w);
  else
    multiply(products[0], {up[2], down[2], up[3], down[3]}, x.z, x.w);
  if constexpr (Numbers::kHasSums) {
    constexpr unsigned kOne = Numbers::kOne;
    multiply_first(xs[0], {kOne, kOne, kOne, kOne}, x.x, x.y);
    if constexpr (kSecond)
      multiply_first(xs[1], {kOne, kOne, kOne, kOne}, x.z, x.w);
    else
      multiply(xs[0], {kOne, kOne, kOne, kOne}, x.z, x.w);
    if constexpr (Numbers::kOffset != 0)
#pragma unroll
      for (int h = 0; h <= kSecond; ++h)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          products[h][e] = fma(xs[h][e], -float(Numbers::kOffset), products[h][e]);
  } else if constexpr (Numbers::kOffset != 0) {
    constexpr unsigned kLess = Numbers::kLessOffset;
    multiply(products[0], {kLess, kLess, kLess, kLess}, x.x, x.y);
    multiply(products[kSecond], {kLess, kLess, kLess, kLess}, x.z, x.w);
  }
}

#ifdef DTYPE_F16
// Adds two elements of x times what all elements of two rows of w are, `up` and `down`.
__device__ __forceinline__ void multiply_alike(float (&sum)[4], unsigned up, unsigned down,
                                               unsigned c) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
               "{%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(up), "r"(down), "r"(c));
}

// What a lane has of block i of its unit where scales are folded; scale[h] holds those of half h of
// block i & ~1 and of block i | 1, as they are. Bits of pair j are left 2 j places above the last
// one, and 4^-j comes to the scale instead.
template <int kFormat>
__device__ __forceinline__ void scaled_pairs(const unsigned *low, const unsigned *high, int i,
                                             const __half2 (&scale)[2], unsigned (&pair)[4]) {
  const unsigned word = low[i / 2] >> i % 2 * 8;
  unsigned upper = 0;
  if constexpr (kFormat == 36) {
    upper = high[i / 4];
    upper = (i % 4 < 2 ? upper : __byte_perm(upper, 0, 0x2301)) >> i % 2;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const unsigned bits = (word & 0x00030003u << 2 * j) | (upper & 0x00040004u << 2 * j);
    const __half2 factor = __hmul2(scale[j / 2], __float2half2_rn(1.0f / (1 << 2 * j)));
    const __half2 less =
        __hmul2(scale[j / 2], __float2half2_rn(-float(BlockFormat<kFormat>::kBias) / 16777216));
    const auto own = [&](__half2 both) { return i % 2 ? __high2half2(both) : __low2half2(both); };
    pair[j] = pair_of(kFormat == 36 ? __hfma2(halves_of(bits), own(factor), own(less))
                                    : __hmul2(halves_of(bits), own(factor)));
  }
}

#endif

#else

// A lane's elements of a block of a row of x, of which `from` is the first.
struct Right {
  float element[8];
};
template <int kFormat, bool kAligned> __device__ __forceinline__ Right read_right(const T *from) {
  constexpr int kNext = Repacked<kFormat>::kHasHalves ? 16 : 4;
  Right right;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float *half = from + h * kNext;
    float *to = right.element + 4 * h;
    if constexpr (kAligned) {
      const float4 four = *reinterpret_cast<const float4 *>(half);
      to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        to[e] = half[e];
    }
  }
  return right;
}

// What a lane has of block i of its unit, as numbers.
template <int kFormat, int i>
__device__ __forceinline__ void numbers_of(const unsigned *low, const unsigned *high,
                                           float (&number)[8]) {
  if constexpr (kFormat == 80) {
#pragma unroll
    for (int e = 0; e < 8; ++e)
      number[e] = byte_less_128(low[2 * i + e / 4], e % 4);
  } else {
    unsigned pair[4];
    pairs_of<kFormat, i>(low, high, pair);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 two = __half22float2(halves_of(pair[j]));
      number[2 * j] = two.x, number[2 * j + 1] = two.y;
    }
  }
}

// As on tensor cores, of the lane's own elements.
template <int kFormat, int i, int kRows>
__device__ __forceinline__ void
block_products(const unsigned *(&low)[2], const unsigned *(&high)[2], const Right (&rows)[kRows],
               float (&products)[2][2 * kRows], float (&xs)[2][2 * kRows]) {
  constexpr int kHalves = Repacked<kFormat>::kHasHalves ? 2 : 1, kEach = 8 / kHalves;
  float up[8], down[8];
  numbers_of<kFormat, i>(low[0], high[0], up);
  numbers_of<kFormat, i>(low[1], high[1], down);
#pragma unroll
  for (int h = 0; h < kHalves; ++h)
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float *x = rows[r].element + h * kEach;
      float above = 0, below = 0, sum = 0;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        above = fma(x[e], up[h * kEach + e], above);
        below = fma(x[e], down[h * kEach + e], below);
        sum += x[e];
      }
      products[h][r] = above, products[h][kRows + r] = below;
      xs[h][r] = xs[h][kRows + r] = sum * (1 / Numbers<kFormat>::kFactor);
    }
}
#endif

#endif
