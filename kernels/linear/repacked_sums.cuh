// Products with a matrix of repacked blocks (repacked.cuh), by a warp: 16 columns of y for 8 rows
// of x on tensor cores, of f16 and bf16, or for kRows of f32 (repacked_products.cuh).
//
// To a block's sum, or to that of each half of it, the scale comes once; d comes to the sum over a
// unit. Bound by reading w once, whatever the number of rows: all of a unit is asked for before the
// first of it is used.
#pragma once

#include "linear/repacked_products.cuh"
#include "linear/stream.cuh"

#if __CUDA_ARCH__ >= 800

// kRows: rows of x that a lane has sums of. kRowsRead: rows of x that it reads. kReadsAhead: it
// reads x of a whole unit before it uses it, for which f32 has too few registers.
#ifdef MULTIPLIES_BY_MMA
template <int kRows> constexpr int kRowsRead = 1;
#else
template <int kRows> constexpr int kRowsRead = kRows;
#endif
constexpr bool kReadsAhead = kIsMma;

template <int kRows> using RowsOfX = LaneRows<kRowsRead<kRows>>;

// Whether x, and so its rows, begins at a multiple of 16 bytes: known with X_ALIGNED.
__device__ __forceinline__ bool is_x_aligned(const T *x) {
#ifdef X_ALIGNED
  return true;
#else
  return (unsigned long long)(x) % 16 == 0;
#endif
}

template <int kFormat, int kRows, bool kAligned> struct Lane { // what a lane reads of a unit
  typedef Repacked<kFormat> Layout;
  static constexpr int kUnit = Layout::kUnit, kLowWords = kUnit * Layout::kLow / 4,
                       kHighWords = kUnit * Layout::kHigh / 4,
                       kScaleWords = kFormat == 26 ? (kIsMma ? 2 : 3)
                                     : kFormat == 36
                                         ? 2
                                         : Layout::kScaleBytes * (Layout::kIsLarge ? 1 : kUnit) / 4;
  // Words of rows g and g + 8 of w.
  unsigned low[2][kLowWords], high[2][kHighWords + 1], scales[2][kScaleWords], tail[2];
  RowsOfX<kRows> x; // of the unit
  Right ahead[kReadsAhead ? kUnit : 1][kRowsRead<kRows>];
  // Sums of x in f32 over a block of the unit, or halves of it. Eight lanes want the same of all
  // blocks: each has those of block g, and the others ask it.
  static constexpr bool kAsks = !kIsMma && Numbers<kFormat>::kHasSums;
  float own_xs[kAsks ? 2 : 1][kRowsRead<kRows>];

  // Reads x for a whole unit.
  __device__ __forceinline__ void read_ahead() {
    if constexpr (kReadsAhead)
#pragma unroll
      for (int i = 0; i < kUnit; ++i)
        read_right_of(i, ahead[i]);
#ifndef MULTIPLIES_BY_MMA
    if constexpr (kAsks) {
      Right right[kRowsRead<kRows>];
      read_right_of(threadIdx.x / 4 % kUnit, right);
      sums_of_x<kFormat>(right, own_xs);
    }
#endif
  }
  // Reads x for block i of the unit.
  __device__ __forceinline__ void read_right_of(int i, Right (&right)[kRowsRead<kRows>]) const {
#pragma unroll
    for (int r = 0; r < kRowsRead<kRows>; ++r)
      right[r] = read_right<kFormat, kAligned>(x.first + x.apart[r] + i * kBlock);
  }
  // kIsWhole: the unit.
  template <int i, bool kIsWhole>
  __device__ __forceinline__ void products_of(const Kept<kFormat> &kept,
                                              float (&products)[2][2 * kRows],
                                              float (&xs)[2][2 * kRows]) const {
    const unsigned *lows[2] = {low[0], low[1]}, *highs[2] = {high[0], high[1]};
#ifdef MULTIPLIES_BY_MMA
    block_products<kFormat, i, kRows>(lows, highs, ahead[i], kept, products, xs);
#else
    Right right[kRows];
    read_right_of(i, right);
    block_products<kFormat, i, kRows>(lows, highs, right, products);
#if __CUDA_ARCH__ >= 1200 // else all blocks' numbers are read before, and spill
#pragma unroll
    for (int e = 0; e < 2 * kRows; ++e)
      asm volatile("" : "+f"(products[0][e])::"memory");
#endif
    if constexpr (kAsks && !kIsWhole)
      sums_of_x<kFormat>(right, xs);
#pragma unroll
    for (int h = 0; h < (!kAsks ? 0 : Layout::kHasHalves ? 2 : 1); ++h)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if constexpr (kIsWhole)
          xs[h][r] = of_lanes<i>(own_xs[h][r]);
        xs[h][kRows + r] = xs[h][r];
      }
#endif
  }
};

