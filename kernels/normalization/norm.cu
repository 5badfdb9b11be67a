// Layer norm and RMS norm over the last axis of x: [rows, columns].
//
//   layer_norm   (x - mean) / sqrt(variance + epsilon) * scale + bias
//   rms_norm     x / sqrt(mean(x^2) + epsilon) * scale
//
// One block a row, a whole number of warps. The variance is taken about the mean, in a second pass:
// the difference of two sums would cancel.
//
// Options: those of row.cuh, floating.cuh and assume.cuh; IS_RMS: rms_norm, else layer_norm;
// HAS_SCALE and HAS_BIAS add those parameters, of [columns], which are Acc with WIDE_SCALE.

#include "shared/assume.cuh"
#include "shared/block_reduce.cuh"
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"
#include "shared/row.cuh"

#ifdef WIDE_SCALE
typedef Acc Scale;
typedef PassingRow<Acc> ScaleRow;
#else
typedef T Scale;
typedef Row<T> ScaleRow;
#endif
#ifdef HAS_SCALE
#define SCALE_PARAMETER const Scale *__restrict__ scale,
#define LOAD_SCALE() const ScaleRow scale_row(scale, columns)
#define SCALE_AT(place, column) Acc(scale_row.at(place, column))
#else
#define SCALE_PARAMETER
#define LOAD_SCALE()
#define SCALE_AT(place, column) Acc(1)
#endif
#ifdef HAS_BIAS
#define BIAS_PARAMETER const Scale *__restrict__ bias,
#define LOAD_BIAS() const ScaleRow bias_row(bias, columns)
#define BIAS_AT(place, column) Acc(bias_row.at(place, column))
#else
#define BIAS_PARAMETER
#define LOAD_BIAS()
#define BIAS_AT(place, column) Acc(0)
#endif

__device__ Acc plus(Acc p, Acc q) { return p + q; }

#ifndef IS_RMS
extern "C" __global__ void ROW_BOUNDS layer_norm(const T *__restrict__ x,
                                                 SCALE_PARAMETER BIAS_PARAMETER OUT *__restrict__ y,
                                                 long long rows, long long columns,
                                                 Acc epsilon FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Acc shared[32];
  const long long begin = blockIdx.x * columns;
  const Row<T> row(x + begin, columns);
  LOAD_SCALE();
  LOAD_BIAS();
  Acc sum = 0;
  each_column(columns, [&](int place, long long i) { sum += Acc(row.at(place, i)); });
  const Acc mean = block_reduce(sum, shared, plus) / Acc(columns);
  Acc squares = 0;
  each_column(columns, [&](int place, long long i) {
    const Acc difference = Acc(row.at(place, i)) - mean;
    squares = fma(difference, difference, squares);
  });
  const Acc variance = block_reduce(squares, shared, plus) / Acc(columns);
  const Acc factor = 1 / sqrt(variance + epsilon);
  store_row(y + begin, columns, [&](int place, long long i) {
    const Acc normal = (Acc(row.at(place, i)) - mean) * factor;
    return static_cast<OUT>(RESULT(begin + i, fma(normal, SCALE_AT(place, i), BIAS_AT(place, i))));
  });
}
#else
extern "C" __global__ void ROW_BOUNDS rms_norm(const T *__restrict__ x,
                                               SCALE_PARAMETER OUT *__restrict__ y, long long rows,
                                               long long columns, Acc epsilon FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Acc shared[32];
  const long long begin = blockIdx.x * columns;
  const Row<T> row(x + begin, columns);
  LOAD_SCALE();
  Acc squares = 0;
  each_column(columns, [&](int place, long long i) {
    const Acc value = Acc(row.at(place, i));
    squares = fma(value, value, squares);
  });
  const Acc mean = block_reduce(squares, shared, plus) / Acc(columns);
  const Acc factor = 1 / sqrt(mean + epsilon);
  store_row(y + begin, columns, [&](int place, long long i) {
    return static_cast<OUT>(RESULT(begin + i, Acc(row.at(place, i)) * factor * SCALE_AT(place, i)));
  });
}
#endif
