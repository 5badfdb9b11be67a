// Products with a matrix of repacked blocks (repacked.cuh) on tensor cores, by a warp: 16 columns
// of y for 8 rows of x, of f16 and bf16.
//
// An mma has 16 rows of w on the left and rows of x, as columns, on the right. Of a unit, lane
// 4 g + q reads what is its own of rows g and g + 8 of w, and the same elements of row g of x:
// which elements of k an mma multiplies with which others is all the same, as long as both sides
// agree. Quants are exact in f16 and bf16, and sums over a block, or half of one, are in f32, to
// which the scale comes once; d comes to the sum over a unit. A least is times the sum over x,
// which is the product of x with ones. Bound by reading w once, whatever the number of rows: all of
// a unit is asked for before the first of it is used.
// An infinity in x gives NaN.
#pragma once

#include <cuda_fp16.h>

#include "floating.cuh"
#include "mma.cuh"
#include "repacked.cuh"

#if __CUDA_ARCH__ >= 800

// Quants in a register of two f16 or bf16, with how far they are off: value = (number - kOffset) *
// kFactor. As f16 a whole number is the last bits of a subnormal one, a multiple of 2^-24; as bf16,
// where products of such would be lost, of 128, whose steps are 1. Of 8 bits there is no room for
// that in bf16.
template <int kFormat> struct Numbers {
  static constexpr int kBias = kFormat == 40   ? 8
                               : kFormat == 50 ? 16
                               : kFormat == 80 ? 128
                               : kFormat == 36 ? 4
                               : kFormat == 66 ? 32
                                               : 0;
  // Where each half of a block would want sums of x for that alone, it is subtracted.
  static constexpr bool kSubtracts =
      Repacked<kFormat>::kHasHalves && !BlockFormat<kFormat>::kHasLeast;
#ifdef DTYPE_F16
  static constexpr unsigned kBits = 0, kOne = kFormat == 49 ? 0x3c003c00 : 0x00010001;
  static constexpr float kFactor = kFormat == 49 ? 1 : 16777216;
  static constexpr int kOff = kBias;
#else
  static constexpr unsigned kBits = 0x43004300, kOne = 0x3f803f80;
  static constexpr float kFactor = 1;
  static constexpr int kOff = kFormat == 49 || kFormat == 80 ? 0 : 128 + kBias;
#endif
  static constexpr float kOffset = kSubtracts ? 0 : kOff;

  static __device__ __forceinline__ unsigned subtracted(unsigned pair) {
#ifdef DTYPE_F16
    constexpr unsigned kTwo = kOff * 0x00010001u;
    const __half2 value = __hsub2(*reinterpret_cast<const __half2 *>(&pair),
                                  *reinterpret_cast<const __half2 *>(&kTwo));
#else
    const __nv_bfloat162 value =
        __hsub2(*reinterpret_cast<const __nv_bfloat162 *>(&pair), __float2bfloat162_rn(kOff));
#endif
    return *reinterpret_cast<const unsigned *>(&value);
  }
  // Whether sums of x are wanted, in the same steps.
  static constexpr bool kHasSums = kOffset != 0 || BlockFormat<kFormat>::kHasLeast;
};

// As multiply, of sums that begin at 0.
__device__ __forceinline__ void multiply_first(float (&sum)[4], const unsigned (&a)[4], unsigned c0,
                                               unsigned c1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPES
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
               : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(c0), "r"(c1), "f"(0.0f));
}

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

// The entries of a table that four nibbles choose, from bit `shift` on: their lower three bits are
// in `within`, and `half`'s nibble e is e where the upper one is 0, else 4 + e.
__device__ __forceinline__ unsigned entries(const unsigned (&table)[4], unsigned within,
                                            unsigned half, int shift) {
  return __byte_perm(__byte_perm(table[0], table[1], within >> shift),
                     __byte_perm(table[2], table[3], within >> shift), half >> shift);
}

