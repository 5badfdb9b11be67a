// Products of a tile by rings (stream.cuh). Part of products.cuh, whose options name their
// parts.
#pragma once

#include "linear/stream.cuh"
#ifdef HAS_REPACKED
#include "linear/repacked_stream.cuh"
#endif
#ifdef HAS_NUMBERS
#include "linear/number_stream.cuh"
#endif

// Products of a tile by rings of SLOTS slots, all of one kind of unit: the groups of one, then
// those of the next. With a norm or rounding before them, and in phases (persistent.cuh), x lies in
// shared memory, else the rings have it.
#if __CUDA_ARCH__ >= 800
#if defined(NORM_THREADS) || defined(ROUND_ROWS) || defined(WARP_RING)
constexpr bool kRingHasX = false;
#else
constexpr bool kRingHasX = true;
#endif

// Has the members of NeighbourGroups.
template <bool kWhole, int kProducts, class Columns> struct GroupsOfTile {
  const Byte *w[kProducts];
  unsigned first, each, n; // place of the tile; groups of a product, and its columns
  Columns columns;

  // The product of a group, and the group's number within it.
  __device__ __forceinline__ unsigned product(unsigned group) const {
    unsigned product = 0;
#pragma unroll
    for (int i = 1; i < kProducts; ++i)
      product += group >= i * each;
    return product;
  }
  __device__ __forceinline__ unsigned place(unsigned group) const {
    return first + (group - product(group) * each) * 16;
  }
  // The place of the first of its rows.
  __device__ __forceinline__ unsigned first_place(unsigned group) const {
    const unsigned own = place(group);
    return kWhole || own + 16 <= n ? own : n < 16 ? 0 : n - 16;
  }
  __device__ __forceinline__ RowsOfGroup rows(unsigned group) const {
    const unsigned own = product(group), begin = first_place(group);
    const Byte *from = w[0];
#pragma unroll
    for (int i = 1; i < kProducts; ++i)
      from = own == i ? w[i] : from;
    return {from, columns.least_column(begin), columns.apart(begin)};
  }
  static constexpr bool kHasRuns = Columns::kHasRuns;
  __device__ __forceinline__ unsigned row(unsigned group, unsigned r) const {
    return columns.column(first_place(group) + r);
  }
};

constexpr int kRowsOfRing = sizeof(T) == 4 || ROWS == 1 ? ROWS : 8;
template <class Unit, int kProducts, class Columns>
using StreamOfTile =
    Stream<Unit, kRowsOfRing, kRingHasX, SLOTS, GroupsOfTile<Unit::kIsWhole, kProducts, Columns>>;

// Makes the stream of the first `products` products of a tile.
template <class Unit, int kProducts, class Columns>
__device__ __forceinline__ StreamOfTile<Unit, kProducts, Columns>
stream_of_tile(const Byte *const (&w)[kProducts], unsigned products, long long tile, long long n,
               long long k, Columns columns, Byte *ring) {
  GroupsOfTile<Unit::kIsWhole, kProducts, Columns> groups;
#pragma unroll
  for (int i = 0; i < kProducts; ++i)
    groups.w[i] = w[i];
  const unsigned rest = (unsigned(n) - unsigned(tile) * COLUMNS + 15) / 16;
  groups.first = unsigned(tile) * COLUMNS;
  groups.each = rest < COLUMNS / 16 ? rest : COLUMNS / 16;
  groups.n = unsigned(n);
  groups.columns = columns;
#ifdef WARP_RING
  ring +=
      int(threadIdx.y) * (WARP_RING - SLOTS * StreamOfTile<Unit, kProducts, Columns>::Slot::kBytes);
#endif
  return {groups, products * groups.each, n, k, ring};
}

// Whether all that rings copy begins at multiples of 16 bytes.
template <class Unit, int kProducts>
__device__ __forceinline__ bool is_aligned(const T *x, const Byte *const (&w)[kProducts],
                                           long long k) {
  bool aligned = true;
#pragma unroll
  for (int i = 0; i < kProducts; ++i)
    aligned &= Unit::is_aligned(kRingHasX ? x : nullptr, w[i], k);
  return aligned;
}

// `tile` is the block's of this part, if within it.
template <class Unit, int kProducts, class Columns>
__device__ __forceinline__ void
begin_stream(const T *x, const Byte *const (&w)[kProducts], long long tile, long long n,
             long long k, Columns columns, Byte *ring, unsigned products = kProducts) {
  const bool inside = (tile >= 0) & (tile * COLUMNS < n);
  stream_of_tile<Unit>(w, products, tile, n, k, columns, ring)
      .begin(inside & (Unit::kIsWhole || is_aligned<Unit>(x, w, k)));
}

template <class Unit, int kProducts, class Columns>
__device__ __forceinline__ void
multiply_stream(const T *x, const Byte *const (&w)[kProducts], const T *const (&bias)[kProducts],
                long long tile, long long rows, long long n, long long k, Columns columns,
                Byte *ring, StreamSums &partial, Sums *to, unsigned products = kProducts) {
  const auto stream = stream_of_tile<Unit>(w, products, tile, n, k, columns, ring);
  const auto &groups = stream.groups;
  const auto store = [&](unsigned group, int r, int o, const float(&sums)[kWarps][8][17]) {
    const unsigned product = groups.product(group), begin = groups.first_place(group),
                   place = begin + o;
    if (place < groups.place(group) || place >= groups.n) // the group before has it, or none
      return;
    const T *own = bias[0];
#pragma unroll
    for (int i = 1; i < kProducts; ++i)
      own = product == i ? bias[i] : own;
    float total = bias_at(own, columns.column(place));
#pragma unroll
    for (int s = 0; s < kWarps; ++s)
      total += sums[s][r][columns.row(begin, o)];
    to[product][r][place - groups.first] = T(total);
  };
  if constexpr (!kRingHasX && Unit::kIsWhole)
    stream.template run<true>(x, int(rows), partial, store);
  else if (is_aligned<Unit>(x, w, k))
    stream.template run<true>(x, int(rows), partial, store);
  else
    stream.template run<false>(x, int(rows), partial, store);
}
#endif
