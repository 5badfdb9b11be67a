// A matrix of blocks as GGUF stores it (matmul_blocks.cu), repacked for matmul_repacked.cu: the
// layout is that of repacked.cuh. Done once, when a session is opened.
//
// A block of threads takes a row at a time, a thread a block of it.
//
//   entry           block   grid
//   repack_blocks   128     at most n
//
// Options: -DFORMAT=40, 41 or 80; those of assume.cuh.

#include "assume.cuh"
#include "programmatic.cuh"
#include "repacked.cuh"

typedef unsigned char Byte;
typedef Repacked<FORMAT> Layout;

extern "C" __global__ void repack_blocks(const Byte *__restrict__ w, Byte *__restrict__ y,
                                         long long n, long long k) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long blocks = k / kBlock;
  for (long long row = blockIdx.x; row < n; row += gridDim.x) {
    for (long long b = threadIdx.x; b < blocks; b += blockDim.x) {
      const Byte *block = w + (row * blocks + b) * (Layout::kScaleBytes + Layout::kQuantBytes);
      Byte *scale = y + Layout::scale_at(row, b, n, blocks);
#pragma unroll
      for (int e = 0; e < Layout::kScaleBytes; ++e)
        scale[e] = block[e];
      const Byte *quants = block + Layout::kScaleBytes;
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        unsigned word[Layout::kWordBytes / 4] = {};
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const int element = q * 8 + e;
#if FORMAT == 80
          word[e / 4] |= (quants[element] ^ 128u) << e % 4 * 8;
#else
          const unsigned nibble = quants[element % 16] >> (element < 16 ? 0 : 4) & 15;
          word[0] |= nibble << (e / 2 * 4 + e % 2 * 16);
#endif
        }
        unsigned *to = reinterpret_cast<unsigned *>(y + Layout::word_at(row, b, q, blocks));
#pragma unroll
        for (int j = 0; j < Layout::kWordBytes / 4; ++j)
          to[j] = word[j];
      }
    }
  }
}
