// Tiles of a product with repacked blocks, on tensor cores. Part of matmul_repacked.cu.
//
// A block of threads computes 128 columns of y for 32 or 128 rows of x, a warp 32 of the columns
// for 32 or 64 of the rows: so a weight becomes a number once for these. Where 64 rows would take
// more registers than there are, a block has 64 columns, and a warp 32 of the 128 rows. Weights
// come into a ring of two units for each 32 columns (repacked_tiles.cuh), x by steps of 64 of k
// into a ring that all share.
//
//   x in shared memory, a step: rows of 128 bytes, 16-byte chunks exchanged by swizzle()
//
// What a format's leasts are times are sums of x: of eight blocks, or parts, of a unit they are one
// mma with the leasts, in bf16, on its left. There the sums are two bf16 numbers each, the second
// what the first rounded off, and so are leasts that are no whole numbers. Warps side by side want
// the same: of 128 rows each adds up those of 16, and they exchange them behind the unit.
//
// Tiles beyond whole waves of `kPlaces` blocks are cut along k, so that their wave is full, too:
// blocks write their sums to `parts`, and the last to come adds all of a tile in the order of k.
#pragma once

#include "linear/repacked_tiles.cuh"
#include "shared/bias.cuh"
#include "shared/join_splits.cuh"

#ifdef MULTIPLIES_BY_MMA

constexpr int kStep = 64, kStepBytes = kStep * 2; // of a row

// kEach: rows of a warp, by 8; kWarps: of a block.
template <int kFormat, int kEach, int kWarps> struct TileForm {
  // Warps side by side, with 32 columns each, and those that share these.
  static constexpr int kGroups = kWarps == 8 && kEach == 4 ? 2 : 4, kShares = kWarps / kGroups;
  static constexpr int kRows = kEach * 8 * kShares, kColumns = 32 * kGroups, kThreads = 32 * kWarps;
  static constexpr int kSlot = kRows * kStepBytes;
  // Slots of x. Devices with 100 KiB have no room for three beside q6_k.
  static constexpr int kSlots = kFormat == 66 && kEach == 8 ? 2 : 3;
};

// Which chunks of a row are exchanged: lanes that read together then read other banks.
__device__ __forceinline__ int swizzle(int row) { return (row & 1) << 2 | (row & 2); }

template <typename Form, bool kAligned> struct RowCopies {
  static constexpr int kApart = Form::kThreads / 8, kOwn = Form::kRows / kApart; // rows of a lane
  const T *from;
  unsigned own, left, to; // rows: its first, the last there is
  unsigned width;         // of rows, in elements

  // Rows beyond the last repeat it; they are not stored. `begin`: of k.
  __device__ __forceinline__ RowCopies(const T *x, long long first, long long rows, long long k,
                                       int begin, int thread)
      : own(thread / 8), left(unsigned(rows - 1 - first)), width(unsigned(k)) {
    const int chunk = thread % 8;
    from = x + first * k + begin + chunk * 8;
    to = own * kStepBytes + (chunk ^ swizzle(own)) * 16;
  }
  __device__ __forceinline__ const T *row(int j) const {
    return from + (own + kApart * j < left ? own + kApart * j : left) * width;
  }
  // The next step, into a slot.
  __device__ __forceinline__ void copy(Byte *slot) {
    Byte *first = slot + to;
    if constexpr (kAligned) {
#pragma unroll
      for (int j = 0; j < kOwn; ++j)
        copy_bytes<16>(shared_address(first + j * kApart * kStepBytes), row(j));
    } else { // seldom
#pragma unroll 1
      for (int j = 0; j < kOwn; ++j) {
        const T *from = row(j);
        *reinterpret_cast<uint4 *>(first + j * kApart * kStepBytes) = {
            read_pair(from), read_pair(from + 2), read_pair(from + 4), read_pair(from + 6)};
      }
    }
    from += kStep;
  }
};

