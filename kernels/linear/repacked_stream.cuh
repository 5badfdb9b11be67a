// Units of repacked blocks for products of few rows (stream.cuh), of f16, bf16 and f32. Units go
// round among warps as in repacked_sums.cuh, so that sums have the same bits.
//
// n is a multiple of 16; rows of w have whole units, or of formats without high bits whole blocks.
//
// clang-format off
//   a unit   | low bits, 16 rows | high bits, 16 rows | scales, 16 rows | d, 16 rows
// clang-format on
//
// Words of low bits are exchanged, so that lanes read different banks.
#pragma once

#include "linear/repacked_sums.cuh"
#include "linear/stream.cuh"

#if !defined(DTYPE_F64) && __CUDA_ARCH__ >= 800

// The parts of a unit in a slot, in bytes.
template <int kFormat> struct RepackedSlot {
  typedef Repacked<kFormat> Layout;
  static constexpr int kElements = Layout::kUnit * kBlock;
  static constexpr int kLowRow = kElements / 8 * Layout::kLow,
                       kHighRow = kElements / 8 * Layout::kHigh,
                       kScaleRow = Layout::kScaleBytes * (Layout::kIsLarge ? 1 : Layout::kUnit),
                       kTailRow = Layout::kTailBytes;
  static constexpr int kHigh = 16 * kLowRow, kScales = kHigh + 16 * kHighRow,
                       kTail = kScales + 16 * kScaleRow, kBytes = kTail + 16 * kTailRow;
  // A lane's bytes of low bits of a row, 16 or 32: of 32 the halves change places in odd rows.
  static constexpr int kLowLane = kLowRow / 4;
  static __device__ __forceinline__ int low_chunk(int row, int chunk) {
    return kLowLane == 32 ? chunk ^ (row & 1) : chunk;
  }
};

