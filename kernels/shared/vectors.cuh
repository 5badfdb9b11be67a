// Vectors: VECTOR neighbouring elements that a thread reads and writes in one access a tensor, 16
// bytes of the widest elements of a kernel.
//
//   y  | vector 0 | vector 1 | vector 2 | ..        thread t takes the vectors t, t + threads, ..
//
// Vectors lie at multiples of their size, which is asked when the kernel runs (are_aligned): a
// tensor may begin anywhere. What is in no vector is taken one by one, by the same function, so
// that results have the same bits either way.
//
// Options: VECTOR, a power of two; 1 where the kernel knows none.
#pragma once

#include "shared/assume.cuh"
#include "shared/words.cuh"

#ifndef VECTOR
#define VECTOR 1
#endif

template <int kBytes> struct Word; // what one access moves
template <> struct Word<1> { typedef unsigned char Type; };
template <> struct Word<2> { typedef unsigned short Type; };
template <> struct Word<4> { typedef unsigned int Type; };
template <> struct Word<8> { typedef uint2 Type; };
template <> struct Word<16> { typedef uint4 Type; };

template <class E> union Vector {
  typename Word<VECTOR * sizeof(E)>::Type word;
  E element[VECTOR];
  __device__ Vector() {}
};

template <class E> __device__ __forceinline__ Vector<E> load_vector(const E *tensor, Index number) {
  Vector<E> vector;
  vector.word = reinterpret_cast<const typename Word<VECTOR * sizeof(E)>::Type *>(tensor)[number];
  return vector;
}

template <class E> __device__ __forceinline__ Vector<E> same_vector(E value) {
  Vector<E> vector;
#pragma unroll
  for (int e = 0; e < VECTOR; ++e)
    vector.element[e] = value;
  return vector;
}

template <class E>
__device__ __forceinline__ void store_vector(E *tensor, Index number, const Vector<E> &vector) {
  reinterpret_cast<typename Word<VECTOR * sizeof(E)>::Type *>(tensor)[number] = vector.word;
}

template <class... E> __device__ __forceinline__ bool are_aligned(const E *...tensors) {
  return (((unsigned long long)tensors % (VECTOR * sizeof(E)) == 0) && ...);
}

// Neighbouring elements that are read or stored in as few accesses as their size allows.
template <int kCount, class E> union Run {
  static constexpr int kBytes = kCount * sizeof(E) < 16 ? kCount * sizeof(E) : 16;
  static constexpr int kWords = kCount * sizeof(E) / kBytes;
  typename Word<kBytes>::Type word[kWords];
  unsigned pair[(kCount * sizeof(E) + 3) / 4];
  E element[kCount];
  __device__ Run() {}

  static __device__ __forceinline__ bool is_aligned(const E *y) {
    return (unsigned long long)y % kBytes == 0;
  }
  __device__ __forceinline__ void load(const E *x) { // aligned
#pragma unroll
    for (int w = 0; w < kWords; ++w)
      word[w] = reinterpret_cast<const typename Word<kBytes>::Type *>(x)[w];
  }
  __device__ __forceinline__ void read(const E *x, bool aligned) {
    if (aligned) {
      load(x);
    } else {
#pragma unroll
      for (int e = 0; e < kCount; ++e)
        element[e] = x[e];
    }
  }
  // Loads x[0] to x[left - 1], wherever they begin; elements behind them are anything.
  __device__ __forceinline__ void load_part(const E *x, int left) {
    if constexpr (sizeof(E) == 2 && kCount % 2 == 0) {
      read_words<kCount>(x, left, pair);
    } else {
#pragma unroll
      for (int e = 0; e < kCount; ++e)
        if (e < left)
          element[e] = x[e];
    }
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

// Stores what RESULTS (fusion.cuh) gives, in a run where `whole`.
#define STORE_RUN(count, first, value, whole, left)                                                \
  do {                                                                                             \
    Run<count, OUT> run;                                                                           \
    if (whole) {                                                                                   \
      RESULTS(count, run, first, value, true, count);                                              \
      run.store(y + (first), true);                                                                \
    } else {                                                                                       \
      const int count_left = left;                                                                 \
      RESULTS(count, run, first, value, false, count_left);                                        \
      _Pragma("unroll") for (int e = 0; e < count; ++e) if (e < count_left) y[(first) + e] =       \
          run.element[e];                                                                          \
    }                                                                                              \
  } while (false)

// The vectors that a kernel takes of `count` elements at these places.
template <class... E>
__device__ __forceinline__ Index vector_count(long long count, const E *...tensors) {
  return VECTOR > 1 && are_aligned(tensors...) ? Index(count) / VECTOR : 0;
}