// What a lane has of block i of its unit, all eight elements: pair j is elements 2 j and 2 j + 1.
template <int kFormat, int i>
__device__ __forceinline__ void pairs_of(const unsigned *low, const unsigned *high,
                                         unsigned (&pair)[4]) {
  typedef Repacked<kFormat> Layout;
  if constexpr (kFormat == 49) {
    // The 16 values as f16 or bf16, their lower bytes and their upper ones.
#ifdef DTYPE_F16
    const unsigned lows[4] = {0x103080f0, 0x00806020, 0xc0408000, 0x109050a0},
                   highs[4] = {0xd4d5d6d7, 0xc9cdd0d2, 0x504e4a3c, 0x57555452};
#else
    const unsigned lows[4] = {0x82a6d0fe, 0x20b00c44, 0x18c85080, 0xe2b28a54},
                   highs[4] = {0xc2c2c2c2, 0xc1c1c2c2, 0x4241413f, 0x42424242};
#endif
    const unsigned within = low[i] & 0x77777777u, half = low[i] >> 1 & 0x44444444u | 0x32103210u;
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      const unsigned lower = entries(lows, within, half, j * 8),
                     upper = entries(highs, within, half, j * 8);
      pair[j] = __byte_perm(lower, upper, 0x5140);
      pair[j + 1] = __byte_perm(lower, upper, 0x7362);
    }
  } else if constexpr (kFormat != 80) {
    constexpr int kLow = Layout::kLow, kHigh = Layout::kHigh, kWord = i * kLow / 4;
    constexpr unsigned kBits = Numbers<kFormat>::kBits;
    constexpr int kPlace = i % (4 / kLow) * 4 * kLow;
    pair[0] = with_bits<kLow, kPlace, 0>(low[kWord], kBits);
    pair[1] = with_bits<kLow, kPlace + kLow, 0>(low[kWord], kBits);
    pair[2] = with_bits<kLow, kPlace + 2 * kLow, 0>(low[kWord], kBits);
    pair[3] = with_bits<kLow, kPlace + 3 * kLow, 0>(low[kWord], kBits);
    if constexpr (kHigh > 0) {
      constexpr int kUpper = i % (4 / kHigh) * 4 * kHigh;
      const unsigned word = high[i * kHigh / 4];
      pair[0] = with_bits<kHigh, kUpper, kLow>(word, pair[0]);
      pair[1] = with_bits<kHigh, kUpper + kHigh, kLow>(word, pair[1]);
      pair[2] = with_bits<kHigh, kUpper + 2 * kHigh, kLow>(word, pair[2]);
      pair[3] = with_bits<kHigh, kUpper + 3 * kHigh, kLow>(word, pair[3]);
    }
    if constexpr (Numbers<kFormat>::kSubtracts)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        pair[j] = Numbers<kFormat>::subtracted(pair[j]);
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const unsigned word = low[2 * i + j / 2];
#ifdef DTYPE_F16
      pair[j] = __byte_perm(word, 0, j % 2 ? 0x4342 : 0x4140);
#else
      const float base = 8388608 + 128;
      const float first = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + j % 2 * 2));
      const float second = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7441 + j % 2 * 2));
      const __nv_bfloat162 value = __floats2bfloat162_rn(first - base, second - base);
      pair[j] = *reinterpret_cast<const unsigned *>(&value);
#endif
    }
  }
}

template <int kFormat> struct Lane { // what a lane reads of a unit
  typedef Repacked<kFormat> Layout;
  static constexpr int kUnit = Layout::kUnit, kLowWords = kUnit * Layout::kLow / 4,
                       kHighWords = kUnit * Layout::kHigh / 4,
                       kScaleWords = Layout::kScaleBytes * (Layout::kIsLarge ? 1 : kUnit) / 4;
  // Of rows g and g + 8 of w.
  unsigned low[2][kLowWords], high[2][kHighWords + 1], scales[2][kScaleWords], tail[2];
  uint4 right[kUnit]; // of row g of x
};

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

__device__ __forceinline__ float half_of(unsigned word, int which) {
  return __half2float(__ushort_as_half((unsigned short)(word >> which * 16)));
}
// A byte of a word times 2^-24: that is what it is as the last bits of an f16.
__device__ __forceinline__ float byte_of(unsigned word, int which) {
  return half_of(__byte_perm(word, 0, which < 2 ? 0x4140 : 0x4342), which % 2);
}

