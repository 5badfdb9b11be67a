// Softmax along one axis of x: [outer, axis, inner]: exp(x - max) / sum(exp(x - max)).
//
// softmax_rows: inner is 1; one block a row, a whole number of warps, one warp for short rows.
// softmax_columns: one thread a column, so that neighbours read neighbouring addresses.
// Rows are read three times (maximum, sum, result) and stay in cache; nothing is kept between.
//
// Options: DTYPE_* and ASSUME as in unary.cu.

#if defined(DTYPE_F16)
#include <cuda_fp16.h>
typedef __half T;
typedef float Acc;
#elif defined(DTYPE_BF16)
#include <cuda_bf16.h>
typedef __nv_bfloat16 T;
typedef float Acc;
#elif defined(DTYPE_F64)
typedef double T;
typedef double Acc;
#else
typedef float T;
typedef float Acc;
#endif

#ifndef ASSUME
#define ASSUME true
#endif

// Every thread of the block gets the reduction of all their values. `shared` holds one value a
// warp; the block is a whole number of warps.
template <class Combine> __device__ Acc block_reduce(Acc value, Acc *shared, Combine combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  const int warps = blockDim.x / 32;
  if (warps == 1)
    return value;
  __syncthreads(); // the last reduction may still be reading
  if (threadIdx.x % 32 == 0)
    shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (int w = 1; w < warps; ++w)
    value = combine(value, shared[w]);
  return value;
}

extern "C" __global__ void softmax_rows(const T *__restrict__ x, T *__restrict__ y, long long outer,
                                        long long axis, long long inner) {
  __builtin_assume(ASSUME);
  __shared__ Acc shared[32];
  x += blockIdx.x * axis;
  y += blockIdx.x * axis;
  Acc largest = -Acc(1) / Acc(0);
  for (long long i = threadIdx.x; i < axis; i += blockDim.x)
    largest = fmax(largest, Acc(x[i]));
  largest = block_reduce(largest, shared, [](Acc p, Acc q) { return fmax(p, q); });
  Acc sum = 0;
  for (long long i = threadIdx.x; i < axis; i += blockDim.x)
    sum += exp(Acc(x[i]) - largest);
  sum = block_reduce(sum, shared, [](Acc p, Acc q) { return p + q; });
  const Acc scale = 1 / sum;
  for (long long i = threadIdx.x; i < axis; i += blockDim.x)
    y[i] = T(exp(Acc(x[i]) - largest) * scale);
}

extern "C" __global__ void softmax_columns(const T *__restrict__ x, T *__restrict__ y,
                                           long long outer, long long axis, long long inner) {
  __builtin_assume(ASSUME);
  const long long column = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= outer * inner)
    return;
  const long long begin = column / inner * axis * inner + column % inner;
  Acc largest = -Acc(1) / Acc(0);
  for (long long i = 0; i < axis; ++i)
    largest = fmax(largest, Acc(x[begin + i * inner]));
  Acc sum = 0;
  for (long long i = 0; i < axis; ++i)
    sum += exp(Acc(x[begin + i * inner]) - largest);
  const Acc scale = 1 / sum;
  for (long long i = 0; i < axis; ++i)
    y[begin + i * inner] = T(exp(Acc(x[begin + i * inner]) - largest) * scale);
}
