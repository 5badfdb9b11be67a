// A matrix of blocks [n, k], repacked: as many bytes as before, the quants apart from the scales,
// so that all are read in whole words.
//
// clang-format off
//   low bits of quants   | row 0: unit 0, unit 1, .. | row 1 | ..
//   high bits            | likewise; of formats of 32 elements behind the scales
//   scales               | unit 0: row 0, row 1, .. | unit 1 | ..
//   d, of some           | likewise
// clang-format on
//
// A block here is 32 neighbouring elements of a row, a unit four of them (the last of a row may
// have fewer), or the eight that GGUF's formats of 256 elements have. Four lanes share it: lane q
// has elements 8 q to 8 q + 7 of each block, or, of q6_k, where both halves of a block have scales
// of their own, 4 q to 4 q + 3 of each half. Of kBits bits of each they are kBits bytes a block,
// and lie side by side for all blocks of a unit.
//
// clang-format off
//   format               low  high  scales of a block or unit, as GGUF has them
//   q4_0, q4_1, iq4_nl   4          scale (f16), in q4_1 with its least
//   q5_0, q5_1           4    1     scale (f16), in q5_1 with its least
//   q8_0                 8          scale (f16)
//   q2_k                 2          16 of scales and leasts, as below; then d and m
//   q3_k                 2    1     12 of scales, as below; then d
//   q4_k, q5_k           4    0, 1  d, m, 12 of scales and leasts
//   q6_k                 4    2     16 scales; then d
// clang-format on
//
// In a word, bits of elements 2 j of a block lie 16 below those of 2 j + 1, as halves of one
// register: at j * kBits, behind those of the blocks that share the word (kBits < 4). The four low
// bits of q4_k, q5_k and q6_k share two words, those of block 2 p at bit 8 (j % 2) of word j / 2,
// those of block 2 p + 1 four bits above, so that one shift by eight serves both. Of 8 bits,
// byte e is element e, with 128 added; of iq4_nl, nibble e. High bits of a unit that is not whole
// are a byte a block: elements 2 j in its low half.
//
// Narrow formats, q2_k and q3_k, are multiplied by their scales before they are summed up, so that
// a lane has but one half of each block, h = q / 2. Four blocks i are two words of low bits and, of
// q3_k, one of high ones, whose halves have elements 2 j and 2 j + 1:
//
// clang-format off
//   q2_k    pair j of block i at bits 8 (j % 2) + 2 i of word j / 2
//   q3_k    all bits of a quant side by side: pairs 0, 1, 2 of block i in words 0, 1, 2, at bits 0, 3,
//           9 and 12; pair 3 of blocks 0, 1, 2 at bit 6 of words 0, 1, 2, and of block 3 bit b of the
//           quant at bit 15 of word b
//   scales of a unit, block i of half h
//           4 bits at 32 h + 4 (i / 2) + 16 (i % 2); of q3_k 2 more at 64 + 4 (i / 2) + 2 h + 16 (i % 2)
//   leasts  4 bits at 64 + 16 (i % 4) + 8 h + 4 (i / 4)
// clang-format on
#pragma once

#include "linear/block_formats.cuh"

constexpr int kBlock = kUnitSize;

