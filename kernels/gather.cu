// Gathering along one axis of x: [outer, axis, inner], at positions of i32 or i64.
//
//   gather            y[o, j, i] = x[o, positions[j], i]          positions: [length]
//   gather_elements   y[o, j, i] = x[o, positions[o, j, i], i]    positions: [outer, length, inner]
//
// A negative position counts from the axis' end. What then lies outside reads the nearest element
// (along an axis of none, 0): positions come from outside, and memory beyond x must not be reached.
// Elements are moved, not read, so that only their width matters.
//
// Options: WIDE_IDS for positions of i64 (i32 otherwise); those of bytes.cuh and assume.cuh.

#include "assume.cuh"
#include "bytes.cuh"
#include "positions.cuh"
#include "programmatic.cuh"

#ifdef WIDE_IDS
typedef long long Id;
#else
typedef int Id;
#endif

#define PARAMETERS                                                                                 \
  const T *__restrict__ x, const Id *__restrict__ positions, T *__restrict__ y, long long outer,   \
      long long axis, long long inner, long long length
#define ARGUMENTS x, positions, y, outer, axis, inner, length

template <bool kElements> __device__ __forceinline__ void gather_along(PARAMETERS) {
  __builtin_assume(ASSUME);
  const Index row = Index(length) * Index(inner), count = Index(outer) * row;
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const long long at = from_either_end(positions[kElements ? i : i % row / Index(inner)], axis);
    y[i] =
        axis > 0 ? x[(i / row * Index(axis) + Index(at)) * Index(inner) + i % Index(inner)] : T(0);
  }
}

extern "C" __global__ void gather(PARAMETERS) {
  BEGIN_EARLY();
  gather_along<false>(ARGUMENTS);
}

extern "C" __global__ void gather_elements(PARAMETERS) {
  BEGIN_EARLY();
  gather_along<true>(ARGUMENTS);
}
