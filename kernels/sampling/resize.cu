// Rows that become longer or shorter: padding a tensor along one dimension, and cutting it back.
//
// resize_rows: `rows` rows of x_length elements become rows of y_length, their ends cut off or
// zeros added. `space` is not looked at: launches take their dimensions from it where the lengths
// must not count.
//
// Options: those of bytes.cuh and assume.cuh.
//
// Without a bench: of PadToBuckets alone; moves rows as copy.cu does.

#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "shared/programmatic.cuh"

extern "C" __global__ void resize_rows(const T *__restrict__ x, T *__restrict__ y, long long rows,
                                       long long x_length, long long y_length, long long space) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index count = Index(rows) * Index(y_length), step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index row = i / Index(y_length), at = i % Index(y_length);
    y[i] = at < Index(x_length) ? x[row * Index(x_length) + at] : T(0);
  }
}
