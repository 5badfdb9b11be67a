// Products of up to 8 rows, of f16 and bf16 on tensor cores and of f32 without, by blocks that
// stay: each takes groups of 16 columns, one after the other, and the units of a group, runs of k,
// go round among its warps.
//
// A warp copies its units, and what belongs to them of x, asynchronously into a ring of its own in
// shared memory, and goes on from one group to the next without a gap: while it multiplies a unit,
// and while a group's sums meet, those behind are on their way. The first units are asked for
// before the block waits for the kernels in front (programmatic.cuh): nothing writes weights
// meanwhile, or the runtime lets the kernel begin later. Up to there nothing branches.
//
// clang-format off
//   group 0  | unit 0: warp 0 | unit 1: warp 1 | .. | unit 8: warp 0 | ..; group 1 likewise
//   a slot   | a unit of 16 rows of w | x, kTall rows of it
// clang-format on
//
// Rows of x lie kPitch apart, so that lanes read different banks. A kind of unit has:
//
//   kElements    of k
//   kBytes       of a slot, for 16 rows of w
//   kPadding     bytes between rows of x
//   kStep        what sums are multiples of, as it leaves them
//   kIsWhole     whether all units are, and what is behind them is Rest's; else zeros follow the
//                end of a row in its last unit
//   count(k)     the units of a row
//   Feed         where a warp reads its units: each kStreamWarps behind the one before, then those
//                of the group behind
//   Rest         what a warp has behind the last whole unit
//   Kept         what a lane holds through all units
//   kCopiesX     whether a slot of so many rows of x has them: the L1 cache serves what it has not
//   row_of_x()   which row of x the lane reads, of f16 and bf16; of f32 it reads all
//   add(slot, x, inside, kept, sum)   adds the unit in a slot to the lane's sums. x: the unit's
//                part of what the lane reads, of which without kAllInside `inside` elements are;
//                with kAligned it begins at a multiple of 16 bytes
#pragma once

#include "shared/floating.cuh"
#include "shared/mma.cuh"
#include "shared/words.cuh"

typedef unsigned char Byte;

#if !defined(DTYPE_F64) && __CUDA_ARCH__ >= 800

// Sums of a lane, and rows of x that it reads, for kRows rows: by an mma it has two of them for two
// columns and reads one, else all for two.
#if defined(DTYPE_F16) || defined(DTYPE_BF16)
template <int kRows> constexpr int kLaneSums = 4;
template <int kRows> constexpr int kLaneReads = 1;
#else
template <int kRows> constexpr int kLaneSums = 2 * kRows;
template <int kRows> constexpr int kLaneReads = kRows;
#endif
template <int kReads> struct LaneRows {
  const T *first;
  int apart[kReads]; // from it, in elements
};

constexpr int kStreamWarps = 8, kStreamChunk = 16; // bytes of a copy

// kTall: the rows of x that a slot has; 0 where x lies elsewhere.
template <class Unit, int kTall> struct StreamSlot {
  static constexpr int kX = Unit::kBytes,
                       kPitch = Unit::kElements * int(sizeof(T)) + Unit::kPadding,
                       kBytes = kX + kTall * kPitch;
};

// The 16 rows of w that a group has: where it has runs, eight from `first` on, and eight from
// `first`
// + apart on.
struct RowsOfGroup {
  const Byte *w;
  unsigned first, apart;
};

// Neighbouring groups of one matrix of n rows, at least 16. Unless n is a multiple of 16, kWhole,
// the last one has rows of the one before it, too: its own begin at its place. What else has groups
// has these members, too.
template <bool kWhole> struct NeighbourGroups {
  const Byte *w;
  unsigned begin, n; // a group's number
  __device__ __forceinline__ unsigned place(unsigned group) const { return (begin + group) * 16; }
  __device__ __forceinline__ RowsOfGroup rows(unsigned group) const {
    const unsigned own = place(group);
    return {w, kWhole || own + 16 <= n ? own : n < 16 ? 0 : n - 16, 8};
  }
  // Whether all groups have runs, and where some have none, what its row r is.
  static constexpr bool kHasRuns = true;
  __device__ __forceinline__ unsigned row(unsigned group, unsigned r) const {
    return rows(group).first + r;
  }
};

