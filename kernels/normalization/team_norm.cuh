// Norms of few rows ahead of products that share them, by teams of a block's threads. Part of
// products.cuh, whose options tell how many threads and vectors a row has, and how many rows there
// may be. With WIDE_NORM rows, scale and bias are Acc, and normed rows are rounded to T; with
// WIDE_SCALES scale and bias alone.
#pragma once

#include "shared/floating.cuh"
#include "shared/vectors.cuh"

#ifdef WIDE_NORM
typedef Acc NormRow;
#else
typedef T NormRow;
#endif
#if defined(WIDE_NORM) || defined(WIDE_SCALES)
typedef Acc NormScale;
#else
typedef T NormScale;
#endif

// A sum over the NORM_THREADS threads of a team, in the order of block_reduce.cuh; `shared` holds a
// value a warp of the block. Every thread of the block takes part.
__device__ __forceinline__ Acc add_up_team(Acc value, Acc *shared) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  constexpr int kTeamWarps = NORM_THREADS / 32;
  if constexpr (kTeamWarps == 1)
    return value;
  __syncthreads(); // the last sum may still be read
  if (threadIdx.x == 0)
    shared[threadIdx.y] = value;
  __syncthreads();
  const int first = threadIdx.y / kTeamWarps * kTeamWarps;
  if (first + kTeamWarps > kWarps) // no whole team
    return value;
  value = shared[first];
#pragma unroll
  for (int w = 1; w < kTeamWarps; ++w)
    value += shared[first + w];
  return value;
}

// f(vector, its number in the row, and among the thread's own) for the vectors of a row that thread
// `lane` of a team has.
template <class E, class F>
__device__ __forceinline__ void each_own_vector(Vector<E> (&vectors)[NORM_VECTORS], int lane,
                                                int count, F f) {
#pragma unroll
  for (int j = 0; j < NORM_VECTORS; ++j)
    if (const int p = lane + j * NORM_THREADS; p < count)
      f(vectors[j], p, j);
}

// A thread's vectors of a row: whole ones where all that the norms read is aligned. Others are
// zeros: a variable that is set in some turns of a loop only would keep its register through all.
template <class E>
__device__ __forceinline__ void load_own(Vector<E> (&vectors)[NORM_VECTORS], const E *row,
                                         bool aligned, int lane, int count) {
#pragma unroll
  for (int j = 0; j < NORM_VECTORS; ++j)
    vectors[j].word = {};
  each_own_vector(vectors, lane, count, [&](Vector<E> &vector, int p, int) {
    if (aligned)
      vector = load_vector(row, p);
    else
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        vector.element[e] = row[p * VECTOR + e];
  });
}

__device__ __forceinline__ void store_own(const Vector<T> &vector, T *row, bool aligned, int p) {
  if (aligned)
    store_vector(row, p, vector);
  else
#pragma unroll
    for (int e = 0; e < VECTOR; ++e)
      row[p * VECTOR + e] = vector.element[e];
}

// A norm of rows of `columns` elements; no scale is 1, no bias 0.
struct Norm {
  const NormScale *scale, *bias;
  Acc epsilon;

  __device__ __forceinline__ bool is_aligned() const { return are_aligned(scale, bias); }
};

// What a thread has of a norm's scale and bias. They are asked for with the rows.
struct NormVectors {
  Vector<NormScale> scales[NORM_VECTORS], biases[NORM_VECTORS];

  __device__ __forceinline__ NormVectors(const Norm &norm, bool aligned, int lane, int count) {
    if (norm.scale)
      load_own(scales, norm.scale, aligned, lane, count);
    if (norm.bias)
      load_own(biases, norm.bias, aligned, lane, count);
  }
};

