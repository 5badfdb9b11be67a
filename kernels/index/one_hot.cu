// One-hot rows: y[o, d, i] = ids[o, i] == d ? on : off, of ids: [outer, inner] and y: [outer,
// depth, inner]. An id from -depth on counts from the end; one outside of that has no place in its
// row. Elements are the low bytes of on_bits and off_bits. With inner 1 and a depth of whole
// vectors a thread stores vectors of a row, and asks for the row's id once for each; with an inner
// of whole vectors it reads as many ids at once.
//
// Options: WIDE_IDS for ids of i64 (i32 otherwise); those of bytes.cuh, vectors.cuh and assume.cuh.

#include "index/positions.cuh"
#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

extern "C" __global__ void one_hot(const Id *__restrict__ ids, T *__restrict__ y, long long outer,
                                   long long depth, long long inner, long long on_bits,
                                   long long off_bits) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index row = Index(depth) * Index(inner), count = Index(outer) * row;
  const Index step = Index(gridDim.x) * blockDim.x;
  if (VECTOR > 1 && inner == 1 && depth % VECTOR == 0 && are_aligned(y)) {
    const Index across = Index(depth) / VECTOR, vectors = Index(outer) * across;
    for (Index p = Index(blockIdx.x) * blockDim.x + threadIdx.x; p < vectors; p += step) {
      const Index o = p / across;
      const long long id = ids[o], first = (long long)(p - o * across) * VECTOR;
      Vector<T> vector;
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        vector.element[e] = T(is_at(id, first + e, depth) ? on_bits : off_bits);
      store_vector(y, p, vector);
    }
    return;
  }
  if (VECTOR > 1 && inner % VECTOR == 0 && are_aligned(y)) {
    const bool aligned = Run<VECTOR, Id>::is_aligned(ids);
    const Index across = Index(inner) / VECTOR, vectors = count / VECTOR;
    for (Index p = Index(blockIdx.x) * blockDim.x + threadIdx.x; p < vectors; p += step) {
      const Index line = p / across, o = line / Index(depth);
      const long long place = (long long)(line - o * Index(depth));
      Run<VECTOR, Id> run;
      run.read(ids + (o * across + (p - line * across)) * VECTOR, aligned);
      Vector<T> vector;
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        vector.element[e] = T(is_at(run.element[e], place, depth) ? on_bits : off_bits);
      store_vector(y, p, vector);
    }
    return;
  }
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const long long id = ids[i / row * Index(inner) + i % Index(inner)];
    const long long place = (long long)(i % row / Index(inner));
    y[i] = T(is_at(id, place, depth) ? on_bits : off_bits);
  }
}
