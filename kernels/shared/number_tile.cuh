// Tiles of a product with a matrix w [n, k] whose sums lie in registers: of many rows of x, for
// what tensor cores do not take, f32 above all. Tiles beyond whole waves are cut along k
// (join_splits.cuh).
//
// clang-format off
//                  kDepth                 kColumns
//            +----------------+        +------------+     A thread of kDown x 16 has kHigh x 4
//   kRows    | x, as it is    | kDepth |  w, turned |     elements: four neighbouring columns of
//            +----------------+        +------------+     rows in fours, kDown * 4 apart.
// clang-format on
//
// A stage of both lies in shared memory: while one step is multiplied, x of the next comes into the
// other, asynchronously from sm_80 on. Four neighbouring lanes write a column of w, lane q what
// place(q, e) tells of k, as rows 8 q + e of the stage; so that they use other banks, columns are
// exchanged by eights there. What numbers they write tells a Source, what a lane has of a unit:
//
//   Weight         of what w is made
//   kUnit          steps of k in a unit, of which the last may have fewer
//   kHalves        lane q has four elements of each half of a step, and not eight neighbours
//   kMayEnd        whether the last step of k may be a part of one
//   read(w, row, b, n, k, q)   lane q's of the unit that begins at step b
//   numbers<i>(q, number)      those of step i of the unit
#pragma once

#include "shared/bias.cuh"
#include "shared/floating.cuh"
#include "shared/fusion.cuh"
#include "shared/join_splits.cuh"
#include "shared/mma.cuh"
#include "shared/vectors.cuh"

template <class Source, int kHigh, int kDown> struct NumberTile {
  static constexpr int kRows = kHigh * kDown, kColumns = 64, kThreads = kDown * 16, kDepth = 32;
  static constexpr int kChunk = 16 / sizeof(T); // elements of a copy
  static constexpr int kOwnColumns = kColumns * 4 / kThreads, kColumnsApart = kThreads / 4;
  struct Stage {
    alignas(16) T x[kRows][kDepth + kChunk];
    alignas(16) Acc w[kDepth][kColumns];
  };
  typedef Acc Sums[kHigh][1][4];

  // Read anew, so that no register keeps it, or what follows from it, beside the sums.
  static __device__ __forceinline__ int thread() { return warp_anew() * 32 + thread_anew(); }
  // Row r of the thread's, and its first column.
  static __device__ __forceinline__ int row(int thread, int r) {
    return r / 4 * (kDown * 4) + thread / 16 * 4 + r % 4;
  }
  static __device__ __forceinline__ int column(int thread) { return thread % 16 * 4; }
  static __device__ __forceinline__ int place(int q, int e) {
    return Source::kHalves ? q * 4 + e / 4 * 16 + e % 4 : q * 8 + e;
  }

  // A step of x, of whose tile there are `left` rows behind the first: those beyond repeat the last
  // one, and are not stored. `there` elements of k are there, and zeros behind them.
  template <bool kAligned>
  static __device__ __forceinline__ void copy(Stage &to, const T *x, int left, unsigned k,
                                              int there) {
    constexpr bool kPart = Source::kMayEnd;
    constexpr int kChunks = kDepth / kChunk;
    const int own = thread();
#pragma unroll
    for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
      const int at = own + i * kThreads, row = at / kChunks, first = at % kChunks * kChunk;
      const T *from = x + unsigned(row < left ? row : left) * k + first;
      T *place = to.x[row] + first;
#if __CUDA_ARCH__ >= 800
      if constexpr (kAligned) {
        copy_or_zeros<16>(!kPart || first < there, shared_address(place), from);
        continue;
      }
#endif
#pragma unroll
      for (int e = 0; e < kChunk; ++e)
        place[e] = !kPart || first + e < there ? from[e] : T(0.0f);
    }
    end_copies();
  }
  // What the lane has of a column of w.
  static __device__ __forceinline__ void write(Stage &to, int column, int q,
                                               const Acc (&number)[8]) {
#pragma unroll
    for (int e = 0; e < 8; ++e)
      to.w[q * 8 + e][column ^ q * 8] = number[e];
  }
  // Those of step `step` of the unit, which each lane has of its columns.
  template <int i = 0>
  static __device__ __forceinline__ void write_step(Stage &to, const Source (&own)[kOwnColumns],
                                                    int step, int lane) {
    if constexpr (i < Source::kUnit) {
      if (step != i)
        return write_step<i + 1>(to, own, step, lane);
#pragma unroll
      for (int j = 0; j < kOwnColumns; ++j) {
        Acc number[8];
        own[j].template numbers<i>(lane % 4, number);
        write(to, lane / 4 + j * kColumnsApart, lane % 4, number);
      }
    }
  }
  static __device__ __forceinline__ void add(const Stage &stage, Sums &sum) {
    const int own = thread();
#pragma unroll 1
    for (int q = 0; q < 4; ++q) {
      const Acc *w = &stage.w[q * 8][column(own) ^ q * 8];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        Acc x[kHigh][4];
#pragma unroll
        for (int r = 0; r < kHigh; ++r) {
          Run<4, T> run;
          run.load(stage.x[row(own, r)] + place(q, h * 4));
#pragma unroll
          for (int e = 0; e < 4; ++e)
            x[r][e] = Acc(run.element[e]);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          Run<4, Acc> run;
          run.load(w + (h * 4 + e) * kColumns);
#pragma unroll
          for (int r = 0; r < kHigh; ++r)
#pragma unroll
            for (int c = 0; c < 4; ++c)
              sum[r][0][c] = fma(x[r][e], run.element[c], sum[r][0][c]);
        }
      }
    }
  }
  // Adds steps b to `last` - 1 of k, of the tile that begins at `row` and `column`; b begins a
  // unit.
  template <bool kAligned>
  static __device__ __forceinline__ void
  add_steps(const T *x, const typename Source::Weight *w, long long row, long long column,
            long long rows, long long n, long long k, int b, int last, Stage *stages, Sums &sum) {
    const int left = int(rows - 1 - row < kRows ? rows - 1 - row : kRows);
    const auto copy_step = [&](Stage &to) {
      const long long there = k - (long long)(b)*kDepth;
      copy<kAligned>(to, x, left, unsigned(k), int(there < kDepth ? there : kDepth));
    };
    int now = 0;
    x += row * k + b * kDepth;
    copy_step(stages[0]);
#pragma unroll 1
    while (b < last) {
      const int lane = thread(), of_unit = last - b < Source::kUnit ? last - b : Source::kUnit;
      Source own[kOwnColumns];
#pragma unroll
      for (int j = 0; j < kOwnColumns; ++j) { // those beyond the last repeat it
        const long long of = column + lane / 4 + j * kColumnsApart;
        own[j].read(w, of < n ? of : n - 1, b, n, k, lane % 4);
      }
#pragma unroll 1
      for (int i = 0; i < of_unit; ++i, now ^= 1) {
        write_step(stages[now], own, i, thread());
        wait_for_copies<0>();
        __syncthreads(); // the stage is there, and the other one has been read
        x += kDepth;
        if (++b < last)
          copy_step(stages[now ^ 1]);
        add(stages[now], sum);
      }
    }
  }
  // The tile begins at `first` and `begin` of y [rows, n].
  static __device__ __forceinline__ void store(OUT *y, BIAS_PARAMETER long long first,
                                               long long begin, long long rows, long long n,
                                               const Sums &sum FUSED_PARAMETERS) {
    const int thread = NumberTile::thread();
    const long long at = begin + column(thread);
    const bool whole = n % 4 == 0 && Run<4, OUT>::is_aligned(y) && at < n;
#pragma unroll
    for (int r = 0; r < kHigh; ++r) {
      const long long own = first + row(thread, r), to = own * n + at;
      if (own >= rows)
        continue;
      if (whole) {
        Run<4, OUT> run;
#pragma unroll
        for (int e = 0; e < 4; ++e)
          run.element[e] = RESULT(to + e, sum[r][0][e] + BIAS_AT(at + e));
        run.store(y + to, true);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (at + e < n)
            STORE(to + e, sum[r][0][e] + BIAS_AT(at + e));
      }
    }
  }
};

