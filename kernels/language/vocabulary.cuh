// Data for drawing a token (draw.cuh): the logits of a vocabulary, read four at a time and
// penalised, their order, their weights, and the last few of them.
#pragma once

#include "language/sampler.cuh"

typedef unsigned Word;
typedef unsigned long long Long;

constexpr int kThreads = 1024, kAhead = 2;

// Code for one token is once for each use, and takes a thread's in turn, where a kernel is launched
// so seldom that less code is worth more.
#ifdef IS_SELDOM
constexpr bool kInTurn = true;
#define OF_FEW __forceinline__
#else
constexpr bool kInTurn = false;
#define OF_FEW __noinline__ // once in the code
#endif

// How often a token counts as given beside what `counts` has: where a kernel is compiled with
// drafts, as often as it is one of the block's first block_drafts().count.
#ifdef WITH_DRAFTS
struct Drafts {
  int count, tokens[7];
};
__device__ __forceinline__ Drafts &block_drafts() {
  __shared__ Drafts drafts;
  return drafts;
}
// Counts drafts of tokens i to i + 3.
__device__ __forceinline__ void count_drafts(int4 &counts, int i) {
#pragma unroll 1
  for (int d = 0; d < block_drafts().count; ++d) {
    const int token = block_drafts().tokens[d];
    counts = {counts.x + (token == i), counts.y + (token == i + 1), counts.z + (token == i + 2),
              counts.w + (token == i + 3)};
  }
}
#else
__device__ __forceinline__ void count_drafts(int4 &, int) {}
#endif

struct Sampler {
  const float *logits;
  const int *counts;
  int vocabulary; // positions of tokens fit in 32 bits, with room for a round behind the last
  float scale, repetition, frequency;
  float largest;  // of all
  bool aligned;   // logits and counts, to 16 bytes
  bool penalizes; // else counts change nothing
  int few = -1;   // tokens that may still be drawn, once each has a thread
  Long own = 0;   // the key of this thread's token; 0: it has none
};

