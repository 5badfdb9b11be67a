// Product with a matrix of blocks, as GGUF stores weights: y[r] = x[r] x w^T + bias.
//
//   x: [rows, k]   w: [n, k], rows of k / 32 units   bias: [n], with HAS_BIAS   y: [rows, n]
//
// One warp computes a column of y for kRows rows, or SLICES warps do (stored_sums.cuh). Strips of
// rows follow one another (TilePlace).
//
//   entry           block    grid
//   matmul_blocks   32 x 8   ceil(rows / 4) * ceil(n * SLICES / 8)
//
// Options: FORMAT, a name of block_formats.cuh; HAS_BIAS; those of
// slices.cuh, floating.cuh, fusion.cuh and assume.cuh.

#include "linear/slices.cuh"
#include "linear/stored_sums.cuh"
#include "shared/assume.cuh"
#include "shared/bias.cuh"
#include "shared/fusion.cuh"
#include "shared/join_splits.cuh"
#include "shared/programmatic.cuh"

constexpr int kRows = 4, kColumns = 8 / SLICES;
// So many blocks a multiprocessor leave the registers.
constexpr int kBlocks = sizeof(Acc) == 8 || FORMAT == FORMAT_q3_k ? 1 : 2;

// Adds up the warp's slice of a column, whose row of w has so many units of 32 elements.
template <int kFormat>
__device__ __forceinline__ void sum_column(const T *const (&row)[kRows], const Byte *w,
                                           long long column, int units, int slice,
                                           Acc (&sum)[kRows]) {
  typedef BlockFormat<kFormat> Format;
  format_sums<kFormat, SLICES, 4>(row, w + column * (units / Format::kUnits) * Format::kBytes,
                                  units, slice, sum);
}

extern "C" __global__ void __launch_bounds__(256, kBlocks)
    matmul_blocks(const T *__restrict__ x, const Byte *__restrict__ w,
                  BIAS_PARAMETER OUT *__restrict__ y, long long rows, long long n,
                  long long k FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  TilePlace<kRows, kColumns, 128> own;
  own.set(blockIdx.x, 1, rows, n);
  const int slice = own_slice();
  const long long column = own.column + warp_number() / SLICES, first = own.row;
  const T *row[kRows]; // those beyond the last repeat it; they are not stored
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    row[r] = x + (first + r < rows ? first + r : rows - 1) * k;

  Acc sum[kRows] = {};
  if (column < n) // the same for the whole warp
    sum_column<FORMAT>(row, w, column, int(k / kUnitSize), slice, sum);
  add_slices<kColumns>(sum);
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    if (threadIdx.x == 0 && slice == 0 && first + r < rows && column < n)
      STORE((first + r) * n + column, sum[r] + BIAS_AT(column));
}