// Where a warp reads its units (stream.cuh).
template <int kFormat, class Groups> struct RepackedFeed {
  typedef RepackedSlot<kFormat> Slot;
  typedef Repacked<kFormat> Layout;
  static constexpr int kLowChunks = Slot::kLowRow / kStreamChunk, kLowRows = 32 / kLowChunks;
  static constexpr int kHighChunks = Slot::kHighRow / kStreamChunk,
                       kHighRows = kHighChunks > 0 ? 32 / kHighChunks : 1;
  static constexpr int kScaleChunks = Slot::kScaleRow, kTailChunks = Slot::kTailRow;
  static_assert(kLowRows <= 8, "of one half of a group");
  static_assert(kScaleChunks + kTailChunks <= 32, "a copy each");

  const Groups groups;
  const Byte *w;
  unsigned first, halves;    // rows of the group: the first; how far the second half is
  unsigned low, high, small; // what this lane copies first of unit 0, from w on; scales, or d
  unsigned pitch, units, small_row, small_unit;
  unsigned low_to; // where to, in a slot
  unsigned group, unit;

  // From unit `warp` of the first group on.
  __device__ __forceinline__ RepackedFeed(const Groups &groups, long long n, long long k)
      : groups(groups), pitch(unsigned(k / 8)), units(unsigned(k) / Slot::kElements), group(0),
        unit(warp_anew()) {
    const unsigned lane = thread_anew(), blocks = pitch / 4;
    const RowsOfGroup rows = groups.rows(0);
    w = rows.w, first = rows.first, halves = rows.apart;
    low_to = lane / kLowChunks * Slot::kLowRow +
             Slot::low_chunk(lane / kLowChunks, lane % kLowChunks) * kStreamChunk;
    low = row(lane / kLowChunks) * pitch * Layout::kLow + lane % kLowChunks * kStreamChunk;
    high = 0;
    if constexpr (kHighChunks > 0)
      high = unsigned(Layout::template high_at<true>(0, 0, 0, n, blocks)) +
             row(lane / kHighChunks) * pitch * Layout::kHigh + lane % kHighChunks * kStreamChunk;
    const bool is_tail = lane >= kScaleChunks;
    const unsigned chunk = is_tail ? lane - kScaleChunks : lane;
    small_row = is_tail ? Slot::kTailRow : Slot::kScaleRow;
    small_unit = unsigned(n) * small_row;
    small = (is_tail ? unsigned(Layout::tail_at(0, 0, n, blocks))
                     : unsigned(Layout::template scale_at<true>(0, 0, n, blocks))) +
            (first + between(2 * chunk >= small_row)) * small_row + chunk * kStreamChunk;
  }
  // Row r of the group, and rows between its halves.
  __device__ __forceinline__ unsigned row(unsigned r) const { return first + r + between(r >= 8); }
  __device__ __forceinline__ unsigned between(bool is_second) const {
    return is_second ? halves - 8 : 0;
  }

  static __device__ __forceinline__ bool is_inside() { return true; }
  // Into a slot, by its address in shared memory.
  template <bool> __device__ __forceinline__ void copy_weights(unsigned slot, bool active) const {
    const int lane = thread_anew();
    const Byte *const lows = w + (low + unit * Slot::kLowRow);
#pragma unroll
    for (int r = 0; r < 16; r += kLowRows) // an even number of rows
      copy_bytes_if<kStreamChunk>(active, slot + low_to + r * Slot::kLowRow,
                                  lows + apart(r) * Layout::kLow);
    if constexpr (kHighChunks > 0) {
      const Byte *const highs = w + (high + unit * Slot::kHighRow);
#pragma unroll
      for (int r = 0; r < 16; r += kHighRows)
        copy_bytes_if<kStreamChunk>(active && (kHighRows <= 16 || lane < 16 * kHighChunks),
                                    slot + Slot::kHigh + r * Slot::kHighRow + lane * kStreamChunk,
                                    highs + apart(r) * Layout::kHigh);
    }
    copy_bytes_if<kStreamChunk>(active && lane < kScaleChunks + kTailChunks,
                                slot + Slot::kScales + lane * kStreamChunk,
                                w + (small + unit * small_unit));
  }
  // Row r of the group from its first, in bytes of rows that have one an element and eight.
  __device__ __forceinline__ long long apart(int r) const {
    return (long long)(r + between(r >= 8)) * pitch;
  }
  // kAlways: where a branch is not allowed.
  template <bool kAlways> __device__ __forceinline__ void go_on() {
    unit += kStreamWarps;
    const bool ends = unit >= units;
    if (!kAlways && !ends)
      return;
    const unsigned warp = warp_anew();
    unit = ends ? warp : unit;
    group += ends;
    const RowsOfGroup rows = groups.rows(group);
    const unsigned rows_on = rows.first - first;
    w = rows.w, first = rows.first;
    low += rows_on * pitch * Layout::kLow;
    high += rows_on * pitch * Layout::kHigh;
    small += rows_on * small_row;
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

// Rows of x that a lane has sums of, for kRows (repacked_sums.cuh).
template <int kRows> constexpr int kSummed = kLaneSums<kRows> / 2;

template <int kFormat, int kRows, bool kAligned>
__device__ __forceinline__ void add_slot(const Byte *slot, const LaneRows<kLaneReads<kRows>> &x,
                                         const Kept<kFormat> &kept,
                                         float (&sum)[kLaneSums<kRows>]) {
  typedef RepackedSlot<kFormat> Slot;
  typedef Lane<kFormat, kSummed<kRows>, kAligned> Own;
  const int g = threadIdx.x / 4, q = threadIdx.x % 4;
  Own lane;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const int row = g + 8 * s;
#pragma unroll
    for (int j = 0; j < Slot::kLowLane / 16; ++j)
      read_slot<4>(lane.low[s] + 4 * j,
                   slot + row * Slot::kLowRow +
                       Slot::low_chunk(g, q * (Slot::kLowLane / 16) + j) * kStreamChunk);
    if constexpr (Own::kHighWords > 0)
      read_slot<Own::kHighWords>(lane.high[s], slot + Slot::kHigh + row * Slot::kHighRow +
                                                   q * (Slot::kHighRow / 4));
    const Byte *scales = slot + Slot::kScales + row * Slot::kScaleRow;
    if constexpr (Repacked<kFormat>::kIsNarrow)
      read_scales<kFormat, false>(lane.scales[s], scales, q);
    else
      read_slot<Own::kScaleWords>(lane.scales[s], scales);
    const Byte *tail = slot + Slot::kTail + row * Slot::kTailRow;
    if constexpr (Slot::kTailRow == 4)
      lane.tail[s] = *reinterpret_cast<const unsigned *>(tail);
    else if constexpr (Slot::kTailRow == 2)
      lane.tail[s] = *reinterpret_cast<const unsigned short *>(tail);
  }
  lane.x = x;
  lane.x.first += Repacked<kFormat>::element(q, 0);
  lane.read_ahead();
  add_read(lane, kept, sum);
}

// A block behind the last whole unit of a row, where this warp has one.
template <int kFormat, int kRows> struct RepackedRest {
  typedef Repacked<kFormat> Layout;
  LoneBlock<kFormat, kSummed<kRows>> lone = {};
  bool is_here = false;

  // Asks for it. own: units of the warp.
  template <class Groups>
  __device__ __forceinline__ void read(const Groups &groups, unsigned group, int own, long long n,
                                       long long k, const LaneRows<kLaneReads<kRows>> &of_x) {
    if constexpr (Layout::kIsLarge || Layout::kHigh > 0)
      return;
    const int blocks = int(unsigned(k) / kBlock), whole = blocks / Layout::kUnit;
    // Read anew: else what follows from them is kept through all groups.
    const int thread = thread_anew(), i = warp_anew() + own * kStreamWarps - whole;
    if (blocks % Layout::kUnit == 0 || i >= blocks % Layout::kUnit)
      return;
    const int g = thread / 4;
    const RowsOfGroup rows = groups.rows(group);
    const Places<kSummed<kRows>> at = {
        of_x, {rows.first + g, rows.first + rows.apart + g}, rows.w, n, blocks, thread % 4};
    lone.read(at, whole, i);
    is_here = true;
  }
  __device__ __forceinline__ void add(float (&sum)[kLaneSums<kRows>]) const {
    if (is_here)
      lone.add(sum);
  }
};

template <int kFormat> struct RepackedUnit {
  typedef RepackedSlot<kFormat> Slot;
  static constexpr int kElements = Slot::kElements, kBytes = Slot::kBytes;
  static constexpr float kStep = kStepOfSums<kFormat>;
  static constexpr int kPadding = 64;
  static constexpr bool kIsWhole = true;
  // Rows of f32 are longer than what w has of them: of more than one a slot would be mostly x.
  template <int kRows> static constexpr bool kCopiesX = sizeof(T) == 2 || kRows == 1;
  static __device__ __forceinline__ unsigned count(long long k) { return unsigned(k) / kElements; }
  template <class Groups> using Feed = RepackedFeed<kFormat, Groups>;
  template <int kRows> using Rest = RepackedRest<kFormat, kRows>;
  typedef ::Kept<kFormat> Kept;
  static __device__ __forceinline__ bool is_aligned(const T *x, const Byte *, long long) {
    return is_x_aligned(x);
  }
  static __device__ __forceinline__ int row_of_x() { return threadIdx.x / 4; }
  template <int kRows, bool, bool kAligned>
  static __device__ __forceinline__ void add(const Byte *slot, const LaneRows<kLaneReads<kRows>> &x,
                                             int, const ::Kept<kFormat> &kept,
                                             float (&sum)[kLaneSums<kRows>]) {
    add_slot<kFormat, kRows, kAligned>(slot, x, kept, sum);
  }
};

#endif
