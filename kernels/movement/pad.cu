// Padding: y is x with elements before and after it along each dimension. Elements are moved, not
// read, so that only their width matters.
//
// The index of y is taken apart over at most MAX_RANK dimensions, outermost first (size0 is implied
// by count): sizes are y's; x has x_size elements from position `before` on, and its stride there.
// What lies outside of x is `bits` (mode 0), x's nearest element (1), or the element mirrored at
// x's edge, which is not repeated (2; padding is less than x_size then).
//
// Options: MODE 0, 1 or 2; MAX_RANK 4 or 8; those of bytes.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "shared/dimensions.cuh"
#include "index/positions.cuh"
#include "shared/programmatic.cuh"

extern "C" __global__ void pad(const T *__restrict__ x, T *__restrict__ y, long long count,
                               long long bits, INNER(long long size), EACH(long long before),
                               EACH(long long x_size), EACH(long long stride)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long size[] = {0, INNER(size)}, before[] = {EACH(before)};
  const long long x_size[] = {EACH(x_size)}, stride[] = {EACH(stride)};
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step) {
    Index rest = i;
    long long offset = 0;
    bool inside = true;
#pragma unroll
    for (int d = MAX_RANK - 1; d >= 0; --d) {
      const Index outer = d > 0 ? rest / Index(size[d]) : 0;
      long long at = (long long)(d > 0 ? rest - outer * Index(size[d]) : rest) - before[d];
      const long long last = x_size[d] - 1;
#if MODE == 1
      at = nearest(at, x_size[d]);
#elif MODE == 2
      at = mirrored(at, x_size[d]);
#endif
      inside = inside && at >= 0 && at <= last;
      offset += at * stride[d];
      rest = outer;
    }
    y[i] = inside ? x[offset] : T(bits);
  }
}
