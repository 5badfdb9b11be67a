// Layer norm and RMS norm over the last axis of x: [rows, columns].
//
//   layer_norm   (x - mean) / sqrt(variance + epsilon) * scale + bias
//   rms_norm     x / sqrt(mean(x^2) + epsilon) * scale
//
// One block a row, a whole number of warps. The variance is taken about the mean, in a second pass:
// the difference of two sums would cancel.
//
// Options: those of floating.cuh and assume.cuh; HAS_SCALE and HAS_BIAS add those parameters, of
// [columns].

#include "assume.cuh"
#include "block_reduce.cuh"
#include "fusion.cuh"
#include "programmatic.cuh"

#ifdef HAS_SCALE
#define SCALE_PARAMETER const T *__restrict__ scale,
#define SCALE_AT(column) Acc(scale[column])
#else
#define SCALE_PARAMETER
#define SCALE_AT(column) Acc(1)
#endif
#ifdef HAS_BIAS
#define BIAS_PARAMETER const T *__restrict__ bias,
#define BIAS_AT(column) Acc(bias[column])
#else
#define BIAS_PARAMETER
#define BIAS_AT(column) Acc(0)
#endif

__device__ Acc plus(Acc p, Acc q) { return p + q; }

extern "C" __global__ void layer_norm(const T *__restrict__ x,
                                      SCALE_PARAMETER BIAS_PARAMETER OUT *__restrict__ y,
                                      long long rows, long long columns,
                                      Acc epsilon FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Acc shared[32];
  const long long begin = blockIdx.x * columns;
  x += begin;
  Acc sum = 0;
  for (long long i = threadIdx.x; i < columns; i += blockDim.x)
    sum += Acc(x[i]);
  const Acc mean = block_reduce(sum, shared, plus) / Acc(columns);
  Acc squares = 0;
  for (long long i = threadIdx.x; i < columns; i += blockDim.x) {
    const Acc difference = Acc(x[i]) - mean;
    squares = fma(difference, difference, squares);
  }
  const Acc variance = block_reduce(squares, shared, plus) / Acc(columns);
  const Acc factor = 1 / sqrt(variance + epsilon);
  for (long long i = threadIdx.x; i < columns; i += blockDim.x)
    STORE(begin + i, fma((Acc(x[i]) - mean) * factor, SCALE_AT(i), BIAS_AT(i)));
}

extern "C" __global__ void rms_norm(const T *__restrict__ x, SCALE_PARAMETER OUT *__restrict__ y,
                                    long long rows, long long columns,
                                    Acc epsilon FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Acc shared[32];
  const long long begin = blockIdx.x * columns;
  x += begin;
  Acc squares = 0;
  for (long long i = threadIdx.x; i < columns; i += blockDim.x)
    squares = fma(Acc(x[i]), Acc(x[i]), squares);
  const Acc mean = block_reduce(squares, shared, plus) / Acc(columns);
  const Acc factor = 1 / sqrt(mean + epsilon);
  for (long long i = threadIdx.x; i < columns; i += blockDim.x)
    STORE(begin + i, Acc(x[i]) * factor * SCALE_AT(i));
}
