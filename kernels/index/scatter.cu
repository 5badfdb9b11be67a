// Scattering into y, which holds x: elements, or slices of them, at places that are read.
//
//   scatter_elements   y[.., indices[i..], ..] = updates[i..], the place along one axis
//   scatter_nd         y[indices[i.., 0], .., indices[i.., places - 1], ..] = updates[i.., ..]
//
// A negative index counts from the end; where one then lies outside, nothing is written. Several
// updates of one place: with REDUCE all of them are taken in, one after the other in any order;
// else any one of them stands. A thread has one element of the updates, or of slices of whole
// vectors a vector, for which it asks for its row's indices once. scatter_elements reads as many
// indices as updates at once, where VECTOR divides their last dimension.
//
// Options: BYTES without REDUCE (bytes.cuh); with it its operation, add, mul, maximum or minimum,
// on elements of 2, 4 or 8 bytes of number.cuh; WIDE_IDS for indices of i64 (i32 otherwise);
// MAX_RANK 4 or 8; AXIS and LAST, the last dimension, of scatter_elements; those of vectors.cuh
// without REDUCE; that of assume.cuh.

#include "index/positions.cuh"
#include "shared/assume.cuh"
#include "shared/dimensions.cuh"
#include "shared/programmatic.cuh"
#ifdef REDUCE
#include "elementwise/operations.cuh"
#include "shared/number.cuh"
#else
#include "shared/bytes.cuh"
#include "shared/vectors.cuh"
#endif

#ifdef REDUCE
template <int kBytes> struct Word;
template <> struct Word<2> { typedef unsigned short type; };
template <> struct Word<4> { typedef unsigned int type; };
template <> struct Word<8> { typedef unsigned long long type; };
typedef Word<sizeof(T)>::type Raw;

union Element {
  Raw raw;
  T value;
  __device__ Element() {}
};

__device__ __forceinline__ void write(T *y, T update) {
  Element old, next;
  old.raw = 0; // a guess; what is there comes back
  while (true) {
    next.value = T(OPERATIONS::REDUCE(Acc(old.value), Acc(update)));
    const Raw found = atomicCAS((Raw *)(y), old.raw, next.raw);
    if (found == old.raw)
      return;
    old.raw = found;
  }
}
#else
__device__ __forceinline__ void write(T *y, T update) { *y = update; }
#endif

// The place that an index names; -1: none.
__device__ __forceinline__ long long place(long long index, long long size) {
  const long long at = index < 0 ? index + size : index;
  return at >= 0 && at < size ? at : -1;
}

#ifdef AXIS
extern "C" __global__ void scatter_elements(const Id *__restrict__ indices,
                                            const T *__restrict__ updates, T *y, long long count,
                                            long long axis, INNER(long long size),
                                            EACH(long long stride)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long size[] = {0, INNER(size)}, stride[] = {EACH(stride)};
  const Index step = Index(gridDim.x) * blockDim.x;
  const Index first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  // Where the element of y lies that update i meets, but for its place along the axis.
  auto beside_axis = [&](Index i) {
    Index rest = i;
    long long at = 0;
#pragma unroll
    for (int d = MAX_RANK - 1; d >= 0; --d) {
      const Index outer = d > 0 ? rest / Index(size[d]) : 0;
      if (d != AXIS)
        at += (long long)(d > 0 ? rest - outer * Index(size[d]) : rest) * stride[d];
      rest = outer;
    }
    return at;
  };
#ifndef REDUCE
  if (VECTOR > 1) {
    const bool ids_aligned = Run<VECTOR, Id>::is_aligned(indices),
               aligned = Run<VECTOR, T>::is_aligned(updates);
    for (Index p = first; p < Index(count) / VECTOR; p += step) {
      Run<VECTOR, Id> places;
      places.read(indices + p * VECTOR, ids_aligned);
      Run<VECTOR, T> values;
      values.read(updates + p * VECTOR, aligned);
      T *const to = y + beside_axis(p * VECTOR);
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        if (const long long chosen = place(places.element[e], axis); chosen >= 0)
          to[chosen * stride[AXIS] + (AXIS == LAST ? 0 : e)] = values.element[e];
    }
    return;
  }
#endif
  for (Index i = first; i < Index(count); i += step)
    if (const long long chosen = place(indices[i], axis); chosen >= 0)
      write(y + beside_axis(i) + chosen * stride[AXIS], updates[i]);
}
#else
extern "C" __global__ void scatter_nd(const Id *__restrict__ indices, const T *__restrict__ updates,
                                      T *y, long long rows, long long width, long long places,
                                      EACH(long long size), EACH(long long stride)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long size[] = {EACH(size)}, stride[] = {EACH(stride)};
  const Index step = Index(gridDim.x) * blockDim.x,
              first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  // Where the slice of a row begins in y; negative: nowhere.
  auto slice_of = [&](Index row) {
    const Id *index = indices + (long long)(row)*places;
    long long at = 0;
    bool is_inside = true;
#pragma unroll
    for (int d = 0; d < MAX_RANK; ++d)
      if (d < places) {
        const long long chosen = place(index[d], size[d]);
        is_inside = is_inside && chosen >= 0;
        at += chosen * stride[d];
      }
    return is_inside ? at : -1;
  };
#ifndef REDUCE
  if (VECTOR > 1 && width % VECTOR == 0 && are_aligned(updates, y)) {
    const Index across = Index(width) / VECTOR, vectors = Index(rows) * across;
    for (Index p = first; p < vectors; p += step) {
      const Index row = p / across;
      const long long at = slice_of(row);
      if (at >= 0)
        store_vector(y + at, p - row * across, load_vector(updates, p));
    }
    return;
  }
#endif
  const Index count = Index(rows) * Index(width);
  for (Index i = first; i < count; i += step) {
    const Index row = i / Index(width);
    const long long at = slice_of(row);
    if (at >= 0)
      write(y + at + (long long)(i - row * Index(width)), updates[i]);
  }
}
#endif
