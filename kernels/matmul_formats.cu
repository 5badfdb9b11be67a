// Product with a matrix of blocks, as matmul_blocks.cu, in the formats of block_formats.cuh that it
// does not have: y[r] = x[r] x w^T + bias.
//
//   x: [rows, k]   w: [n, k], rows of k / 32 units   bias: [n], with HAS_BIAS   y: [rows, n]
//
// One warp computes a column of y for kRows rows; eight lanes share a unit, four neighbouring
// elements each, which are of one part. Sums are in float (double for f64).
//
//   entry            block    grid
//   matmul_formats   32 x 8   ceil(rows / 4) * ceil(n / 8)
//
// Options: -DFORMAT; HAS_BIAS; those of floating.cuh and assume.cuh.

#include "assume.cuh"
#include "bias.cuh"
#include "block_formats.cuh"
#include "floating.cuh"
#include "programmatic.cuh"

constexpr int kRows = 4, kColumns = 8, kLanes = 8, kEach = kUnit / kLanes;

extern "C" __global__ void __launch_bounds__(256)
    matmul_formats(const T *__restrict__ x, const Byte *__restrict__ w,
                   BIAS_PARAMETER T *__restrict__ y, long long rows, long long n, long long k) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long across = (n + kColumns - 1) / kColumns;
  const long long column = blockIdx.x % across * kColumns + threadIdx.y;
  const long long first = blockIdx.x / across * kRows;
  if (column >= n) // the same for the whole warp
    return;
  const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  const long long units = k / kUnit;
  const T *row[kRows]; // those beyond the last repeat it; they are not stored
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    row[r] = x + (first + r < rows ? first + r : rows - 1) * k;

  Acc sum[kRows] = {};
  for (long long u = group; u < units; u += 32 / kLanes) {
    const Byte *block = w + (column * (units / kUnits) + u / kUnits) * kBytes;
    const int unit = int(u % kUnits);
    const Part part = part_of(block, unit, lane / 4);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int place = lane * kEach + e;
      const Acc element = Acc(element_of(part, quant_of(block, unit, place)));
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        sum[r] = fma(Acc(row[r][u * kUnit + place]), element, sum[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], distance);
    if (threadIdx.x == 0 && first + r < rows)
      y[(first + r) * n + column] = T(sum[r] + BIAS_AT(column));
  }
}
