// Units of numbers, in the form that is multiplied, for products of few rows (stream.cuh): w is [n,
// k] of T, n at least 16. For f16, bf16 and f32.
//
// A unit is 128 bytes of each of 16 rows of w, in chunks of 16 bytes; elements behind the end of a
// row are 0, in x as in w, and so are rows that fewer than 16 lack. Fragments of 8 x 8 elements are
// a chunk of eight rows each.
//
// clang-format off
//   a slot   | row 0: chunks 0 .. 7 | row 1: chunks 1, 0, 3, 2, .. | .. | row r: chunks 0 ^ r % 8, ..
// clang-format on
//
// so that the eight rows of a fragment lie in different banks. Of f32 lane 4 g + q multiplies what
// rows g and g + 8 have in chunks 2 q and 2 q + 1. Where rows do not begin at multiples
// of 16 bytes, slots get their chunks by words, none before the block waits.
#pragma once

#include "linear/stream.cuh"

#if !defined(DTYPE_F64) && __CUDA_ARCH__ >= 800

struct NumberSlot {
  static constexpr unsigned kChunks = 8, kEach = kStreamChunk / sizeof(T),
                            kRowBytes = kChunks * kStreamChunk;
  // Where a chunk of a row is.
  static __device__ __forceinline__ unsigned at(unsigned row, unsigned chunk) {
    return row * kRowBytes + (chunk ^ row % kChunks) * kStreamChunk;
  }
};

struct NumberUnit {
  typedef NumberSlot Slot;
  static constexpr int kElements = Slot::kChunks * Slot::kEach, kBytes = 16 * Slot::kRowBytes,
                       kPadding = kStreamChunk;
  static constexpr float kStep = 1;
  static constexpr bool kIsWhole = false;
  template <int> static constexpr bool kCopiesX = true;
  static __device__ __forceinline__ unsigned count(long long k) {
    return (unsigned(k) + kElements - 1) / kElements;
  }

  static __device__ __forceinline__ bool is_aligned(const T *x, const Byte *w, long long k) {
    return k % Slot::kEach == 0 && (((unsigned long long)(x) | (unsigned long long)(w)) & 15) == 0;
  }

  template <class Groups> struct Feed {
    static constexpr unsigned kRows = 32 / Slot::kChunks; // of a copy
    static constexpr unsigned kCopies = Groups::kHasRuns ? 1 : 16 / kRows;

    const Groups groups;
    const unsigned k, units;
    const Byte *own[kCopies]; // what this lane copies of unit 0: all, or what it copies first
    unsigned apart;           // between the halves of the group
    const unsigned lane;
    unsigned group, unit;

    __device__ __forceinline__ Feed(const Groups &groups, long long, long long k)
        : groups(groups), k(unsigned(k)), units(count(k)), lane(threadIdx.x), group(0),
          unit(threadIdx.y) {
      find_group();
    }
    __device__ __forceinline__ void find_group() {
      const RowsOfGroup rows = groups.rows(group);
      const Byte *const w = rows.w + lane % Slot::kChunks * kStreamChunk;
      const unsigned r = lane / Slot::kChunks;
#pragma unroll
      for (unsigned j = 0; j < kCopies; ++j)
        own[j] = w + bytes_of(Groups::kHasRuns ? rows.first + r : groups.row(group, r + j * kRows));
      apart = rows.apart;
    }
    // From a group's first row to row r, where it has runs.
    __device__ __forceinline__ unsigned rows_to(unsigned r) const {
      return r < 8 ? r : r - 8 + apart;
    }
    // The bytes of so many rows.
    __device__ __forceinline__ unsigned long long bytes_of(unsigned rows) const {
      return (unsigned long long)(rows) * (k * unsigned(sizeof(T)));
    }
    // Whether a group has a row r.
    __device__ __forceinline__ bool has_row(unsigned r) const {
      return groups.n >= 16 || r < groups.n;
    }
    // Whether the lane's chunk of the unit is.
    __device__ __forceinline__ bool is_inside() const {
      return k % kElements == 0 || unit * kElements + lane % Slot::kChunks * Slot::kEach < k;
    }

    // Into a slot, by its address in shared memory.
    template <bool kAligned>
    __device__ __forceinline__ void copy_weights(unsigned slot, bool active) const {
      if constexpr (kAligned) {
        const bool inside = is_inside();
        const unsigned long long begin = unit * (unsigned long long)(Slot::kRowBytes);
#pragma unroll
        for (unsigned r = 0; r < 16; r += kRows)
          copy_bytes_or_zeros(active, inside && has_row(lane / Slot::kChunks + r),
                              slot + r * Slot::kRowBytes +
                                  Slot::at(lane / Slot::kChunks + r % 8, lane % Slot::kChunks) -
                                  r % 8 * Slot::kRowBytes,
                              Groups::kHasRuns ? own[0] + begin + bytes_of(rows_to(r))
                                               : own[r / kRows % kCopies] + begin);
      } else if (active) {
        const RowsOfGroup rows = groups.rows(group);
#pragma unroll 1
        for (unsigned i = lane; i < 16 * Slot::kChunks; i += 32) {
          const unsigned r = i / Slot::kChunks, chunk = i % Slot::kChunks,
                         at = unit * kElements + chunk * Slot::kEach;
          const Byte *from =
              rows.w + bytes_of(Groups::kHasRuns ? rows.first + rows_to(r) : groups.row(group, r));
          store_chunk(slot + Slot::at(r, chunk), reinterpret_cast<const T *>(from) + at,
                      has_row(r) ? (long long)(k)-at : 0);
        }
      }
    }
    // kAlways: where a branch is not allowed.
    template <bool kAlways> __device__ __forceinline__ void go_on() {
      unit += kStreamWarps;
      const bool ends = unit >= units;
      if (!kAlways && !ends)
        return;
      unit = ends ? threadIdx.y : unit;
      group += ends;
      find_group();
    }
  };