// The tile of a block, `places` of which are resident. kEach: rows of a thread.
template <class Source, int kEach, int kWarps>
__device__ __forceinline__ void
multiply_number_tile(const T *x, const typename Source::Weight *w, BIAS_PARAMETER OUT *y,
                     Acc *parts, unsigned *counters, unsigned places, long long rows, long long n,
                     long long k, unsigned char *shared, bool aligned FUSED_PARAMETERS) {
  typedef NumberTile<Source, kEach, kWarps * 2> Tile;
  __shared__ TilePlace<Tile::kRows, Tile::kColumns> own; // registers do not keep it beside the sums
  if (threadIdx.x == 0 && threadIdx.y == 0)
    own.set(blockIdx.x, places, rows, n);
  __syncthreads();
  typename Tile::Sums sum = {};
  typename Tile::Stage *stages = reinterpret_cast<typename Tile::Stage *>(shared);
  const unsigned steps = unsigned((k + Tile::kDepth - 1) / Tile::kDepth),
                 units = (steps + Source::kUnit - 1) / Source::kUnit,
                 end = (own.part + 1) * units / own.parts * Source::kUnit;
  const int first = int(own.part * units / own.parts * Source::kUnit),
            last = int(end < steps ? end : steps);
  if (aligned)
    Tile::template add_steps<true>(x, w, own.row, own.column, rows, n, k, first, last, stages, sum);
  else
    Tile::template add_steps<false>(x, w, own.row, own.column, rows, n, k, first, last, stages,
                                    sum);
  if (own.parts > 1 && !join_splits<Tile::kThreads>(parts, counters, own.cut, own.part, own.parts,
                                                    Tile::thread(), shared, sum))
    return;
  Tile::store(y, BIAS_ARGUMENT own.row, own.column, rows, n, sum FUSED_ARGUMENTS);
}
