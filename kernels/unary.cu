// Elementwise operations with one operand: y[i] = OP(x[i]), contiguous.
//
// Options: -DOP=relu names the operation, and with it the entry, relu_elementwise; those of
// floating.cuh and assume.cuh. x and y may be the same tensor.

#include "assume.cuh"
#include "floating.cuh"
#include "programmatic.cuh"

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
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = T(op::OP(Acc(x[i])));
}
