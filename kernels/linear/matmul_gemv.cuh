// Products with few rows. Where rows of c are runs of n elements, a lane has neighbouring columns.
// Where columns of c are runs of k elements (C_COLUMNS) blocks that stay compute groups of 16
// columns for up to 8 rows (stream.cuh); of f64, and before sm_80, a warp computes kOut columns for
// kRows rows of a (gemv_sums.cuh). Part of matmul.cu.
#pragma once

#include "linear/gemv_sums.cuh"
#include "linear/matmul_tile.cuh"
#include "linear/number_stream.cuh"

constexpr int kGemvWarps = 4;

// --- Columns that lie apart, c [k, n]: a lane has a vector of neighbouring columns ---------------

constexpr int kAcrossEach = 4; // neighbours of k that a lane takes at once

// What a lane has of kEach rows of c from `first` on, at its vector p of columns; with kPartly some
// are behind the last of k.
template <int kRows, int kEach, bool kAligned, bool kPartly>
__device__ __forceinline__ void add_across(const T *a, const int (&apart)[kRows], const T *c,
                                           int first, int k, long long n, int p,
                                           Acc (&sum)[kRows][kGemvVector]) {
  struct alignas(kAligned ? (sizeof(T) < 4 ? kEach * sizeof(T) : 16) : sizeof(T)) Neighbours {
    T element[kEach];
  };
  GemvVector right[kEach];
  T left[kRows][kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j)
    if (!kPartly || first + j < k)
      right[j] = gemv_vector<kAligned>(c + (long long)(first + j) * n, p, n);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kPartly) {
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        left[r][j] = first + j < k ? a[first + j + apart[r]] : T(0.0f);
    } else {
      const Neighbours all = *reinterpret_cast<const Neighbours *>(a + first + apart[r]);
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        left[r][j] = all.element[j];
    }
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j)
    if (!kPartly || first + j < k)
#pragma unroll
      for (int e = 0; e < kGemvVector; ++e) {
        const Acc value = Acc(right[j].element[e]);
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          sum[r][e] = fma(Acc(left[r][j]), value, sum[r][e]);
      }
}

// Up to kRows rows of a times a tile of 32 columns by a block of kSlices warps: as many lanes as
// the tile has vectors share a row of c, so that a warp has several rows at once. The sums of a
// warp are in its first lanes, and then in `partial`.
template <int kRows, int kSlices, int kTall>
__device__ __forceinline__ void multiply_across(const T *a, int rows, const T *c, long long n,
                                                long long k, long long column,
                                                Acc (&partial)[kSlices][kTall][32]) {
  // Rows beyond the last repeat it; they are not stored.
  int apart[kRows]; // from a, in elements
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    apart[r] = (r < rows ? r : rows - 1) * int(k);
  constexpr int kLanes = 32 / kGemvVector, kStep = kSlices * (32 / kLanes) * kAcrossEach;
  // At once, by registers: where all is aligned, and where nothing is.
  constexpr int kWhole = kRows > 4 && sizeof(T) != 4 ? 2 : kAcrossEach,
                kPart = kRows > 4 ? 1 : kAcrossEach;
  const int lane = threadIdx.x, slice = threadIdx.y;
  const int p = int(column / kGemvVector) + lane % kLanes, all = int(k);
  const bool aligned = k % kAcrossEach == 0 && have_vectors(a, c, n); // so are all rows of a
  Acc sum[kRows][kGemvVector] = {};
  int first = (slice * (32 / kLanes) + lane / kLanes) * kAcrossEach;
  if ((long long)(p)*kGemvVector < n) {
    if (aligned) {
#pragma unroll 1
      for (; first < all; first += kStep)
#pragma unroll 1
        for (int j = 0; j < kAcrossEach; j += kWhole)
          add_across<kRows, kWhole, true, false>(a, apart, c, first + j, all, n, p, sum);
    } else {
#pragma unroll 1
      for (; first < all; first += kStep)
#pragma unroll 1
        for (int j = 0; j < kAcrossEach; j += kPart)
          add_across<kRows, kPart, false, true>(a, apart, c, first + j, all, n, p, sum);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int e = 0; e < kGemvVector; ++e) {
#pragma unroll
      for (int distance = 16; distance >= kLanes; distance /= 2)
        sum[r][e] += __shfl_xor_sync(0xffffffffu, sum[r][e], distance);
      if (lane < kLanes)
        partial[slice][r][lane * kGemvVector + e] = sum[r][e];
    }
}

// --- Columns that are runs of k, c [n, k] --------------------------------------------------------

template <int kRows> __device__ __forceinline__ void multiply_rows(PARAMETERS) {
  __builtin_assume(ASSUME);
  constexpr int kOut = kRows > 2 ? 2 : 1, kAhead = 4 / kOut;
  const Tile tile = tile_of_block(m, n, kRows, kGemvWarps * kOut);
  MOVE_TO_BATCH(tile.batch);
  const long long first = tile.column + threadIdx.y * kOut;
  if (first >= n) // the same for the whole warp
    return;
  // Rows and columns beyond the last repeat it; they are not stored.
  const T *row[kRows], *column[kOut];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    row[r] = a + (tile.row + r < m ? tile.row + r : m - 1) * k;
#pragma unroll
  for (int o = 0; o < kOut; ++o)
    column[o] = c + (first + o < n ? first + o : n - 1) * k;

  Acc sum[kRows][kOut] = {};
  if (have_vectors(a, c, k))
    gemv_sums<kRows, kOut, kAhead, true>(row, column, k, sum);
  else
    gemv_sums<kRows, kOut, 1, false>(row, column, k, sum);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int o = 0; o < kOut; ++o) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        sum[r][o] += __shfl_xor_sync(0xffffffffu, sum[r][o], distance);
      if (threadIdx.x == 0 && tile.row + r < m && first + o < n)
        STORE(AT(tile.batch, tile.row + r, first + o), sum[r][o] + BIAS_AT(first + o));
    }
}

