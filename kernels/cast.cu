// Conversion between plain types: y[i] = (TO)x[i], contiguous.
//
// Options: -DFROM=f32 -DTO=f16 and the like; those of convert.cuh, which states the rules, and of
// assume.cuh.

#include "assume.cuh"
#include "convert.cuh"
#include "programmatic.cuh"

#define ENTRY_(from, to) cast_##from##_##to
#define ENTRY(from, to) ENTRY_(from, to)

extern "C" __global__ void ENTRY(FROM, TO)(const type::FROM *__restrict__ x,
                                           type::TO *__restrict__ y, long long count) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = convert<type::TO>(x[i]);
}
