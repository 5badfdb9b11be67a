// A block's row, as often as a kernel needs it. With ROW_PACKS it is read once, in packs that are
// all on their way before the first is used, and stays in registers; else each pass reads it from
// memory, an element a thread.
//
//   row   | pack 0 | pack 1 | .. | pack THREADS | ..     thread t has the packs t, t + THREADS, ..
//
// Options: THREADS of a block; ROW_PACKS, packs a thread, and PACK, where the row's length is
// known, a multiple of PACK and at most THREADS * ROW_PACKS packs. Packs that do not lie at
// multiples of their size are read and written element by element, to and from the same registers.
#pragma once

#include "vectors.cuh"

#ifdef THREADS
#define BLOCK_THREADS THREADS
#define ROW_BOUNDS __launch_bounds__(THREADS)
#else
#define BLOCK_THREADS blockDim.x
#define ROW_BOUNDS
#endif

#ifdef ROW_PACKS

template <class E> struct Row {
  const int count; // packs
  Pack<E> packs[ROW_PACKS];

  __device__ __forceinline__ Row(const E *x, long long columns) : count(int(columns / PACK)) {
    if (are_aligned(x)) {
#pragma unroll
      for (int j = 0; j < ROW_PACKS; ++j)
        if (const int p = threadIdx.x + j * THREADS; p < count)
          packs[j] = load_pack(x, p);
    } else {
#pragma unroll
      for (int j = 0; j < ROW_PACKS; ++j)
        if (const int p = threadIdx.x + j * THREADS; p < count)
#pragma unroll
          for (int e = 0; e < PACK; ++e)
            packs[j].element[e] = x[p * PACK + e];
    }
  }

  // The element that `each` has at this place.
  __device__ __forceinline__ E at(int place, long long column) const {
    return packs[place / PACK].element[place % PACK];
  }
};

// f(place, column), for the columns that are this thread's.
template <class F> __device__ __forceinline__ void each_column(long long columns, F f) {
#pragma unroll
  for (int j = 0; j < ROW_PACKS; ++j)
    if (const int p = threadIdx.x + j * THREADS; p < int(columns / PACK))
#pragma unroll
      for (int e = 0; e < PACK; ++e)
        f(j * PACK + e, p * PACK + e);
}

// y[column] = f(place, column).
template <class E, class F>
__device__ __forceinline__ void store_row(E *y, long long columns, F f) {
  const bool aligned = Run<PACK, E>::is_aligned(y);
#pragma unroll
  for (int j = 0; j < ROW_PACKS; ++j)
    if (const int p = threadIdx.x + j * THREADS; p < int(columns / PACK)) {
      Run<PACK, E> run;
#pragma unroll
      for (int e = 0; e < PACK; ++e)
        run.element[e] = f(j * PACK + e, p * PACK + e);
      run.store(y + p * PACK, aligned);
    }
}

#else

template <class E> struct Row {
  const E *const x;
  __device__ __forceinline__ Row(const E *x, long long) : x(x) {}
  __device__ __forceinline__ E at(int, long long column) const { return x[column]; }
};

template <class F> __device__ __forceinline__ void each_column(long long columns, F f) {
  for (long long i = threadIdx.x; i < columns; i += BLOCK_THREADS)
    f(0, i);
}

template <class E, class F>
__device__ __forceinline__ void store_row(E *y, long long columns, F f) {
  each_column(columns, [&](int place, long long column) { y[column] = f(place, column); });
}

#endif
