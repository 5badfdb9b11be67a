// Embedding: y[i] = table[ids[i]], rows of `width` elements. Elements are moved, not read, so that
// only their width matters. An id outside [0, rows) reads the nearest row (of a table without rows,
// 0): ids come from outside, and memory beyond the table must not be reached.
//
// With VECTOR, which divides the width, vectors of a row are moved, where table and y begin at
// multiples of one.
//
// Options: WIDE_IDS for ids of i64 (i32 otherwise); those of bytes.cuh, vectors.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "index/positions.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

// W: an element, or a vector of kEach of them.
template <int kEach, class W>
__device__ __forceinline__ void read_rows(const W *table, const Id *ids, W *y, long long count,
                                          long long rows, long long width) {
  const Index across = Index(width) / kEach;
  const Index total = Index(count) * across, step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
    const long long row = nearest(ids[i / across], rows);
    y[i] = rows > 0 ? table[Index(row) * across + i % across] : W();
  }
}

extern "C" __global__ void embedding(const T *__restrict__ table, const Id *__restrict__ ids,
                                     T *__restrict__ y, long long count, long long rows,
                                     long long width) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  typedef Word<VECTOR * sizeof(T)>::Type W;
  if (VECTOR > 1 && are_aligned(table, y))
    read_rows<VECTOR>(reinterpret_cast<const W *>(table), ids, reinterpret_cast<W *>(y), count,
                      rows, width);
  else
    read_rows<1>(table, ids, y, count, rows, width);
}
