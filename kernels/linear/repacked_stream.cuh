// Products of up to 8 rows with matrices of repacked blocks, of f16 and bf16, by blocks that stay:
// each takes groups of 16 columns, one after the other, and the units of a group go round among its
// warps, as in repacked_sums.cuh, so that sums have the same bits.
//
// A warp copies its units, and what belongs to them of x, asynchronously into a ring of its own in
// shared memory, and goes on from one group to the next without a gap: while it multiplies a unit,
// and while a group's sums meet, those behind are on their way. The first units are asked for
// before the block waits for the kernels in front (programmatic.cuh): nothing writes weights
// meanwhile, or the runtime lets the kernel begin later. Up to there nothing branches.
//
// n is a multiple of 16; rows of w have whole units, or of formats without high bits whole blocks.
//
// clang-format off
//   group 0  | unit 0: warp 0 | unit 1: warp 1 | .. | unit 8: warp 0 | ..; group 1 likewise
//   a slot   | low bits, 16 rows | high bits, 16 rows | scales, 16 rows | d, 16 rows | x, kTall rows
// clang-format on
//
// Rows of x lie kPitch apart and words of low bits are exchanged, so that lanes read different
// banks.
#pragma once

#include "linear/repacked_sums.cuh"

#if defined(MULTIPLIES_BY_MMA) && __CUDA_ARCH__ >= 800

constexpr int kStreamWarps = 8;

// The parts of a slot, in bytes. kTall: the rows of x that it has; 0 where x lies elsewhere.
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

// The 16 rows of w that a group has: eight from `first` on, and eight from `first` + apart on.
struct RowsOfGroup {
  const Byte *w;
  unsigned first; // a multiple of 8
};

// Neighbouring groups of one matrix. What else has groups has these members, too: all are alike.
struct NeighbourGroups {
  const Byte *w;
  unsigned begin;                                                  // a group's number
  static __device__ __forceinline__ unsigned apart() { return 8; } // a multiple of 8
  __device__ __forceinline__ RowsOfGroup rows(unsigned group) const {
    return {w, (begin + group) * 16};
  }
};