// The scales of a unit in one row of w, read but for d: of its blocks, or halves of blocks, whole
// numbers, four in a word.
template <int kFormat> struct UnitScales {
  unsigned scale[4], least[4];

  __device__ __forceinline__ explicit UnitScales(const unsigned *words) {
    constexpr unsigned kNibbles = 0x0f0f0f0f, kSix = 0x3f3f3f3f, kUpper = 0x30303030;
    if constexpr (kFormat == 46 || kFormat == 56) {
      scale[0] = words[1] & kSix;
      scale[1] = (words[3] & kNibbles) | (words[1] >> 2 & kUpper);
      least[0] = words[2] & kSix;
      least[1] = (words[3] >> 4 & kNibbles) | (words[2] >> 2 & kUpper);
    } else if constexpr (kFormat == 36) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        scale[i] = (words[i % 2] >> i / 2 * 4 & kNibbles) |
                   (i < 2 ? words[2] << (4 - 2 * i) : words[2] >> (2 * i - 4)) & kUpper;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scale[i] = kFormat == 66 ? words[i] : words[i] & kNibbles;
        least[i] = words[i] >> 4 & kNibbles;
      }
    }
  }
  // Both by kFactor.
  static constexpr float kFactor = kFormat == 66 ? 1 : 16777216;
  __device__ __forceinline__ float scale_of(int part) const {
    if constexpr (kFormat == 66) // with their signs
      return float((signed char)(scale[part / 4] >> part % 4 * 8));
    return byte_of(scale[part / 4], part % 4) - (kFormat == 36 ? 32 : 0) / kFactor;
  }
  __device__ __forceinline__ float least_of(int part) const {
    return byte_of(least[part / 4], part % 4);
  }
};

// Products of block i of the unit with x: of its halves, or of all of it in the first; `xs`: sums
// of x, likewise.
template <int kFormat, int i>
__device__ __forceinline__ void block_products(const unsigned *(&low)[2],
                                               const unsigned *(&high)[2], const uint4 &x,
                                               float (&products)[2][4], float (&xs)[2][4]) {
  constexpr int kSecond = Repacked<kFormat>::kHasHalves ? 1 : 0;
  unsigned up[4], down[4];
  pairs_of<kFormat, i>(low[0], high[0], up);
  pairs_of<kFormat, i>(low[1], high[1], down);
  multiply_first(products[0], {up[0], down[0], up[1], down[1]}, x.x, x.y);
  if constexpr (kSecond)
    multiply_first(products[1], {up[2], down[2], up[3], down[3]}, x.z, x.w);
  else
    multiply(products[0], {up[2], down[2], up[3], down[3]}, x.z, x.w);
  if constexpr (Numbers<kFormat>::kHasSums) {
    constexpr unsigned kOne = Numbers<kFormat>::kOne;
    multiply_first(xs[0], {kOne, kOne, kOne, kOne}, x.x, x.y);
    if constexpr (kSecond)
      multiply_first(xs[1], {kOne, kOne, kOne, kOne}, x.z, x.w);
    else
      multiply(xs[0], {kOne, kOne, kOne, kOne}, x.z, x.w);
  }
  if constexpr (Numbers<kFormat>::kOffset != 0)
#pragma unroll
    for (int h = 0; h <= kSecond; ++h)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        products[h][e] = fma(xs[h][e], -Numbers<kFormat>::kOffset, products[h][e]);
}

// Adds block i of a unit of a small format, with its scale, and least, in both rows.
template <int kFormat, int i>
__device__ __forceinline__ void add_block(const Lane<kFormat> &lane, const float (&scale)[2],
                                          const float (&least)[2], float (&sum)[4]) {
  const unsigned *low[2] = {lane.low[0], lane.low[1]}, *high[2] = {lane.high[0], lane.high[1]};
  float products[2][4], xs[2][4];
  block_products<kFormat, i>(low, high, lane.right[i], products, xs);
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    sum[e] = fma(products[0][e], scale[e / 2], sum[e]);
    if constexpr (BlockFormat<kFormat>::kHasLeast)
      sum[e] = fma(xs[0][e], least[e / 2], sum[e]);
  }
}

// The same of block i of a whole unit, and those behind it.
template <int kFormat, int i>
__device__ __forceinline__ void add_scaled(const Lane<kFormat> &lane, float (&sum)[4]) {
  constexpr bool kHasLeast = BlockFormat<kFormat>::kHasLeast;
  float scale[2], least[2];
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    scale[s] = half_of(lane.scales[s][kHasLeast ? i : i / 2], kHasLeast ? 0 : i % 2);
    least[s] = kHasLeast ? half_of(lane.scales[s][kHasLeast ? i : 0], 1) : 0;
  }
  add_block<kFormat, i>(lane, scale, least, sum);
  if constexpr (i + 1 < Repacked<kFormat>::kUnit)
    add_scaled<kFormat, i + 1>(lane, sum);
}

// Where a lane reads.
struct Places {
  const T *right;   // row g of x
  long long row[2]; // of w
  const Byte *w;
  long long n, blocks;
  int q;
};

// Two elements of x, wherever they begin.
__device__ __forceinline__ unsigned read_pair(const T *from) {
  const unsigned short *bits = reinterpret_cast<const unsigned short *>(from);
  return bits[0] | unsigned(bits[1]) << 16;
}