// A chunk to an address in shared memory: from[0] to from[left - 1], and zeros.
__device__ __forceinline__ void store_chunk(unsigned to, const T *from, long long left) {
  unsigned words[4];
  if constexpr (sizeof(T) == 2) {
    read_words<8>(from, left, words);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      words[e] = e < left ? reinterpret_cast<const unsigned *>(from)[e] : 0;
  }
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

// What a warp copies of x: rows of k elements, the unit's part.
template <class Unit, int kTall> struct FeedOfX {
  typedef StreamSlot<Unit, kTall> Slot;
  static constexpr int kEach = kStreamChunk / int(sizeof(T));
  static constexpr int kChunks = Unit::kElements * int(sizeof(T)) / kStreamChunk,
                       kCopies = kChunks > 32 ? kChunks / 32 : 1, // of a row
      kRows = kChunks > 32 ? 1 : 32 / kChunks;                    // of a copy
  const T *x;
  long long k;
  int rows;

  const T *own; // of the lane
  unsigned to;

  __device__ __forceinline__ FeedOfX(const T *x, long long k, int rows)
      : x(x), k(k), rows(kTall == 1 ? 1 : rows) {
    const int lane = thread_anew();
    own = x + lane / kChunks * k + lane % kChunks * kEach;
    to = Slot::kX + lane / kChunks * Slot::kPitch + lane % kChunks * kStreamChunk;
  }
  // is_inside: whether the unit goes on as far as the chunk that the lane copies.
  template <bool kAligned>
  __device__ __forceinline__ void copy(unsigned slot, unsigned unit, bool is_inside,
                                       bool active) const {
    const int lane = thread_anew();
    if constexpr (kTall == 0) {
    } else if constexpr (kAligned) {
      const T *from = own + (unsigned long long)(unit)*Unit::kElements;
#pragma unroll
      for (int r = 0; r < kTall; r += kRows) {
        const bool is_row = active && ((kTall == 1 && kRows == 1) || r + lane / kChunks < rows);
        const unsigned to_row = slot + to + r * Slot::kPitch;
#pragma unroll
        for (int c = 0; c < kCopies; ++c)
          if constexpr (Unit::kIsWhole)
            copy_bytes_if<kStreamChunk>(is_row, to_row + c * 32 * kStreamChunk,
                                        from + r * k + c * 32 * kEach);
          else
            copy_bytes_or_zeros(is_row, is_inside, to_row, from + r * k);
      }
    } else if (active) {
      const T *begin = x + (unsigned long long)(unit)*Unit::kElements;
#pragma unroll 1
      for (int i = lane; i < rows * kChunks; i += 32) {
        const int r = i / kChunks, e = i % kChunks * kEach;
        const long long left =
            Unit::kIsWhole ? kStreamChunk : k - (long long)(unit)*Unit::kElements - e;
        store_chunk(slot + Slot::kX + r * Slot::kPitch + e * int(sizeof(T)), begin + r * k + e,
                    left);
      }
    }
  }
};

typedef float StreamSums[2][kStreamWarps][8][17]; // in turns, so that a group has one barrier

// What a lane has of 16 columns, among what all warps have, as [row][column].
template <int kRows>
__device__ __forceinline__ void store_lane(float (&sum)[kLaneSums<kRows>],
                                           float (&sums)[kStreamWarps][8][17]) {
#if defined(DTYPE_F16) || defined(DTYPE_BF16)
  if constexpr (kRows > 1)
    store_sums(sum, sums);
  else if (const int g = threadIdx.x / 4; threadIdx.x % 4 == 0)
    sums[threadIdx.y][0][g] = sum[0], sums[threadIdx.y][0][g + 8] = sum[2];
#else
#pragma unroll
  for (int e = 0; e < 2 * kRows; ++e) {
    sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], 1);
    sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], 2);
    if (threadIdx.x % 4 == 0)
      sums[threadIdx.y][e % kRows][threadIdx.x / 4 + e / kRows * 8] = sum[e];
  }
#endif
}