// A row that a team has becomes norm(row) * scale + bias; kIsRms: norm.cu has both. `count` vectors
// of it are real. Every thread of the block takes part.
template <bool kIsRms>
__device__ __forceinline__ void normalize_own(Vector<NormRow> (&vectors)[NORM_VECTORS],
                                              const Norm &norm, const NormVectors &by, int lane,
                                              int count, long long columns, Acc *shared) {
  Acc mean = 0;
  if constexpr (!kIsRms) {
    each_own_vector(vectors, lane, count, [&](Vector<NormRow> &vector, int, int) {
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        mean += Acc(vector.element[e]);
    });
    mean = add_up_team(mean, shared) / Acc(columns);
  }
  Acc squares = 0;
  each_own_vector(vectors, lane, count, [&](Vector<NormRow> &vector, int, int) {
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      const Acc value = kIsRms ? Acc(vector.element[e]) : Acc(vector.element[e]) - mean;
      squares = fma(value, value, squares);
    }
  });
  squares = add_up_team(squares, shared) / Acc(columns);
  const Acc factor = 1 / sqrt(squares + norm.epsilon);
  each_own_vector(vectors, lane, count, [&](Vector<NormRow> &vector, int, int j) {
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      const Acc value = Acc(vector.element[e]);
      const Acc scale = norm.scale ? Acc(by.scales[j].element[e]) : Acc(1);
      const Acc bias = norm.bias ? Acc(by.biases[j].element[e]) : Acc(0);
      vector.element[e] =
          NormRow(kIsRms ? value * factor * scale : fma((value - mean) * factor, scale, bias));
    }
  });
}

// f(row, lane, vectors of it) for `rows` rows of `columns` elements, a team of threads each; there
// are no vectors where there is no row. Rows are in `to` then.
template <class F>
__device__ __forceinline__ void each_team_row(T *to, long long rows, long long columns, F f) {
  constexpr int kTeams = kThreads / NORM_THREADS;
  const int thread = threadIdx.y * 32 + threadIdx.x, team = thread / NORM_THREADS;
  const int lane = thread % NORM_THREADS, count = int(columns / VECTOR);
#pragma unroll 1
  for (int first = 0; first < ROWS; first += kTeams) {
    const int r = first + team;
    const int own = team < kTeams && r < ROWS && r < rows ? count : 0;
    Vector<NormRow> vectors[NORM_VECTORS];
    f(vectors, r * columns, lane, own);
    each_own_vector(vectors, lane, own, [&](Vector<NormRow> &vector, int p, int) {
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        to[r * columns + p * VECTOR + e] = T(vector.element[e]);
    });
  }
  __syncthreads();
}

// to = norm(x).
template <bool kIsRms>
__device__ __forceinline__ void normalize_rows(const NormRow *x, const Norm &norm, T *to,
                                               long long rows, long long columns) {
  __shared__ Acc shared[kWarps];
  const bool aligned = are_aligned(x) && norm.is_aligned();
  each_team_row(to, rows, columns,
                [&](Vector<NormRow>(&vectors)[NORM_VECTORS], long long begin, int lane, int own) {
                  load_own(vectors, x + begin, aligned, lane, own);
                  const NormVectors by(norm, aligned, lane, own);
                  normalize_own<kIsRms>(vectors, norm, by, lane, own, columns, shared);
                });
}

#ifdef HAS_SUM
// to = norm(sum), sum = residual + first(x). Each block computes the sum, and the first one stores
// it, if anyone reads it.
template <bool kIsRms, bool kFirstIsRms>
__device__ __forceinline__ void normalize_sum(const T *x, const Norm &first, const T *residual,
                                              T *sum, const Norm &norm, T *to, long long rows,
                                              long long columns) {
  __shared__ Acc shared[kWarps];
  const bool aligned = are_aligned(x, residual, sum) && first.is_aligned() && norm.is_aligned();
  each_team_row(to, rows, columns,
                [&](Vector<T>(&vectors)[NORM_VECTORS], long long begin, int lane, int own) {
                  Vector<T> more[NORM_VECTORS];
                  load_own(vectors, x + begin, aligned, lane, own);
                  load_own(more, residual + begin, aligned, lane, own);
                  const NormVectors first_by(first, aligned, lane, own),
                      by(norm, aligned, lane, own);
                  normalize_own<kFirstIsRms>(vectors, first, first_by, lane, own, columns, shared);
                  each_own_vector(vectors, lane, own, [&](Vector<T> &vector, int p, int j) {
#pragma unroll
                    for (int e = 0; e < VECTOR; ++e)
                      vector.element[e] = T(Acc(more[j].element[e]) + Acc(vector.element[e]));
                    if (sum && blockIdx.x == 0)
                      store_own(vector, sum + begin, aligned, p);
                  });
                  normalize_own<kIsRms>(vectors, norm, by, lane, own, columns, shared);
                });
}
#endif
