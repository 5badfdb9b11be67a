// Products in tiles of registers, for what tensor cores do not take, f32 above all. Part of
// matmul.cu.
//
// clang-format off
//             kDepth              kSize
//          +----------+       +------------+     A block of 16 x 16 threads computes kSize x kSize
//  kSize   | a (as    |kDepth |     c      |     elements, a thread kEach x kEach of them: four
//          | its      |       |            |     neighbours, and for 8 the four that lie 64 further.
//          | columns) |       +------------+     Both tiles lie in shared memory with k down, so that
//          +----------+                          fours are one access.
// clang-format on
//
// There are two stages: while one step is multiplied, the next is read into registers, four
// elements at once where all rows begin at multiples of their size. Sums are taken in the order of
// k, whatever the tile.
#pragma once

#include "linear/matmul_tile.cuh"
#include "shared/vectors.cuh"

template <int kEach> struct RegisterProduct {
  static constexpr int kSize = 16 * kEach, kDepth = 64 / kEach, kThreads = 256, kPitch = kSize + 4;
  static constexpr int kFours = kSize * kDepth / 4 / kThreads; // of an operand, a thread's
  typedef Acc Stage[kDepth][kPitch];

  static __device__ __forceinline__ int thread() { return threadIdx.y * 16 + threadIdx.x; }
  // Read anew, so that no register keeps it, or what follows from it, beside the sums.
  static __device__ __forceinline__ int thread_anew() {
    int x, y;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    asm volatile("mov.u32 %0, %%tid.y;" : "=r"(y));
    return y * 16 + x;
  }
  // Element r of a thread's rows or columns; `at` is threadIdx.y or x.
  static __device__ __forceinline__ int place(int at, int r) { return r / 4 * 64 + at * 4 + r % 4; }

  // A thread's fours of an operand: along k, or with kDown along the operand's other dimension, in
  // which there are `count` from the tile's first on.
  template <bool kDown, bool kAligned> struct Fours {
    const T *from;
    long long pitch;
    int count;
    Acc four[kFours][4];

    // The tile begins at `first` of a matrix whose rows have `pitch` elements.
    __device__ __forceinline__ Fours(const T *first, long long pitch, long long count)
        : pitch(pitch), count(int(count < kSize ? count : kSize)) {
      from = first + (kDown ? depth(0) * pitch + other(0) : other(0) * pitch + depth(0));
    }
    static __device__ __forceinline__ int depth(int i, int own = thread()) {
      return kDown ? (own + i * kThreads) / (kSize / 4) : own % (kDepth / 4) * 4;
    }
    static __device__ __forceinline__ int other(int i, int own = thread()) {
      return kDown ? own % (kSize / 4) * 4 : (own + i * kThreads) / (kDepth / 4);
    }
    // The next step's, of which `left` of k are there.
    __device__ __forceinline__ void read(int left) {
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const T *place = from + (kDown ? depth(i) - depth(0) : other(i) - other(0)) * pitch;
        const bool inside = kDown ? depth(i) < left : other(i) < count;
        const int there = inside ? (kDown ? count - other(i) : left - depth(i)) : 0;
        if constexpr (kAligned) { // all four are there or none
          Run<4, T> run;
#pragma unroll
          for (int e = 0; e < 4; ++e)
            run.element[e] = T(0.0f);
          if (there > 0)
            run.load(place);
#pragma unroll
          for (int e = 0; e < 4; ++e)
            four[i][e] = Acc(run.element[e]);
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e)
            four[i][e] = e < there ? Acc(place[e]) : Acc(0);
        }
      }
      from += kDown ? kDepth * pitch : kDepth;
    }
    __device__ __forceinline__ void write(Stage &tile, int own) const {
#pragma unroll
      for (int i = 0; i < kFours; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          tile[depth(i, own) + (kDown ? 0 : e)][other(i, own) + (kDown ? e : 0)] = four[i][e];
    }
  };

  // Adds the products of k; a and c are those of the tile.
  template <class A, class C>
  static __device__ __forceinline__ void add(A &a, C &c, long long k, Stage *a_stages,
                                             Stage *c_stages, Acc (&sum)[kEach][kEach]) {
    const int steps = int((k + kDepth - 1) / kDepth);
    a.read(int(k)), c.read(int(k));
    a.write(a_stages[0], thread()), c.write(c_stages[0], thread());
    __syncthreads();
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      const int left = int(k) - (s + 1) * kDepth; // behind the last step zeros follow
      a.read(left), c.read(left);
      const Stage &a_tile = a_stages[s % 2], &c_tile = c_stages[s % 2];
#pragma unroll
      for (int i = 0; i < kDepth; ++i) {
        Acc rows[kEach], columns[kEach];
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          rows[e] = a_tile[i][place(threadIdx.y, e)];
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          columns[e] = c_tile[i][place(threadIdx.x, e)];
#pragma unroll
        for (int r = 0; r < kEach; ++r)
#pragma unroll
          for (int q = 0; q < kEach; ++q)
            sum[r][q] = fma(rows[r], columns[q], sum[r][q]);
      }
      const int own = thread_anew();
      a.write(a_stages[(s + 1) % 2], own); // which was read before the last barrier
      c.write(c_stages[(s + 1) % 2], own);
      __syncthreads();
    }
  }
};