// A block's groups, for up to kRows rows of x: of f16 and bf16 1 or 8. x has rows of k elements;
// with kCopiesX the ring has its part of them, as far as the unit wants it. `ring`: kSlots slots a
// warp.
template <class Unit, int kRows, bool kCopiesX, int kSlots, class Groups> struct Stream {
  static constexpr int kTall = kCopiesX && Unit::template kCopiesX<kRows> ? kRows : 0;
  typedef StreamSlot<Unit, kTall> Slot;
  typedef typename Unit::template Feed<Groups> Feed;
  const Groups groups;
  const unsigned count; // of groups
  const long long n, k;
  Byte *const ring;

  __device__ __forceinline__ unsigned own_ring() const {
    return shared_address(ring) + warp_anew() * (kSlots * Slot::kBytes);
  }
  // Units of the warp in a group.
  __device__ __forceinline__ int own_units() const {
    const unsigned units = Unit::count(k);
    return int((units + kStreamWarps - 1 - warp_anew()) / kStreamWarps);
  }

  // Asks for the first weights; with `active` false for none. Of units that are not whole: where
  // run is that of aligned rows.
  __device__ __forceinline__ void begin(bool active = true) const {
    const int all = int(count) * own_units(), left = active ? all : 0; // no branch
    Feed feed(groups, n, k);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      feed.template copy_weights<true>(own_ring() + s * Slot::kBytes, s < left);
      feed.template go_on<true>();
    }
    end_copies();
  }

  // The rest. kAligned: x begins at a multiple of 16 bytes; of units that are not whole, so do all
  // rows, and what is not in the ring. store(group, row, column, what the warps have of it).
  template <bool kAligned, class Store>
  __device__ __forceinline__ void run(const T *x, int rows, StreamSums &partial,
                                      Store store) const {
    // With f32, lanes meet in shuffles: ptxas must see that none stays behind in a loop.
    const int own = sizeof(T) == 4 ? __shfl_sync(0xffffffffu, own_units(), 0) : own_units();
    int left = int(count) * own;
    const FeedOfX<Unit, kTall> feed_of_x(x, k, rows);
    Feed feed(groups, n, k);
#pragma unroll(kAligned ? kSlots : 1)
    for (int s = 0; s < kSlots; ++s) {
      if constexpr (!Unit::kIsWhole && !kAligned)
        feed.template copy_weights<false>(own_ring() + s * Slot::kBytes, left > s);
      feed_of_x.template copy<kAligned>(own_ring() + s * Slot::kBytes, feed.unit, feed.is_inside(),
                                        left > s);
      end_copies();
      feed.template go_on<true>();
    }
    left -= kSlots;
    // Rows beyond the last repeat the first; they are not stored.
    constexpr int kReads = kLaneReads<kRows>;
    const int row = kReads == 1 && kRows > 1 && Unit::row_of_x() < rows ? Unit::row_of_x() : 0;
    LaneRows<kReads> of_x = {x + row * k, {0}}, in_slot = {nullptr, {0}};
#pragma unroll
    for (int r = 1; r < kReads; ++r)
      of_x.apart[r] = r < rows ? r * int(k) : 0,
      in_slot.apart[r] = r < rows ? r * (Slot::kPitch / int(sizeof(T))) : 0;
    const typename Unit::Kept own_kept;
    const unsigned first_slot = kept(own_ring()),
                   last_slot = first_slot + (kSlots - 1) * Slot::kBytes;
    unsigned slot = first_slot;
#pragma unroll 1
    for (unsigned group = 0; group < count; ++group) {
      float sum[kLaneSums<kRows>] = {};
      typename Unit::template Rest<kRows> rest;
      rest.read(groups, group, own, n, k, of_x);
      LaneRows<kReads> unit_of_x = of_x;
      unit_of_x.first += int(threadIdx.y) * Unit::kElements;
      int of_row = int(k) - int(threadIdx.y) * Unit::kElements;
#pragma unroll 1
      for (const int behind = left - own; left != behind;) {
        wait_for_copies<kSlots - 1>();
        __syncwarp(); // other lanes have waited for what they copied
        const Byte *from = static_cast<const Byte *>(__cvta_shared_to_generic(slot));
        if constexpr (kTall > 0)
          in_slot.first = reinterpret_cast<const T *>(from + Slot::kX + row * Slot::kPitch);
        Unit::template add<kRows, (kTall > 0), (kTall > 0 || kAligned)>(
            from, kTall > 0 ? in_slot : unit_of_x,
            unsigned(k) % Unit::kElements == 0 ? Unit::kElements : of_row, own_kept, sum);
        unit_of_x.first += kStreamWarps * Unit::kElements;
        of_row -= kStreamWarps * Unit::kElements;
        __syncwarp(); // and have read the slot
        feed.template copy_weights<kAligned>(slot, left > 0);
        feed_of_x.template copy<kAligned>(slot, feed.unit, feed.is_inside(), left > 0);
        end_copies();
        feed.template go_on<false>();
        --left;
        slot = slot == last_slot ? first_slot : slot + Slot::kBytes;
      }
      rest.add(sum);
#pragma unroll
      for (int e = 0; e < kLaneSums<kRows>; ++e)
        sum[e] *= Unit::kStep;
      float(&sums)[kStreamWarps][8][17] = partial[group % 2];
      store_lane<kRows>(sum, sums);
      __syncthreads();
      const int thread = int(threadIdx.y) * 32 + int(threadIdx.x), r = thread / 16, o = thread % 16;
      if (kRows > 1 ? r < rows : r == 0)
        store(group, r, o, sums);
    }
  }
};

#endif