// The scales of a unit in one row of w, but for d: of its blocks, or halves of blocks, whole
// numbers, four in a word; of narrow formats of the lane's half of blocks, as they lie.
template <int kFormat> struct UnitScales {
  unsigned scale[4], least[4];

  __device__ __forceinline__ UnitScales(const unsigned *words, int q) {
    constexpr unsigned kNibbles = 0x0f0f0f0f, kSix = 0x3f3f3f3f, kUpper = 0x30303030;
    if constexpr (kFormat == 46 || kFormat == 56) {
      scale[0] = words[1] & kSix;
      scale[1] = (words[3] & kNibbles) | (words[1] >> 2 & kUpper);
      least[0] = words[2] & kSix;
      least[1] = (words[3] >> 4 & kNibbles) | (words[2] >> 2 & kUpper);
    } else if constexpr (kFormat == 66) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        scale[i] = words[i];
    } else {
      scale[0] = words[0];
      if constexpr (kFormat == 36)
        scale[1] = words[1] >> q / 2 * 2;
      else if constexpr (kIsMma)
        least[0] = words[1];
      else
        least[0] = __byte_perm(words[1], words[2], q < 2 ? 0x6420 : 0x7531);
    }
  }
  // The scales of blocks 2 p and 2 p + 1 of a narrow format, one in each half of a register.
  __device__ __forceinline__ unsigned pair(int p) const {
    const unsigned bits = scale[0] >> 4 * p & 0x000f000fu;
    if constexpr (kFormat == 36)
      return bits | (scale[1] >> 4 * p & 0x00030003u) << 4;
    return bits;
  }
#ifdef MULTIPLIES_BY_MMA
  // The scales as factors of blocks whose quants lie as narrow_words() has them, or in f16 as in
  // memory.
  template <int p>
  __device__ __forceinline__ NarrowFactors<kFormat> factors(const Kept<kFormat> &kept) const {
    NarrowFactors<kFormat> factors;
    if constexpr (kIsF16) {
      unsigned numbers = (scale[0] >> p / 2 * 8 & (p % 2 ? 0x00f000f0u : 0x000f000fu)) | kept.base;
      if constexpr (kFormat == 36)
        numbers |= (p < 2 ? scale[1] << 4 : scale[1] >> 4) & (p % 2 ? 0x03000300u : 0x00300030u);
      factors.template set<(p % 2 ? 16 : 1), (kFormat == 26 ? p % 2 * 4 : 0)>(
          numbers, two_of(kept.steps[p % 2]));
    } else {
      factors.set(pair(p) | kept.base, two_of(kept.steps[0]));
    }
    return factors;
  }
  // Leasts of q2_k, of block q + 4 * later, first half and second, in bf16, times kLeastStep.
  __device__ __forceinline__ unsigned least_pair(int later, const Kept<kFormat> &kept) const {
    return pair_of(__hfma2(bfloats_of(least_bits(later) | kept.least_base),
                           bfloats_of(kept.least_steps),
                           __float2bfloat162_rn(-128 * Kept<kFormat>::kLeastStep)));
  }
  __device__ __forceinline__ unsigned least_pair(int later) const {
    return pair_of(__hsub2(bfloats_of(least_bits(later) | 0x43004300u), __float2bfloat162_rn(128)));
  }
  __device__ __forceinline__ unsigned least_bits(int later) const {
    return __byte_perm(least[0], 0, 0x4140) >> 4 * later & 0x000f000fu;
  }
#endif
#ifdef DTYPE_F16
  // Leasts of blocks q and q + 4 in bf16, of whole numbers below 64.
  __device__ __forceinline__ unsigned least_of_blocks(int q) const {
    const unsigned bytes = chosen(least[0], least[1], 0x0400 + q * 0x0101) & 0x00ff00ffu;
    return pair_of(__hsub2(bfloats_of(bytes | 0x43004300u), __float2bfloat162_rn(128)));
  }