template <int kEach, bool kAligned>
__device__ __forceinline__ void
add_products(const T *a, const T *c, long long rows, long long columns, long long n, long long k,
             typename RegisterProduct<kEach>::Stage *a_stages,
             typename RegisterProduct<kEach>::Stage *c_stages, Acc (&sum)[kEach][kEach]) {
  typedef RegisterProduct<kEach> Product;
  typename Product::template Fours<false, kAligned> of_a(a, k, rows);
  typename Product::template Fours<!kColumnsOfC, kAligned> of_c(c, kColumnsOfC ? k : n, columns);
  Product::add(of_a, of_c, k, a_stages, c_stages, sum);
}

template <int kEach> __device__ __forceinline__ void multiply_in_registers(PARAMETERS) {
  __builtin_assume(ASSUME);
  typedef RegisterProduct<kEach> Product;
  __shared__ alignas(16) typename Product::Stage a_stages[2], c_stages[2];
  const Tile tile = tile_of_block(m, n, Product::kSize, Product::kSize);
  MOVE_TO_BATCH(tile.batch);

  Acc sum[kEach][kEach] = {};
  const long long widths = kColumnsOfC ? k : k | n;
  c += kColumnsOfC ? tile.column * k : tile.column;
  a += tile.row * k;
  if (widths % 4 == 0 && Run<4, T>::is_aligned(a) && Run<4, T>::is_aligned(c))
    add_products<kEach, true>(a, c, m - tile.row, n - tile.column, n, k, a_stages, c_stages, sum);
  else
    add_products<kEach, false>(a, c, m - tile.row, n - tile.column, n, k, a_stages, c_stages, sum);

  // The tile is asked for again, so that it takes no registers in the loop.
  unsigned block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  const Tile to = tile_of_block(block, m, n, Product::kSize, Product::kSize);
  const bool whole = !IS_SET(RESULT_ACROSS) && n % 4 == 0 && Run<4, OUT>::is_aligned(y);
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
    const long long row = to.row + Product::place(threadIdx.y, r);
    if (row >= m)
      continue;
#pragma unroll
    for (int q = 0; q < kEach; q += 4) {
      const long long column = to.column + Product::place(threadIdx.x, q);
      const long long first = AT(to.batch, row, column);
      if (whole && column < n) {
        Run<4, OUT> run;
#pragma unroll
        for (int e = 0; e < 4; ++e)
          run.element[e] = RESULT(first + e, sum[r][q + e] + BIAS_OF(row, column + e));
        run.store(y + first, true);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (column + e < n)
            STORE(first + e * COLUMN_STEP, sum[r][q + e] + BIAS_OF(row, column + e));
      }
    }
  }
}
