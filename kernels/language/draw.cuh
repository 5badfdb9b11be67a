// How tokens are drawn: the token that a sampler takes from the logits of a vocabulary, by a block
// of kThreads threads.
//
// A sampler is eight words:
//
//   0  scale: log2(e) / temperature (f32); 0: the most likely token, whatever the words 1 to 3
//   1  top_k: draws from so many of the most likely ones; 0: from all
//   2  top_p in 2^-32: of these, from the fewest that have this much together; 0: from all
//   3  min_p in 2^-31: and from those that have this much of the most likely one's probability
//   4  repetition (f32): of tokens that the sequence holds, logits above 0 are divided by it, and
//      others multiplied; 1: none
//   5  frequency (f32): is taken from a logit as often as the token was given
//   6, 7  the seed
//
// counts are those of sampler.cuh.
//
// Logits have an order, of equal ones the lower token first; a NaN is no token's. A token's weight
// is floor(2^31 * 2^((logit - largest) * scale)), by a polynomial whose operations are each rounded
// once. From there on everything is whole numbers, which have no order to be summed in: the token
// is where the sums of weights, by token, pass floor(sum * r / 2^24), r of 24 bits of Philox
// 4x32-10 (Salmon et al., 2011) with the seed as key and the token's position as counter.
//
// The least logit that is kept is found by its digits, eight bits a pass, with a histogram of
// counts and weights. A block goes over the vocabulary once for the most likely token, and again
// for each pass, until no more tokens are left than it has threads: these are taken into registers
// by one pass more, and the vocabulary is not read again. What is read is four tokens at a time,
// kAhead times before the first is used. Without penalties counts are not read.
//
// Compiled with -fmad=false.
#pragma once

#include "language/vocabulary.cuh"

constexpr int kWarps = kThreads / 32, kDigits = 256, kWords = 8;

constexpr int kSteps = kInTurn ? 1 : 5; // over the lanes of a warp, apart in the code

