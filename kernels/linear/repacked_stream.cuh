// Products of up to 8 rows with a matrix of repacked blocks, of f16 and bf16, by blocks that stay:
// each takes neighbouring tiles of 16 columns, and the units of a tile go round among its warps, as
// in repacked_sums.cuh, so that sums have the same bits.
//
// A warp copies its units, and what belongs to them of x, asynchronously into a ring of its own in
// shared memory, and goes on from one tile to the next without a gap: while it multiplies a unit,
// and while a tile's sums meet, those behind are on their way. n is a multiple of 16, a row of w of
// whole units.
//
// clang-format off
//   tile 0   | unit 0: warp 0 | unit 1: warp 1 | .. | unit 8: warp 0 | ..; tile 1 likewise
//   a slot   | low bits, 16 rows | high bits, 16 rows | scales, 16 rows | d, 16 rows | x, kTall rows
// clang-format on
//
// Rows of x lie kPitch apart and words of low bits are exchanged, so that lanes read different
// banks.
#pragma once

#include "linear/repacked_sums.cuh"
#include "shared/bias.cuh"

#if defined(MULTIPLIES_BY_MMA) && __CUDA_ARCH__ >= 800

// The parts of a slot, in bytes.
template <int kFormat, int kTall> struct StreamSlot {
  typedef Repacked<kFormat> Layout;
  static constexpr int kElements = Layout::kUnit * kBlock;
  static constexpr int kLowRow = kElements / 8 * Layout::kLow,
                       kHighRow = kElements / 8 * Layout::kHigh,
                       kScaleRow = Layout::kScaleBytes * (Layout::kIsLarge ? 1 : Layout::kUnit),
                       kTailRow = Layout::kTailBytes;
  static constexpr int kHigh = 16 * kLowRow, kScales = kHigh + 16 * kHighRow,
                       kTail = kScales + 16 * kScaleRow, kX = kTail + 16 * kTailRow;
  static constexpr int kPitch = kElements * int(sizeof(T)) + 64;
  static constexpr int kBytes = kX + kTall * kPitch;
  static constexpr int kChunk = 16; // bytes of a copy
  // A lane's bytes of low bits of a row, 16 or 32: of 32 the halves change places in odd rows.
  static constexpr int kLowLane = kLowRow / 4;
  static __device__ __forceinline__ int low_chunk(int row, int chunk) {
    return kLowLane == 32 ? chunk ^ (row & 1) : chunk;
  }
};

