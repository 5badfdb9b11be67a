// An arithmetic sequence: y[i] = start + i * step, in the type's wider one.
//
// Options: those of number.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/number.cuh"
#include "elementwise/operations.cuh"
#include "shared/programmatic.cuh"

extern "C" __global__ void range(T *y, long long count, Parameter start, Parameter delta) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = T(OPERATIONS::range<Acc>((long long)(i), start, delta));
}
