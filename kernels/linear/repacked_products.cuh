// Operands of a warp in a repacked block (repacked.cuh), ahead of its scales: quants as numbers,
// the elements of x that belong to them, and their products.
//
// Lane 4 g + q has its own parts of rows g and g + 8 of w. Of f16 and bf16 tensor cores multiply:
// an mma has 16 rows of w on the left and 8 rows of x, as columns, on the right, of which the lane
// reads row g, and has the sums of rows 2 q and 2 q + 1. Which elements of k an mma multiplies with
// which others is all the same, as long as both sides agree. Of f32 the lane multiplies kRows rows
// of x itself; its sums are those of its own elements.
//
// Quants are exact in all three, and sums over a block, or half of one, are in f32. A number that
// all quants of a block share, an offset or a least, is multiplied by the sum over x, which on
// tensor cores is the product of x with a row of one value. An infinity in x gives NaN.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "linear/repacked.cuh"
#include "shared/floating.cuh"
#include "shared/mma.cuh"

#if __CUDA_ARCH__ >= 800

#if defined(DTYPE_F16) || defined(DTYPE_BF16)
#define MULTIPLIES_BY_MMA
#endif

// What tensor cores alone do: quants of narrow formats are multiplied by their scales first, since
// both are so small that products are exact, and all sums of a unit are one. Leasts of q2_k, and in
// f16 those of q4_k and q5_k, are multiplied once a unit, with sums of x over blocks.
#ifdef DTYPE_F16
constexpr bool kIsF16 = true;
#else
constexpr bool kIsF16 = false;
#endif
#ifdef MULTIPLIES_BY_MMA
constexpr bool kIsMma = true;
#else
constexpr bool kIsMma = false;
#endif
template <int kFormat> constexpr bool kFoldsScales = kIsMma &&Repacked<kFormat>::kIsNarrow;
template <int kFormat>
constexpr bool
    kSumsRows = kIsMma &&BlockFormat<kFormat>::kIsLarge &&BlockFormat<kFormat>::kHasLeast &&
                (kIsF16 || kFormat == 26);

__device__ __forceinline__ __half2 halves_of(unsigned pair) {
  return *reinterpret_cast<const __half2 *>(&pair);
}
__device__ __forceinline__ __nv_bfloat162 bfloats_of(unsigned pair) {
  return *reinterpret_cast<const __nv_bfloat162 *>(&pair);
}
template <class Two> __device__ __forceinline__ unsigned pair_of(Two two) {
  return *reinterpret_cast<const unsigned *>(&two);
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
  // Whether sums of x are wanted, in the same steps.
  static constexpr bool kHasSums = BlockFormat<kFormat>::kHasLeast && !kSumsRows<kFormat>;

  // How far numbers are off whose quants begin at bit kPlace, below 0.
  template <int kPlace>
  static constexpr unsigned kLess = kBits | 0x80008000u | (kBias << kPlace) * 0x00010001u;
  // Subtracts the offset of such numbers.
  template <int kPlace = 0> static __device__ __forceinline__ unsigned subtracted(unsigned pair) {
#ifdef DTYPE_BF16
    return pair_of(
        __hsub2(bfloats_of(pair), __float2bfloat162_rn(float(kOff - kBias + (kBias << kPlace)))));
#else
    return pair_of(__hsub2(halves_of(pair), halves_of((kOff << kPlace) * 0x00010001u)));
#endif
  }
};

#ifdef MULTIPLIES_BY_MMA
// Multiplies as multiply does; sums begin at 0.
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

// In f16 quants of odd blocks begin where they lie, at bit 4; high bits of q5_k then lie as far
// from there as those of the block before do from bit 0, and one shift serves both. Quants of
// narrow formats begin behind those of the block before. What multiplies them makes up for it.
template <int kFormat> constexpr __host__ __device__ int first_bit(int i) {
  return Repacked<kFormat>::kIsNarrow ? i % 2 * (Repacked<kFormat>::kLow + Repacked<kFormat>::kHigh)
         : kIsF16 && BlockFormat<kFormat>::kIsLarge ? i % 2 * 4
                                                    : 0;
}

