// Embedding: y[i] = table[ids[i]], rows of `width` elements. Elements are moved, not read, so that
// only their width matters. An id outside [0, rows) reads the nearest row (of a table without rows,
// 0): ids come from outside, and memory beyond the table must not be reached.
//
// Options: WIDE_IDS for ids of i64 (i32 otherwise); those of bytes.cuh and assume.cuh.

#include "assume.cuh"
#include "bytes.cuh"
#include "positions.cuh"
#include "programmatic.cuh"

#ifdef WIDE_IDS
typedef long long Id;
#else
typedef int Id;
#endif

extern "C" __global__ void embedding(const T *__restrict__ table, const Id *__restrict__ ids,
                                     T *__restrict__ y, long long count, long long rows,
                                     long long width) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index total = Index(count) * Index(width), step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
    const long long row = nearest(ids[i / Index(width)], rows);
    y[i] = rows > 0 ? table[Index(row) * Index(width) + i % Index(width)] : T(0);
  }
}
