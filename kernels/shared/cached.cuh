// Keys and values in a decoder's cache, which may be of a dtype of their own: Cached, T by default.
//
// Options: CACHE_F32, CACHE_F16, CACHE_BF16, CACHE_Q8_0 where it is not T. Of q8_0, 32 elements of
// a head are a block of 34 bytes, as in GGUF: a half by which 32 signed bytes are multiplied.
#pragma once

#include "shared/floating.cuh"

#if defined(CACHE_F16)
#include <cuda_fp16.h>
typedef __half Cached;
#elif defined(CACHE_BF16)
#include <cuda_bf16.h>
typedef __nv_bfloat16 Cached;
#elif defined(CACHE_F32)
typedef float Cached;
#elif defined(CACHE_Q8_0)
#include <cuda_fp16.h>
typedef unsigned char Cached;
#else
#define CACHE_IS_T 1
typedef T Cached;
#endif

// Elements that a lane reads at once, in 16 bytes where these are elements; and what pointers to
// rows are multiples of where vectors are read in one go.
#ifdef CACHE_Q8_0
constexpr int kCacheBlock = 32, kCacheBlockBytes = 34;
constexpr int kCachedVector = 8, kCachedAlignment = 2;
#else
constexpr int kCachedVector = 16 / sizeof(Cached), kCachedAlignment = 16;
#endif

// Where an element stands that is the first of a head.
__device__ __forceinline__ long long cached_offset(long long elements) {
#ifdef CACHE_Q8_0
  return elements / kCacheBlock * kCacheBlockBytes;
#else
  return elements;
#endif
}

#ifdef CACHE_Q8_0
// Element `to` of a cache is rounded as one of a block, by GGUF's rule: the scale is the largest
// magnitude over 127. A warp has a block, a lane an element; all take part.
__device__ __forceinline__ void store_cached(Cached *cache, long long to, Acc given) {
  const int lane = int(to % kCacheBlock);
  const float value = float(given);
  float largest = fabsf(value);
#pragma unroll
  for (int distance = kCacheBlock / 2; distance > 0; distance /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
  const float scale = largest / 127.0f, inverse = scale > 0 ? 1.0f / scale : 0.0f;
  Cached *const block = cache + to / kCacheBlock * kCacheBlockBytes;
  if (lane < 2)
    block[lane] = (Cached)(__half_as_ushort(__float2half_rn(scale)) >> (8 * lane));
  block[2 + lane] = (Cached)(signed char)(roundf(value * inverse));
}
#endif

struct CachedVector {
#ifdef CACHE_Q8_0
  union {
    unsigned short pair[kCachedVector / 2];
    signed char quant[kCachedVector];
  };
  Acc scale;
  __device__ CachedVector() {}
  __device__ __forceinline__ Acc at(int e) const { return scale * Acc(quant[e]); }
#else
  union {
    uint4 word;
    Cached element[kCachedVector];
  };
  __device__ CachedVector() {}
  __device__ __forceinline__ Acc at(int e) const { return Acc(element[e]); }
#endif
};

// The vector of a head's row from element `first` on; elements beyond the width are 0. kAligned:
// the row is, and the width is a multiple of a vector.
template <bool kAligned>
__device__ __forceinline__ void load_cached(const Cached *row, int first, int width,
                                            CachedVector &out) {
#ifdef CACHE_Q8_0
  const Cached *const block = row + first / kCacheBlock * kCacheBlockBytes;
  const Cached *const from = block + 2 + first % kCacheBlock;
  const bool inside = first < width; // a width has whole blocks
  unsigned short bits = 0;
  if constexpr (kAligned) {
    bits = inside ? *reinterpret_cast<const unsigned short *>(block) : (unsigned short)0;
#pragma unroll
    for (int i = 0; i < kCachedVector / 2; ++i)
      out.pair[i] = inside ? reinterpret_cast<const unsigned short *>(from)[i] : (unsigned short)0;
  } else {
    bits = inside ? (unsigned short)(block[0] | block[1] << 8) : (unsigned short)0;
#pragma unroll
    for (int i = 0; i < kCachedVector; ++i)
      out.quant[i] = inside ? (signed char)(from[i]) : (signed char)0;
  }
  out.scale = __half2float(__ushort_as_half(bits));
#else
  if constexpr (kAligned) {
    out.word = first < width ? *reinterpret_cast<const uint4 *>(row + first) : uint4{};
  } else {
#pragma unroll
    for (int i = 0; i < kCachedVector; ++i)
      out.element[i] = first + i < width ? row[first + i] : Cached(0.0f);
  }
#endif
}
