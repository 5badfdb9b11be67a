// Products of few rows with columns that are runs of k elements, by a warp: kOut columns for kRows
// rows. Bound by reading the columns once: the vectors of kAhead rounds are asked for before the
// first is used.
//
//   column | vector 0 | .. | vector 31 | vector 32 | ..     lane t has the vectors t, t + 32, ..
//
// Where rows do not begin at multiples of 16 bytes, elements are read one by one, of two bytes in
// words, into the same sums in the same order. Sums are of a lane's vectors: the lanes' are to be
// added.
#pragma once

#include "shared/floating.cuh"
#include "shared/words.cuh"

constexpr int kGemvVector = 16 / sizeof(T);

union GemvVector {
  uint4 word;
  T element[kGemvVector];
  __device__ GemvVector() {}
};

// Whether rows of k elements that begin at x and w all begin at multiples of 16 bytes.
__device__ __forceinline__ bool have_vectors(const T *x, const T *w, long long k) {
  return k % kGemvVector == 0 && (((unsigned long long)(x) | (unsigned long long)(w)) & 15) == 0;
}

// Vector p of a row of k elements; zeros beyond its end.
template <bool kAligned>
__device__ __forceinline__ GemvVector gemv_vector(const T *row, int p, long long k) {
  GemvVector vector;
  if constexpr (kAligned) {
    vector.word = reinterpret_cast<const uint4 *>(row)[p];
  } else if constexpr (sizeof(T) == 2) {
    const long long first = (long long)(p)*kGemvVector;
    unsigned pairs[kGemvVector / 2];
    read_words<kGemvVector>(row + first, k - first, pairs);
    vector.word = uint4{pairs[0], pairs[1], pairs[2], pairs[3]};
  } else {
#pragma unroll
    for (int e = 0; e < kGemvVector; ++e) {
      const long long i = (long long)(p)*kGemvVector + e;
      vector.element[e] = i < k ? row[i] : T(0.0f);
    }
  }
  return vector;
}

// kAhead rounds from vector `p` on; with kPartly some are behind the last of `vectors`.
template <int kRows, int kOut, int kAhead, bool kAligned, bool kPartly>
__device__ __forceinline__ void gemv_rounds(const T *const (&row)[kRows],
                                            const T *const (&column)[kOut], int p, int vectors,
                                            long long k, Acc (&sum)[kRows][kOut]) {
  GemvVector right[kAhead][kOut];
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
    if (!kPartly || p + j * 32 < vectors)
#pragma unroll
      for (int o = 0; o < kOut; ++o)
        right[j][o] = gemv_vector<kAligned>(column[o], p + j * 32, k);
#pragma unroll
  for (int j = 0; j < kAhead; ++j)
    if (!kPartly || p + j * 32 < vectors)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const GemvVector left = gemv_vector<kAligned>(row[r], p + j * 32, k);
#pragma unroll
        for (int o = 0; o < kOut; ++o)
#pragma unroll
          for (int e = 0; e < kGemvVector; ++e)
            sum[r][o] = fma(Acc(left.element[e]), Acc(right[j][o].element[e]), sum[r][o]);
      }
}

template <int kRows, int kOut, int kAhead, bool kAligned>
__device__ __forceinline__ void gemv_sums(const T *const (&row)[kRows],
                                          const T *const (&column)[kOut], long long k,
                                          Acc (&sum)[kRows][kOut]) {
  const int vectors = int((k + kGemvVector - 1) / kGemvVector);
  int p = threadIdx.x;
#pragma unroll 1
  for (; p + (kAhead - 1) * 32 < vectors; p += kAhead * 32)
    gemv_rounds<kRows, kOut, kAhead, kAligned, false>(row, column, p, vectors, k, sum);
  if (p < vectors)
    gemv_rounds<kRows, kOut, kAhead, kAligned, true>(row, column, p, vectors, k, sum);
}
