// Elementwise operations with one operand: y[i] = OP(x[i]), contiguous.
//
// Options: -DOP=relu names the operation (elementwise.cuh), and with it the entry,
// relu_elementwise; those of floating.cuh and assume.cuh. x and y may be the same tensor.

#include "assume.cuh"
#include "elementwise.cuh"
#include "floating.cuh"
#include "programmatic.cuh"

#define ENTRY_(operation) operation##_elementwise
#define ENTRY(operation) ENTRY_(operation)

extern "C" __global__ void ENTRY(OP)(const T *x, T *y, long long count) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = T(op::OP(Acc(x[i])));
}
