// Product with a matrix of blocks, as GGUF stores weights: y[r] = x[r] x w^T + bias.
//
//   x: [rows, k]   w: [n, k], rows of k / 32 blocks   bias: [n], with HAS_BIAS   y: [rows, n]
//
//   format   a block of 32 elements, in bytes                        element
//   q4_0     scale (f16), 16 bytes                                   (nibble - 8) * scale
//   q4_1     scale (f16), least (f16), 16 bytes                      nibble * scale + least
//   q8_0     scale (f16), 32 signed bytes                            byte * scale
//
// The low nibbles of the 16 bytes are elements 0 to 15, the high ones 16 to 31. Blocks begin at
// even addresses at best, so that they are read byte by byte.
//
// One warp computes a column of y for kRows rows; eight lanes share a block. Sums are in float
// (double for f64), of products with elements that are exact in float.
//
//   entry           block    grid
//   matmul_blocks   32 x 8   ceil(rows / 4) * ceil(n / 8)
//
// Options: -DFORMAT=40, 41 or 80; HAS_BIAS; those of floating.cuh and assume.cuh.

#include <cuda_fp16.h>

#include "assume.cuh"
#include "floating.cuh"
#include "programmatic.cuh"

#ifdef HAS_BIAS
#define BIAS_PARAMETER const T *__restrict__ bias,
#define BIAS_AT(column) Acc(bias[column])
#else
#define BIAS_PARAMETER
#define BIAS_AT(column) Acc(0)
#endif

typedef unsigned char Byte;

constexpr int kRows = 4, kColumns = 8, kBlock = 32, kLanes = 8, kEach = kBlock / kLanes;
constexpr int kHead = FORMAT == 41 ? 4 : 2, kBytes = kHead + (FORMAT == 80 ? 32 : 16);

__device__ float half_at(const Byte *p) {
  return __half2float(__ushort_as_half((unsigned short)(p[0] | p[1] << 8)));
}

// The kEach elements of a block that lane `lane` of eight takes, and their places in the block.
__device__ __forceinline__ void load_block(const Byte *block, int lane, float (&element)[kEach],
                                           int (&place)[kEach]) {
  const float scale = half_at(block);
#if FORMAT == 80
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    place[e] = lane * kEach + e;
    element[e] = float((signed char)(block[kHead + place[e]])) * scale;
  }
#else
#if FORMAT == 41
  const float least = half_at(block + 2);
#endif
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int at = lane * 2 + e % 2;
    const int nibble = block[kHead + at] >> (e < 2 ? 0 : 4) & 15;
    place[e] = at + (e < 2 ? 0 : 16);
#if FORMAT == 41
    element[e] = fmaf(float(nibble), scale, least);
#else
    element[e] = float(nibble - 8) * scale;
#endif
  }
#endif
}

extern "C" __global__ void __launch_bounds__(256)
    matmul_blocks(const T *__restrict__ x, const Byte *__restrict__ w,
                  BIAS_PARAMETER T *__restrict__ y, long long rows, long long n, long long k) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long across = (n + kColumns - 1) / kColumns;
  const long long column = blockIdx.x % across * kColumns + threadIdx.y;
  const long long first = blockIdx.x / across * kRows;
  if (column >= n) // the same for the whole warp
    return;
  const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  const long long blocks = k / kBlock;
  const T *row[kRows]; // those beyond the last repeat it; they are not stored
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    row[r] = x + (first + r < rows ? first + r : rows - 1) * k;

  Acc sum[kRows] = {};
  for (long long b = group; b < blocks; b += 32 / kLanes) {
    float element[kEach];
    int place[kEach];
    load_block(w + (column * blocks + b) * kBytes, lane, element, place);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        sum[r] = fma(Acc(row[r][b * kBlock + place[e]]), Acc(element[e]), sum[r]);
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