// Where a warp reads its units, one after the other: each kWarps behind the last one, then those of
// the tile behind.
template <int kFormat, int kTall, int kWarps> struct Feed {
  typedef StreamSlot<kFormat, kTall> Slot;
  typedef Repacked<kFormat> Layout;
  static constexpr int kLowChunks = Slot::kLowRow / Slot::kChunk, kLowRows = 32 / kLowChunks;
  static constexpr int kHighChunks = Slot::kHighRow / Slot::kChunk,
                       kHighRows = kHighChunks > 0 ? 32 / kHighChunks : 1;
  static constexpr int kScaleChunks = Slot::kScaleRow, kTailChunks = Slot::kTailRow;
  static_assert(kScaleChunks + kTailChunks <= 32, "a copy each");
  static constexpr int kXChunks = Slot::kElements * int(sizeof(T)) / Slot::kChunk,
                       kXRows = 32 / kXChunks;

  const Byte *w;
  const T *x, *own_x;
  // What this lane copies first of unit 0 of the tile, from w on; `small`: scales, or d.
  unsigned low, high, small;
  unsigned pitch, small_unit, small_tile;
  unsigned low_to, x_to; // where to, in a slot
  unsigned unit, units;
  long long k;
  int rows;

  // From unit `warp` of tile `tile` on.
  __device__ __forceinline__ Feed(const T *x, const Byte *w, int rows, unsigned tile, int warp,
                                  long long n, long long k)
      : w(w), x(x), pitch(unsigned(k / 8)), unit(warp), units(unsigned(k / Slot::kElements)), k(k),
        rows(kTall == 1 ? 1 : rows) {
    const int lane = threadIdx.x;
    own_x = x + lane / kXChunks * k + lane % kXChunks * (Slot::kChunk / int(sizeof(T)));
    x_to = Slot::kX + lane / kXChunks * Slot::kPitch + lane % kXChunks * Slot::kChunk;
    low_to = lane / kLowChunks * Slot::kLowRow +
             Slot::low_chunk(lane / kLowChunks, lane % kLowChunks) * Slot::kChunk;
    const long long row = tile * 16ll, blocks = k / kBlock;
    low = unsigned(Layout::template low_at<true>(row + lane / kLowChunks, 0, 0, blocks)) +
          lane % kLowChunks * Slot::kChunk;
    high = 0;
    if constexpr (kHighChunks > 0)
      high = unsigned(Layout::template high_at<true>(row + lane / kHighChunks, 0, 0, n, blocks)) +
             lane % kHighChunks * Slot::kChunk;
    const bool is_tail = lane >= kScaleChunks;
    small =
        is_tail
            ? unsigned(Layout::tail_at(row, 0, n, blocks)) + (lane - kScaleChunks) * Slot::kChunk
            : unsigned(Layout::template scale_at<true>(row, 0, n, blocks)) + lane * Slot::kChunk;
    small_tile = 16 * (is_tail ? Slot::kTailRow : Slot::kScaleRow);
    small_unit = unsigned(n) * (is_tail ? Slot::kTailRow : Slot::kScaleRow);
  }

  // Into a slot, by its address in shared memory.
  __device__ __forceinline__ void copy_weights(unsigned slot) const {
    const int lane = threadIdx.x;
    const unsigned from = low + unit * Slot::kLowRow;
#pragma unroll
    for (int r = 0; r < 16; r += kLowRows) // an even number of rows
      copy_bytes<Slot::kChunk>(slot + low_to + r * Slot::kLowRow,
                               w + (from + r * pitch * Layout::kLow));
    if constexpr (kHighChunks > 0) {
      const unsigned from = high + unit * Slot::kHighRow;
#pragma unroll
      for (int r = 0; r < 16; r += kHighRows)
        if (kHighRows <= 16 || lane < 16 * kHighChunks)
          copy_bytes<Slot::kChunk>(slot + Slot::kHigh + r * Slot::kHighRow + lane * Slot::kChunk,
                                   w + (from + r * pitch * Layout::kHigh));
    }
    if (lane < kScaleChunks + kTailChunks)
      copy_bytes<Slot::kChunk>(slot + Slot::kScales + lane * Slot::kChunk,
                               w + (small + unit * small_unit));
  }
  template <bool kAligned> __device__ __forceinline__ void copy_x(unsigned slot) const {
    const int lane = threadIdx.x;
    if constexpr (kAligned) {
      const Byte *from = reinterpret_cast<const Byte *>(own_x) +
                         (unsigned long long)(unit) * (Slot::kElements * sizeof(T));
#pragma unroll
      for (int r = 0; r < kTall; r += kXRows)
        if ((kTall == 1 && kXRows == 1) || r + lane / kXChunks < rows)
          copy_bytes<Slot::kChunk>(slot + x_to + r * Slot::kPitch, from + r * k * sizeof(T));
    } else {
      const T *begin = x + (unsigned long long)(unit)*Slot::kElements;
#pragma unroll 1
      for (int i = lane; i < rows * Slot::kElements; i += 32) {
        const int r = i / Slot::kElements, e = i % Slot::kElements;
        const unsigned to = slot + Slot::kX + r * Slot::kPitch + e * int(sizeof(T));
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to),
                     "h"(*reinterpret_cast<const unsigned short *>(begin + r * k + e))
                     : "memory");
      }
    }
  }
  __device__ __forceinline__ void go_on() {
    unit += kWarps;
    if (unit >= units) {
      unit = warp_anew();
      low += 16 * pitch * Layout::kLow;
      high += 16 * pitch * Layout::kHigh;
      small += small_tile;
    }
  }
};

// Words of shared memory, as read_words of repacked_sums.cuh has them elsewhere.
template <int kWords> __device__ __forceinline__ void read_slot(unsigned *to, const Byte *from) {
  constexpr int kEach = kWords % 4 == 0 ? 4 : kWords % 2 == 0 ? 2 : 1;
#pragma unroll
  for (int i = 0; i < kWords; i += kEach) {
    if constexpr (kEach == 4) {
      const uint4 word = *reinterpret_cast<const uint4 *>(from + 4 * i);
      to[i] = word.x, to[i + 1] = word.y, to[i + 2] = word.z, to[i + 3] = word.w;
    } else if constexpr (kEach == 2) {
      const uint2 word = *reinterpret_cast<const uint2 *>(from + 4 * i);
      to[i] = word.x, to[i + 1] = word.y;
    } else {
      to[i] = *reinterpret_cast<const unsigned *>(from + 4 * i);
    }
  }
}

