// Elementwise operations with one operand: y[i] = OP(x[i]), contiguous.
//
// Options: -DOP=relu names the operation, and with it the entry, relu_elementwise. DTYPE_F16,
// DTYPE_BF16 or DTYPE_F64 set the element type (f32 otherwise); arithmetic is in float, in double
// for f64. INDEX=unsigned may be given when there are fewer than 2^31 elements. ASSUME is what is
// known about the parameters, such as count==64. x and y may be the same tensor.

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
#ifndef INDEX
#define INDEX long long
#endif
typedef INDEX Index;

namespace op {

// Not fmax: a NaN stays a NaN.
__device__ Acc relu(Acc x) { return x < 0 ? Acc(0) : x; }
__device__ Acc neg(Acc x) { return -x; }
__device__ Acc abs(Acc x) { return ::fabs(x); }
__device__ Acc exp(Acc x) { return ::exp(x); }
__device__ Acc log(Acc x) { return ::log(x); }
__device__ Acc sqrt(Acc x) { return ::sqrt(x); }
__device__ Acc rsqrt(Acc x) { return 1 / ::sqrt(x); }
__device__ Acc tanh(Acc x) { return ::tanh(x); }
__device__ Acc sigmoid(Acc x) { return 1 / (1 + ::exp(-x)); }
__device__ Acc silu(Acc x) { return x / (1 + ::exp(-x)); }

__device__ Acc gelu(Acc x) {
  const Acc kSqrtHalf = 0.70710678118654752440;
  return Acc(0.5) * x * (1 + ::erf(x * kSqrtHalf));
}

__device__ Acc gelu_tanh(Acc x) {
  const Acc kSqrtTwoOverPi = 0.79788456080286535588;
  return Acc(0.5) * x * (1 + ::tanh(kSqrtTwoOverPi * (x + Acc(0.044715) * x * x * x)));
}

} // namespace op

#define ENTRY_(operation) operation##_elementwise
#define ENTRY(operation) ENTRY_(operation)

extern "C" __global__ void ENTRY(OP)(const T *x, T *y, long long count) {
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = T(op::OP(Acc(x[i])));
}
