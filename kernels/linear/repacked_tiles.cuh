// A warp's part of a tile of repacked blocks (repacked.cuh): 32 columns of y, in two halves of 16,
// and the fragments that it makes of 64 elements of k, which tensor cores multiply with 64 rows of
// x.
//
// A slot of the warp's ring in shared memory has a unit of its 32 rows of w. Quants lie as lanes
// read them: lane 4 g + q has its own parts of rows g, g + 8, g + 16 and g + 24.
//
// clang-format off
//   low bits   | row g: 16 bytes of each lane, the next 16 .. | row g + 8 | row g + 16 | row g + 24
//   high bits  | likewise, kHighBytes of each lane
//   scales     | row 0, row 1, .. row 31
//   d          | likewise, of q6_k: the word of global memory that has it
// clang-format on
//
// Numbers are exact. In f16 formats of 256 elements are multiplied by their whole scales first:
// both factors have few bits, and the product is a multiple of 2^-24 that f16 holds; d comes to the
// sum over a unit. A quant of q6_k has too many bits for that: its lower four and its upper two are
// two numbers. In bf16 so are narrow formats. Others are multiplied by their scales as sums over a
// block.
#pragma once

#include "linear/repacked_sums.cuh"

#if __CUDA_ARCH__ >= 800

// What bf16 rounds off.
__device__ __forceinline__ float less_bf16(float value) {
  return value - __bfloat162float(__float2bfloat16_rn(value));
}
// Bits of a word, as they lie.
__device__ __forceinline__ __half2 masked(unsigned word, unsigned mask) {
  return halves_of(word & mask);
}

// Two bytes of a word, 2 `which` and the next, as bf16 pair.
__device__ __forceinline__ unsigned bf16_of_bytes(unsigned word, int which) {
  return bf16_pair(float(word >> which * 16 & 255), float(word >> (which * 16 + 8) & 255));
}