// A lane's elements of block b of a step, of row 8 j + g of the warp's.
template <int kFormat>
__device__ __forceinline__ Right right_of(const Byte *slot, int j, int b, int lane) {
  const int row = 8 * j + lane / 4, q = lane % 4;
  const Byte *at = slot + row * kStepBytes;
  if constexpr (!Repacked<kFormat>::kHasHalves)
    return *reinterpret_cast<const uint4 *>(at + ((b * 4 + q) ^ swizzle(lane / 4)) * 16);
  const int chunk = b * 4 + q / 2, within = q % 2 * 8;
  const uint2 first =
                  *reinterpret_cast<const uint2 *>(at + (chunk ^ swizzle(lane / 4)) * 16 + within),
              second = *reinterpret_cast<const uint2 *>(
                  at + ((chunk + 2) ^ swizzle(lane / 4)) * 16 + within);
  return {first.x, first.y, second.x, second.y};
}

// Sums of a warp: of columns 16 m + g and + 8, rows 8 j + 2 q and + 1.
template <int kEach> using TileSums = float[2][kEach][4];

// Sums of x that a warp adds up, of all its rows, or of 16 of them: of rows 8 j + g, and of blocks,
// or parts, 2 q and 2 q + 1, over the first elements of a lane and the next ones, each by itself.
template <int kFormat, int kEach, int kWarps> struct RowSums {
  typedef TileForm<kFormat, kEach, kWarps> Form;
  static constexpr bool kExchanges = Form::kShares > 1;
  static constexpr int kOwn = kExchanges ? 2 : kEach;
  static_assert(!kExchanges || kOwn * Form::kGroups == kEach, "all rows of a share are somebody's");
  const int first, lane; // of the warp's rows, by 8
  uint2 *const of_rows;  // in shared memory, as two bf16 each: what all of its rows have
  float sum[kOwn][4] = {};
  uint2 ended[kOwn]; // where they are not exchanged

  __device__ __forceinline__ RowSums(Byte *shared, int warp, int share)
      : first(kExchanges ? warp * kOwn : 0), lane(threadIdx.x),
        of_rows(reinterpret_cast<uint2 *>(shared) + share * kEach * 32) {}
  // Adds block `block` of a unit, block b of a step. Those of what leasts_of() gives are in columns
  // of the mma.
  __device__ __forceinline__ void add(const Byte *step, int b, int block) {
    constexpr unsigned kOne = kIsF16 ? 0x3c003c00 : 0x3f803f80;
    constexpr int kColumns = Repacked<kFormat>::kIsLarge ? 8 : 4;
    const int column = lane / 4 % kColumns,
              part = kFormat == 26 ? block * 2 % 8 + lane % 4 / 2 : block % kColumns;
    const unsigned one = column == part ? kOne : 0;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const Right x = right_of<kFormat>(step, first + j, b, lane);
      multiply(sum[j], {x.x, x.y, x.z, x.w}, one, one);
    }
  }
  // They are `times` as much, all rows' are there, and they begin anew.
  __device__ __forceinline__ void end(float times) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const float one = (sum[j][0] + sum[j][2]) * times, two = (sum[j][1] + sum[j][3]) * times;
      const uint2 own = {bf16_pair(one, two), bf16_pair(less_bf16(one), less_bf16(two))};
      if constexpr (kExchanges)
        of_rows[(first + j) * 32 + lane] = own;
      else
        ended[j] = own;
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sum[j][e] = 0;
    }
    if constexpr (kExchanges)
      __syncthreads();
  }
  // What ended, of row 8 j + g.
  __device__ __forceinline__ uint2 of(int j) const {
    if constexpr (kExchanges)
      return of_rows[j * 32 + lane];
    else
      return ended[j];
  }
};

