// Formats of blocks, as GGUF stores weights: an element is quant * scale, or quant * scale + least,
// each rounded once, and equal bit for bit to what the format's own description gives in f32.
//
// clang-format off
//   kFormat  name    elements  bytes of a block, in order                                quant
//   40       q4_0    32        scale (f16), 16 of nibbles                                nibble - 8
//   41       q4_1    32        scale, least (f16), 16 of nibbles                         nibble
//   50       q5_0    32        scale, 32 fifth bits, 16 of nibbles                       5 bits - 16
//   51       q5_1    32        scale, least, 32 fifth bits, 16 of nibbles                5 bits
//   80       q8_0    32        scale, 32 signed bytes                                    byte
//   49       iq4_nl  32        scale, 16 of nibbles                                      nonlinear(nibble)
//   26       q2_k    256       16 of scales and leasts (4 bits each), 64 of pairs of bits, d, m
//   36       q3_k    256       32 of third bits, 64 of pairs, 12 of scales (6 bits), d
//   46       q4_k    256       d, m, 12 of scales and leasts (6 bits each), 128 of nibbles
//   56       q5_k    256       d, m, 12 of scales and leasts, 32 of fifth bits, 128 of nibbles
//   66       q6_k    256       128 of nibbles, 64 of pairs (upper bits), 16 scales (i8), d
// clang-format on
//
// Blocks of 32 have the low nibbles of their bytes first, then the high ones. Larger blocks are
// eight units of 32 elements: the scale of a part of 16 (q2_k, q3_k, q6_k) or of 32 elements is d
// times the part's own, and its least is -m times that.
//
// Quants are taken four neighbours at a time. Blocks begin where their size allows it, at multiples
// of 4 or of 2, and are read in words of so many bytes there; kAlign is 4, 2, or 1 for anywhere.
#pragma once

#include <cuda_fp16.h>

typedef unsigned char Byte;

#define FORMAT_q4_0 40
#define FORMAT_q4_1 41
#define FORMAT_iq4_nl 49
#define FORMAT_q5_0 50
#define FORMAT_q5_1 51
#define FORMAT_q8_0 80
#define FORMAT_q2_k 26
#define FORMAT_q3_k 36
#define FORMAT_q4_k 46
#define FORMAT_q5_k 56
#define FORMAT_q6_k 66

constexpr int kUnitSize = 32; // elements

// Two bytes, and four.
template <int kAlign> __device__ __forceinline__ unsigned pair_at(const Byte *p) {
  if constexpr (kAlign >= 2)
    return *reinterpret_cast<const unsigned short *>(p);
  return p[0] | p[1] << 8;
}
template <int kAlign> __device__ __forceinline__ unsigned word_at(const Byte *p) {
  if constexpr (kAlign >= 4)
    return *reinterpret_cast<const unsigned *>(p);
  return pair_at<kAlign>(p) | pair_at<kAlign>(p + 2) << 16;
}

struct Part {
  float scale, least;
};

