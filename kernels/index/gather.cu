// Gathering along one axis of x: [outer, axis, inner], at positions of i32 or i64.
//
//   gather            y[o, j, i] = x[o, positions[j], i]          positions: [length]
//   gather_elements   y[o, j, i] = x[o, positions[o, j, i], i]    positions: [outer, length, inner]
//
// A negative position counts from the axis' end, but with OUTSIDE=nearest, as ids of rows have it.
// What then lies outside reads the nearest element (along an axis of none, 0): positions come from
// outside, and memory beyond x must not be reached. Elements are moved, not read, so that only
// their width matters.
//
// With VECTOR, which divides inner, gather moves vectors, where x and y begin at multiples of one.
// gather_elements then reads as many positions at once, and stores a vector; VECTOR divides inner,
// or length where inner is 1.
//
// Options: WIDE_IDS for positions of i64 (i32 otherwise); OUTSIDE=nearest; those of bytes.cuh,
// vectors.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "index/positions.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

#ifndef OUTSIDE
#define OUTSIDE from_either_end
#endif

#define PARAMETERS                                                                                 \
  const T *__restrict__ x, const Id *__restrict__ positions, T *__restrict__ y, long long outer,   \
      long long axis, long long inner, long long length

// W: an element, or a vector of them; then `inner` counts vectors. kAtOnce of them are asked for
// before the first is stored.
template <bool kElements, int kAtOnce, class W>
__device__ __forceinline__ void gather_along(const W *x, const Id *positions, W *y, long long outer,
                                             long long axis, Index inner, long long length) {
  const Index row = Index(length) * inner, count = Index(outer) * row;
  const Index step = Index(gridDim.x) * blockDim.x;
#pragma unroll kAtOnce
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index o = outer == 1 ? 0 : i / row, within = i - o * row;
    const long long at = OUTSIDE(positions[kElements ? i : within / inner], axis);
    y[i] = axis > 0 ? x[(o * Index(axis) + Index(at)) * inner + within % inner] : W();
  }
}

extern "C" __global__ void gather(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  typedef Word<VECTOR * sizeof(T)>::Type W;
  if (VECTOR > 1 && are_aligned(x, y))
    gather_along<false, 4>(reinterpret_cast<const W *>(x), positions, reinterpret_cast<W *>(y),
                           outer, axis, Index(inner) / VECTOR, length);
  else
    gather_along<false, VECTOR == 1 ? 4 : 1>(x, positions, y, outer, axis, Index(inner), length);
}

extern "C" __global__ void gather_elements(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  if (VECTOR == 1 || axis == 0 || !are_aligned(y))
    return gather_along<true, 4>(x, positions, y, outer, axis, Index(inner), length);
  const Index row = Index(length) * Index(inner), vectors = Index(outer) * row / VECTOR;
  const Index step = Index(gridDim.x) * blockDim.x;
  const bool aligned = Run<VECTOR, Id>::is_aligned(positions);
  for (Index p = Index(blockIdx.x) * blockDim.x + threadIdx.x; p < vectors; p += step) {
    const Index i = p * VECTOR, o = i / row;
    const T *const from = x + o * Index(axis) * Index(inner) + i % Index(inner);
    Run<VECTOR, Id> run;
    run.read(positions + i, aligned);
    Vector<T> vector;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e)
      vector.element[e] =
          from[Index(from_either_end(run.element[e], axis)) * Index(inner) + (inner == 1 ? 0 : e)];
    store_vector(y, p, vector);
  }
}