// What a lane has of block i of its unit, all eight elements: pair j is elements 2 j and 2 j + 1.
template <int kFormat, int i>
__device__ __forceinline__ void pairs_of(const unsigned *low, const unsigned *high,
                                         unsigned (&pair)[4]) {
  typedef Repacked<kFormat> Layout;
  if constexpr (Layout::kIsNarrow) {
    narrow_words<kFormat>(low, high, i / 2).template put_into<i % 2>(Numbers<kFormat>::kBits, pair);
  } else if constexpr (kFormat == 49) {
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
    constexpr int kLow = Layout::kLow, kHigh = Layout::kHigh;
    constexpr unsigned kBits = Numbers<kFormat>::kBits;
    constexpr int kFirst = first_bit<kFormat>(i), kTop = kFirst + kLow;
    const unsigned first = low[Layout::template word<kLow>(i, 0)],
                   second = low[Layout::template word<kLow>(i, 4)];
    pair[0] = with_bits<kLow, Layout::template bit<kLow>(i, 0), kFirst>(first, kBits);
    pair[1] = with_bits<kLow, Layout::template bit<kLow>(i, 2), kFirst>(first, kBits);
    pair[2] = with_bits<kLow, Layout::template bit<kLow>(i, 4), kFirst>(second, kBits);
    pair[3] = with_bits<kLow, Layout::template bit<kLow>(i, 6), kFirst>(second, kBits);
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
      pair[j] = Numbers<kFormat>::template subtracted<first_bit<kFormat>(i)>(pair[j]);
}

#ifdef MULTIPLIES_BY_MMA
// What the units of a warp share: where sums of x are wanted the columns for them (SumsOfHalves),
// of q6_k in f16 offsets of quants that begin at either of two bits, and of narrow formats
// constants that numbers are made of.
template <int kFormat, bool = kSumsRows<kFormat>> struct KeptColumns {};
template <int kFormat, bool = kIsF16 &&kFormat == 66> struct KeptOffsets {
  // Adds the offset of quants that begin at bit kPlace times elements of x.
  template <int kPlace>
  __device__ __forceinline__ void subtract(float (&sum)[4], unsigned c0, unsigned c1) const {
    constexpr unsigned kLess = Numbers<kFormat>::template kLess<kPlace>;
    multiply(sum, {kLess, kLess, kLess, kLess}, c0, c1);
  }
};
template <int kFormat> struct KeptOffsets<kFormat, true> {
  unsigned less[2][4];
  __device__ __forceinline__ KeptOffsets() {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      less[0][j] = kept(Numbers<kFormat>::template kLess<0>);
      less[1][j] = kept(Numbers<kFormat>::template kLess<4>);
    }
  }
  template <int kPlace>
  __device__ __forceinline__ void subtract(float (&sum)[4], unsigned c0, unsigned c1) const {
    multiply(sum, less[kPlace / 4], c0, c1);
  }
};
template <int kFormat, bool = kFoldsScales<kFormat>>
struct Kept : KeptColumns<kFormat>, KeptOffsets<kFormat> {};

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
               const Kept<kFormat> &kept, float (&products)[2][2 * kRows],
               float (&xs)[2][2 * kRows]) {
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
    constexpr int kPlace = first_bit<kFormat>(i);
    kept.template subtract<kPlace>(products[0], x.x, x.y);
    kept.template subtract<kPlace>(products[kSecond], x.z, x.w);
  }
}

#ifdef DTYPE_F16
typedef __half2 Two;
__device__ __forceinline__ Two two_of(unsigned pair) { return halves_of(pair); }
__device__ __forceinline__ Two alike(Two two, bool second) {
  return second ? __high2half2(two) : __low2half2(two);
}
__device__ __forceinline__ Two two_of(float first, float second) {
  return __floats2half2_rn(first, second);
}
#else
typedef __nv_bfloat162 Two;
__device__ __forceinline__ Two two_of(unsigned pair) { return bfloats_of(pair); }
__device__ __forceinline__ Two alike(Two two, bool second) {
  return second ? __high2bfloat162(two) : __low2bfloat162(two);
}
__device__ __forceinline__ Two two_of(float first, float second) {
  return __floats2bfloat162_rn(first, second);
}
#endif