__device__ __forceinline__ Long sum_of_warp(Long value) {
#pragma unroll kSteps
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

__device__ __forceinline__ Long max_of_warp(Long value) {
#pragma unroll kSteps
  for (int distance = 16; distance > 0; distance /= 2) {
    const Long other = __shfl_xor_sync(0xffffffffu, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

// The sum over the lanes up to this one.
__device__ __forceinline__ Long up_to_lane(Long value) {
#pragma unroll kSteps
  for (int distance = 1; distance < 32; distance *= 2) {
    const Long before = __shfl_up_sync(0xffffffffu, value, distance);
    value += int(threadIdx.x % 32) >= distance ? before : 0;
  }
  return value;
}

// The same for every thread of the block, which has as many warps as a warp has lanes.
template <class OfWarp> __device__ __forceinline__ Long over_block(Long value, OfWarp of_warp) {
  static_assert(kWarps == 32);
  __shared__ Long of[kWarps];
  value = of_warp(value);
  __syncthreads(); // the last call's have been read
  if (threadIdx.x % 32 == 0)
    of[threadIdx.x / 32] = value;
  __syncthreads();
  return of_warp(of[threadIdx.x % 32]);
}

__device__ __forceinline__ Long sum_of_block(Long value) { return over_block(value, sum_of_warp); }

// The key of the most likely token, the same for every thread of the block; 0 where no logit is a
// number.
__device__ Long most_likely(const Sampler &s) {
  Word best = 0;
  int token = 0; // the first one of its logit, since tokens come in order
  auto take = [&](int i, float logit) {
    const Word number = number_of(logit);
    token = number > best ? i : token;
    best = number > best ? number : best;
  };
  if (s.penalizes || kInTurn)
    each_logit(s, 0, s.vocabulary, threadIdx.x, kThreads, take);
  else
    each_logit<2 * kAhead>(s, false, 0, s.vocabulary, threadIdx.x, kThreads, take);
  return over_block(key_of(best, token), max_of_warp);
}

struct Limit {
  bool is_weight; // else a count of tokens
  Long value;     // at least 1
};

// The key from which on the tokens of keys at or above `least` reach the limit together: 0 where
// all of them do not.
__device__ __forceinline__ Long least_kept(Sampler &s, Long least, Limit limit) {
  __shared__ Word count_of[kDigits];
  __shared__ Long weight_of_digit[kDigits], found_prefix, found_left;
  __shared__ int is_found, found_above;
  Long prefix = 0, left = limit.value; // digits that are known; what is missing above them
  int above = 0;                       // tokens there
  for (int shift = 56; shift >= 0; shift -= 8) {
    for (int d = threadIdx.x; d < kDigits; d += kThreads) {
      count_of[d] = 0;
      weight_of_digit[d] = 0;
    }
    __syncthreads();
    each_left(s, [&](int i, float logit) {
      const Long key = key_of(logit, i);
      if (key == 0 || key < least || (shift < 56 && key >> (shift + 8) != prefix))
        return;
      const int digit = int(key >> shift) & (kDigits - 1);
      atomicAdd(&count_of[digit], 1u);
      if (limit.is_weight)
        atomicAdd(&weight_of_digit[digit], Long(weight_of(s, logit)));
    });
    if (threadIdx.x == 0)
      is_found = 0;
    __syncthreads();
    // A lane of the first warp has eight digits, the first lane the largest ones.
    if (threadIdx.x < 32) {
      constexpr int kEach = kDigits / 32;
      const int last = kDigits - 1 - int(threadIdx.x) * kEach;
      auto of_digit = [&](int d) { return limit.is_weight ? weight_of_digit[d] : count_of[d]; };
      Long own = 0, tokens = 0;
#pragma unroll(kInTurn ? 1 : kEach)
      for (int d = last; d > last - kEach; --d) {
        own += of_digit(d);
        tokens += count_of[d];
      }
      Long up_to = up_to_lane(own), rest = left - (up_to - own);
      int more = int(up_to_lane(tokens) - tokens);
      if (up_to >= left && up_to - own < left)
#pragma unroll(kInTurn ? 1 : kEach)
        for (int d = last; d > last - kEach; --d) {
          const Long of = of_digit(d);
          if (of >= rest) {
            found_prefix = (prefix << 8) | Long(d);
            found_left = rest;
            found_above = above + more;
            // All of them, or one: the digits behind do not matter.
            is_found = of == rest || count_of[d] == 1 ? 2 : 1;
            break;
          }
          rest -= of;
          more += int(count_of[d]);
        }
    }
    __syncthreads();
    const int found = is_found;
    if (found == 0)
      return 0;
    prefix = found_prefix;
    left = found_left;
    above = found_above;
    const bool are_few = above + int(count_of[prefix & (kDigits - 1)]) <= kThreads;
    __syncthreads();
    const Long from = prefix << shift;
    if (are_few && s.few < 0)
      take_few(s, from > least ? from : least);
    if (found == 2)
      return from;
  }
  return prefix;
}

__device__ Word philox(Word counter_low, Word counter_high, Word key_low, Word key_high) {
  Word c[4] = {counter_low, counter_high, 0, 0};
#pragma unroll(kInTurn ? 1 : 10)
  for (int round = 0; round < 10; ++round) {
    const Long a = Long(0xd2511f53u) * c[0], b = Long(0xcd9e8d57u) * c[2];
    const Word next[4] = {Word(b >> 32) ^ c[1] ^ key_low, Word(b), Word(a >> 32) ^ c[3] ^ key_high,
                          Word(a)};
    for (int i = 0; i < 4; ++i)
      c[i] = next[i];
    key_low += 0x9e3779b9u;
    key_high += 0xbb67ae85u;
  }
  return c[0];
}

// The token where the sums of weights kept(token, logit) pass the drawn share; `otherwise` where
// they have none. The same for every thread of the block.
template <class Kept>
__device__ __forceinline__ int draw(const Sampler &s, Kept kept, Word drawn, int otherwise) {
  // Each warp has a part of the vocabulary, in order.
  __shared__ Long of_warp[kWarps];
  __shared__ int token;
  const int part = (s.vocabulary + kThreads - 1) / kThreads * 32;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int begin = warp * part, end = begin + part < s.vocabulary ? begin + part : s.vocabulary;
  Long own = 0;
  each_logit(s, begin, end, lane, 32, [&](int i, float logit) { own += kept(i, logit); });
  own = sum_of_warp(own);
  if (lane == 0)
    of_warp[warp] = own;
  if (threadIdx.x == 0)
    token = otherwise;
  __syncthreads();
  const Long of_lane = of_warp[lane];
  Long target = __umul64hi(sum_of_warp(of_lane), Long(drawn) << 40);
  target -= sum_of_warp(lane < warp ? of_lane : 0); // beyond 0 where it is in a part before
  if (target < own) {
    for (int first = begin; first < end; first += 128) {
      Four four;
      Long all_four = 0;
      const int i = first + 4 * lane;
      four.read(s, i, end, s.penalizes, s.aligned && i + 4 <= end);
      Four(four).each_in_turn(s, i, [&](int i, float logit) { all_four += kept(i, logit); });
      const Long up_to = up_to_lane(all_four);
      Long before = up_to - all_four;
      if (target < up_to && target >= before)
        four.each_in_turn(s, i, [&](int i, float logit) {
          const Long weight = kept(i, logit);
          if (target >= before && target < before + weight)
            token = i;
          before += weight;
        });
      const Long all = __shfl_sync(0xffffffffu, up_to, 31);
      if (target < all)
        break;
      target -= all;
    }
  }
  __syncthreads();
  return token;
}

// The same where each token that is left has a thread.
template <class Kept>
__device__ __forceinline__ int draw_few(const Sampler &s, Kept kept, Word drawn, int otherwise) {
  __shared__ int tokens[kThreads], token;
  __shared__ Word weights[kThreads];
  const int own = token_of(s.own);
  const Word weight = s.own == 0 ? 0 : kept(own, logit_of(Word(s.own >> 32)));
  tokens[threadIdx.x] = own;
  weights[threadIdx.x] = weight;
  if (threadIdx.x == 0)
    token = otherwise;
  const Long target = __umul64hi(sum_of_block(weight), Long(drawn) << 40);
  if (weight != 0) {
    Long before = 0;
#pragma unroll(kInTurn ? 1 : 4)
    for (int i = 0; i < s.few; ++i)
      before += tokens[i] < own ? weights[i] : 0;
    if (target >= before && target < before + weight)
      token = own;
  }
  __syncthreads();
  return token;
}

// The words of a sampler that the first pass needs.
struct First {
  float scale, repetition, frequency;
};
__device__ __forceinline__ First first_of(const int *words) {
  return {__int_as_float(words[0]), __int_as_float(words[4]), __int_as_float(words[5])};
}

// The token for `position`, the same for every thread of the block.
__device__ __forceinline__ int sample(const float *logits, const int *counts, const First &first,
                                      const int *words, int vocabulary, int position) {
  Sampler s = {logits,
               counts,
               vocabulary,
               first.scale,
               first.repetition,
               first.frequency,
               0.0f,
               (((unsigned long long)(logits) | (unsigned long long)(counts)) & 15) == 0,
               first.repetition != 1.0f || first.frequency != 0.0f};
  const Long best = most_likely(s);
  if (best == 0)
    return 0; // no logit is a number
  const int likely = token_of(best);
  s.largest = logit_of(Word(best >> 32));
  // Beside an infinite logit no other has a weight.
  if (!(s.scale > 0.0f) || s.largest - s.largest != 0.0f)
    return likely;

  const Word top_k = Word(words[1]), top_p = Word(words[2]), min_p = Word(words[3]);
  Long least = 1;
#pragma unroll 1 // with least_kept once in the code
  for (int by_weight = 0; by_weight < 2; ++by_weight) {
    if (by_weight ? top_p == 0 : top_k == 0 || top_k >= vocabulary)
      continue;
    Long limit = top_k;
    if (by_weight) {
      Long sum = 0;
      each_left(s, [&](int i, float logit) {
        sum += key_of(logit, i) >= least ? weight_of(s, logit) : 0;
      });
      limit = __umul64hi(sum_of_block(sum), Long(top_p) << 32);
    }
    const Long key = least_kept(s, least, {by_weight != 0, limit > 0 ? limit : 1});
    least = key > least ? key : least;
  }

  auto kept = [&](int i, float logit) {
    const Word weight = key_of(logit, i) >= least ? weight_of(s, logit) : 0;
    return weight >= min_p ? weight : 0;
  };
  const Word drawn = philox(Word(position), 0, Word(words[6]), Word(words[7])) >> 8;
  return s.few < 0 ? draw(s, kept, drawn, likely) : draw_few(s, kept, drawn, likely);
}
