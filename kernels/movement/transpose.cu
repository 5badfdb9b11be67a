// Transposition: y, contiguous, gathers from x by permuted strides. Elements are moved, not read,
// so that only their width matters.
//
// permute: any permutation. The caller merges axes that stay neighbours, which leaves at most
// MAX_RANK dimensions of y, outermost first (size0 is implied by count), each with its stride in x.
// With BASE the walk starts at element `base` of x, and strides may be negative.
// transpose_tiled: the last two of [batch, rows, columns] are swapped, by way of a tile in shared
// memory, so that reads and writes both run along rows. Tiles are numbered along x of the grid.
//
// Options: MAX_RANK 4 or 8; those of bytes.cuh and assume.cuh.

#ifndef MAX_RANK
#define MAX_RANK 4
#endif
#include "shared/assume.cuh"
#include "shared/bytes.cuh"
#include "shared/dimensions.cuh"
#include "shared/programmatic.cuh"

#ifdef BASE
#define BASE_PARAMETER long long base,
#else
#define BASE_PARAMETER
#define base 0
#endif

#ifndef TILED
extern "C" __global__ void permute(const T *__restrict__ x, T *__restrict__ y, long long count,
                                   BASE_PARAMETER INNER(long long size), EACH(long long stride)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long size[] = {0, INNER(size)};
  const long long stride[] = {EACH(stride)};
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step) {
    Index rest = i, offset = Index(base);
#pragma unroll
    for (int d = MAX_RANK - 1; d > 0; --d) {
      const Index outer = rest / Index(size[d]);
      offset += (rest - outer * Index(size[d])) * Index(stride[d]);
      rest = outer;
    }
    y[i] = x[offset + rest * Index(stride[0])];
  }
}
#else
// Block: 32 x 8 threads for a tile of 32 x 32.
extern "C" __global__ void transpose_tiled(const T *__restrict__ x, T *__restrict__ y,
                                           long long batch, long long rows, long long columns) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kTile = 32, kStep = 8;
  __shared__ T tile[kTile][kTile + 1]; // one more: columns of the tile lie in different banks
  const long long across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  const long long column = blockIdx.x % across * kTile, row = blockIdx.x / across % down * kTile;
  const long long image = blockIdx.x / across / down * rows * columns;
#pragma unroll
  for (int i = threadIdx.y; i < kTile; i += kStep)
    if (row + i < rows && column + threadIdx.x < columns)
      tile[i][threadIdx.x] = x[image + (row + i) * columns + column + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = threadIdx.y; i < kTile; i += kStep)
    if (column + i < columns && row + threadIdx.x < rows)
      y[image + (column + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
}
#endif