#endif
  // Both by kFactor.
  static constexpr float kFactor = kFormat == 66 ? 1 : 16777216;
  __device__ __forceinline__ float scale_of(int part) const {
    if constexpr (kFormat == 66) // with their signs
      return float((signed char)(scale[part / 4] >> part % 4 * 8));
    if constexpr (Repacked<kFormat>::kIsNarrow) // times 2^-24, as byte_of()
      return half_of(pair(part / 2), part % 2) - (kFormat == 36 ? 32 : 0) / kFactor;
    return byte_of(scale[part / 4], part % 4);
  }
  __device__ __forceinline__ float least_of(int part) const {
    if constexpr (kFormat == 26)
      return byte_of(least[0] >> part / 4 * 4 & 0x0f0f0f0fu, part % 4);
    return byte_of(least[part / 4], part % 4);
  }
};

// Adds block i of a unit of a small format, with its scale, and least, in both rows.
template <int i, bool kIsWhole, int kFormat, int kRows, bool kAligned>
__device__ __forceinline__ void add_block(const Lane<kFormat, kRows, kAligned> &lane,
                                          const float (&scale)[2], const float (&least)[2],
                                          float (&sum)[2 * kRows]) {
  float products[2][2 * kRows], xs[2][2 * kRows];
  lane.template products_of<i, kIsWhole>(Kept<kFormat>(), products, xs);
#pragma unroll
  for (int e = 0; e < 2 * kRows; ++e) {
    sum[e] = fma(products[0][e], scale[e / kRows], sum[e]);
    if constexpr (BlockFormat<kFormat>::kHasLeast)
      sum[e] = fma(xs[0][e], least[e / kRows], sum[e]);
  }
}

// The same of block i of a whole unit, and those behind it.
template <int i, int kFormat, int kRows, bool kAligned>
__device__ __forceinline__ void add_scaled(const Lane<kFormat, kRows, kAligned> &lane,
                                           float (&sum)[2 * kRows]) {
  constexpr bool kHasLeast = BlockFormat<kFormat>::kHasLeast;
  float scale[2], least[2];
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    scale[s] = half_of(lane.scales[s][kHasLeast ? i : i / 2], kHasLeast ? 0 : i % 2);
    least[s] = kHasLeast ? half_of(lane.scales[s][kHasLeast ? i : 0], 1) : 0;
  }
  add_block<i, true>(lane, scale, least, sum);
  if constexpr (i + 1 < Repacked<kFormat>::kUnit)
    add_scaled<i + 1>(lane, sum);
}

// Where a lane reads.
template <int kRows> struct Places {
  RowsOfX<kRows> x;
  long long row[2]; // of w
  const Byte *w;
  long long n, blocks;
  int q;
};

// Where what a lane has of whole units is, of row g of w, and how far behind it what it has of row
// g + 8. It goes on by `units` at a time, an even number: a d of two bytes stays in the same half
// of its word.
template <int kFormat, int kRows> struct WholeUnits {
  typedef Repacked<kFormat> Layout;
  static constexpr int kScaleBytes = Layout::kScaleBytes * (Layout::kIsLarge ? 1 : Layout::kUnit);
  const Byte *low, *high, *scales, *tail;
  RowsOfX<kRows> x;
  long long scale_step;
  int rows_apart, low_apart, tail_apart, tail_bit[2], units;

  __device__ __forceinline__ WholeUnits(const Places<kRows> &at, int unit, int units)
      : x(at.x), scale_step(at.n * units), rows_apart(int(at.row[1] - at.row[0])),
        low_apart(rows_apart * int(at.blocks) * 4 * Layout::kLow), units(units) {
    const long long b = (long long)(unit)*Layout::kUnit;
    x.first += b * kBlock + Layout::element(at.q, 0);
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
    x.first += units * (Layout::kUnit * kBlock);
  }
};