// Where a warp reads its units, one after the other: each kStreamWarps behind the last one, then
// those of the group behind.
template <int kFormat, int kTall, class Groups> struct Feed {
  typedef StreamSlot<kFormat, kTall> Slot;
  typedef Repacked<kFormat> Layout;
  static constexpr int kLowChunks = Slot::kLowRow / Slot::kChunk, kLowRows = 32 / kLowChunks;
  static constexpr int kHighChunks = Slot::kHighRow / Slot::kChunk,
                       kHighRows = kHighChunks > 0 ? 32 / kHighChunks : 1;
  static constexpr int kScaleChunks = Slot::kScaleRow, kTailChunks = Slot::kTailRow;
  static_assert(kLowRows <= 8, "of one half of a group");
  static_assert(kScaleChunks + kTailChunks <= 32, "a copy each");

  const Groups groups;
  const Byte *w;
  unsigned first;            // row of the group
  unsigned low, high, small; // what this lane copies first of unit 0, from w on; scales, or d
  unsigned pitch, units, small_row, small_unit;
  unsigned low_to; // where to, in a slot
  unsigned group, unit;

  // From unit `warp` of the first group on.
  __device__ __forceinline__ Feed(const Groups &groups, long long n, long long k)
      : groups(groups), pitch(unsigned(k / 8)), units(unsigned(k) / Slot::kElements), group(0),
        unit(warp_anew()) {
    const unsigned lane = thread_anew(), blocks = pitch / 4;
    const RowsOfGroup rows = groups.rows(0);
    w = rows.w, first = rows.first;
    low_to = lane / kLowChunks * Slot::kLowRow +
             Slot::low_chunk(lane / kLowChunks, lane % kLowChunks) * Slot::kChunk;
    low = row(lane / kLowChunks) * pitch * Layout::kLow + lane % kLowChunks * Slot::kChunk;
    high = 0;
    if constexpr (kHighChunks > 0)
      high = unsigned(Layout::template high_at<true>(0, 0, 0, n, blocks)) +
             row(lane / kHighChunks) * pitch * Layout::kHigh + lane % kHighChunks * Slot::kChunk;
    const bool is_tail = lane >= kScaleChunks;
    const unsigned chunk = is_tail ? lane - kScaleChunks : lane;
    small_row = is_tail ? Slot::kTailRow : Slot::kScaleRow;
    small_unit = unsigned(n) * small_row;
    small = (is_tail ? unsigned(Layout::tail_at(0, 0, n, blocks))
                     : unsigned(Layout::template scale_at<true>(0, 0, n, blocks))) +
            (first + between(2 * chunk >= small_row)) * small_row + chunk * Slot::kChunk;
  }
  // Row r of the group, and rows between its halves.
  __device__ __forceinline__ unsigned row(unsigned r) const { return first + r + between(r >= 8); }
  __device__ __forceinline__ unsigned between(bool is_second) const {
    return is_second ? groups.apart() - 8 : 0;
  }

  // Into a slot, by its address in shared memory.
  __device__ __forceinline__ void copy_weights(unsigned slot, bool active) const {
    const int lane = thread_anew();
    const Byte *const lows = w + (low + unit * Slot::kLowRow);
#pragma unroll
    for (int r = 0; r < 16; r += kLowRows) // an even number of rows
      copy_bytes_if<Slot::kChunk>(active, slot + low_to + r * Slot::kLowRow,
                                  lows + apart(r) * Layout::kLow);
    if constexpr (kHighChunks > 0) {
      const Byte *const highs = w + (high + unit * Slot::kHighRow);
#pragma unroll
      for (int r = 0; r < 16; r += kHighRows)
        copy_bytes_if<Slot::kChunk>(active && (kHighRows <= 16 || lane < 16 * kHighChunks),
                                    slot + Slot::kHigh + r * Slot::kHighRow + lane * Slot::kChunk,
                                    highs + apart(r) * Layout::kHigh);
    }
    copy_bytes_if<Slot::kChunk>(active && lane < kScaleChunks + kTailChunks,
                                slot + Slot::kScales + lane * Slot::kChunk,
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

// What a warp copies of x: rows of k elements, the unit's part.
template <int kFormat, int kTall> struct FeedOfX {
  typedef StreamSlot<kFormat, kTall> Slot;
  static constexpr int kChunks = Slot::kElements * int(sizeof(T)) / Slot::kChunk,
                       kRows = 32 / kChunks;
  const T *x;
  long long k;
  int rows;

  const T *own; // of the lane
  unsigned to;

  __device__ __forceinline__ FeedOfX(const T *x, long long k, int rows)
      : x(x), k(k), rows(kTall == 1 ? 1 : rows) {
    const int lane = thread_anew();
    own = x + lane / kChunks * k + lane % kChunks * (Slot::kChunk / int(sizeof(T)));
    to = Slot::kX + lane / kChunks * Slot::kPitch + lane % kChunks * Slot::kChunk;
  }
  template <bool kAligned>
  __device__ __forceinline__ void copy(unsigned slot, unsigned unit, bool active) const {
    const int lane = thread_anew();
    if constexpr (kTall == 0) {
    } else if constexpr (kAligned) {
      const T *from = own + (unsigned long long)(unit)*Slot::kElements;
#pragma unroll
      for (int r = 0; r < kTall; r += kRows)
        copy_bytes_if<Slot::kChunk>(active &&
                                        ((kTall == 1 && kRows == 1) || r + lane / kChunks < rows),
                                    slot + to + r * Slot::kPitch, from + r * k);
    } else if (active) {
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

// Adds the unit in a slot to the lane's sums. `x`: what the lane's row has of the unit.
template <int kFormat, int kTall>
__device__ __forceinline__ void add_slot(const Byte *slot, const T *x, float (&sum)[4]) {
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
  lane.x.first = x + Repacked<kFormat>::element(q, 0);
  lane.x.apart[0] = 0;
  lane.read_ahead();
  add_read(lane, sum);
}

typedef float StreamSums[2][kStreamWarps][8][17]; // in turns, so that a group has one barrier

// A block's groups, for 1 row of x or for up to 8, kRows. x has rows of k elements; with kCopiesX
// the ring has its part of them, without they are at multiples of 16 bytes. `ring`: kSlots slots a
// warp.
template <int kFormat, int kRows, bool kCopiesX, int kSlots, class Groups> struct Stream {
  static constexpr int kTall = kCopiesX ? kRows : 0;
  typedef StreamSlot<kFormat, kTall> Slot;
  typedef Repacked<kFormat> Layout;
  const Groups groups;
  const unsigned count; // of groups
  const long long n, k;
  Byte *const ring;

  __device__ __forceinline__ unsigned own_ring() const {
    return shared_address(ring) + warp_anew() * (kSlots * Slot::kBytes);
  }
  // Units of the warp in a group.
  __device__ __forceinline__ int own_units() const {
    const unsigned units = unsigned(k) / Slot::kElements;
    return int((units + kStreamWarps - 1 - warp_anew()) / kStreamWarps);
  }

  // Asks for the first weights; with `active` false for none.
  __device__ __forceinline__ void begin(bool active = true) const {
    const int left = active ? int(count) * own_units() : 0;
    Feed<kFormat, kTall, Groups> feed(groups, n, k);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      feed.copy_weights(own_ring() + s * Slot::kBytes, s < left);
      feed.template go_on<true>();
    }
    end_copies();
  }

  // The rest. store(group, row, column, what the warps have of it).
  template <bool kAligned, class Store>
  __device__ __forceinline__ void run(const T *x, int rows, StreamSums &partial,
                                      Store store) const {
    const int own = own_units();
    int left = int(count) * own;
    const FeedOfX<kFormat, kTall> feed_of_x(x, k, rows);
    Feed<kFormat, kTall, Groups> feed(groups, n, k);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      feed_of_x.template copy<kAligned>(own_ring() + s * Slot::kBytes, feed.unit, left > s);
      end_copies();
      feed.template go_on<true>();
    }
    left -= kSlots;
    // Rows beyond the last repeat the first; they are not stored.
    const int g = threadIdx.x / 4;
    const int row = kRows > 1 && g < rows ? g : 0;
    int slot = 0;
    const Byte *const own_slots = ring + int(threadIdx.y) * (kSlots * Slot::kBytes);
#pragma unroll 1
    for (unsigned group = 0; group < count; ++group) {
      float sum[4] = {};
      LoneBlock<kFormat, 2> lone;
      const bool has_lone = reads_lone(lone, group, own, x + row * k);
      const T *unit_of_x = x + row * k + int(threadIdx.y) * Slot::kElements;
#pragma unroll 1
      for (const int behind = left - own; left != behind;) {
        wait_for_copies<kSlots - 1>();
        __syncwarp(); // other lanes have waited for what they copied
        const Byte *from = own_slots + slot;
        add_slot<kFormat, kTall>(
            from,
            kTall > 0 ? reinterpret_cast<const T *>(from + Slot::kX + row * Slot::kPitch)
                      : unit_of_x,
            sum);
        unit_of_x += kStreamWarps * Slot::kElements;
        __syncwarp(); // and have read the slot
        feed.copy_weights(own_ring() + slot, left > 0);
        feed_of_x.template copy<kAligned>(own_ring() + slot, feed.unit, left > 0);
        end_copies();
        feed.template go_on<false>();
        --left;
        slot = slot == (kSlots - 1) * Slot::kBytes ? 0 : slot + Slot::kBytes;
      }
      if (has_lone)
        lone.add(sum);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sum[e] *= kStepOfSums<kFormat>;
      float(&sums)[kStreamWarps][8][17] = partial[group % 2];
      if constexpr (kRows > 1)
        store_sums(sum, sums);
      else if (threadIdx.x % 4 == 0)
        sums[threadIdx.y][0][g] = sum[0], sums[threadIdx.y][0][g + 8] = sum[2];
      __syncthreads();
      const int thread = int(threadIdx.y) * 32 + int(threadIdx.x), r = thread / 16, o = thread % 16;
      if (kRows > 1 ? r < rows : r == 0)
        store(group, r, o, sums);
    }
  }

  // A block behind the last whole unit, where this warp has one; asked for before the units are
  // waited for.
  __device__ __forceinline__ bool reads_lone(LoneBlock<kFormat, 2> &lone, unsigned group, int own,
                                             const T *row_of_x) const {
    if constexpr (Layout::kIsLarge || Layout::kHigh > 0)
      return false;
    const int blocks = int(unsigned(k) / kBlock), whole = blocks / Layout::kUnit;
    const int i = int(threadIdx.y) + own * kStreamWarps - whole;
    if (blocks % Layout::kUnit == 0 || i >= blocks % Layout::kUnit)
      return false;
    const int g = threadIdx.x / 4;
    const RowsOfGroup rows = groups.rows(group);
    const Places<2> at = {{row_of_x, {0}}, {rows.first + g, rows.first + groups.apart() + g},
                          rows.w,          n,
                          blocks,          int(threadIdx.x % 4)};
    lone.read(at, whole, i);
    return true;
  }
};

#endif
