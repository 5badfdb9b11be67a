// Tiles of a product with repacked blocks whose sums lie in registers (number_tile.cuh): of f32,
// and of what tensor cores have no tiles of (matmul_repacked_tiles.cuh). Part of
// matmul_repacked.cu.
//
// Lanes read their own part of a unit of a column once, whole words, and hold it while they make
// numbers of one block after the other: elements as the format has them, each rounded once.
#pragma once

#include "linear/repacked_sums.cuh"
#include "shared/number_tile.cuh"

#if __CUDA_ARCH__ >= 800

// A lane's eight quants of block i of its unit, times 2^first_bit / kFactor.
template <int kFormat, int i>
__device__ __forceinline__ void quants_of(const unsigned *low, const unsigned *high,
                                          float (&quant)[8]) {
#ifdef MULTIPLIES_BY_MMA
  typedef Numbers<kFormat> Numbers;
  constexpr int kBias = Numbers::kOff == 0 ? 0 : BlockFormat<kFormat>::kBias,
                kOff = Numbers::kOff - kBias + (kBias << first_bit<kFormat>(i));
  unsigned pair[4];
  pairs_of<kFormat, i>(low, high, pair);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#ifdef DTYPE_F16
    const float2 two = __half22float2(halves_of(pair[j]));
#else
    const float2 two = __bfloat1622float2(bfloats_of(pair[j]));
#endif
    quant[2 * j] = two.x - kOff / Numbers::kFactor;
    quant[2 * j + 1] = two.y - kOff / Numbers::kFactor;
  }
#else
  numbers_of<kFormat, i>(low, high, quant);
#endif
}

template <int kFormat> struct RepackedNumbers {
  typedef Repacked<kFormat> Layout;
  typedef Byte Weight;
  static constexpr bool kHalves = Layout::kHasHalves, kMayEnd = false;
  static constexpr int kUnit = Layout::kUnit, kLowWords = kUnit * Layout::kLow / 4,
                       kHighWords = kUnit * Layout::kHigh / 4;
  unsigned low[kLowWords], high[kHighWords + 1];
  unsigned scale, tail; // of block q, or word q of them all; of lane 0: d, where it lies apart

  __device__ __forceinline__ void read(const Byte *w, long long row, long long b, long long n,
                                       long long k, int q) {
    const long long blocks = k / kBlock;
    const int count = Layout::blocks_of_unit(b, blocks);
    const auto word = [&](long long at) { return *reinterpret_cast<const unsigned *>(w + at); };
    const auto half = [&](long long at) {
      return *reinterpret_cast<const unsigned short *>(w + at);
    };
    const long long first = Layout::low_at(row, b, q, blocks);
    if (count == kUnit) {
      read_words<kLowWords>(low, w + first);
    } else {
#pragma unroll
      for (int j = 0; j < kLowWords; ++j)
        low[j] = j < count * Layout::kLow / 4 ? word(first + 4 * j) : 0;
    }
    if constexpr (Layout::kHigh > 0) {
      const long long at = Layout::high_at(row, b, q, n, blocks);
      if constexpr (Layout::kIsLarge) {
        read_words<kHighWords>(high, w + at);
      } else if (count == kUnit) {
        high[0] = half(at) | unsigned(half(at + 2)) << 16;
      } else { // a byte a block
        high[0] = 0;
#pragma unroll
        for (int i = 0; i + 1 < kUnit; ++i)
          if (i < count)
            high[0] |= ((w[at + i] & 15u) | unsigned(w[at + i] >> 4) << 16) << 4 * i;
      }
    }
    scale = tail = 0;
    if constexpr (Layout::kIsLarge) {
      if (q < Layout::kScaleBytes / 4)
        scale = word(Layout::scale_at(row, b, n, blocks) + 4 * q);
      if (Layout::kTailBytes > 0 && q == 0) {
        const long long at = Layout::tail_at(row, b, n, blocks);
        tail = Layout::kTailBytes == 4 ? word(at) : half(at);
      }
    } else if (q < count) {
      const long long at = Layout::scale_at(row, b + q, n, blocks);
      scale = Layout::kScaleBytes == 4 ? word(at) : half(at);
    }
  }
  static __device__ __forceinline__ unsigned of_lane(unsigned word, int q) {
    return __shfl_sync(0xffffffffu, word, q, 4);
  }
  template <int i> __device__ __forceinline__ void numbers(int q, float (&element)[8]) const {
    constexpr float kStep = Numbers<kFormat>::kFactor / (1 << first_bit<kFormat>(i));
    constexpr int kParts = Layout::kHasHalves ? 2 : 1;
    constexpr bool kHasLeast = BlockFormat<kFormat>::kHasLeast;
    float by[2], least = 0;
    if constexpr (Layout::kIsLarge) {
      unsigned words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) // of narrow formats those of the lane's half, and what is common
        words[j] = of_lane(scale, !Layout::kIsNarrow ? j : j == 0 ? q / 2 : (j + 1) % 4);
      const UnitScales<kFormat> scales(words, q);
      const unsigned d = Layout::kTailBytes > 0 ? of_lane(tail, 0) : words[0];
      constexpr float kWhole = UnitScales<kFormat>::kFactor;
#pragma unroll
      for (int h = 0; h < kParts; ++h)
        by[h] = scales.scale_of(i * kParts + h) * kWhole * half_of(d, 0) * kStep;
      if constexpr (kHasLeast)
        least = -(scales.least_of(i) * kWhole * half_of(d, 1));
    } else {
      const unsigned own = of_lane(scale, i);
      by[0] = half_of(own, 0) * kStep;
      least = kHasLeast ? half_of(own, 1) : 0;
    }
    quants_of<kFormat, i>(low, high, element);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float factor = by[kParts == 2 ? e / 4 : 0];
      element[e] = kHasLeast ? fma(element[e], factor, least) : element[e] * factor;
    }
  }
};

#endif