// Adds to `sum`, of bf16 whatever T is.
__device__ __forceinline__ void multiply_bf16(float (&sum)[4], const unsigned (&a)[4], unsigned c0,
                                              unsigned c1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(c0), "r"(c1));
}
__device__ __forceinline__ unsigned bf16_pair(float first, float second) {
  return pair_of(__floats2bfloat162_rn(first, second));
}

// Scales of blocks 2 p and 2 p + 1 of a narrow format, less the powers of two that quants have by
// their places.
template <int kFormat> struct NarrowFactors {
  typedef NarrowWords<kFormat> Words;
  static constexpr int kBits = Words::kBits, kBias = BlockFormat<kFormat>::kBias;
  // A base whose last bits become whole numbers.
  static constexpr unsigned kBase = kIsF16 ? 0x64006400 : 0x43004300;
  Two by, less, fourth; // of quants; what is added to all; of pair 3 of q3_k

  // What both scales are times, as they are kNibble times whole numbers, and the quants of the
  // first block begin at bit kFirst.
  template <int kNibble, int kFirst> static __device__ __forceinline__ Two steps() {
    return two_of(1.0f / (kNibble << kFirst), 1.0f / (kNibble << (kFirst + kBits)));
  }
  // `numbers`: of both scales, kBase and they; steps: as above.
  template <int kNibble = 1, int kFirst = 0>
  __device__ __forceinline__ void set(unsigned numbers, Two steps) {
    constexpr float kOff = (kIsF16 ? 1024 : 128) + (kFormat == 36 ? 32 * kNibble : 0),
                    kOne = 1.0f / (kNibble << kFirst);
    by = __hfma2(two_of(numbers), steps, two_of(-kOff * kOne, -kOff * kOne / (1 << kBits)));
    if constexpr (kFormat == 36 && kIsF16) {
      constexpr float kStep = -float(kBias) / 16777216;
      less = __hmul2(by, two_of(kStep, kStep * (1 << kBits)));
      fourth = __hmul2(by, two_of(1.0f / 64, 1.0f / (64 >> kBits)));
    } else if constexpr (!kIsF16 && kFormat == 26) {
      less = __hmul2(by, two_of(-128, -128));
    }
  }
  // Numbers of block c times its scale, exact ones: in f16 multiples of 2^-24.
  template <int c, int kFirst = 0>
  __device__ __forceinline__ void scaled(const Words &words, unsigned (&pair)[4]) const {
    if constexpr (!kIsF16) {
      words.template put_into<c>(Numbers<kFormat>::kBits, pair);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        pair[j] =
            kFormat == 26
                ? pair_of(__hfma2(two_of(pair[j]), alike(by, c), alike(less, c)))
                : pair_of(__hmul2(two_of(Numbers<kFormat>::template subtracted<kBits * c>(pair[j])),
                                  alike(by, c)));
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool is_fourth = kFormat == 36 && j == 3;
        const unsigned bits = words.word[is_fourth ? 3 + c : j] &
                              Words::kMask << (is_fourth ? Words::kFourthBit : kFirst + kBits * c);
        const Two factor = alike(is_fourth ? fourth : by, c);
        pair[j] = kFormat == 36 ? pair_of(__hfma2(two_of(bits), factor, alike(less, c)))
                                : pair_of(__hmul2(two_of(bits), factor));
      }
    }
  }
};

// Whether the lane is in the column of each half of blocks i and i + 4. Lanes of q2_k have one half
// each, so both columns are the lane's own.
template <int kFormat> struct KeptColumns<kFormat, true> {
  unsigned one[4][2];
  __device__ __forceinline__ KeptColumns() {
    constexpr unsigned kOne = kIsF16 ? 0x3c003c00 : 0x3f803f80;
    const int column = threadIdx.x / 4, half = threadIdx.x % 4 / 2;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if constexpr (Repacked<kFormat>::kIsNarrow) {
        one[i][0] = column == 2 * i + half ? kOne : 0;
        one[i][1] = kept(one[i][0]);
      } else {
        one[i][0] = kept(column == 2 * i ? kOne : 0);
        one[i][1] = kept(column == 2 * i + 1 ? kOne : 0);
      }
  }
};
template <int kFormat> struct Kept<kFormat, true> : KeptColumns<kFormat>, KeptOffsets<kFormat> {
  // Leasts are in the steps of the other sums.
  static constexpr float kLeastStep = 1 / Numbers<kFormat>::kFactor;
  unsigned base, steps[2], least_base, least_steps;
  __device__ __forceinline__ Kept() {
    typedef NarrowFactors<kFormat> Factors;
    base = kept(Factors::kBase);
    steps[0] = kept(pair_of(Factors::template steps<1, 0>()));
    steps[1] = kept(pair_of(Factors::template steps<16, (kFormat == 26 ? 4 : 0)>()));
    least_base = kept(0x43004300);
    least_steps = kept(kIsF16 ? 0x33803380 : 0x3f803f80); // kLeastStep
  }
};