// Greater floats have greater numbers; -0 is 0. A NaN has 0, which is no other's.
__device__ __forceinline__ Word number_of(float logit) {
  const Word bits = __float_as_uint(logit + 0.0f);
  return logit != logit ? 0 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float logit_of(Word number) {
  return __uint_as_float(number & 0x80000000u ? number ^ 0x80000000u : ~number);
}

// The number, then lower tokens have greater ones: each key is one token's. 0 is none's.
__device__ __forceinline__ Long key_of(Word number, int token) {
  return number == 0 ? 0 : (Long(number) << 32) | (0xffffffffu - Word(token));
}
__device__ __forceinline__ Long key_of(float logit, int token) {
  return key_of(number_of(logit), token);
}

__device__ __forceinline__ int token_of(Long key) { return int(0xffffffffu - Word(key)); }

// Penalises a token that the sequence has; few are.
__device__ OF_FEW float penalty(float logit, int count, float repetition, float frequency) {
  logit = logit > 0.0f ? logit / repetition : logit * repetition;
  return logit - frequency * float(count & (kInPrompt - 1));
}
__device__ __forceinline__ float penalized(const Sampler &s, float logit, int count) {
  return count ? penalty(logit, count, s.repetition, s.frequency) : logit;
}

// Logits and counts of tokens i to i + 3; a NaN, which is no token's, behind `end`. Counts are 0
// where they are not read.
struct Four {
  float4 logits;
  int4 counts;

  // `is_whole`: s is aligned, i is a multiple of 4, and none is behind `end`.
  __device__ __forceinline__ void read(const Sampler &s, int i, int end, bool penalizes,
                                       bool is_whole) {
    counts = {0, 0, 0, 0};
    if (is_whole) {
      logits = *reinterpret_cast<const float4 *>(s.logits + i);
      if (penalizes)
        counts = *reinterpret_cast<const int4 *>(s.counts + i);
    } else {
      const float none = __int_as_float(0x7fffffff);
      logits = {i < end ? s.logits[i] : none, i + 1 < end ? s.logits[i + 1] : none,
                i + 2 < end ? s.logits[i + 2] : none, i + 3 < end ? s.logits[i + 3] : none};
      if (penalizes)
        counts = {i < end ? s.counts[i] : 0, i + 1 < end ? s.counts[i + 1] : 0,
                  i + 2 < end ? s.counts[i + 2] : 0, i + 3 < end ? s.counts[i + 3] : 0};
    }
  }
  // f(token, logit) for each, once: logits and counts are not those that were read behind it.
  template <class F> __device__ __forceinline__ void each_in_turn(const Sampler &s, int i, F f) {
    if (s.penalizes)
      count_drafts(counts, i);
#pragma unroll 1
    for (int e = 0; e < 4; ++e) {
      f(i + e, penalized(s, logits.x, counts.x));
      logits = {logits.y, logits.z, logits.w, 0.0f};
      counts = {counts.y, counts.z, counts.w, 0};
    }
  }
  template <class F> __device__ __forceinline__ void each(const Sampler &s, int i, F f) {
    if constexpr (kInTurn)
      return each_in_turn(s, i, f);
    if (s.penalizes)
      count_drafts(counts, i);
    f(i, penalized(s, logits.x, counts.x));
    f(i + 1, penalized(s, logits.y, counts.y));
    f(i + 2, penalized(s, logits.z, counts.z));
    f(i + 3, penalized(s, logits.w, counts.w));
  }
};

// f(token, logit) for every token of [begin, end), by `threads` threads, of which this is number
// `thread`; a thread's own are in order. `begin` is a multiple of 4.
template <int kTimes, class F>
__device__ __forceinline__ void each_logit(const Sampler &s, bool penalizes, int begin, int end,
                                           int thread, int threads, F f) {
#pragma unroll 1
  for (int i = begin + 4 * thread; i < end; i += 4 * kTimes * threads) {
    Four four[kTimes];
    if (s.aligned && i + 4 * (kTimes - 1) * threads + 4 <= end)
#pragma unroll
      for (int j = 0; j < kTimes; ++j)
        four[j].read(s, i + 4 * j * threads, end, penalizes, true);
    else
#pragma unroll
      for (int j = 0; j < kTimes; ++j)
        four[j].read(s, i + 4 * j * threads, end, penalizes, false);
#pragma unroll
    for (int j = 0; j < kTimes; ++j)
      four[j].each(s, i + 4 * j * threads, f);
  }
}
template <class F>
__device__ __forceinline__ void each_logit(const Sampler &s, int begin, int end, int thread,
                                           int threads, F f) {
  each_logit<kInTurn ? 1 : kAhead>(s, s.penalizes, begin, end, thread, threads, f);
}

// The same for every token that may still be drawn, by all threads.
template <class F> __device__ __forceinline__ void each_left(const Sampler &s, F f) {
  if (s.few < 0)
    each_logit(s, 0, s.vocabulary, threadIdx.x, kThreads, f);
  else if (s.own != 0)
    f(token_of(s.own), logit_of(Word(s.own >> 32)));
}

// From here on only tokens of keys from `least` on, which are no more than there are threads.
__device__ __forceinline__ void take_few(Sampler &s, Long least) {
  __shared__ Long keys[kThreads];
  __shared__ int count;
  if (threadIdx.x == 0)
    count = 0;
  __syncthreads();
  each_logit(s, 0, s.vocabulary, threadIdx.x, kThreads, [&](int i, float logit) {
    const Long key = key_of(logit, i);
    if (key >= least)
      keys[atomicAdd(&count, 1)] = key;
  });
  __syncthreads();
  s.few = count;
  s.own = threadIdx.x < count ? keys[threadIdx.x] : 0;
}

__device__ __forceinline__ Word weight_of(const Sampler &s, float logit) {
  if (logit == s.largest)
    return 1u << 31;
  const float t = (logit - s.largest) * s.scale;
  if (!(t > -32.0f))
    return 0;
  const float whole = floorf(t), x = t - whole; // 2^x on [0, 1), by Taylor's series at 1/2
  const float y = (x - 0.5f) * 0.693147180559945f;
  float power = 1.0f / 5040;
  power = power * y + 1.0f / 720;
  power = power * y + 1.0f / 120;
  power = power * y + 1.0f / 24;
  power = power * y + 1.0f / 6;
  power = power * y + 0.5f;
  power = power * y + 1.0f;
  power = power * y + 1.0f;
  power = power * 1.41421356237309505f;
  // At most 2^31, of which 24 bits are a float's.
  const int exponent = int(whole) + 31;
  const float scaled = power * __int_as_float((exponent + 127) << 23);
  return exponent < 0 ? 0 : scaled < 2147483648.0f ? Word(scaled) : 1u << 31;
}
