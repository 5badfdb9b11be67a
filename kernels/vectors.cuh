// Packs: PACK neighbouring elements that a thread reads and writes in one access a tensor, 16 bytes
// of the widest elements of a kernel.
//
//   y  | pack 0 | pack 1 | pack 2 | ..        thread t takes the packs t, t + threads, ..
//
// Packs lie at multiples of their size, which is asked when the kernel runs (are_aligned): a tensor
// may begin anywhere. What is in no pack is taken one by one, by the same function, so that results
// have the same bits either way.
//
// Options: PACK, a power of two; 1 where the kernel knows none.
#pragma once

#include "assume.cuh"

#ifndef PACK
#define PACK 1
#endif

template <int kBytes> struct Word; // what one access moves
template <> struct Word<1> { typedef unsigned char Type; };
template <> struct Word<2> { typedef unsigned short Type; };
template <> struct Word<4> { typedef unsigned int Type; };
template <> struct Word<8> { typedef uint2 Type; };
template <> struct Word<16> { typedef uint4 Type; };

template <class E> union Pack {
  typename Word<PACK * sizeof(E)>::Type word;
  E element[PACK];
  __device__ Pack() {}
};

template <class E> __device__ __forceinline__ Pack<E> load_pack(const E *tensor, Index number) {
  Pack<E> pack;
  pack.word = reinterpret_cast<const typename Word<PACK * sizeof(E)>::Type *>(tensor)[number];
  return pack;
}

template <class E> __device__ __forceinline__ Pack<E> same_pack(E value) {
  Pack<E> pack;
#pragma unroll
  for (int e = 0; e < PACK; ++e)
    pack.element[e] = value;
  return pack;
}

template <class E>
__device__ __forceinline__ void store_pack(E *tensor, Index number, const Pack<E> &pack) {
  reinterpret_cast<typename Word<PACK * sizeof(E)>::Type *>(tensor)[number] = pack.word;
}

template <class... E> __device__ __forceinline__ bool are_aligned(const E *...tensors) {
  return (((unsigned long long)tensors % (PACK * sizeof(E)) == 0) && ...);
}

// Neighbouring elements that are stored in as few accesses as their size allows.
template <int kCount, class E> union Run {
  static constexpr int kBytes = kCount * sizeof(E) < 16 ? kCount * sizeof(E) : 16;
  static constexpr int kWords = kCount * sizeof(E) / kBytes;
  typename Word<kBytes>::Type word[kWords];
  E element[kCount];
  __device__ Run() {}

  static __device__ __forceinline__ bool is_aligned(const E *y) {
    return (unsigned long long)y % kBytes == 0;
  }
  __device__ __forceinline__ void store(E *y, bool aligned) const {
    if (aligned) {
#pragma unroll
      for (int w = 0; w < kWords; ++w)
        reinterpret_cast<typename Word<kBytes>::Type *>(y)[w] = word[w];
    } else {
#pragma unroll
      for (int e = 0; e < kCount; ++e)
        y[e] = element[e];
    }
  }
};

// The packs that a kernel takes of `count` elements at these places.
template <class... E>
__device__ __forceinline__ Index pack_count(long long count, const E *...tensors) {
  return PACK > 1 && are_aligned(tensors...) ? Index(count) / PACK : 0;
}