#ifdef MULTIPLIES_BY_MMA
// Adds blocks 2 p and 2 p + 1 of a unit where scales are folded, and those behind them.
template <int p, int kFormat, int kRows, bool kAligned>
__device__ __forceinline__ void
add_folded(const Lane<kFormat, kRows, kAligned> &lane, const UnitScales<kFormat> (&scales)[2],
           const Kept<kFormat> &kept, SumsOfHalves &halves, float (&sum)[4]) {
  constexpr int kFirst = kIsF16 && kFormat == 26 ? p % 2 * 4 : 0;
  unsigned pairs[2][2][4];
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const auto words = kFirst == 0 ? narrow_words<kFormat>(lane.low[s], lane.high[s], p)
                                   : narrow_words<kFormat>(lane.low[s], lane.high[s], p - 1);
    const NarrowFactors<kFormat> factors = scales[s].template factors<p>(kept);
    factors.template scaled<0, kFirst>(words, pairs[0][s]);
    factors.template scaled<1, kFirst>(words, pairs[1][s]);
  }
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const Right x = lane.ahead[2 * p + c][0];
    const unsigned(&up)[4] = pairs[c][0], (&down)[4] = pairs[c][1];
    multiply(sum, {up[0], down[0], up[1], down[1]}, x.x, x.y);
    multiply(sum, {up[2], down[2], up[3], down[3]}, x.z, x.w);
    if constexpr (kSumsRows<kFormat>)
      halves.add(x, 2 * p + c, kept);
  }
  if constexpr (p < 3)
    add_folded<p + 1>(lane, scales, kept, halves, sum);
}
#endif

// Adds block i of a unit of a large format, and those behind it. odd: on tensor cores sums of odd
// blocks whose quants begin at a higher bit.
template <int i, int kFormat, int kRows, bool kAligned>
__device__ __forceinline__ void add_parts(const Lane<kFormat, kRows, kAligned> &lane,
                                          const UnitScales<kFormat> (&scales)[2],
                                          const Kept<kFormat> &kept, float (&sum)[2 * kRows],
                                          float (&odd)[2 * kRows], float (&below)[2 * kRows]) {
  constexpr int kParts = Repacked<kFormat>::kHasHalves ? 2 : 1;
  float products[2][2 * kRows], xs[2][2 * kRows];
  lane.template products_of<i, true>(kept, products, xs);
#pragma unroll
  for (int h = 0; h < kParts; ++h)
#pragma unroll
    for (int e = 0; e < 2 * kRows; ++e) {
      constexpr float kBy = kIsMma ? 1 : 1.0f / (1 << first_bit<kFormat>(i));
      float &to = kIsMma && first_bit<kFormat>(i) > 0 ? odd[e] : sum[e];
      to = fma(products[h][e], scales[e / kRows].scale_of(i * kParts + h) * kBy, to);
      if constexpr (Numbers<kFormat>::kHasSums)
        below[e] = fma(xs[h][e], scales[e / kRows].least_of(i * kParts + h), below[e]);
    }
  if constexpr (i + 1 < Repacked<kFormat>::kUnit)
    add_parts<i + 1>(lane, scales, kept, sum, odd, below);
}

// What sums are multiples of, as add_read leaves them.
template <int kFormat>
constexpr float kStepOfSums = Numbers<kFormat>::kFactor *(
    !Repacked<kFormat>::kIsLarge || kFoldsScales<kFormat> ? 1.0f : UnitScales<kFormat>::kFactor);