template <int kFormat> struct Repacked {
  static constexpr bool kIsLarge = BlockFormat<kFormat>::kIsLarge;
  static constexpr bool kIsNarrow = kFormat == 26 || kFormat == 36;
  static constexpr bool kHasHalves = kFormat == 66;
  static constexpr int kUnit = kIsLarge ? 8 : 4;
  static constexpr int kLow = kFormat == 80 ? 8 : kFormat == 26 || kFormat == 36 ? 2 : 4;
  static constexpr int kHigh = kFormat == 66 ? 2 : kFormat == 36 || kFormat / 10 == 5 ? 1 : 0;
  // Bytes of scales, of a block or of a unit of a large format, and of d, which lies elsewhere.
  static constexpr int kScaleBytes = kIsLarge                          ? (kFormat == 36 ? 12 : 16)
                                     : BlockFormat<kFormat>::kHasLeast ? 4
                                                                       : 2;
  static constexpr int kTailBytes = kFormat == 26 ? 4 : kFormat == 36 || kFormat == 66 ? 2 : 0;
  // Whether words of the last part begin at multiples of 4, or end in it, only where there is an
  // even number of blocks or units.
  static constexpr bool kWantsEven = kTailBytes == 2 || kFormat == 50;

  // Element e (0 to 7) of lane q.
  static __device__ __forceinline__ int element(int q, int e) {
    return kHasHalves ? 4 * q + e % 4 + e / 4 * 16 : 8 * q + e;
  }
  // The word that holds kBits of element e of block `i` of a unit, and the place in it.
  template <int kBits> static constexpr __device__ __forceinline__ int word(int i, int e) {
    return kIsLarge && kBits == 4 ? i / 2 * 2 + e / 4 : i * kBits / 4;
  }
  template <int kBits> static constexpr __device__ __forceinline__ int bit(int i, int e) {
    if (kIsLarge && kBits == 4)
      return i % 2 * 4 + e / 2 % 2 * 8 + e % 2 * 16;
    return kFormat == 49 ? 4 * e : i % (4 / kBits) * 4 * kBits + e / 2 * kBits + e % 2 * 16;
  }
  // The place of bit b of element e of block i in a narrow format: in the lane's low bits and,
  // behind them, its high ones.
  static constexpr __device__ __forceinline__ int narrow_bit(int i, int e, int b) {
    const int four = i / 4, j = e / 2, half = e % 2 * 16;
    if (kFormat == 26)
      return (2 * four + j / 2) * 32 + half + j % 2 * 8 + i % 4 * 2 + b;
    const int word = j < 3       ? j
                     : i % 4 < 3 ? i % 4
                                 : b,
              place = j < 3       ? i % 4 / 2 * 9 + i % 2 * 3 + b
                      : i % 4 < 3 ? 6 + b
                                  : 15;
    return (word < 2 ? 2 * four + word : 4 + four) * 32 + half + place;
  }
  // The places of scales: that of half h of block i, the rest of it, and the least.
  static constexpr __device__ __forceinline__ int scale_bit(int i, int h) {
    return 32 * h + i / 2 * 4 + i % 2 * 16;
  }
  static constexpr __device__ __forceinline__ int upper_bit(int i, int h) {
    return 64 + i / 2 * 4 + 2 * h + i % 2 * 16;
  }
  static constexpr __device__ __forceinline__ int least_bit(int i, int h) {
    return 64 + i % 4 * 16 + 8 * h + i / 4 * 4;
  }

  // The blocks of the unit that block `b` of a row is in; kUnit where it is known to be whole.
  template <bool kWhole = false>
  static __device__ __forceinline__ int blocks_of_unit(long long b, long long blocks) {
    if (kWhole || kIsLarge)
      return kUnit;
    const long long rest = blocks - b / kUnit * kUnit;
    return rest < kUnit ? int(rest) : kUnit;
  }

  // Bytes from the beginning on: of what lane `q` has of block b of row `row`, which is the first
  // of its unit where blocks share words, or where high bits of a whole unit are meant; and of the
  // scales of the block or unit.
  template <bool kWhole = false>
  static __device__ __forceinline__ long long low_at(long long row, long long b, int q,
                                                     long long blocks) {
    return (row * blocks + b / kUnit * kUnit) * 4 * kLow +
           (q * blocks_of_unit<kWhole>(b, blocks) + b % kUnit) * kLow;
  }
  template <bool kWhole = false>
  static __device__ __forceinline__ long long high_at(long long row, long long b, int q,
                                                      long long rows, long long blocks) {
    const long long begin = rows * blocks * (4 * kLow + (kIsLarge ? 0 : kScaleBytes));
    return begin + (row * blocks + b / kUnit * kUnit) * 4 * kHigh +
           (q * blocks_of_unit<kWhole>(b, blocks) + b % kUnit) * kHigh;
  }
  template <bool kWhole = false>
  static __device__ __forceinline__ long long scale_at(long long row, long long b, long long rows,
                                                       long long blocks) {
    const long long begin = rows * blocks * 4 * (kLow + (kIsLarge ? kHigh : 0));
    if constexpr (kIsLarge)
      return begin + (b / kUnit * rows + row) * kScaleBytes;
    return begin +
           (b / kUnit * kUnit * rows + row * blocks_of_unit<kWhole>(b, blocks) + b % kUnit) *
               kScaleBytes;
  }
  static __device__ __forceinline__ long long tail_at(long long row, long long b, long long rows,
                                                      long long blocks) {
    return scale_at(0, 0, rows, blocks) + rows * (blocks / kUnit) * kScaleBytes +
           (b / kUnit * rows + row) * kTailBytes;
  }

  // The element in `column` of row `row`, as the stored format has it.
  static __device__ __forceinline__ float element_at(const Byte *w, long long row, long long column,
                                                     long long rows, long long blocks) {
    const long long b = column / kBlock, first = b / kUnit * kUnit;
    const int place = int(column % kBlock), i = int(b % kUnit);
    const int q = kHasHalves ? place % 16 / 4 : place / 8;
    const int e = kHasHalves ? place % 4 + place / 16 * 4 : place % 8;
    const Byte *low = w + low_at(row, first, q, blocks);
    const Byte *tail = w + tail_at(row, first, rows, blocks);
    unsigned quant = 0;
    if constexpr (kIsNarrow) {
      const Byte *high = w + high_at(row, first, q, rows, blocks) - 16,
                 *scales = w + scale_at(row, b, rows, blocks);
      for (int j = 0; j < kLow + kHigh; ++j)
        quant |= bits_of<1>(narrow_bit(i, e, j) < 128 ? low : high, narrow_bit(i, e, j)) << j;
      const int h = place / 16;
      const unsigned part = bits_of<4>(scales, scale_bit(i, h)) |
                            (kFormat == 26 ? bits_of<4>(scales, least_bit(i, h))
                                           : bits_of<2>(scales, upper_bit(i, h)))
                                << 4;
      return BlockFormat<kFormat>::element_of(
          BlockFormat<kFormat>::template narrow_part<1>(int(part), tail), quant, 0);
    }
    if constexpr (kLow < 8)
      quant = bits_at<kLow>(low, i, e);
    else
      quant = low[8 * i + e];
    if constexpr (kHigh > 0) {
      const Byte *high = w + high_at(row, first, q, rows, blocks);
      const bool is_whole = blocks_of_unit(first, blocks) == kUnit;
      quant |= (is_whole ? bits_at<kHigh>(high, i, e) : high[i] >> (e / 2 + e % 2 * 4) & 1) << kLow;
    }
    return BlockFormat<kFormat>::element_of(
        BlockFormat<kFormat>::template part_of<1>(w + scale_at(row, b, rows, blocks), tail, i,
                                                  place / 16),
        quant, 0);
  }
  template <int kBits>
  static __device__ __forceinline__ unsigned bits_at(const Byte *words, int i, int e) {
    return bits_of<kBits>(words, word<kBits>(i, e) * 32 + bit<kBits>(i, e));
  }
  // Takes kBits from one byte.
  template <int kBits>
  static __device__ __forceinline__ unsigned bits_of(const Byte *from, int at) {
    return from[at / 8] >> at % 8 & ((1u << kBits) - 1);
  }
};

