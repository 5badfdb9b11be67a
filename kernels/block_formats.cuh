// Formats of blocks, as GGUF stores weights: an element is quant * scale, or quant * scale + least,
// each rounded once, and equal bit for bit to what the format's own description gives in f32.
//
//   FORMAT  name     elements  bytes of a block, in order
//   40      q4_0     32        scale (f16), 16 of nibbles                          quant: nibble - 8
//   41      q4_1     32        scale, least (f16), 16 of nibbles                   nibble
//   50      q5_0     32        scale, 32 fifth bits, 16 of nibbles                 5 bits - 16
//   51      q5_1     32        scale, least, 32 fifth bits, 16 of nibbles          5 bits
//   80      q8_0     32        scale, 32 signed bytes                              byte
//   49      iq4_nl   32        scale, 16 of nibbles                                kNonlinear[nibble]
//   26      q2_k     256       16 of scales and leasts (4 bits each), 64 of pairs of bits, d, m
//   36      q3_k     256       32 of third bits, 64 of pairs, 12 of scales (6 bits), d
//   46      q4_k     256       d, m, 12 of scales and leasts (6 bits each), 128 of nibbles
//   56      q5_k     256       d, m, 12 of scales and leasts, 32 of fifth bits, 128 of nibbles
//   66      q6_k     256       128 of nibbles, 64 of pairs (upper bits), 16 scales (i8), d
//
// Blocks of 32 have the low nibbles of their bytes first, then the high ones. Larger blocks are
// eight units of 32 elements: the scale of a part of 16 (q2_k, q3_k, q6_k) or of 32 elements is d
// times the part's own, and its least is -m times that.
//
// Option: -DFORMAT, a name below or its number. Blocks begin at even addresses at best, and are read byte by byte.
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

constexpr int kUnit = 32;                      // elements
constexpr bool kIsLarge = FORMAT % 10 == 6;    // of 256 elements
constexpr int kUnits = kIsLarge ? 8 : 1;       // of a block
constexpr int kBytes = FORMAT == 40   ? 18     // of a block
                       : FORMAT == 41 ? 20
                       : FORMAT == 50 ? 22
                       : FORMAT == 51 ? 24
                       : FORMAT == 80 ? 34
                       : FORMAT == 49 ? 18
                       : FORMAT == 26 ? 84
                       : FORMAT == 36 ? 110
                       : FORMAT == 46 ? 144
                       : FORMAT == 56 ? 176
                                      : 210;
constexpr bool kHasLeast =
    FORMAT == 41 || FORMAT == 51 || FORMAT == 26 || FORMAT == 46 || FORMAT == 56;

__device__ __forceinline__ float half_at(const Byte *p) {
  return __half2float(__ushort_as_half((unsigned short)(p[0] | p[1] << 8)));
}

struct Part {
  float scale, least;
};

// Of the half (0 or 1) of a unit's elements.
__device__ __forceinline__ Part part_of(const Byte *block, int unit, int half) {
  const int part = unit * 2 + half;
  (void)part;
#if FORMAT == 26
  const int both = block[part];
  return {half_at(block + 80) * float(both & 15), -(half_at(block + 82) * float(both >> 4))};
#elif FORMAT == 36
  const Byte *scales = block + 96;
  const int low = part < 8 ? scales[part] & 15 : scales[part - 8] >> 4;
  const int high = scales[8 + part % 4] >> part / 4 * 2 & 3;
  return {half_at(block + 108) * float((low | high << 4) - 32), 0.0f};
#elif FORMAT == 46 || FORMAT == 56
  const Byte *six = block + 4;
  const int at = unit % 4;
  const int scale = unit < 4 ? six[at] & 63 : (six[8 + at] & 15) | (six[at] >> 2 & 48);
  const int least = unit < 4 ? six[4 + at] & 63 : six[8 + at] >> 4 | (six[4 + at] >> 2 & 48);
  return {half_at(block) * float(scale), -(half_at(block + 2) * float(least))};
#elif FORMAT == 66
  return {half_at(block + 208) * float((signed char)(block[192 + part])), 0.0f};
#else
  return {half_at(block), kHasLeast ? half_at(block + 2) : 0.0f};
#endif
}

#if FORMAT == 49
__device__ __forceinline__ int nonlinear(int nibble) {
  constexpr signed char kNonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
  return kNonlinear[nibble];
}
#endif

// Of element `place` of a unit.
__device__ __forceinline__ int quant_of(const Byte *block, int unit, int place) {
  (void)unit;
#if FORMAT == 80
  return (signed char)(block[2 + place]);
#elif FORMAT == 40 || FORMAT == 41 || FORMAT == 50 || FORMAT == 51 || FORMAT == 49
  constexpr int kHead = kBytes - 16;
  const int nibble = block[kHead + place % 16] >> (place < 16 ? 0 : 4) & 15;
#if FORMAT == 49
  return nonlinear(nibble);
#elif FORMAT == 50 || FORMAT == 51
  const int fifth = block[kHead - 4 + place / 8] >> place % 8 & 1;
  return (nibble | fifth << 4) - (FORMAT == 50 ? 16 : 0);
#else
  return nibble - (FORMAT == 40 ? 8 : 0);
#endif
#elif FORMAT == 26 || FORMAT == 36
  const Byte *pairs = block + (FORMAT == 26 ? 16 : 32);
  const int pair = pairs[unit / 4 * 32 + place] >> unit % 4 * 2 & 3;
#if FORMAT == 26
  return pair;
#else
  return pair - (block[place] >> unit & 1 ? 0 : 4);
#endif
#elif FORMAT == 46 || FORMAT == 56
  const Byte *nibbles = block + (FORMAT == 46 ? 16 : 48);
  const int nibble = nibbles[unit / 2 * 32 + place] >> unit % 2 * 4 & 15;
#if FORMAT == 46
  return nibble;
#else
  return nibble | (block[16 + place] >> unit & 1) << 4;
#endif
#else
  const int nibble = block[unit / 4 * 64 + unit % 2 * 32 + place] >> unit / 2 % 2 * 4 & 15;
  const int pair = block[128 + unit / 4 * 32 + place] >> unit % 4 * 2 & 3;
  return (nibble | pair << 4) - 32;
#endif
}

__device__ __forceinline__ float element_of(const Part &part, int quant) {
  return kHasLeast ? fmaf(float(quant), part.scale, part.least) : float(quant) * part.scale;
}
