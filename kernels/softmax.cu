// Softmax along one axis of x: [outer, axis, inner]: exp(x - max) / sum(exp(x - max)).
//
// softmax_rows: inner is 1; one block a row, a whole number of warps, one warp for short rows.
// softmax_columns: one thread a column, so that neighbours read neighbouring addresses.
// With LOG the result is its logarithm, x - max - log(sum), which does not underflow.
// What row.cuh keeps of a row is read once; else rows are read three times (maximum, sum, result).
//
// Options: LOG; those of row.cuh, floating.cuh and assume.cuh.

#include "assume.cuh"
#include "block_reduce.cuh"
#include "fusion.cuh"
#include "programmatic.cuh"
#include "row.cuh"

// The result of an element, by its distance from the largest, for the sum of the line.
#ifdef LOG
__device__ Acc of_sum(Acc sum) { return log(sum); }
__device__ Acc result(Acc distance, Acc of_sum) { return distance - of_sum; }
#else
__device__ Acc of_sum(Acc sum) { return 1 / sum; }
__device__ Acc result(Acc distance, Acc of_sum) { return exp(distance) * of_sum; }
#endif

extern "C" __global__ void ROW_BOUNDS softmax_rows(const T *__restrict__ x, OUT *__restrict__ y,
                                                   long long outer, long long axis,
                                                   long long inner FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Acc shared[32];
  const long long begin = blockIdx.x * axis;
  const Row<T> row(x + begin, axis);
  Acc largest = -infinity();
  each_column(axis,
              [&](int place, long long i) { largest = fmax(largest, Acc(row.at(place, i))); });
  largest = block_reduce(largest, shared, [](Acc p, Acc q) { return fmax(p, q); });
  Acc sum = 0;
  each_column(axis, [&](int place, long long i) { sum += exp(Acc(row.at(place, i)) - largest); });
  sum = block_reduce(sum, shared, [](Acc p, Acc q) { return p + q; });
  const Acc scale = of_sum(sum);
  store_row(y + begin, axis, [&](int place, long long i) {
    return static_cast<OUT>(RESULT(begin + i, result(Acc(row.at(place, i)) - largest, scale)));
  });
}

#ifndef ROW_VECTORS
extern "C" __global__ void softmax_columns(const T *__restrict__ x, OUT *__restrict__ y,
                                           long long outer, long long axis,
                                           long long inner FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long column = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= outer * inner)
    return;
  const long long begin = column / inner * axis * inner + column % inner;
  Acc largest = -infinity();
  for (long long i = 0; i < axis; ++i)
    largest = fmax(largest, Acc(x[begin + i * inner]));
  Acc sum = 0;
  for (long long i = 0; i < axis; ++i)
    sum += exp(Acc(x[begin + i * inner]) - largest);
  const Acc scale = of_sum(sum);
  for (long long i = 0; i < axis; ++i)
    STORE(begin + i * inner, result(Acc(x[begin + i * inner]) - largest, scale));
}
#endif
