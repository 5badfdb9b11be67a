// Conversion between plain types: y[i] = (TO)x[i], contiguous, in vectors.
//
// Options: -DFROM=f32 -DTO=f16 and the like; those of convert.cuh, which states the rules, of
// vectors.cuh and of assume.cuh.

#include "shared/assume.cuh"
#include "shared/convert.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

#define ENTRY_(from, to) cast_##from##_##to
#define ENTRY(from, to) ENTRY_(from, to)

extern "C" __global__ void ENTRY(FROM, TO)(const type::FROM *__restrict__ x,
                                           type::TO *__restrict__ y, long long count) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  const Index first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index vectors = vector_count(count, x, y);
  for (Index p = first; p < vectors; p += step) {
    const Vector<type::FROM> in = load_vector(x, p);
    Vector<type::TO> out;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e)
      out.element[e] = convert<type::TO>(in.element[e]);
    store_vector(y, p, out);
  }
  for (Index i = vectors * VECTOR + first; i < Index(count); i += step)
    y[i] = convert<type::TO>(x[i]);
}