// What a lane has of blocks 2 p and 2 p + 1 of a narrow format: of block 2 p + c, its quants begin
// in q2_k at bit 2 c of word j, of pair j; in q3_k at bit 3 c of words 0, 1 and 2, and pair 3 at
// bit kFourthBit of word 3 + c.
template <int kFormat> struct NarrowWords {
  static constexpr int kBits = Repacked<kFormat>::kLow + Repacked<kFormat>::kHigh, kFourthBit = 6;
  static constexpr unsigned kMask = (1u << kBits) * 0x00010001u - 0x00010001u;
  unsigned word[5];

  // Takes the words of four blocks: of the first two or, if `later`, of the others, which q2_k has
  // 4 bits above.
  __device__ __forceinline__ NarrowWords(unsigned first, unsigned second, unsigned third,
                                         bool later) {
    if constexpr (kFormat == 26) {
      word[0] = first, word[1] = first >> 8, word[2] = second, word[3] = second >> 8;
    } else {
      const int shift = later ? 9 : 0;
      word[0] = first >> shift, word[1] = second >> shift, word[2] = third >> shift;
      const unsigned upper = first >> 9 & 0x00400040u | second >> 8 & 0x00800080u;
      word[3] = later ? third : first;
      word[4] = later ? upper | third >> 7 & 0x01000100u : second;
    }
  }
  // Pair j of block c, all at bit kBits * c, and `into`.
  template <int c>
  __device__ __forceinline__ void put_into(unsigned into, unsigned (&pair)[4]) const {
    pair[0] = word[0] & kMask << kBits * c | into;
    pair[1] = word[1] & kMask << kBits * c | into;
    pair[2] = word[2] & kMask << kBits * c | into;
    if constexpr (kFormat == 26)
      pair[3] = word[3] & kMask << kBits * c | into;
    else
      pair[3] = word[3 + c] >> (kFourthBit - kBits * c) & kMask << kBits * c | into;
  }
};
// Blocks 2 p and 2 p + 1 of a unit, as lanes have it.
template <int kFormat>
__device__ __forceinline__ NarrowWords<kFormat> narrow_words(const unsigned *low,
                                                             const unsigned *high, int p) {
  const int four = p / 2, shift = kFormat == 26 ? p % 2 * 4 : 0;
  return {low[2 * four] >> shift, low[2 * four + 1] >> shift, kFormat == 26 ? 0 : high[four],
          p % 2 == 1};
}