// All of a whole unit that the lane has read.
template <int kFormat, int kRows, bool kAligned>
__device__ __forceinline__ void add_read(const Lane<kFormat, kRows, kAligned> &lane,
                                         const Kept<kFormat> &kept, float (&sum)[2 * kRows]) {
  typedef Repacked<kFormat> Layout;
  if constexpr (Layout::kIsLarge) {
    const int q = threadIdx.x % 4;
    const UnitScales<kFormat> scales[2] = {UnitScales<kFormat>(lane.scales[0], q),
                                           UnitScales<kFormat>(lane.scales[1], q)};
    // In the steps of the other sums, where leasts are whole numbers.
    constexpr float kLeast =
        kSumsRows<kFormat> && !kFoldsScales<kFormat> ? 1 / kStepOfSums<kFormat> : 1;
    float parts[2 * kRows] = {}, below[2 * kRows] = {};
#ifdef MULTIPLIES_BY_MMA
    if constexpr (kFoldsScales<kFormat>) {
      SumsOfHalves halves;
      add_folded<0>(lane, scales, kept, halves, parts);
      if constexpr (kSumsRows<kFormat>)
        halves.multiply_leasts({scales[0].least_pair(0, kept), scales[1].least_pair(0, kept),
                                scales[0].least_pair(1, kept), scales[1].least_pair(1, kept)},
                               below);
    } else
#endif
    {
      float odd[2 * kRows] = {};
      add_parts<0>(lane, scales, kept, parts, odd, below);
#ifdef DTYPE_F16
      if constexpr (kSumsRows<kFormat>) {
        SumsOfHalves halves;
#pragma unroll
        for (int i = 0; i < Layout::kUnit; ++i)
          halves.add(lane.ahead[i][0], i, kept);
        halves.multiply_leasts(scales[0].least_of_blocks(q), scales[1].least_of_blocks(q), below);
      }
#endif
      if constexpr (kIsMma && first_bit<kFormat>(1) > 0)
#pragma unroll
        for (int e = 0; e < 2 * kRows; ++e)
          parts[e] = fma(odd[e], 1.0f / (1 << first_bit<kFormat>(1)), parts[e]);
    }
#pragma unroll
    for (int e = 0; e < 2 * kRows; ++e) {
      const unsigned d = Layout::kTailBytes > 0 ? lane.tail[e / kRows] : lane.scales[e / kRows][0];
      sum[e] = fma(parts[e], half_of(d, 0), sum[e]);
      if constexpr (BlockFormat<kFormat>::kHasLeast)
        sum[e] = fma(below[e], -half_of(d, 1) * kLeast, sum[e]);
    }
  } else {
    add_scaled<0>(lane, sum);
  }
}

// All of a whole unit; with kAligned rows of x begin at multiples of 16 bytes, and halves at the
// end of w are in whole words.
template <bool kAligned, int kFormat, int kRows>
__device__ __forceinline__ void add_unit(const WholeUnits<kFormat, kRows> &at,
                                         const Kept<kFormat> &kept, float (&sum)[2 * kRows]) {
  typedef Repacked<kFormat> Layout;
  typedef Lane<kFormat, kRows, kAligned> Own;
  Own lane;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    read_words<Own::kLowWords>(lane.low[s], at.low + s * at.low_apart);
    if constexpr (Own::kHighWords > 0)
      read_words<Own::kHighWords>(lane.high[s],
                                  at.high + s * (at.low_apart / Layout::kLow * Layout::kHigh));
    const Byte *scales = at.scales + s * at.rows_apart * WholeUnits<kFormat, kRows>::kScaleBytes;
    if constexpr (Layout::kIsNarrow)
      read_scales<kFormat, true>(lane.scales[s], scales, threadIdx.x % 4);
    else
      read_words<Own::kScaleWords>(lane.scales[s], scales);
    const Byte *tail = at.tail + s * at.tail_apart;
    if constexpr (Layout::kTailBytes == 4)
      lane.tail[s] = __ldg(reinterpret_cast<const unsigned *>(tail));
    else if constexpr (Layout::kTailBytes == 2 && kAligned) // its neighbour is read, too
      lane.tail[s] = __ldg(reinterpret_cast<const unsigned *>(tail)) >> at.tail_bit[s];
    else if constexpr (Layout::kTailBytes == 2)
      lane.tail[s] = *reinterpret_cast<const unsigned short *>(tail + at.tail_bit[s] / 8);
  }
  lane.x = at.x;
  lane.read_ahead();
  add_read(lane, kept, sum);
}

