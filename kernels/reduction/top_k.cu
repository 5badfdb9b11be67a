// The k largest elements (with SMALLEST, the smallest) along one axis of x: [outer, axis, inner],
// in order, and their positions; values and positions: [outer, k, inner].
//
// A NaN is larger than any number: first of the largest, last of the smallest. Of equal elements
// the first comes first. One block a line.
//
//   entry          threads   takes
//   top_k_warp     32        lines of at most 256 elements of at most four bytes
//   top_k_block    256       .. of at most 4,096
//   top_k_large    1024      .. of at most 16,384
//   top_k          32, 256   any
//
// The first three read a line once and keep it as keys in registers: numbers in whose order
// elements come, the position in their lower half. Each round takes the largest key of the block;
// only the warp that had it looks for its next one. The last finds, in each round, the first of the
// elements that come after the last one found: k passes over the line, which stays in cache.
//
// Options: SMALLEST; HELD for all entries, else there is only the last; those of number.cuh and
// assume.cuh.

#ifdef SMALLEST
#define NAN_LAST 1
#endif

#include "shared/assume.cuh"
#include "language/candidate.cuh"
#include "shared/programmatic.cuh"

#define PARAMETERS                                                                                 \
  const T *__restrict__ x, T *__restrict__ values, long long *__restrict__ positions,              \
      long long outer, long long axis, long long inner, long long k

#ifdef HELD

typedef unsigned long long Key;

#ifdef INTEGER
__device__ __forceinline__ unsigned number_of(T value) {
  const unsigned number = T(-1) < T(0) ? unsigned(int(value)) ^ 0x80000000u : unsigned(value);
  return IS_SET(SMALLEST) ? ~number : number;
}
#else
__device__ __forceinline__ unsigned number_of(T value) {
  const float given = float(value) + 0.0f; // -0 is 0
  const unsigned bits = __float_as_uint(given);
  unsigned number = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  const unsigned nan = IS_SET(SMALLEST) ? 0 : 0xffffffffu; // no number is 0 here
  return given != given ? nan : IS_SET(SMALLEST) ? ~number : number;
}
#endif

// Larger for what comes first; 0 is no element's.
__device__ __forceinline__ Key key_of(T value, int position) {
  return Key(number_of(value)) << 32 | (0xffffffffu - unsigned(position));
}

__device__ __forceinline__ Key largest_of_warp(Key key) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const Key other = __shfl_xor_sync(0xffffffffu, key, distance);
    key = other > key ? other : key;
  }
  return key;
}

template <int kThreads, int kEach> __device__ __forceinline__ void top_k_held(PARAMETERS) {
  constexpr int kWarps = kThreads / 32;
  __shared__ Key of_warp[kWarps];
  const long long line = blockIdx.x;
  x += line / inner * axis * inner + line % inner;
  const long long out = line / inner * k * inner + line % inner;
  const int length = int(axis), warp = threadIdx.x / 32;
  Key keys[kEach];
  const T *from = x + threadIdx.x * inner;
#pragma unroll
  for (int e = 0; e < kEach; ++e, from += kThreads * inner) {
    const int at = threadIdx.x + e * kThreads;
    keys[e] = at < length ? key_of(*from, at) : 0;
  }
  Key last = 0, own = 0; // what was found last, and the largest that this warp has left
  for (int round = 0; round < int(k); ++round) {
    if (round == 0 || own == last) { // the same for the whole warp
      Key largest = 0;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        keys[e] = round > 0 && keys[e] == last ? 0 : keys[e];
        largest = keys[e] > largest ? keys[e] : largest;
      }
      own = largest_of_warp(largest);
      if (kWarps > 1 && threadIdx.x % 32 == 0)
        of_warp[warp] = own;
    }
    last = own;
    if constexpr (kWarps > 1) {
      __syncthreads();
      last = largest_of_warp(threadIdx.x % 32 < kWarps ? of_warp[threadIdx.x % 32] : 0);
      __syncthreads(); // before one of them is written again
    }
    if (threadIdx.x == 0) {
      const long long position = last == 0 ? -1 : 0xffffffffu - unsigned(last);
      values[out + round * inner] = last == 0 ? T(Acc(0)) : x[position * inner];
      positions[out + round * inner] = position;
    }
  }
}

#define TOP_K_HELD(entry, threads, each)                                                           \
  extern "C" __global__ void __launch_bounds__(threads) entry(PARAMETERS) {                        \
    BEGIN_EARLY();                                                                                 \
    __builtin_assume(ASSUME);                                                                      \
    top_k_held<threads, each>(x, values, positions, outer, axis, inner, k);                        \
  }

TOP_K_HELD(top_k_warp, 32, 8)
TOP_K_HELD(top_k_block, 256, 16)
TOP_K_HELD(top_k_large, 1024, 16)

#endif

// Without a number of blocks ptxas takes 32 registers for 10.x, and spills.
extern "C" __global__ void __launch_bounds__(256, 4) top_k(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Candidate of_warp[32];
  const long long line = blockIdx.x;
  x += line / inner * axis * inner + line % inner;
  const long long out = line / inner * k * inner + line % inner;
  Candidate last = {0, -1};
  for (long long round = 0; round < k; ++round) {
    Candidate best = {0, -1};
    for (long long i = threadIdx.x; i < axis; i += blockDim.x) {
      const Candidate next = {Acc(x[i * inner]), i};
      if ((round == 0 || before(last, next)) && before(next, best))
        best = next;
    }
    best = first_of_warp(best);
    if (threadIdx.x % 32 == 0)
      of_warp[threadIdx.x / 32] = best;
    __syncthreads();
    for (int w = 0; w < int(blockDim.x) / 32; ++w)
      if (before(of_warp[w], best))
        best = of_warp[w];
    __syncthreads(); // all have read before the next round writes
    if (threadIdx.x == 0) {
      values[out + round * inner] = T(best.value);
      positions[out + round * inner] = best.position;
    }
    last = best;
  }
}