// A lane's elements of a block, of which `from` is the first.
template <int kFormat, bool kAligned> __device__ __forceinline__ uint4 read_right(const T *from) {
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

// Where what a lane has of whole units is, of row g of w, and how far behind it what it has of row
// g + 8. It goes on by `units` at a time, an even number: a d of two bytes stays in the same half
// of its word.
template <int kFormat> struct WholeUnits {
  typedef Repacked<kFormat> Layout;
  static constexpr int kScaleBytes = Layout::kScaleBytes * (Layout::kIsLarge ? 1 : Layout::kUnit);
  const Byte *low, *high, *scales, *tail;
  const T *right;
  long long scale_step;
  int rows_apart, low_apart, tail_apart, tail_bit[2], units;

  __device__ __forceinline__ WholeUnits(const Places &at, int unit, int units)
      : right(at.right + (long long)(unit)*Layout::kUnit * kBlock + Layout::element(at.q, 0)),
        scale_step(at.n * units), rows_apart(int(at.row[1] - at.row[0])),
        low_apart(rows_apart * int(at.blocks) * 4 * Layout::kLow), units(units) {
    const long long b = (long long)(unit)*Layout::kUnit;
    low = at.w + Layout::template low_at<true>(at.row[0], b, at.q, at.blocks);
    high = at.w + Layout::template high_at<true>(at.row[0], b, at.q, at.n, at.blocks);
    scales = at.w + Layout::template scale_at<true>(at.row[0], b, at.n, at.blocks);
    tail = at.w + Layout::tail_at(at.row[0], b, at.n, at.blocks);
    tail_apart = rows_apart * Layout::kTailBytes;
    if constexpr (Layout::kTailBytes == 2) { // words
      const int first = int((unsigned long long)(tail)&2), second = (first + tail_apart) & 2;
      tail -= first;
      tail_apart += first - second;
      tail_bit[0] = first * 8, tail_bit[1] = second * 8;
    }
  }
  __device__ __forceinline__ void go_on() {
    low += units * (Layout::kUnit * 4 * Layout::kLow);
    high += units * (Layout::kUnit * 4 * Layout::kHigh);
    scales += scale_step * kScaleBytes;
    tail += scale_step * Layout::kTailBytes;
    right += units * (Layout::kUnit * kBlock);
  }
};

// Adds block i of a unit of a large format, and those behind it.
template <int kFormat, int i>
__device__ __forceinline__ void add_parts(const Lane<kFormat> &lane,
                                          const UnitScales<kFormat> (&scales)[2], float (&sum)[4],
                                          float (&below)[4]) {
  constexpr int kParts = Repacked<kFormat>::kHasHalves ? 2 : 1;
  const unsigned *low[2] = {lane.low[0], lane.low[1]}, *high[2] = {lane.high[0], lane.high[1]};
  float products[2][4], xs[2][4];
  block_products<kFormat, i>(low, high, lane.right[i], products, xs);
#pragma unroll
  for (int h = 0; h < kParts; ++h)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sum[e] = fma(products[h][e], scales[e / 2].scale_of(i * kParts + h), sum[e]);
      if constexpr (BlockFormat<kFormat>::kHasLeast)
        below[e] = fma(xs[h][e], scales[e / 2].least_of(i * kParts + h), below[e]);
    }
  if constexpr (i + 1 < Repacked<kFormat>::kUnit)
    add_parts<kFormat, i + 1>(lane, scales, sum, below);
}

// All of a whole unit; with kAligned rows of x begin at multiples of 16 bytes, and halves at the
// end of w are in whole words.
template <int kFormat, bool kAligned>
__device__ __forceinline__ void add_unit(const WholeUnits<kFormat> &at, float (&sum)[4]) {
  typedef Repacked<kFormat> Layout;
  typedef Lane<kFormat> Own;
  Own lane;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    read_words<Own::kLowWords>(lane.low[s], at.low + s * at.low_apart);
    if constexpr (Own::kHighWords > 0)
      read_words<Own::kHighWords>(lane.high[s],
                                  at.high + s * (at.low_apart / Layout::kLow * Layout::kHigh));
    const int scales_apart = s * at.rows_apart * WholeUnits<kFormat>::kScaleBytes;
    read_words<Own::kScaleWords>(lane.scales[s], at.scales + scales_apart);
    const Byte *tail = at.tail + s * at.tail_apart;
    if constexpr (Layout::kTailBytes == 4)
      lane.tail[s] = __ldg(reinterpret_cast<const unsigned *>(tail));
    else if constexpr (Layout::kTailBytes == 2 && kAligned) // its neighbour is read, too
      lane.tail[s] = __ldg(reinterpret_cast<const unsigned *>(tail)) >> at.tail_bit[s];
    else if constexpr (Layout::kTailBytes == 2)
      lane.tail[s] = *reinterpret_cast<const unsigned short *>(tail + at.tail_bit[s] / 8);
  }