template <int kFormat> struct WeightTile {
  typedef Repacked<kFormat> Layout;
  static constexpr int kUnit = Layout::kUnit, kLowBytes = kUnit * Layout::kLow,
                       kHighBytes = kUnit * Layout::kHigh,
                       kScaleBytes = Layout::kScaleBytes * (Layout::kIsLarge ? 1 : kUnit),
                       kTailBytes = Layout::kTailBytes > 0 ? 4 : 0;
  static constexpr int kHighAt = 4 * 32 * kLowBytes, kScalesAt = kHighAt + 4 * 32 * kHighBytes,
                       kTailAt = kScalesAt + 32 * kScaleBytes, kSlot = kTailAt + 32 * kTailBytes;
  static constexpr bool kFolds =
      (kIsF16 && Layout::kIsLarge) || Layout::kIsNarrow;    // scales, into numbers
  static constexpr int kNumbers = kFormat == 66 ? 2 : 1;    // of a quant, where it does
  static constexpr int kParts = Layout::kHasHalves ? 2 : 1; // of a block, with a scale each

  // Words of blocks 2 p and 2 p + 1 of the unit, of the lane's row j.
  struct Words {
    unsigned low[Layout::kLow / 2], high[1];
  };
  static __device__ __forceinline__ NarrowWords<kFormat> narrow(const Byte *slot, int j, int p,
                                                                int lane) {
    const int own = j * 32 + lane, shift = kFormat == 26 ? p % 2 * 4 : 0;
    const uint2 low = reinterpret_cast<const uint2 *>(slot + own * 16)[p / 2];
    unsigned high = 0;
    if constexpr (Layout::kHigh > 0)
      high = reinterpret_cast<const unsigned *>(slot + kHighAt + own * kHighBytes)[p / 2];
    return {low.x >> shift, low.y >> shift, high, p % 2 == 1};
  }
  static __device__ __forceinline__ Words words(const Byte *slot, int j, int p, int lane) {
    Words own;
    if constexpr (Layout::kLow == 8) {
      const uint4 four = reinterpret_cast<const uint4 *>(slot)[(j * 2 + p) * 32 + lane];
      own.low[0] = four.x, own.low[1] = four.y, own.low[2] = four.z, own.low[3] = four.w;
    } else {
      const Byte *chunk = slot + ((j * (kLowBytes / 16) + p / 2) * 32 + lane) * 16;
      const uint2 two = reinterpret_cast<const uint2 *>(chunk)[p % 2];
      own.low[0] = two.x, own.low[1] = two.y;
    }
    own.high[0] = 0;
    if constexpr (Layout::kHigh > 0) {
      const unsigned *bits =
          reinterpret_cast<const unsigned *>(slot + kHighAt + (j * 32 + lane) * kHighBytes);
      if constexpr (Layout::kHigh == 1)
        own.high[0] = bits[p / 2] >> p % 2 * 8;
      else
        own.high[0] = bits[p];
    }
    return own;
  }

  // The exact numbers of block 2 p + b, still to be multiplied by a scale.
  template <int b>
  static __device__ __forceinline__ void plain_numbers(const Words &own, unsigned (&pair)[4]) {
    typedef Numbers<kFormat> Numbers;
    if constexpr (kFormat == 40 && Numbers::kBits == 0) { // nibbles where they lie, in f16
      const __half2 less = halves_of(0x80088008u);        // 8 times 2^-24
      const __half2 sixteenth = __float2half2_rn(0.0625f);
      const unsigned word = own.low[b], upper = word >> 8;
      pair[0] = pair_of(__hadd2(masked(word, 0x000f000fu), less));
      pair[1] = pair_of(__hfma2(masked(word, 0x00f000f0u), sixteenth, less));
      pair[2] = pair_of(__hadd2(masked(upper, 0x000f000fu), less));
      pair[3] = pair_of(__hfma2(masked(upper, 0x00f000f0u), sixteenth, less));
    } else {
      pairs_of<kFormat, b>(own.low, own.high, pair);
      if constexpr (!Numbers::kSubtracts && Numbers::kOff != 0)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          pair[j] = Numbers::subtracted(pair[j]);
    }
  }

  // The scales of the lane's row j of a unit, of a narrow format.
  static __device__ __forceinline__ UnitScales<kFormat> narrow_scales(const Byte *slot, int j,
                                                                      int lane) {
    unsigned words[2];
    read_scales<kFormat, false>(words, slot + kScalesAt + (lane / 4 + 8 * j) * kScaleBytes,
                                lane % 4);
    return {words, lane % 4};
  }
  // Scales of blocks 2 p and 2 p + 1, of their halves where these have some, of the lane's row j of
  // a unit of 256 elements, a byte each; of narrow formats two bytes.
  static __device__ __forceinline__ unsigned scales_of(const Byte *slot, int j, int p, int lane) {
    const unsigned *words =
        reinterpret_cast<const unsigned *>(slot + kScalesAt + (lane / 4 + 8 * j) * kScaleBytes);
    if constexpr (kFormat == 66)
      return words[p];
    if constexpr (Layout::kIsNarrow)
      return narrow_scales(slot, j, lane).pair(p);
    const unsigned six = words[1] >> p % 2 * 16;
    return p < 2 ? six & 0x3f3fu : (words[3] >> p % 2 * 16 & 0x0f0fu) | (six >> 2 & 0x3030u);
  }
  // One of these scales.
  static __device__ __forceinline__ float scale_of(unsigned bytes, int which) {
    if constexpr (kFormat == 66)
      return float((signed char)(bytes >> which * 8));
    return float(bytes >> which * 8 & 255);
  }
  // d, and m where there is one, of a unit. Columns that a tile has beyond the last may have
  // another's.
  static __device__ __forceinline__ unsigned d_of(const Byte *slot, int j, int unit, long long n,
                                                  int lane) {
    const int own = lane / 4 + 8 * j;
    if constexpr (kTailBytes == 0)
      return *reinterpret_cast<const unsigned *>(slot + kScalesAt + own * kScaleBytes);
    const unsigned word = *reinterpret_cast<const unsigned *>(slot + kTailAt + own * 4);
    if constexpr (Layout::kTailBytes == 4)
      return word;
    return word >> (unsigned(unit) * unsigned(n) + own) % 2 * 16; // tiles begin at even columns
  }
  // Leasts of a unit, of the lane's row j: two that follow one another, of its blocks 2 q and 2 q +
  // 1; of q2_k of parts 8 * `later` + 2 q and the next. Whole numbers, exact in bf16; of formats of
  // 32 elements of blocks 2 (q % 2) and the next, and of q from 2 on what bf16 has rounded off.
  // With `half` a unit of these has two blocks.
  static __device__ __forceinline__ unsigned leasts_of(const Byte *slot, int j, int later,
                                                       bool half, int lane) {
    const int q = lane % 4;
    const Byte *own = slot + kScalesAt + (lane / 4 + 8 * j) * kScaleBytes;
    if constexpr (!Layout::kIsLarge) {
      if (half && q % 2 == 1) // what is there may be anything
        return 0;
      const uint2 two = reinterpret_cast<const uint2 *>(own)[q % 2];
      const float first = half_of(two.x, 1), second = half_of(two.y, 1);
      return q < 2 ? bf16_pair(first, second) : bf16_pair(less_bf16(first), less_bf16(second));
    } else {
      if constexpr (kFormat == 26)
        return narrow_scales(slot, j, lane).least_pair(later);
      const unsigned *words = reinterpret_cast<const unsigned *>(own);
      const unsigned scales[4] = {words[0], words[1], words[2], words[3]};
      const UnitScales<kFormat> unit(scales, q);
      return bf16_of_bytes(q < 2 ? unit.least[0] : unit.least[1], q % 2);
    }
  }

  // The scales of blocks 2 p and 2 p + 1 as numbers: of both, or of the halves of each.
  struct Factors {
    __half2 of[2];
  };
  static __device__ __forceinline__ Factors factors(unsigned bytes) {
    if constexpr (kFormat == 66) {
      const unsigned over = bytes ^ 0x80808080u; // 128 more, without a sign
      const __half2 less = __float2half2_rn(1024 + 128);
      return {__hsub2(halves_of(__byte_perm(over, 0x64646464, 0x4140)), less),
              __hsub2(halves_of(__byte_perm(over, 0x64646464, 0x4342)), less)};
    } else {
      const __half2 both =
          __hsub2(halves_of(__byte_perm(bytes, 0x64646464, 0x4140)), __float2half2_rn(1024));
      return {__low2half2(both), __high2half2(both)};
    }
  }

  // The numbers of block 2 p + b times scales, as multiples of 2^-24: pairs, and those of upper
  // bits.
  template <int b>
  static __device__ __forceinline__ void scaled_numbers(const Words &own, const Factors &factors,
                                                        unsigned (&pair)[kNumbers][4]) {
    constexpr unsigned kFour = 0x000f000fu << 4 * b; // quants of the odd block are 16 times as much
    const unsigned quants[4] = {own.low[0] & kFour, own.low[0] >> 8 & kFour, own.low[1] & kFour,
                                own.low[1] >> 8 & kFour},
                   high = own.high[0];
    const __half2 scale = factors.of[b],
                  factor = b == 0 ? scale : __hmul2(scale, __float2half2_rn(0.0625f));
    if constexpr (kFormat == 66) {
      constexpr float kStep = 1.0f / 16777216;
      const unsigned bits = b == 0 ? high : high >> 8;
      const __half2 eight = __hmul2(scale, __float2half2_rn(-8 * kStep)),
                    many = __hmul2(scale, __float2half2_rn(-24 * kStep));
      const __half2 by[4] = {__hmul2(scale, __float2half2_rn(16)),
                             __hmul2(scale, __float2half2_rn(4)), scale,
                             __hmul2(scale, __float2half2_rn(0.25f))};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const auto part = [&](__half2 both) {
          return j < 2 ? __low2half2(both) : __high2half2(both);
        };
        pair[0][j] = pair_of(__hfma2(halves_of(quants[j]), part(factor), part(eight)));
        pair[1][j] = pair_of(__hfma2(masked(bits, 0x00030003u << 2 * j), part(by[j]), part(many)));
      }
    } else {
      unsigned bits[4] = {quants[0], quants[1], quants[2], quants[3]};
      if constexpr (Layout::kHigh == 1) {
        bits[0] = with_bits<1, 4 * b, 4 * b + 4>(high, bits[0]);
        bits[1] = with_bits<1, 4 * b + 1, 4 * b + 4>(high, bits[1]);
        bits[2] = with_bits<1, 4 * b + 2, 4 * b + 4>(high, bits[2]);
        bits[3] = with_bits<1, 4 * b + 3, 4 * b + 4>(high, bits[3]);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j)
        pair[0][j] = pair_of(__hmul2(halves_of(bits[j]), factor));
    }
  }
};

