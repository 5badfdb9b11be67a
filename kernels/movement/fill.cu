// Fills: y[i] = value, the same bits everywhere.
//
// Options: those of bytes.cuh, an element being the low bytes of `bits`, and assume.cuh.

#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "shared/programmatic.cuh"

extern "C" __global__ void fill(T *y, long long count, long long bits) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = T(bits);
}