  template <int kOfX> struct Rest {
    template <class Groups>
    __device__ __forceinline__ void read(const Groups &, unsigned, int, long long, long long,
                                         const LaneRows<kLaneReads<kOfX>> &) {}
    __device__ __forceinline__ void add(float (&)[kLaneSums<kOfX>]) const {}
  };

  // Lane 8 i + j reads where row j of fragment i begins; of x that is the lane's row.
  static __device__ __forceinline__ int row_of_x() { return threadIdx.x % 8; }
  struct Kept {};
#if !defined(DTYPE_F16) && !defined(DTYPE_BF16)
  template <int kOfX, bool kAllInside, bool>
  static __device__ __forceinline__ void add(const Byte *slot, const LaneRows<kOfX> &x, int inside,
                                             const Kept &, float (&sum)[2 * kOfX]) {
    const unsigned g = threadIdx.x / 4, q = threadIdx.x % 4;
    // Devices from 10.0 on would spill what both chunks take.
    constexpr int kAtOnce = __CUDA_ARCH__ >= 1000 && kOfX == 8 ? 1 : 2;
#pragma unroll(kAtOnce)
    for (unsigned c = 2 * q, i = 0; i < 2; ++i, ++c) {
      const float4 above = *reinterpret_cast<const float4 *>(slot + Slot::at(g, c)),
                   below = *reinterpret_cast<const float4 *>(slot + Slot::at(g + 8, c));
      const bool is_inside = kAllInside || int(c * Slot::kEach) < inside;
      const T *from = x.first + (is_inside ? c * Slot::kEach : 0);
#pragma unroll
      for (int r = 0; r < kOfX; ++r) {
        float4 left = *reinterpret_cast<const float4 *>(from + x.apart[r]);
        if (!is_inside)
          left = {0, 0, 0, 0};
        sum[r] = fma(left.x, above.x, sum[r]), sum[r] = fma(left.y, above.y, sum[r]);
        sum[r] = fma(left.z, above.z, sum[r]), sum[r] = fma(left.w, above.w, sum[r]);
        float &second = sum[kOfX + r];
        second = fma(left.x, below.x, second), second = fma(left.y, below.y, second);
        second = fma(left.z, below.z, second), second = fma(left.w, below.w, second);
      }
    }
  }
#else
  template <int, bool kAllInside, bool>
  static __device__ __forceinline__ void add(const Byte *slot, const LaneRows<1> &rows, int inside,
                                             const Kept &, float (&sum)[4]) {
    const T *x = rows.first;
    const unsigned lane = threadIdx.x, row = lane % 16, begin = Slot::at(row, lane / 16);
    const int chunks = inside / int(Slot::kEach); // a whole number of them
#pragma unroll
    for (int c = 0; c < int(Slot::kChunks); c += 4) {
      int own = c + int(lane) / 8;
      if (!kAllInside && own >= chunks)
        own = 0;
      unsigned right[4];
      load_fragments<false>(x + own * int(Slot::kEach), right);
      if constexpr (!kAllInside)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          right[i] = c + i < chunks ? right[i] : 0;
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        unsigned left[4];
        load_fragments<false>(reinterpret_cast<const T *>(slot + (begin ^ (c + i) * kStreamChunk)),
                              left);
        multiply(sum, left, right[i], right[i + 1]);
      }
    }
  }
#endif
};

#endif
