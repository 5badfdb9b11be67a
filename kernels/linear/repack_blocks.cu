// A matrix of blocks as GGUF stores it (block_formats.cuh), repacked for matmul_repacked.cu: the
// layout is that of repacked.cuh. Done once, when a session is opened.
//
// A block of threads takes a row at a time, a thread what a lane will have of a unit.
//
//   entry           block   grid
//   repack_blocks   128     at most n
//
// Options: -DFORMAT, a name of block_formats.cuh or its number; those of assume.cuh.
//
// Without a bench: of weights, once when a session is opened.

#include "linear/repacked.cuh"
#include "shared/assume.cuh"
#include "shared/programmatic.cuh"

typedef BlockFormat<FORMAT> Stored;
typedef Repacked<FORMAT> Layout;

// kBits bits of the quants, from bit kFrom on, of `count` blocks of a unit.
template <int kBits, int kFrom>
__device__ __forceinline__ void store(const unsigned (&quants)[Layout::kUnit][2], Byte *to,
                                      int count) {
  if constexpr (kBits == 8) {
    for (int b = 0; b < count; ++b)
      for (int half = 0; half < 2; ++half)
        reinterpret_cast<unsigned *>(to)[2 * b + half] = quants[b][half];
  } else if constexpr (kBits > 0) {
    unsigned words[Layout::kUnit * kBits / 4] = {};
#pragma unroll
    for (int b = 0; b < Layout::kUnit; ++b)
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const unsigned bits = quants[b][e / 4] >> (e % 4 * 8 + kFrom) & ((1u << kBits) - 1);
        words[Layout::word<kBits>(b, e)] |= bits << Layout::bit<kBits>(b, e);
      }
    if (kBits == 4 || Layout::kIsLarge)
#pragma unroll
      for (int j = 0; j < Layout::kUnit * kBits / 4; ++j) {
        if (j < count * kBits / 4)
          reinterpret_cast<unsigned *>(to)[j] = words[j];
      }
    else if (count == Layout::kUnit) // wherever the word begins
      for (int e = 0; e < 4; ++e)
        to[e] = Byte(words[0] >> 8 * e);
    else // bits of block b are 4 b to 4 b + 3 of both halves of the only word
      for (int b = 0; b < count; ++b)
        to[b] = Byte((words[0] >> 4 * b & 15) | (words[0] >> (16 + 4 * b) & 15) << 4);
  }
}

// Stores all bits of a narrow format's quants.
__device__ __forceinline__ void store_narrow(const unsigned (&quants)[Layout::kUnit][2], Byte *low,
                                             Byte *high) {
  unsigned words[6] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int e = 0; e < 8; ++e)
#pragma unroll
      for (int b = 0; b < Layout::kLow + Layout::kHigh; ++b)
        words[Layout::narrow_bit(i, e, b) / 32] |= (quants[i][e / 4] >> (e % 4 * 8 + b) & 1)
                                                   << Layout::narrow_bit(i, e, b) % 32;
#pragma unroll
  for (int j = 0; j < 4; ++j)
    reinterpret_cast<unsigned *>(low)[j] = words[j];
  if constexpr (Layout::kHigh > 0)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      reinterpret_cast<unsigned *>(high)[j] = words[4 + j];
}
// And of its scales.
__device__ __forceinline__ void store_scales(const Byte *from, Byte *to) {
  unsigned words[4] = {};
#pragma unroll
  for (int part = 0; part < 16; ++part) {
    const unsigned bits = Stored::scale_bits(from, part);
    const int i = part / 2, h = part % 2,
              at = FORMAT == FORMAT_q2_k ? Layout::least_bit(i, h) : Layout::upper_bit(i, h);
    words[h] |= (bits & 15) << Layout::scale_bit(i, h) % 32;
    words[at / 32] |= bits >> 4 << at % 32;
  }
#pragma unroll
  for (int j = 0; j < Layout::kScaleBytes / 4; ++j)
    reinterpret_cast<unsigned *>(to)[j] = words[j];
}

__device__ __forceinline__ void copy(Byte *to, const Byte *from, int bytes) {
  for (int i = 0; i < bytes; ++i)
    to[i] = from[i];
}

extern "C" __global__ void repack_blocks(const Byte *__restrict__ w, Byte *__restrict__ y,
                                         long long n, long long k) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kUnit = Layout::kUnit, kHead = Stored::kIsLarge ? 0 : Layout::kScaleBytes;
  const long long blocks = k / kBlock, units = (blocks + kUnit - 1) / kUnit;
  for (long long row = blockIdx.x; row < n; row += gridDim.x)
    for (long long i = threadIdx.x; i < units * 4; i += blockDim.x) {
      const long long first = i / 4 * kUnit;
      const int q = int(i % 4), count = Layout::blocks_of_unit(first, blocks);
      auto stored = [&](int b) {
        return w + (row * blocks + first + b) / Stored::kUnits * Stored::kBytes;
      };
      unsigned quants[kUnit][2] = {}; // bytes
      for (int b = 0; b < count; ++b)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          quants[b][half] = Stored::template quants_of<1>(stored(b), b % Stored::kUnits,
                                                          Layout::element(q, half * 4));

      Byte *low = y + Layout::low_at(row, first, q, blocks),
           *high = y + Layout::high_at(row, first, q, n, blocks);
      if constexpr (Layout::kIsNarrow) {
        store_narrow(quants, low, high);
      } else {
        store<Layout::kLow, 0>(quants, low, count);
        store<Layout::kHigh, Layout::kLow>(quants, high, count);
      }
      if (q != 0)
        continue;
      if constexpr (Stored::kIsLarge) {
        Byte *scales = y + Layout::scale_at(row, first, n, blocks);
        if constexpr (Layout::kIsNarrow)
          store_scales(stored(0) + Stored::kScales, scales);
        else
          copy(scales, stored(0) + Stored::kScales, Layout::kScaleBytes);
        if constexpr (Layout::kTailBytes > 0)
          copy(y + Layout::tail_at(row, first, n, blocks), stored(0) + Stored::kTail,
               Layout::kTailBytes);
      } else {
        for (int b = 0; b < count; ++b)
          copy(y + Layout::scale_at(row, first + b, n, blocks), stored(b), kHead);
      }
    }
}
