// Copies. Elements are moved, not read, so that only their width matters.
//
// copy_rows: `rows` rows of `length` elements, from rows that begin x_pitch elements apart to rows
// that begin y_pitch apart: concatenation and splitting along any axis, and with one row a plain
// copy. With vectors, `length` and both pitches are multiples of VECTOR.
//
// join_rows: rows of PARTS tensors, one after the other: a concatenation along any axis. With
// vectors, all lengths and the pitch are multiples of VECTOR.
//
// Options: PARTS, 2 to 8, for join_rows alone; those of bytes.cuh, vectors.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

#ifndef PARTS
extern "C" __global__ void copy_rows(const T *__restrict__ x, T *__restrict__ y, long long rows,
                                     long long length, long long x_pitch, long long y_pitch) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index count = Index(rows) * Index(length), step = Index(gridDim.x) * blockDim.x;
  const Index first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index vectors = vector_count(count, x, y), width = Index(length) / VECTOR;
  for (Index p = first; p < vectors; p += step) {
    const Index row = p / width, at = p % width;
    store_vector(y, row * (Index(y_pitch) / VECTOR) + at,
                 load_vector(x, row * (Index(x_pitch) / VECTOR) + at));
  }
  for (Index i = vectors * VECTOR + first; i < count; i += step) {
    const Index row = i / Index(length), at = i % Index(length);
    y[row * Index(y_pitch) + at] = x[row * Index(x_pitch) + at];
  }
}
#else
#define OF_2(each) each(0) each(1)
#define OF_3(each) OF_2(each) each(2)
#define OF_4(each) OF_3(each) each(3)
#define OF_5(each) OF_4(each) each(4)
#define OF_6(each) OF_5(each) each(5)
#define OF_7(each) OF_6(each) each(6)
#define OF_8(each) OF_7(each) each(7)
#define OF_PARTS_(parts, each) OF_##parts(each)
#define OF_PARTS(parts, each) OF_PARTS_(parts, each)
#define PARAMETERS(n) const T *__restrict__ x##n, long long length##n,
#define TENSOR(n) , x##n
#define LENGTH(n) +Index(length##n)
#define FIND(n)                                                                                    \
  if (at < Index(length##n))                                                                       \
    return x##n + row * Index(length##n) + at;                                                     \
  at -= Index(length##n);

extern "C" __global__ void join_rows(OF_PARTS(PARTS, PARAMETERS) T *__restrict__ y, long long rows,
                                     long long y_pitch) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index width = OF_PARTS(PARTS, LENGTH), count = Index(rows) * width;
  const Index first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index step = Index(gridDim.x) * blockDim.x;
  const Index vectors = vector_count(count, y OF_PARTS(PARTS, TENSOR));
  const auto from = [&](Index row, Index at) -> const T * {
    OF_PARTS(PARTS, FIND)
    return nullptr;
  };
  for (Index p = first; p < vectors; p += step) {
    const Index row = p / (width / VECTOR), at = p % (width / VECTOR);
    store_vector(y, row * (Index(y_pitch) / VECTOR) + at, load_vector(from(row, at * VECTOR), 0));
  }
  for (Index i = vectors * VECTOR + first; i < count; i += step) {
    const Index row = i / width, at = i % width;
    y[row * Index(y_pitch) + at] = *from(row, at);
  }
}
#endif