// Adds block 2 p + b of unit `unit`, times its scales: those of its parts, of four rows of w.
template <int kFormat, int b, int kEach>
__device__ __forceinline__ void add_block_of_tile(const Byte *slot, const Byte *step, int p,
                                                  int lane, int unit, long long n,
                                                  TileSums<kEach> &sum) {
  typedef WeightTile<kFormat> Tile;
  unsigned number[4][4];
  float scale[4][Tile::kParts];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    Tile::template plain_numbers<b>(Tile::words(slot, j, p, lane), number[j]);
    if constexpr (Repacked<kFormat>::kIsLarge) {
      const unsigned bytes = Tile::scales_of(slot, j, p, lane);
      const float d = half_of(Tile::d_of(slot, j, unit, n, lane), 0);
#pragma unroll
      for (int i = 0; i < Tile::kParts; ++i)
        scale[j][i] = Tile::scale_of(bytes, b * Tile::kParts + i) * d;
    } else {
      const unsigned *words = reinterpret_cast<const unsigned *>(
          slot + Tile::kScalesAt + (lane / 4 + 8 * j) * Tile::kScaleBytes);
      constexpr bool kHasLeast = BlockFormat<kFormat>::kHasLeast;
      scale[j][0] = kHasLeast ? half_of(words[2 * p + b], 0) : half_of(words[p], b);
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; i += 2) {
    const Right x[2] = {right_of<kFormat>(step, i, b, lane),
                        right_of<kFormat>(step, i + 1, b, lane)};
#pragma unroll
    for (int c = 0; c < 2; ++c)
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        float product[4];
        const unsigned(&up)[4] = number[2 * m], (&down)[4] = number[2 * m + 1];
        const auto add = [&](int part) {
#pragma unroll
          for (int e = 0; e < 4; ++e)
            sum[m][i + c][e] = fma(product[e], scale[2 * m + e / 2][part], sum[m][i + c][e]);
        };
        multiply_first(product, {up[0], down[0], up[1], down[1]}, x[c].x, x[c].y);
        if constexpr (Tile::kParts == 2) {
          add(0);
          multiply_first(product, {up[2], down[2], up[3], down[3]}, x[c].z, x[c].w);
        } else {
          multiply(product, {up[2], down[2], up[3], down[3]}, x[c].z, x[c].w);
        }
        add(Tile::kParts - 1);
      }
  }
}

// Adds block 2 p + b of a unit of a format of 256 elements, ahead of d.
template <int kFormat, int b, int kEach>
__device__ __forceinline__ void add_scaled_block(const Byte *slot, const Byte *step, int p,
                                                 int lane, const unsigned (&scales)[4],
                                                 TileSums<kEach> &part) {
  typedef WeightTile<kFormat> Tile;
  unsigned number[4][Tile::kNumbers][4];
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if constexpr (Repacked<kFormat>::kIsNarrow) {
      NarrowFactors<kFormat> factors;
      factors.set(scales[j] | factors.kBase, factors.template steps<1, 0>());
      factors.template scaled<b>(Tile::narrow(slot, j, p, lane), number[j][0]);
    } else {
      Tile::template scaled_numbers<b>(Tile::words(slot, j, p, lane), Tile::factors(scales[j]),
                                       number[j]);
    }
#pragma unroll
  for (int i = 0; i < kEach; i += 2) {
    const Right x[2] = {right_of<kFormat>(step, i, b, lane),
                        right_of<kFormat>(step, i + 1, b, lane)};
#pragma unroll
    for (int s = 0; s < Tile::kNumbers; ++s)
#pragma unroll
      for (int h = 0; h < 4; h += 2)
#pragma unroll
        for (int c = 0; c < 2; ++c)
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            const unsigned(&up)[4] = number[2 * m][s], (&down)[4] = number[2 * m + 1][s];
            multiply(part[m][i + c], {up[h], down[h], up[h + 1], down[h + 1]},
                     h == 0 ? x[c].x : x[c].z, h == 0 ? x[c].y : x[c].w);
          }
  }
}

// Adds leasts times sums of x, which begin anew: of a unit, or of q2_k of half of one.
template <int kFormat, int kEach, int kWarps>
__device__ __forceinline__ void
add_leasts(const Byte *slot, int later, bool half, const unsigned (&d)[4], int lane,
           RowSums<kFormat, kEach, kWarps> &xs, TileSums<kEach> &sum) {
  typedef WeightTile<kFormat> Tile;
  constexpr bool kIsLarge = Repacked<kFormat>::kIsLarge;
  constexpr float kStep = kIsLarge ? 1 : 1 / Numbers<kFormat>::kFactor; // of `sum`
  xs.end(kStep);
  unsigned least[4];
#pragma unroll
  for (int j = 0; j < 4; ++j)
    least[j] = Tile::leasts_of(slot, j, later, half, lane);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const uint2 c = xs.of(i);
#pragma unroll
    for (int m = 0; m < 2; ++m)
      if constexpr (kIsLarge) {
        float below[4] = {};
        multiply_bf16(below, {least[2 * m], least[2 * m + 1], least[2 * m], least[2 * m + 1]}, c.x,
                      c.y);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          sum[m][i][e] = fma(below[e], -half_of(d[2 * m + e / 2], 1), sum[m][i][e]);
      } else {
        multiply_bf16(sum[m][i], {least[2 * m], least[2 * m + 1], least[2 * m], least[2 * m + 1]},
                      c.x, c.y);
      }
  }
}