// Block i of a unit of whatever size of a small format.
template <int kFormat, int kRows> struct LoneBlock {
  typedef Repacked<kFormat> Layout;
  Lane<kFormat, kRows, false> lane;
  float scale[2], least[2];

  __device__ __forceinline__ void read(const Places<kRows> &at, long long unit, int i) {
    const long long begin = unit * Layout::kUnit, b = begin + i;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const Byte *low = at.w + Layout::low_at(at.row[s], b, at.q, at.blocks);
#pragma unroll
      for (int j = 0; j < Layout::kLow / 4; ++j)
        lane.low[s][j] = reinterpret_cast<const unsigned *>(low)[j];
      if constexpr (Layout::kHigh > 0) {
        const Byte *high = at.w + Layout::high_at(at.row[s], begin, at.q, at.n, at.blocks);
        if (Layout::blocks_of_unit(begin, at.blocks) == Layout::kUnit) {
          // A word of all blocks: its bits, to where block 0's are.
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
    lane.x = at.x;
    lane.x.first += b * kBlock + Layout::element(at.q, 0);
    if constexpr (kReadsAhead)
      lane.read_right_of(0, lane.ahead[0]);
  }
  __device__ __forceinline__ void add(float (&sum)[2 * kRows]) const {
    add_block<0, false>(lane, scale, least, sum);
  }
};
template <int kFormat, int kRows>
__device__ __forceinline__ void add_block_alone(const Places<kRows> &at, long long unit, int i,
                                                float (&sum)[2 * kRows]) {
  LoneBlock<kFormat, kRows> block;
  block.read(at, unit, i);
  block.add(sum);
}

// The sums of rows of x with 16 rows of w, of the share of a warp: units `warp`, `warp` + `warps`,
// .., and of blocks behind the last whole unit one to a warp. sum[e] is of column g + 8 * (e /
// kRows) and row e % kRows of the lane's.
template <int kFormat, int kRows>
__device__ __forceinline__ void repacked_sums(const Places<kRows> &at, bool aligned, int warp,
                                              int warps, float (&sum)[2 * kRows]) {
  typedef Repacked<kFormat> Layout;
  const int whole = int(at.blocks / Layout::kUnit);
  int unit = warp;
  WholeUnits<kFormat, kRows> units(at, unit, warps);
  const Kept<kFormat> kept;
  if (aligned && (!Layout::kWantsEven || at.n * (Layout::kIsLarge ? whole : at.blocks) % 2 == 0))
#pragma unroll 1
    for (; unit < whole; unit += warps, units.go_on())
      add_unit<true>(units, kept, sum);
  if constexpr (Layout::kIsLarge) {
#pragma unroll 1
    for (; unit < whole; unit += warps, units.go_on())
      add_unit<false>(units, kept, sum);
  } else {
#pragma unroll 1
    for (; unit < whole; unit += warps)
#pragma unroll 1
      for (int i = 0; i < Layout::kUnit; ++i)
        add_block_alone<kFormat>(at, unit, i, sum);
    if (const int i = unit - whole; i < int(at.blocks) - whole * Layout::kUnit)
      add_block_alone<kFormat>(at, whole, i, sum);
  }
#pragma unroll
  for (int e = 0; e < 2 * kRows; ++e)
    sum[e] *= kStepOfSums<kFormat>;
}

// What all warps of a block have of 16 columns, for `rows` rows of x, kTall at most, as
// [warp][row][column]: they share k. row[0] and row[1] of w are the lane's.
template <int kFormat, int kWarps, int kTall>
__device__ __forceinline__ void
store_repacked_sums(const T *x, long long rows, const Byte *w, const long long (&row)[2],
                    long long n, long long k, float (&partial)[kWarps][kTall][17]) {
  const int g = threadIdx.x / 4, q = threadIdx.x % 4;
  const bool aligned = is_x_aligned(x);
  // Rows beyond the last repeat the first; they are not stored.
#ifdef MULTIPLIES_BY_MMA
  const Places<2> at = {{x + (g < rows ? g : 0) * k, {0}}, {row[0], row[1]}, w, n, k / kBlock, q};
  float sum[4] = {};
  repacked_sums<kFormat>(at, aligned, threadIdx.y, kWarps, sum);
  store_sums(sum, partial);
#else
  Places<kTall> at = {{x, {}}, {row[0], row[1]}, w, n, k / kBlock, q};
#pragma unroll
  for (int r = 0; r < kTall; ++r)
    at.x.apart[r] = r < rows ? r * int(k) : 0;
  float sum[2 * kTall] = {};
  repacked_sums<kFormat>(at, aligned, threadIdx.y, kWarps, sum);
#pragma unroll
  for (int e = 0; e < 2 * kTall; ++e) {
    sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], 1);
    sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], 2);
    if (q == 0)
      partial[threadIdx.y][e % kTall][g + e / kTall * 8] = sum[e];
  }
#endif
}

#endif