#if __CUDA_ARCH__ >= 800 && !defined(DTYPE_F64)
// Blocks share the columns of a strip of kTall rows evenly: so many blocks as the grid has for each
// strip of each batch.
template <int kTall, int kSlots> __device__ __forceinline__ void stream_rows(PARAMETERS) {
  __builtin_assume(ASSUME);
  extern __shared__ __align__(16) Byte ring[];
  __shared__ StreamSums partial;
  constexpr int kColumns = 16;
  const unsigned strips = unsigned((m + kTall - 1) / kTall),
                 blocks = gridDim.x / (strips * unsigned(batch)), strip = blockIdx.x / blocks,
                 own = blockIdx.x % blocks, at_batch = strip / strips;
  const long long first_row = (long long)(strip % strips) * kTall;
#ifdef MANY_BATCHES // a division of 64 bits branches
  BEGIN_EARLY();
#endif
  MOVE_TO_BATCH(at_batch);
  const unsigned groups = unsigned((n + kColumns - 1) / kColumns);
  const unsigned each = groups / blocks, more = groups % blocks;
  typedef NeighbourGroups<false> Groups;
  const Groups neighbours = {reinterpret_cast<const Byte *>(c),
                             own * each + (own < more ? own : more), unsigned(n)};
  Stream<NumberUnit, kTall, true, kSlots, Groups> stream = {neighbours, each + (own < more ? 1 : 0),
                                                            n, k, ring};
  a += first_row * k;
  const bool aligned = NumberUnit::is_aligned(a, neighbours.w, k);
  stream.begin(aligned);
#ifndef MANY_BATCHES
  BEGIN_EARLY();
#endif
  const auto store = [&](unsigned group, int r, int o, const float(&sums)[kStreamWarps][8][17]) {
    const unsigned column = neighbours.rows(group).first + o;
    if (column < neighbours.place(group) || column >= n) // the group before has it, or none
      return;
    Acc total = BIAS_AT(column);
#pragma unroll
    for (int s = 0; s < kStreamWarps; ++s)
      total += sums[s][r][o];
    STORE(AT(at_batch, first_row + r, column), total);
  };
  const int rows = m - first_row < kTall ? int(m - first_row) : kTall;
  if (aligned)
    stream.template run<true>(a, rows, partial, store);
  else
    stream.template run<false>(a, rows, partial, store);
}
#define STREAM_ROWS(tall, slots) stream_rows<tall, slots>(ARGUMENTS)
#else
#define STREAM_ROWS(tall, slots)
#endif
