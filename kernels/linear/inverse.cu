// Inverses of square matrices: y[i] = x[i]^-1, by Gauss and Jordan within shared memory, with the
// largest element of a column as its pivot. A singular matrix gives what the divisions by 0 give.
//
//   entry     block   grid
//   inverse   256     count
//
// Options: SIZE, rows of a matrix, at most 64; those of floating.cuh and assume.cuh.
//
// Without a bench: matrices are those of cameras and poses, of 3 or 4 rows.

#include "shared/assume.cuh"
#include "shared/floating.cuh"
#include "shared/programmatic.cuh"

// The row from `k` on with the largest element in column `k`, the first such, by one warp.
__device__ __forceinline__ int pivot_of(const Acc (&a)[SIZE][SIZE], int k) {
  Acc most = -1;
  int row = k;
  for (int i = k + threadIdx.x; i < SIZE; i += 32)
    if (fabs(a[i][k]) > most) {
      most = fabs(a[i][k]);
      row = i;
    }
  for (int distance = 16; distance > 0; distance /= 2) {
    const Acc other = __shfl_xor_sync(0xffffffffu, most, distance);
    const int its = __shfl_xor_sync(0xffffffffu, row, distance);
    if (other > most || (other == most && its < row)) {
      most = other;
      row = its;
    }
  }
  return row;
}

extern "C" __global__ void __launch_bounds__(256)
    inverse(const T *__restrict__ x, T *__restrict__ y, long long count) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kElements = SIZE * SIZE;
  __shared__ Acc a[SIZE][SIZE], column[SIZE];
  __shared__ int pivots[SIZE];
  x += blockIdx.x * (long long)(kElements);
  y += blockIdx.x * (long long)(kElements);
  for (int i = threadIdx.x; i < kElements; i += 256)
    a[i / SIZE][i % SIZE] = Acc(x[i]);
  __syncthreads();
  for (int k = 0; k < SIZE; ++k) {
    if (threadIdx.x < 32) {
      const int row = pivot_of(a, k);
      if (threadIdx.x == 0)
        pivots[k] = row;
    }
    __syncthreads();
    // Rows k and its pivot's change places, and column k is set aside.
    const int pivot = pivots[k];
    for (int j = threadIdx.x; j < SIZE; j += 256) {
      const Acc above = a[k][j];
      a[k][j] = a[pivot][j];
      a[pivot][j] = above;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SIZE; i += 256)
      column[i] = a[i][k];
    __syncthreads();
    // Row k is divided by its pivot; in the column stands the inverse's part.
    for (int j = threadIdx.x; j < SIZE; j += 256)
      a[k][j] = (j == k ? Acc(1) : a[k][j]) / column[k];
    __syncthreads();
    for (int i = threadIdx.x; i < kElements; i += 256) {
      const int row = i / SIZE, j = i % SIZE;
      if (row != k)
        a[row][j] = fma(-column[row], a[k][j], j == k ? Acc(0) : a[row][j]);
    }
    __syncthreads();
  }
  // Rows that changed places are columns of the inverse that do, in the opposite order.
  for (int i = threadIdx.x; i < SIZE; i += 256)
    for (int k = SIZE - 1; k >= 0; --k) {
      const Acc left = a[i][k];
      a[i][k] = a[i][pivots[k]];
      a[i][pivots[k]] = left;
    }
  __syncthreads();
  for (int i = threadIdx.x; i < kElements; i += 256)
    y[i] = T(a[i / SIZE][i % SIZE]);
}
