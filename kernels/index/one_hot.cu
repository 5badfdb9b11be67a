// One-hot rows: y[o, d, i] = ids[o, i] == d ? on : off, of ids: [outer, inner] and y: [outer,
// depth, inner]. An id from -depth on counts from the end; one outside of that has no place in its
// row. Elements are the low bytes of on_bits and off_bits.
//
// Options: WIDE_IDS for ids of i64 (i32 otherwise); those of bytes.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "index/positions.cuh"
#include "shared/programmatic.cuh"

#ifdef WIDE_IDS
typedef long long Id;
#else
typedef int Id;
#endif

extern "C" __global__ void one_hot(const Id *__restrict__ ids, T *__restrict__ y, long long outer,
                                   long long depth, long long inner, long long on_bits,
                                   long long off_bits) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index row = Index(depth) * Index(inner), count = Index(outer) * row;
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const long long id = ids[i / row * Index(inner) + i % Index(inner)];
    const long long place = (long long)(i % row / Index(inner));
    y[i] = T(is_at(id, place, depth) ? on_bits : off_bits);
  }
}
