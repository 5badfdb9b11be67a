// Softmax along one axis of x: [outer, axis, inner]: exp(x - max) / sum(exp(x - max)).
//
// softmax_rows: inner is 1; one block a row, a whole number of warps, one warp for short rows.
// softmax_columns: 16 threads a column, whose neighbours read neighbouring addresses; a thread
// keeps the largest of what it has seen and the sum relative to it, so that x is read twice in all.
// With LOG the result is its logarithm, x - max - log(sum), which does not underflow.
// What row.cuh keeps of a row is read once; else rows are read three times (maximum, sum, result).
//
// Options: LOG; those of row.cuh, floating.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/block_reduce.cuh"
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"
#include "shared/row.cuh"

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
// Columns and rows of a block, and elements that a thread reads before it uses the first.
constexpr int kColumns = 32, kDeep = 16, kAtOnce = 32 / sizeof(Acc);

// A sum relative to the largest of its terms; a term of -infinity adds nothing.
struct Sum {
  Acc largest, sum;

  __device__ __forceinline__ void move_to(Acc next) {
    sum *= exp(largest - (next == -infinity() ? Acc(0) : next));
    largest = next;
  }
  __device__ __forceinline__ Acc weight(Acc x) const {
    return exp(x - (largest == -infinity() ? Acc(0) : largest));
  }
};

extern "C" __global__ void __launch_bounds__(kColumns *kDeep, 1)
    softmax_columns(const T *__restrict__ x, OUT *__restrict__ y, long long outer, long long axis,
                    long long inner FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Sum shared[kDeep][kColumns];
  const long long column = (long long)(blockIdx.x) * kColumns + threadIdx.x;
  const bool inside = column < outer * inner;
  const long long begin = inside ? column / inner * axis * inner + column % inner : 0;
  const long long end = inside ? axis : 0;
  Sum own = {-infinity(), 0};
#pragma unroll 1
  for (long long first = threadIdx.y; first < end; first += kDeep * kAtOnce) {
    Acc element[kAtOnce], next = own.largest;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const long long i = first + j * kDeep;
      element[j] = i < end ? Acc(x[begin + i * inner]) : -infinity();
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      next = fmax(next, element[j]);
    own.move_to(next);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      own.sum += own.weight(element[j]);
  }
  shared[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  Sum all = {-infinity(), 0};
  for (int d = 0; d < kDeep; ++d)
    all.largest = fmax(all.largest, shared[d][threadIdx.x].largest);
  for (int d = 0; d < kDeep; ++d) {
    Sum other = shared[d][threadIdx.x];
    other.move_to(all.largest);
    all.sum += other.sum;
  }
  const Acc scale = of_sum(all.sum);
#pragma unroll 4
  for (long long i = threadIdx.y; i < end; i += kDeep)
    STORE(begin + i * inner, result(Acc(x[begin + i * inner]) - all.largest, scale));
}
#endif
