// Slices of x at places that are read: y[b.., i.., ..] = x[b.., indices[b.., i.., 0], ..,
// indices[b.., i.., places - 1], ..].
//
//   x: [batches, size.., width]   indices: [batches, rows, places]   y: [batches, rows, width]
//
// A negative index counts from the end, and what then lies outside reads the nearest element (along
// a dimension of none, 0). Elements are moved, not read, so that only their width matters. A width
// of whole vectors is moved in these, each of which asks for its row's indices once.
//
// Options: WIDE_IDS for indices of i64 (i32 otherwise); MAX_RANK 4 or 8; those of bytes.cuh,
// vectors.cuh and assume.cuh.

#include "index/positions.cuh"
#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "shared/dimensions.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

extern "C" __global__ void gather_nd(const T *__restrict__ x, const Id *__restrict__ indices,
                                     T *__restrict__ y, long long batches, long long rows,
                                     long long width, long long places, long long batch_stride,
                                     EACH(long long size), EACH(long long stride)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long size[] = {EACH(size)}, stride[] = {EACH(stride)};
  const Index all_rows = Index(batches) * Index(rows), step = Index(gridDim.x) * blockDim.x,
              first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  // Where the slice of a row of all begins in x; negative where there is none.
  auto slice_of = [&](Index row) {
    const Id *index = indices + (long long)(row)*places;
    long long at = (long long)(row / Index(rows)) * batch_stride;
    bool is_empty = false;
#pragma unroll
    for (int d = 0; d < MAX_RANK; ++d)
      if (d < places) {
        is_empty = is_empty || size[d] == 0;
        at += from_either_end(index[d], size[d]) * stride[d];
      }
    return is_empty ? -1 : at;
  };
  if (VECTOR > 1 && width % VECTOR == 0 && are_aligned(x, y)) {
    const Index across = Index(width) / VECTOR, count = all_rows * across;
    for (Index p = first; p < count; p += step) {
      const Index row = p / across;
      const long long at = slice_of(row);
      store_vector(y, p, at < 0 ? same_vector(T(0)) : load_vector(x + at, Index(p - row * across)));
    }
    return;
  }
  const Index count = all_rows * Index(width);
  for (Index i = first; i < count; i += step) {
    const Index row = i / Index(width);
    const long long at = slice_of(row);
    y[i] = at < 0 ? T(0) : x[at + (long long)(i - row * Index(width))];
  }
}