// All warps that read the ring of columns `warp` have come here.
template <int kShares> __device__ __forceinline__ void wait_for_readers(int warp) {
  if constexpr (kShares == 1)
    __syncwarp();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(warp + 1), "n"(32 * kShares) : "memory");
}

// Whether half a unit is behind the whole ones.
#ifdef HALF_UNIT
constexpr bool kHasHalf = true;
#else
constexpr bool kHasHalf = false;
#endif

// Whether ptxas would begin a second block beside the first, for which there are no registers.
constexpr bool kBeginsBoth = __CUDA_ARCH__ >= 1200;

// Units `first` to `first` + `units` - 1 of k.
template <int kFormat, int kEach, int kWarps, bool kAligned>
__device__ __forceinline__ void
add_tile(const T *x, const Byte *w, long long row, const long long &column, long long rows,
         long long n, long long k, int first, int units, Byte *shared, TileSums<kEach> &sum) {
  typedef WeightTile<kFormat> Tile;
  typedef TileForm<kFormat, kEach, kWarps> Form;
  constexpr int kSteps = Tile::kUnit * kBlock / kStep; // of a unit
  constexpr int kSlots = Form::kSlots, kSlot = Form::kSlot, kShares = Form::kShares;
  constexpr bool kHasLeast = BlockFormat<kFormat>::kHasLeast;
  const int lane = threadIdx.x, warp = threadIdx.y % Form::kGroups,
            share = threadIdx.y / Form::kGroups;
  // Units that are whole, and the steps of all.
  const int whole = kHasHalf && first + units > int(k / (Tile::kUnit * kBlock)) ? units - 1 : units,
            steps = kHasHalf ? whole * kSteps + (units - whole) * (kSteps / 2) : units * kSteps;
  Byte *ring = shared + kSlots * kSlot + warp * 2 * Tile::kSlot;
  const WeightCopies<kFormat, kShares, Form::kGroups> weights = {w, column, n, k / kBlock};
  RowCopies<Form, kAligned> copies(x, row, rows, k, first * Tile::kUnit * kBlock,
                                   threadIdx.y * 32 + lane);
  const auto copy_unit = [&](int unit) {
    const unsigned to = shared_address(ring + unit % 2 * Tile::kSlot);
    if constexpr (kHasHalf)
      if (unit == whole)
        return weights.copy_half(to);
    weights.copy(to, first + unit);
  };
  copy_unit(0);
#pragma unroll
  for (int i = 0; i + 1 < kSlots; ++i) {
    if (i < steps)
      copies.copy(shared + i * kSlot);
    end_copies();
  }
  int now = 0, next = (kSlots - 1) * kSlot, step = 0;
  const Byte *const own_rows = shared + share * kEach * 8 * kStepBytes;
  TileSums<kEach> part = {};
  RowSums<kFormat, kEach, kWarps> xs(shared + kSlots * kSlot + Form::kGroups * 2 * Tile::kSlot,
                                     warp, share);
#pragma unroll 1
  for (int unit = 0; unit < units; ++unit) {
    const Byte *slot = ring + unit % 2 * Tile::kSlot;
    unsigned d[4] = {};
    wait_for_readers<kShares>(warp); // of the slot before
    if (unit + 1 < units)
      copy_unit(unit + 1);
#pragma unroll 1
    for (int p = 0; p < (kHasHalf && unit == whole ? kSteps / 2 : kSteps); ++p) {
      wait_for_copies<kSlots - 2>();
      __syncthreads(); // the step is there for all, and the one before has been read
      if (step + kSlots - 1 < steps)
        copies.copy(shared + next);
      end_copies();
      ++step;
      const Byte *own = own_rows + now;
      if constexpr (kHasLeast) {
        xs.add(own, 0, 2 * p);
        xs.add(own, 1, 2 * p + 1);
      }
      if constexpr (Tile::kFolds) {
        unsigned scales[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          scales[j] = Tile::scales_of(slot, j, p, lane);
        add_scaled_block<kFormat, 0, kEach>(slot, own, p, lane, scales, part);
        add_scaled_block<kFormat, 1, kEach>(slot, own, p, lane, scales, part);
      } else {
        add_block_of_tile<kFormat, 0, kEach>(slot, own, p, lane, first + unit, n, sum);
        if constexpr (kBeginsBoth && (Repacked<kFormat>::kIsLarge || Repacked<kFormat>::kHigh > 0))
          __syncwarp();
        add_block_of_tile<kFormat, 1, kEach>(slot, own, p, lane, first + unit, n, sum);
      }
      now = now == (kSlots - 1) * kSlot ? 0 : now + kSlot;
      next = next == (kSlots - 1) * kSlot ? 0 : next + kSlot;
      if constexpr (kFormat == 26)
        if (p == 1) {
#pragma unroll
          for (int j = 0; j < 4; ++j)
            d[j] = Tile::d_of(slot, j, first + unit, n, lane);
          add_leasts(slot, 0, false, d, lane, xs, sum);
        }
    }
    if constexpr (Repacked<kFormat>::kIsLarge)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        d[j] = Tile::d_of(slot, j, first + unit, n, lane);
    if constexpr (Tile::kFolds)
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sum[m][i][e] =
                fma(part[m][i][e], half_of(d[2 * m + e / 2], 0) * Numbers<kFormat>::kFactor,
                    sum[m][i][e]);
            part[m][i][e] = 0;
          }
    if constexpr (kHasLeast)
      add_leasts(slot, 1, unit == whole, d, lane, xs, sum);
  }
  wait_for_copies<0>();
}

