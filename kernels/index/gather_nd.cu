// Slices of x at places that are read: y[b.., i.., ..] = x[b.., indices[b.., i.., 0], ..,
// indices[b.., i.., places - 1], ..].
//
//   x: [batches, size.., width]   indices: [batches, rows, places]   y: [batches, rows, width]
//
// A negative index counts from the end, and what then lies outside reads the nearest element (along
// a dimension of none, 0). Elements are moved, not read, so that only their width matters.
//
// Options: WIDE_IDS for indices of i64 (i32 otherwise); MAX_RANK 4 or 8; those of bytes.cuh and
// assume.cuh.

#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "shared/dimensions.cuh"
#include "index/positions.cuh"
#include "shared/programmatic.cuh"

#ifdef WIDE_IDS
typedef long long Id;
#else
typedef int Id;
#endif

extern "C" __global__ void gather_nd(const T *__restrict__ x, const Id *__restrict__ indices,
                                     T *__restrict__ y, long long batches, long long rows,
                                     long long width, long long places, long long batch_stride,
                                     EACH(long long size), EACH(long long stride)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long size[] = {EACH(size)}, stride[] = {EACH(stride)};
  const Index count = Index(batches) * Index(rows) * Index(width);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index row = i / Index(width);
    const Id *index = indices + (long long)(row)*places;
    long long at = (long long)(row / Index(rows)) * batch_stride + (long long)(i % Index(width));
    bool is_empty = false;
#pragma unroll
    for (int d = 0; d < MAX_RANK; ++d)
      if (d < places) {
        is_empty = is_empty || size[d] == 0;
        at += from_either_end(index[d], size[d]) * stride[d];
      }
    y[i] = is_empty ? T(0) : x[at];
  }
}