template <int kFormat> struct BlockFormat {
  static constexpr bool kIsLarge = kFormat % 10 == 6; // of 256 elements
  static constexpr int kUnits = kIsLarge ? 8 : 1;     // of a block
  static constexpr int kBytes = kFormat == 40   ? 18  // of a block
                                : kFormat == 41 ? 20
                                : kFormat == 50 ? 22
                                : kFormat == 51 ? 24
                                : kFormat == 80 ? 34
                                : kFormat == 49 ? 18
                                : kFormat == 26 ? 84
                                : kFormat == 36 ? 110
                                : kFormat == 46 ? 144
                                : kFormat == 56 ? 176
                                                : 210;
  static constexpr int kNatural = kBytes % 4 == 0 ? 4 : 2; // kAlign of blocks that begin so
  static constexpr bool kHasLeast =
      kFormat == 41 || kFormat == 51 || kFormat == 26 || kFormat == 46 || kFormat == 56;

  // A quant is its bits less this.
  static constexpr int kBias = kFormat == 40   ? 8
                               : kFormat == 50 ? 16
                               : kFormat == 80 ? 128
                               : kFormat == 36 ? 4
                               : kFormat == 66 ? 32
                                               : 0;
  // Where scales begin in a block, and d where it lies apart.
  static constexpr int kScales = kFormat == 36 ? 96 : kFormat == 66 ? 192 : 0;
  static constexpr int kTail = kFormat == 26 ? 80 : kFormat == 36 ? 108 : kFormat == 66 ? 208 : 0;

  template <int kAlign> static __device__ __forceinline__ float half_at(const Byte *p) {
    return __half2float(__ushort_as_half((unsigned short)(pair_at<kAlign>(p))));
  }

  // The part of the half (0 or 1) of a unit's elements, read where scales and d lie.
  template <int kAlign>
  static __device__ __forceinline__ Part part_of(const Byte *scales, const Byte *tail, int unit,
                                                 int half) {
    const int part = unit * 2 + half;
    if constexpr (kFormat == 26 || kFormat == 36) {
      return narrow_part<kAlign>(scale_bits(scales, part), tail);
    } else if constexpr (kFormat == 46 || kFormat == 56) {
      const Byte *six = scales + 4;
      const int at = unit % 4;
      const int scale = unit < 4 ? six[at] & 63 : (six[8 + at] & 15) | (six[at] >> 2 & 48);
      const int least = unit < 4 ? six[4 + at] & 63 : six[8 + at] >> 4 | (six[4 + at] >> 2 & 48);
      return {half_at<kAlign>(scales) * float(scale),
              -(half_at<kAlign>(scales + 2) * float(least))};
    } else if constexpr (kFormat == 66) {
      return {half_at<kAlign>(tail) * float((signed char)(scales[part])), 0.0f};
    } else {
      return {half_at<kAlign>(scales), kHasLeast ? half_at<kAlign>(scales + 2) : 0.0f};
    }
  }
  // The scale of part 2 * unit + half in a format of two or three bits, and from bit 4 on the
  // least of q2_k. narrow_part multiplies them by d.
  static __device__ __forceinline__ int scale_bits(const Byte *scales, int part) {
    if constexpr (kFormat == 26)
      return scales[part];
    const int low = part < 8 ? scales[part] & 15 : scales[part - 8] >> 4;
    return low | (scales[8 + part % 4] >> part / 4 * 2 & 3) << 4;
  }
  template <int kAlign>
  static __device__ __forceinline__ Part narrow_part(int bits, const Byte *tail) {
    if constexpr (kFormat == 26)
      return {half_at<kAlign>(tail) * float(bits & 15),
              -(half_at<kAlign>(tail + 2) * float(bits >> 4))};
    return {half_at<kAlign>(tail) * float(bits - 32), 0.0f};
  }
  template <int kAlign>
  static __device__ __forceinline__ Part part_of(const Byte *block, int unit, int half) {
    return part_of<kAlign>(block + kScales, block + kTail, unit, half);
  }

  // The quants of elements `place` (a multiple of 4) to `place` + 3 of a unit: a byte each, not
  // negative.
  template <int kAlign>
  static __device__ __forceinline__ unsigned quants_of(const Byte *block, int unit, int place) {
    constexpr unsigned kNibbles = 0x0f0f0f0f, kPairs = 0x03030303, kBits = 0x01010101;
    if constexpr (kFormat == 80) {
      return word_at<kAlign>(block + 2 + place) ^ 0x80808080u;
    } else if constexpr (!kIsLarge) {
      constexpr int kHead = kBytes - 16;
      const unsigned nibbles =
          word_at<kAlign>(block + kHead + place % 16) >> (place < 16 ? 0 : 4) & kNibbles;
      if constexpr (kFormat == 50 || kFormat == 51) {
        const unsigned fifth = block[kHead - 4 + place / 8] >> place % 8 & 15; // four bits
        return nibbles | (fifth & 1) << 4 | (fifth & 2) << 11 | (fifth & 4) << 18 |
               (fifth & 8) << 25;
      }
      return nibbles;
    } else if constexpr (kFormat == 26 || kFormat == 36) {
      const Byte *pairs = block + (kFormat == 26 ? 16 : 32);
      const unsigned pair = word_at<kAlign>(pairs + unit / 4 * 32 + place) >> unit % 4 * 2 & kPairs;
      if constexpr (kFormat == 26)
        return pair;
      return pair | (word_at<kAlign>(block + place) >> unit & kBits) << 2;
    } else if constexpr (kFormat == 46 || kFormat == 56) {
      const Byte *nibbles = block + (kFormat == 46 ? 16 : 48);
      const unsigned nibble =
          word_at<kAlign>(nibbles + unit / 2 * 32 + place) >> unit % 2 * 4 & kNibbles;
      if constexpr (kFormat == 46)
        return nibble;
      return nibble | (word_at<kAlign>(block + 16 + place) >> unit & kBits) << 4;
    } else {
      const unsigned nibble =
          word_at<kAlign>(block + unit / 4 * 64 + unit % 2 * 32 + place) >> unit / 2 % 2 * 4 &
          kNibbles;
      const unsigned pair =
          word_at<kAlign>(block + 128 + unit / 4 * 32 + place) >> unit % 4 * 2 & kPairs;
      return nibble | pair << 4;
    }
  }

  static __device__ __forceinline__ int nonlinear(int nibble) {
    constexpr signed char kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
    return kValues[nibble];
  }
  // Element e of four.
  static __device__ __forceinline__ float element_of(const Part &part, unsigned quants, int e) {
    const int byte = quants >> e * 8 & 255;
    const float quant = float(kFormat == 49 ? nonlinear(byte) : byte - kBias);
    return kHasLeast ? fmaf(quant, part.scale, part.least) : quant * part.scale;
  }
};
