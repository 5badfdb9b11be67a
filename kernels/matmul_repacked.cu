// Product with a matrix of repacked blocks, on tensor cores (repacked_sums.cuh): y[r] = x[r] x w^T
// + bias, of f16 and bf16.
//
//   x: [rows, k]   w: [n, k], k / 32 units a row   bias: [n], with HAS_BIAS   y: [rows, n]
//
// A block of threads computes 16 columns of y for 8 rows of x; its warps share the units of k.
//
//   entry             block    grid
//   matmul_repacked   32 x 8   ceil(rows / 8) * ceil(n / 16)
//
// Options: -DFORMAT, a name of block_formats.cuh or its number; HAS_BIAS; those of floating.cuh and
// assume.cuh.

#include "assume.cuh"
#include "bias.cuh"
#include "programmatic.cuh"
#include "repacked_sums.cuh"

constexpr int kRows = 8, kColumns = 16, kWarps = 8;
// So many blocks a multiprocessor leave the registers that all loads of a unit take; where there
// are two of 256 elements, NVRTC 12 spills.
#if __CUDACC_VER_MAJOR__ == 12
constexpr int kOfLarge = 1;
#else
constexpr int kOfLarge = FORMAT == FORMAT_q3_k || FORMAT == FORMAT_q5_k ? 1 : 2;
#endif
constexpr int kBlocks = Repacked<FORMAT>::kIsLarge ? kOfLarge : FORMAT == FORMAT_q5_1 ? 2 : 3;

extern "C" __global__ void __launch_bounds__(32 * kWarps, kBlocks)
    matmul_repacked(const T *__restrict__ x, const Byte *__restrict__ w,
                    BIAS_PARAMETER T *__restrict__ y, long long rows, long long n, long long k) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
#if __CUDA_ARCH__ >= 800
  __shared__ float partial[kWarps][kRows][kColumns + 1];
  const unsigned across = unsigned((n + kColumns - 1) / kColumns), tile = blockIdx.x % across;
  const unsigned strip = blockIdx.x / across;
  const long long column = (long long)(tile)*kColumns, row = (long long)(strip)*kRows;
  const int g = threadIdx.x / 4, q = threadIdx.x % 4;
  // Columns of y beyond the last repeat it; they are not stored.
  auto inside = [&](long long o) { return o < n ? o : n - 1; };
  // So do rows.
  const Places at = {x + (row + g < rows ? row + g : row) * k,
                     {inside(column + g), inside(column + g + 8)},
                     w,
                     n,
                     k / kBlock,
                     q};
  float sum[4] = {};
  repacked_sums<FORMAT>(at, (unsigned long long)(x) % 16 == 0, threadIdx.y, kWarps, sum);

  store_sums(sum, partial);
  __syncthreads();
  const int thread = threadIdx.y * 32 + threadIdx.x, r = thread / kColumns, o = thread % kColumns;
  if (r < kRows && row + r < rows && column + o < n) {
    float total = BIAS_AT(column + o);
#pragma unroll
    for (int s = 0; s < kWarps; ++s)
      total += partial[s][r][o];
    y[(row + r) * n + column + o] = T(total);
  }
#endif
}
