// Products of few rows with columns that are runs of k elements, by a warp: kOut columns for kRows
// rows. Bound by reading the columns once: the packs of kAhead rounds are asked for before the first
// is used.
//
//   column | pack 0 | .. | pack 31 | pack 32 | ..     lane t has the packs t, t + 32, ..
//
// Where rows do not begin at multiples of 16 bytes, elements are read one by one, into the same
// sums in the same order. Sums are of a lane's packs: the lanes' are to be added.
#pragma once

#include "floating.cuh"

constexpr int kGemvPack = 16 / sizeof(T);

union GemvPack {
  uint4 word;
  T element[kGemvPack];
  __device__ GemvPack() {}
};

// Pack p of a row of k elements; zeros beyond its end.
template <bool kAligned>
__device__ __forceinline__ GemvPack gemv_pack(const T *row, int p, long long k) {
  GemvPack pack;
  if constexpr (kAligned) {
    pack.word = reinterpret_cast<const uint4 *>(row)[p];
  } else {
#pragma unroll
    for (int e = 0; e < kGemvPack; ++e) {
      const long long i = (long long)(p)*kGemvPack + e;
      pack.element[e] = i < k ? row[i] : T(0.0f);
    }
  }
  return pack;
}

// kAhead rounds from pack `p` on; with kPartly some are behind the last of `packs`.
template <int kRows, int kOut, int kAhead, bool kAligned, bool kPartly>
__device__ __forceinline__ void gemv_rounds(const T *const (&row)[kRows],
                                            const T *const (&column)[kOut], int p, int packs,
                                            long long k, Acc (&sum)[kRows][kOut]) {
  GemvPack right[kAhead][kOut];
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
    if (!kPartly || p + j * 32 < packs)
#pragma unroll
      for (int o = 0; o < kOut; ++o)
        right[j][o] = gemv_pack<kAligned>(column[o], p + j * 32, k);
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
    if (!kPartly || p + j * 32 < packs)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const GemvPack left = gemv_pack<kAligned>(row[r], p + j * 32, k);
#pragma unroll
        for (int o = 0; o < kOut; ++o)
#pragma unroll
          for (int e = 0; e < kGemvPack; ++e)
            sum[r][o] = fma(Acc(left.element[e]), Acc(right[j][o].element[e]), sum[r][o]);
      }
}

template <int kRows, int kOut, int kAhead, bool kAligned>
__device__ __forceinline__ void gemv_sums(const T *const (&row)[kRows],
                                          const T *const (&column)[kOut], long long k,
                                          Acc (&sum)[kRows][kOut]) {
  const int packs = int((k + kGemvPack - 1) / kGemvPack);
  int p = threadIdx.x;
#pragma unroll 1
  for (; p + (kAhead - 1) * 32 < packs; p += kAhead * 32)
    gemv_rounds<kRows, kOut, kAhead, kAligned, false>(row, column, p, packs, k, sum);
  if (p < packs)
    gemv_rounds<kRows, kOut, kAhead, kAligned, true>(row, column, p, packs, k, sum);
}
