// Copies. Elements are moved, not read, so that only their width matters.
//
// copy_rows: `rows` rows of `length` elements, from rows that begin x_pitch elements apart to rows
// that begin y_pitch apart: concatenation and splitting along any axis, and with one row a plain
// copy. With vectors, `length` and both pitches are multiples of VECTOR.
//
// Options: those of bytes.cuh, vectors.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

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
