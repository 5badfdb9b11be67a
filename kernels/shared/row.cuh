// A block's row, as often as a kernel needs it. With ROW_VECTORS it is read once, in vectors that
// are all on their way before the first is used, and stays in registers; else each pass reads it
// from memory, an element a thread.
//
//   row   | 0 | 1 | .. | THREADS | ..     thread t has the vectors t, t + THREADS, ..
//
// Options: THREADS of a block; ROW_VECTORS, vectors a thread, and VECTOR, where the row's length is
// known, a multiple of VECTOR and at most THREADS * ROW_VECTORS vectors. Vectors that do not lie at
// multiples of their size are read and written element by element, to and from the same registers.
#pragma once

#include "shared/vectors.cuh"

#ifdef THREADS
#define BLOCK_THREADS THREADS
#define ROW_BOUNDS __launch_bounds__(THREADS)
#else
#define BLOCK_THREADS blockDim.x
#define ROW_BOUNDS
#endif

#ifdef ROW_VECTORS

template <class E> struct Row {
  const int count; // vectors
  Vector<E> vectors[ROW_VECTORS];

  __device__ __forceinline__ Row(const E *x, long long columns) : count(int(columns / VECTOR)) {
    if (are_aligned(x)) {
#pragma unroll
      for (int j = 0; j < ROW_VECTORS; ++j)
        if (const int p = threadIdx.x + j * THREADS; p < count)
          vectors[j] = load_vector(x, p);
    } else {
#pragma unroll
      for (int j = 0; j < ROW_VECTORS; ++j)
        if (const int p = threadIdx.x + j * THREADS; p < count)
#pragma unroll
          for (int e = 0; e < VECTOR; ++e)
            vectors[j].element[e] = x[p * VECTOR + e];
    }
  }

  // The element that `each` has at this place.
  __device__ __forceinline__ E at(int place, long long column) const {
    return vectors[place / VECTOR].element[place % VECTOR];
  }
};

// A row that one pass reads, place after place: it is in registers a vector at a time.
template <class E> struct PassingRow {
  const E *const x;
  const bool aligned;
  mutable Run<VECTOR, E> run;

  __device__ __forceinline__ PassingRow(const E *x, long long)
      : x(x), aligned(Run<VECTOR, E>::is_aligned(x)) {}
  __device__ __forceinline__ E at(int place, long long column) const {
    if (!aligned)
      return x[column];
    if (place % VECTOR == 0)
      run.load(x + column);
    return run.element[place % VECTOR];
  }
};

// f(place, column), for the columns that are this thread's.
template <class F> __device__ __forceinline__ void each_column(long long columns, F f) {
#pragma unroll
  for (int j = 0; j < ROW_VECTORS; ++j)
    if (const int p = threadIdx.x + j * THREADS; p < int(columns / VECTOR))
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        f(j * VECTOR + e, p * VECTOR + e);
}

// y[column] = f(place, column).
template <class E, class F>
__device__ __forceinline__ void store_row(E *y, long long columns, F f) {
  const bool aligned = Run<VECTOR, E>::is_aligned(y);
#pragma unroll
  for (int j = 0; j < ROW_VECTORS; ++j)
    if (const int p = threadIdx.x + j * THREADS; p < int(columns / VECTOR)) {
      Run<VECTOR, E> run;
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        run.element[e] = f(j * VECTOR + e, p * VECTOR + e);
      run.store(y + p * VECTOR, aligned);
    }
}

#else

template <class E> struct Row {
  const E *const x;
  __device__ __forceinline__ Row(const E *x, long long) : x(x) {}
  __device__ __forceinline__ E at(int, long long column) const { return x[column]; }
};

template <class E> using PassingRow = Row<E>;

template <class F> __device__ __forceinline__ void each_column(long long columns, F f) {
  for (long long i = threadIdx.x; i < columns; i += BLOCK_THREADS)
    f(0, i);
}

template <class E, class F>
__device__ __forceinline__ void store_row(E *y, long long columns, F f) {
  each_column(columns, [&](int place, long long column) { y[column] = f(place, column); });
}

#endif
