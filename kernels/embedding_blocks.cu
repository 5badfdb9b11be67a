// Embedding from a table of blocks, as GGUF stores it: y[i] = the elements of row ids[i]. The
// formats are those of matmul_blocks.cu. An id outside [0, rows) reads the nearest row.
//
//   table: [rows, width / 32 blocks]   ids: [count]   y: [count, width]
//
// Options: -DFORMAT=40, 41 or 80; those of floating.cuh.

#include <cuda_fp16.h>

#include "floating.cuh"
#include "positions.cuh"
#include "programmatic.cuh"

typedef unsigned char Byte;

constexpr int kBlock = 32;
constexpr int kHead = FORMAT == 41 ? 4 : 2, kBytes = kHead + (FORMAT == 80 ? 32 : 16);

__device__ float half_at(const Byte *p) {
  return __half2float(__ushort_as_half((unsigned short)(p[0] | p[1] << 8)));
}

extern "C" __global__ void embedding_blocks(const Byte *__restrict__ table,
                                            const int *__restrict__ ids, T *__restrict__ y,
                                            long long count, long long rows, long long width) {
  BEGIN_EARLY();
  const long long i = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count * width)
    return;
  const long long column = i % width;
  if (rows == 0) {
    y[i] = T(0);
    return;
  }
  const long long row = nearest(ids[i / width], rows);
  const Byte *block = table + (row * (width / kBlock) + column / kBlock) * kBytes;
  const int place = int(column % kBlock);
  const float scale = half_at(block);
#if FORMAT == 80
  y[i] = T(float((signed char)(block[kHead + place])) * scale);
#else
  const int nibble = block[kHead + place % 16] >> (place < 16 ? 0 : 4) & 15;
#if FORMAT == 41
  y[i] = T(float(nibble) * scale + half_at(block + 2));
#else
  y[i] = T(float(nibble - 8) * scale);
#endif
#endif
}