// What a warp copies of units for the ring of its 32 rows, which kShares warps read: its share.
// Where is computed anew for each unit, by all that is known: registers hold sums meanwhile.
template <int kFormat, int kShares, int kGroups> struct WeightCopies {
  typedef Repacked<kFormat> Layout;
  typedef WeightTile<kFormat> Tile;
  static constexpr int kOwn = 4 / kShares;

  const Byte *w;
  const long long &column; // of the block's tile
  long long n, blocks;

  // The warp's first row of w that exists, how many follow, up to 31, and its share.
  struct Rows {
    long long begin;
    int left, share;
  };
  __device__ __forceinline__ Rows rows() const {
    const int warp = warp_anew();
    const long long last = n - 1, first = column + warp % kGroups * 32;
    const long long begin = first < last ? first : last;
    return {begin, int(last - begin < 31 ? last - begin : 31), kShares == 1 ? 0 : warp / kGroups};
  }

  // The two blocks behind the last whole unit into a slot: of formats of 32 elements. Rows beyond
  // the last repeat it. High bits, a byte a block, are put where whole units have them.
  __device__ __forceinline__ void copy_half(unsigned slot) const {
    constexpr int kHalfBytes = Tile::kLowBytes / 2, kScaleBytes = Tile::kScaleBytes / 2,
                  kHighBytes = Tile::kHighBytes;
    const Rows own = rows();
    const int lane = thread_anew();
    const long long b = blocks / Tile::kUnit * Tile::kUnit;
    const auto row = [&](int r) { return own.begin + (r < own.left ? r : own.left); };
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int j = own.share * kOwn + i;
      copy_bytes<kHalfBytes>(slot + (j * (Tile::kLowBytes / 16) * 32 + lane) * 16,
                             w + Layout::low_at(row(lane / 4 + 8 * j), b, lane % 4, blocks));
      if constexpr (kHighBytes > 0) {
        const unsigned bits = *reinterpret_cast<const unsigned short *>(
            w + Layout::high_at(row(lane / 4 + 8 * j), b, lane % 4, n, blocks));
        const unsigned word =
            bits & 0xf | bits >> 4 & 0xf0 | bits << 12 & 0xf0000 | bits << 8 & 0xf00000;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(slot + Tile::kHighAt + (j * 32 + lane) * 4),
                     "r"(word)
                     : "memory");
      }
    }
    if (own.share == 0)
      copy_bytes<kScaleBytes>(slot + Tile::kScalesAt + lane * Tile::kScaleBytes,
                              w + Layout::scale_at(row(lane), b, n, blocks));
  }
  // A unit, likewise.
  __device__ __forceinline__ void copy(unsigned slot, int unit) const {
    constexpr int kLowBytes = Tile::kLowBytes, kHighBytes = Tile::kHighBytes,
                  kScaleBytes = Tile::kScaleBytes;
    const Rows own = rows();
    const int lane = thread_anew();
    const long long b = (long long)(unit)*Tile::kUnit;
    const auto row = [&](int r) { return r < own.left ? r : own.left; };
    const unsigned long long first = Layout::template low_at<true>(own.begin, b, lane % 4, blocks);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int j = own.share * kOwn + i;
      const unsigned long long at =
          first + (unsigned long long)(unsigned(row(lane / 4 + 8 * j)) * unsigned(blocks)) *
                      (4 * Layout::kLow);
#pragma unroll
      for (int c = 0; c < kLowBytes / 16; ++c)
        copy_bytes<16>(slot + ((j * (kLowBytes / 16) + c) * 32 + lane) * 16, w + at + c * 16);
      if constexpr (kHighBytes > 0)
        copy_bytes<kHighBytes>(slot + Tile::kHighAt + (j * 32 + lane) * kHighBytes,
                               w + Layout::template high_at<true>(0, 0, 0, n, blocks) +
                                   at / Layout::kLow * Layout::kHigh);
    }
    if (own.share == 0) {
      const unsigned to = slot + Tile::kScalesAt + lane * kScaleBytes;
      const Byte *scales = w + Layout::template scale_at<true>(own.begin + row(lane), b, n, blocks);
      if constexpr (kScaleBytes == 12)
#pragma unroll
        for (int c = 0; c < 12; c += 4)
          copy_bytes<4>(to + c, scales + c);
      else
        copy_bytes<kScaleBytes>(to, scales);
    }
    if constexpr (Tile::kTailBytes > 0)
      if (own.share == kShares - 1) {
        const Byte *tail = w + Layout::tail_at(own.begin + row(lane), b, n, blocks);
        copy_bytes<4>(slot + Tile::kTailAt + lane * 4,
                      (const Byte *)((unsigned long long)(tail) & ~3ull));
      }
  }
};

#endif