template <int kFormat, int kEach, int kWarps>
__device__ __forceinline__ void multiply_tile(const T *x, const Byte *w, BIAS_PARAMETER OUT *y,
                                              float *parts, unsigned *counters, unsigned places,
                                              long long rows, long long n, long long k,
                                              Byte *shared FUSED_PARAMETERS) {
  typedef TileForm<kFormat, kEach, kWarps> Form;
  constexpr int kRows = Form::kRows, kThreads = Form::kThreads;
  __shared__ TilePlace<kRows, Form::kColumns> own; // registers do not keep it beside the sums
  if (threadIdx.x == 0 && threadIdx.y == 0)
    own.set(blockIdx.x, places, rows, n);
  __syncthreads();
  TileSums<kEach> sum = {};
  {
    const unsigned units = unsigned(k / (Repacked<kFormat>::kUnit * kBlock)) + (kHasHalf ? 1 : 0);
    const unsigned first = own.part * units / own.parts,
                   count = (own.part + 1) * units / own.parts - first;
    if (is_x_aligned(x))
      add_tile<kFormat, kEach, kWarps, true>(x, w, own.row, own.column, rows, n, k, int(first),
                                             int(count), shared, sum);
    else
      add_tile<kFormat, kEach, kWarps, false>(x, w, own.row, own.column, rows, n, k, int(first),
                                              int(count), shared, sum);
  }
  if (own.parts > 1 && !join_splits<kThreads>(parts, counters, own.cut, own.part, own.parts,
                                              threadIdx.y * 32 + threadIdx.x, shared, sum))
    return;
  const long long row = own.row, column = own.column;

  // Through shared memory, so that it is stored in runs.
  constexpr float kFactor = Repacked<kFormat>::kIsLarge ? 1.0f : Numbers<kFormat>::kFactor;
  constexpr int kWidth = Form::kColumns + 8;
  T *result = reinterpret_cast<T *>(shared);
  const int lane = threadIdx.x, warp = threadIdx.y % Form::kGroups,
            share = threadIdx.y / Form::kGroups;
  __syncthreads();
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int at = warp * 32 + 16 * m + lane / 4 + e / 2 * 8;
        const float added = column + at < n ? BIAS_AT(column + at) : Acc(0);
        result[((share * kEach + i) * 8 + lane % 4 * 2 + e % 2) * kWidth + at] =
            T(sum[m][i][e] * kFactor + added);
      }
  __syncthreads();
  const int thread = warp * 32 + lane;
  if (column + thread < n)
#pragma unroll 4
    for (int r = share; r < kRows; r += Form::kShares)
      if (row + r < rows)
        STORE((row + r) * n + column + thread, result[r * kWidth + thread]);
}

#endif