// Reads the scales that lane q wants of a unit of a narrow format: its half's scales, and the rest
// of them or the leasts, as two words, those of blocks q and q + 4.
template <int kFormat, bool kGlobal, int kWords>
__device__ __forceinline__ void read_scales(unsigned (&to)[kWords], const Byte *from, int q) {
  const auto word = [&](int at) {
    const unsigned *p = reinterpret_cast<const unsigned *>(from + at);
    if constexpr (kGlobal)
      return __ldg(p);
    return *p;
  };
  to[0] = word(q / 2 * 4);
  if constexpr (kFormat == 26 && kWords == 2)
    to[1] = *reinterpret_cast<const unsigned short *>(from + 8 + 2 * q);
  else
    to[1] = word(8);
  if constexpr (kWords > 2)
    to[2] = word(12);
}

__device__ __forceinline__ float half_of(unsigned word, int which) {
  return __half2float(__ushort_as_half((unsigned short)(word >> which * 16)));
}
// A byte of a word times 2^-24: that is what it is as the last bits of an f16.
__device__ __forceinline__ float byte_of(unsigned word, int which) {
  return half_of(__byte_perm(word, 0, which < 2 ? 0x4140 : 0x4342), which % 2);
}

// Words that lie at a multiple of 16 bytes, or of the largest power of 2 that divides their size.
template <int kWords> __device__ __forceinline__ void read_words(unsigned *to, const Byte *from) {
  if constexpr (kWords % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i) {
      const uint4 word = __ldg(reinterpret_cast<const uint4 *>(from) + i);
      to[4 * i] = word.x, to[4 * i + 1] = word.y, to[4 * i + 2] = word.z, to[4 * i + 3] = word.w;
    }
  } else if constexpr (kWords % 2 == 0) {
#pragma unroll
    for (int i = 0; i < kWords / 2; ++i) {
      const uint2 word = __ldg(reinterpret_cast<const uint2 *>(from) + i);
      to[2 * i] = word.x, to[2 * i + 1] = word.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      to[i] = __ldg(reinterpret_cast<const unsigned *>(from) + i);
  }
}

// What lane 4 kGroup + q has, for all lanes of that q.
template <int kGroup> __device__ __forceinline__ float of_lanes(float value) {
  float got;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x31f, 0xffffffff;"
               : "=f"(got)
               : "f"(value), "n"(kGroup * 4));
  return got;
}