// Adds the unit in a slot to the lane's sums.
template <int kFormat, int kTall>
__device__ __forceinline__ void add_slot(const Byte *slot, int rows, float (&sum)[4]) {
  typedef StreamSlot<kFormat, kTall> Slot;
  typedef Lane<kFormat, 2, true> Own;
  const int g = threadIdx.x / 4, q = threadIdx.x % 4;
  Own lane;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const int row = g + 8 * s;
#pragma unroll
    for (int j = 0; j < Slot::kLowLane / 16; ++j)
      read_slot<4>(lane.low[s] + 4 * j,
                   slot + row * Slot::kLowRow +
                       Slot::low_chunk(g, q * (Slot::kLowLane / 16) + j) * Slot::kChunk);
    if constexpr (Own::kHighWords > 0)
      read_slot<Own::kHighWords>(lane.high[s], slot + Slot::kHigh + row * Slot::kHighRow +
                                                   q * (Slot::kHighRow / 4));
    read_slot<Own::kScaleWords>(lane.scales[s], slot + Slot::kScales + row * Slot::kScaleRow);
    const Byte *tail = slot + Slot::kTail + row * Slot::kTailRow;
    if constexpr (Slot::kTailRow == 4)
      lane.tail[s] = *reinterpret_cast<const unsigned *>(tail);
    else if constexpr (Slot::kTailRow == 2)
      lane.tail[s] = *reinterpret_cast<const unsigned short *>(tail);
  }
  // Rows beyond the last repeat the first; they are not stored.
  lane.x.first = reinterpret_cast<const T *>(slot + Slot::kX + (g < rows ? g : 0) * Slot::kPitch) +
                 Repacked<kFormat>::element(q, 0);
  lane.x.apart[0] = 0;
  lane.read_ahead();
  add_read(lane, sum);
}

// A block's tiles. `ring`: kSlots slots a warp.
template <int kFormat, int kTall, int kSlots, int kWarps, bool kAligned>
__device__ __forceinline__ void stream_tiles(const T *x, const Byte *w, BIAS_PARAMETER T *y,
                                             int rows, long long n, long long k, Byte *ring) {
  typedef StreamSlot<kFormat, kTall> Slot;
  __shared__ float partial[2][kWarps][8][17];
  const int warp = threadIdx.y, thread = warp * 32 + int(threadIdx.x);
  const unsigned tiles = unsigned(n / 16), each = tiles / gridDim.x, more = tiles % gridDim.x;
  const unsigned first = blockIdx.x * each + (blockIdx.x < more ? blockIdx.x : more),
                 end = first + each + (blockIdx.x < more ? 1 : 0);
  Feed<kFormat, kTall, kWarps> feed(x, w, rows, first, warp, n, k);
  // Units of the warp in a tile, and in all that it has not copied yet.
  const int units = int(feed.units), own = units > warp ? (units - warp + kWarps - 1) / kWarps : 0;
  int left = int(end - first) * own;
  ring += warp * (kSlots * Slot::kBytes);
  const unsigned begin = shared_address(ring);
  auto copy_next = [&](unsigned slot) {
    if (left > 0) {
      feed.copy_weights(slot);
      feed.template copy_x<kAligned>(slot);
    }
    end_copies();
    feed.go_on();
    --left;
  };
#pragma unroll
  for (int s = 0; s < kSlots; ++s)
    copy_next(begin + s * Slot::kBytes);
  int slot = 0;
  for (unsigned tile = first; tile < end; ++tile) {
    float sum[4] = {};
#pragma unroll 1
    for (const int behind = left - own; left != behind;) {
      wait_for_copies<kSlots - 1>();
      __syncwarp(); // other lanes have waited for what they copied
      add_slot<kFormat, kTall>(ring + slot, rows, sum);
      __syncwarp(); // and have read the slot
      copy_next(begin + slot);
      slot = slot == (kSlots - 1) * Slot::kBytes ? 0 : slot + Slot::kBytes;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
      sum[e] *= kStepOfSums<kFormat>;
    // Two in turns: one barrier a tile.
    float(&sums)[kWarps][8][17] = partial[(tile - first) % 2];
    store_sums(sum, sums);
    __syncthreads();
    const int r = thread / 16, o = thread % 16;
    if (r < rows) {
      float total = BIAS_AT((long long)(tile)*16 + o);
#pragma unroll
      for (int s = 0; s < kWarps; ++s)
        total += sums[s][r][o];
      y[r * n + (long long)(tile)*16 + o] = T(total);
    }
  }
}

#endif
