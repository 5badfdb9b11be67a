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
// has elements 8 q to 8 q + 7 of each block, or, where both halves of a block have scales of their
// own, 4 q to 4 q + 3 of each half. Of kBits bits of each they are kBits bytes a block, and lie
// side by side for all blocks of a unit.
//
// clang-format off
//   format               low  high  scales of a block or unit, as GGUF has them
//   q4_0, q4_1, iq4_nl   4          scale (f16), in q4_1 with its least
//   q5_0, q5_1           4    1     scale (f16), in q5_1 with its least
//   q8_0                 8          scale (f16)
//   q2_k                 2          16 of scales and leasts; then d and m
//   q3_k                 2    1     12 of scales; then d
//   q4_k, q5_k           4    0, 1  d, m, 12 of scales and leasts
//   q6_k                 4    2     16 scales; then d
// clang-format on
//
// In a word, bits of elements 2 j of a block lie 16 below those of 2 j + 1, as halves of one
// register: at j * kBits, behind those of the blocks that share the word (kBits < 4). Of 8 bits,
// byte e is element e, with 128 added; of iq4_nl, nibble e. High bits of q3_k lie 2 j + 2 above
// where their block begins, as low ones want them: at 0, 1, 8 and 9, going round in their half.
// High bits of a unit that is not whole are a byte a block: elements 2 j in its low half.
#pragma once

#include "linear/block_formats.cuh"

constexpr int kBlock = kUnitSize;

template <int kFormat> struct Repacked {
  static constexpr bool kIsLarge = BlockFormat<kFormat>::kIsLarge;
  static constexpr bool kHasHalves = kFormat == 26 || kFormat == 36 || kFormat == 66;
  static constexpr int kUnit = kIsLarge ? 8 : 4;
  static constexpr int kLow = kFormat == 80 ? 8 : kFormat == 26 || kFormat == 36 ? 2 : 4;
  static constexpr int kHigh = kFormat == 66 ? 2 : kFormat == 36 || kFormat / 10 == 5 ? 1 : 0;
  // Bytes of scales, of a block or of a unit of a large format, and of d, which lies elsewhere.
  static constexpr int kScaleBytes = kIsLarge                          ? (kFormat == 36 ? 12 : 16)
                                     : BlockFormat<kFormat>::kHasLeast ? 4
                                                                       : 2;
  static constexpr int kTailBytes = kFormat == 26 ? 4 : kHasHalves ? 2 : 0;
  // Whether words of the last part begin at multiples of 4, or end in it, only where there is an
  // even number of blocks or units.
  static constexpr bool kWantsEven = kTailBytes == 2 || kFormat == 50;

  // Element e (0 to 7) of lane q.
  static __device__ __forceinline__ int element(int q, int e) {
    return kHasHalves ? 4 * q + e % 4 + e / 4 * 16 : 8 * q + e;
  }
  // Of kBits of an element of block `i` of a unit, the place in their word.
  template <int kBits> static constexpr __device__ __forceinline__ int bit(int i, int e) {
    return kFormat == 49                 ? 4 * e
           : kFormat == 36 && kBits == 1 ? (i % 2 + i % 4 / 2 * 8 + e / 2 * 2 + 2) % 16 + e % 2 * 16
                                         : i % (4 / kBits) * 4 * kBits + e / 2 * kBits + e % 2 * 16;
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
    unsigned quant;
    if constexpr (kLow < 8)
      quant = bits_at<kLow>(low, i, e);
    else
      quant = low[8 * i + e];
    if constexpr (kHigh > 0) {
      const Byte *high = w + high_at(row, first, q, rows, blocks);
      const bool is_whole = blocks_of_unit(first, blocks) == kUnit;
      quant |= (is_whole ? bits_at<kHigh>(high, i, e) : high[i] >> (e / 2 + e % 2 * 4) & 1) << kLow;
    }
    const Byte *tail = w + tail_at(row, first, rows, blocks);
    return BlockFormat<kFormat>::element_of(
        BlockFormat<kFormat>::template part_of<1>(w + scale_at(row, b, rows, blocks), tail, i,
                                                  place / 16),
        quant, 0);
  }
  template <int kBits>
  static __device__ __forceinline__ unsigned bits_at(const Byte *words, int i, int e) {
    const int at = i * kBits / 4 * 32 + bit<kBits>(i, e);
    return words[at / 8] >> at % 8 & ((1u << kBits) - 1);
  }
};