#pragma unroll
  for (int i = 0; i < Layout::kUnit; ++i)
    lane.right[i] = read_right<kFormat, kAligned>(at.right + i * kBlock);
  if constexpr (Layout::kIsLarge) {
    const UnitScales<kFormat> scales[2] = {UnitScales<kFormat>(lane.scales[0]),
                                           UnitScales<kFormat>(lane.scales[1])};
    float parts[4] = {}, below[4] = {};
    add_parts<kFormat, 0>(lane, scales, parts, below);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const unsigned d = Layout::kTailBytes > 0 ? lane.tail[e / 2] : lane.scales[e / 2][0];
      sum[e] = fma(parts[e], half_of(d, 0), sum[e]);
      if constexpr (BlockFormat<kFormat>::kHasLeast)
        sum[e] = fma(below[e], -half_of(d, 1), sum[e]);
    }
  } else {
    add_scaled<kFormat, 0>(lane, sum);
  }
}

// A unit of whatever size of a small format, block by block.
template <int kFormat>
__device__ __forceinline__ void add_blocks(const Places &at, long long unit, float (&sum)[4]) {
  typedef Repacked<kFormat> Layout;
  const long long begin = unit * Layout::kUnit;
  const int count = Layout::blocks_of_unit(begin, at.blocks);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const long long b = begin + i;
    Lane<kFormat> lane;
    float scale[2], least[2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Byte *low = at.w + Layout::low_at(at.row[s], b, at.q, at.blocks);
#pragma unroll
      for (int j = 0; j < Layout::kLow / 4; ++j)
        lane.low[s][j] = reinterpret_cast<const unsigned *>(low)[j];
      if constexpr (Layout::kHigh > 0) {
        const Byte *high = at.w + Layout::high_at(at.row[s], begin, at.q, at.n, at.blocks);
        if (count == Layout::kUnit) { // a word of all blocks: its bits, to where block 0's are
          const unsigned short *pairs = reinterpret_cast<const unsigned short *>(high);
          lane.high[s][0] = (pairs[0] | unsigned(pairs[1]) << 16) >> 4 * i;
        } else {
          lane.high[s][0] = (high[i] & 15u) | (high[i] >> 4) << 16;
        }
      }
      const unsigned short *halves = reinterpret_cast<const unsigned short *>(
          at.w + Layout::scale_at(at.row[s], b, at.n, at.blocks));
      scale[s] = half_of(halves[0], 0);
      least[s] = BlockFormat<kFormat>::kHasLeast ? half_of(halves[1], 0) : 0;
    }
    lane.right[0] = read_right<kFormat, false>(at.right + b * kBlock + Layout::element(at.q, 0));
    add_block<kFormat, 0>(lane, scale, least, sum);
  }
}

// The sums of rows of x with 16 rows of w, of the share of a warp: units `warp`, `warp` + `warps`,
// .. `right` is row g of x; sum[e] is of column g + 8 * (e / 2) and row 2 q + e % 2.
template <int kFormat>
__device__ __forceinline__ void repacked_sums(const Places &at, bool aligned, int warp, int warps,
                                              float (&sum)[4]) {
  typedef Repacked<kFormat> Layout;
  const int whole = int(at.blocks / Layout::kUnit);
  int unit = warp;
  WholeUnits<kFormat> units(at, unit, warps);
  if (aligned && (!Layout::kWantsEven || at.n * (Layout::kIsLarge ? whole : at.blocks) % 2 == 0))
#pragma unroll 1
    for (; unit < whole; unit += warps, units.go_on())
      add_unit<kFormat, true>(units, sum);
  if constexpr (Layout::kIsLarge) {
#pragma unroll 1
    for (; unit < whole; unit += warps, units.go_on())
      add_unit<kFormat, false>(units, sum);
  } else {
    const int all = int((at.blocks + Layout::kUnit - 1) / Layout::kUnit);
#pragma unroll 1
    for (; unit < all; unit += warps)
      add_blocks<kFormat>(at, unit, sum);
  }
  constexpr float kFactor =
      Numbers<kFormat>::kFactor * (Layout::kIsLarge ? UnitScales<kFormat>::kFactor : 1.0f);
#pragma unroll
  for (int e = 0; e < 4; ++e)
    sum[e] *= kFactor;
}

#endif