// Sums of x over halves of the blocks of a unit: on the left of an mma the lane's row is two, for
// one and the other half of its elements, and on the right a half is one column of two for each
// block. So lane 4 g + q has of row g the sums of both halves of block q, and of block q + 4: of
// q2_k, whose halves have leasts of their own, the block's, else those of the lanes' elements.
struct SumsOfHalves {
  float sum[2][4] = {};

  template <int kFormat>
  __device__ __forceinline__ void add(const Right &x, int i, const Kept<kFormat> &kept) {
    multiply(sum[i / 4], {x.x, x.y, x.z, x.w}, kept.one[i % 4][0], kept.one[i % 4][1]);
  }
  // Times leasts of halves: of blocks q, and then of blocks q + 4, of both rows of w.
  __device__ __forceinline__ void multiply_leasts(const unsigned (&least)[4],
                                                  float (&below)[4]) const {
    const Parts first(sum[0][0] + sum[0][2], sum[0][1] + sum[0][3]),
        second(sum[1][0] + sum[1][2], sum[1][1] + sum[1][3]);
    multiply_bf16(below, least, first.upper, second.upper);
    multiply_bf16(below, least, first.lower, second.lower);
  }
  // Times leasts of blocks: a pair is of blocks q and q + 4.
  __device__ __forceinline__ void multiply_leasts(unsigned up, unsigned down,
                                                  float (&below)[4]) const {
    const Parts both((sum[0][0] + sum[0][2]) + (sum[0][1] + sum[0][3]),
                     (sum[1][0] + sum[1][2]) + (sum[1][1] + sum[1][3]));
    multiply_bf16(below, {up, down, up, down}, both.upper, both.lower);
  }

private:
  // Two sums, of two bf16 each: the second is what the first rounds off.
  struct Parts {
    unsigned upper, lower;
    __device__ __forceinline__ Parts(float first, float second)
        : upper(bf16_pair(first, second)),
          lower(bf16_pair(first - __uint_as_float(upper << 16),
                          second - __uint_as_float(upper & 0xffff0000u))) {}
  };
};

#else

template <int kFormat> struct Kept {}; // of f32 units share nothing

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

// Multiplies the lane's own elements, as tensor cores do.
template <int kFormat, int i, int kRows>
__device__ __forceinline__ void
block_products(const unsigned *(&low)[2], const unsigned *(&high)[2], const Right (&rows)[kRows],
               float (&products)[2][2 * kRows]) {
  constexpr int kHalves = Repacked<kFormat>::kHasHalves ? 2 : 1, kEach = 8 / kHalves;
  float up[8], down[8];
  numbers_of<kFormat, i>(low[0], high[0], up);
  numbers_of<kFormat, i>(low[1], high[1], down);
#pragma unroll
  for (int h = 0; h < kHalves; ++h)
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float *x = rows[r].element + h * kEach;
      float above = 0, below = 0;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        above = fma(x[e], up[h * kEach + e], above);
        below = fma(x[e], down[h * kEach + e], below);
      }
      products[h][r] = above, products[h][kRows + r] = below;
    }
}

// Sums of these elements, over halves of the block where they have scales of their own.
template <int kFormat, int kRows, int kSums>
__device__ __forceinline__ void sums_of_x(const Right (&rows)[kRows], float (&xs)[2][kSums]) {
  constexpr int kHalves = Repacked<kFormat>::kHasHalves ? 2 : 1, kEach = 8 / kHalves;
#pragma unroll
  for (int h = 0; h < kHalves; ++h)
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        sum += rows[r].element[h * kEach + e];
      xs[h][r] = sum * (1 / Numbers<kFormat>::kFactor);
    }
}
#endif

#endif
