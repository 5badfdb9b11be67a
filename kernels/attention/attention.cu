// Attention of queries over a cache of keys and values, by heads:
//
//   y[s, p, h] = sum over i of softmax_i(scale * q[s, p, h] . keys[s, i, g] + mask[s, h, p, i])
//                              * values[s, i, g]
//
//   q, y: [sequences, queries, heads, width]   keys, values: [sequences, capacity, kv_heads, width]
//
// With ROWS_APART rows of q, and rows of keys and values, lie q_row and kv_row elements apart, all
// sequences' alike: parts of the rows of one tensor.
//
// g = h / (heads / kv_heads): heads share keys and values in groups. i runs over the sequence's
// first `length` positions: lengths[s], limited to the capacity, with HAS_LENGTHS, else all. The
// queries stand at the last of them, so that with CAUSAL query p sees the positions i <= length -
// queries + p, with WINDOW the last WINDOW of these. Where nothing is seen the result is 0. With
// HAS_PLACES keys and values are [rows, ..], and sequence s has row places[s], the nearest one.
//
// A block takes SHARE heads of one query and sequence, which share keys and values. As many lanes
// as a row has 16 bytes work at one position, so that a block is at many positions at a time; every
// such group of lanes keeps a running maximum, sum and weighted value of each head (the sum is
// rescaled when the maximum moves), and the groups are joined at the end. Keys and values are read
// once, those of kAtOnce positions before the first is used.
//
// One query over a long cache would be one block at work for long. With SPLIT the cache is cut into
// `splits` chunks of `chunk` positions, a block each. A block leaves its part,
//
//   parts: [sequences * queries * heads, splits, width + 2]   weighted values, largest score, sum
//
// and counts itself at its heads' counter, [sequences * queries * heads / SHARE]; the last to come
// joins their parts, in the same order whoever came last. How many chunks the query sees stands in
// device memory: blocks of others leave at once, and where there is only one no part is left. There
// are at most kMostSplits. Counters are 0 before a launch, and after it. Many queries of f16 and
// bf16 are for tensor cores: attention_mma.cuh.
//
//   entry             block   grid
//   attention         256     sequences * queries * heads / SHARE
//   attention_split   256     sequences * queries * heads / SHARE * splits
//   attention_mma     128     sequences * heads * ceil(queries / 64)
//
// Options: MAX_WIDTH, the most elements of a head, a multiple of 32 (of 16 with MMA_ALONE); SHARE,
// a divisor of heads / kv_heads, 1 by default; those of cached.cuh for keys and values; CAUSAL;
// SPLIT; HAS_LENGTHS, with WIDE_LENGTHS for i64 (i32 otherwise); HAS_PLACES, with WIDE_PLACES
// alike; WINDOW, with CAUSAL; HAS_MASK, with a stride for each of the mask's dimensions, MASK_F32
// where it is not of T, MASK_OF_POSITIONS where its stride along queries is 0; ROWS_APART; WITH_MMA
// for that entry, MMA_ALONE where no launch takes the other; those of floating.cuh and assume.cuh.

#include "attention/attention_parameters.cuh"

#ifdef SPLIT
#define ENTRY attention_split
#define RESULT Acc *parts, unsigned *__restrict__ counters, T *__restrict__ y
#define SPLIT_PARAMETERS , long long splits, long long chunk
#else
#define ENTRY attention
#define RESULT T *__restrict__ y
#define SPLIT_PARAMETERS
#endif

#ifdef WITH_MMA
#include "attention/attention_mma.cuh"
#endif

#ifndef MMA_ALONE

constexpr int kThreads = 256, kWarps = kThreads / 32, kMostSplits = 32;
constexpr int kVector = kCachedVector; // consecutive elements of a lane

// Lanes at one position: a power of two.
__device__ constexpr int lanes_of(int vectors) {
  return vectors > 16 ? 32 : vectors > 8 ? 16 : vectors > 4 ? 8 : 4;
}
constexpr int kGroup = lanes_of(MAX_WIDTH / kVector), kGroups = kThreads / kGroup;
constexpr int kStride = kGroup * kVector;
constexpr int kVectors = (MAX_WIDTH + kStride - 1) / kStride,
              kEach = kVectors * kVector; // of a lane
// Positions of a group that are read before the first is used: what registers hold.
constexpr int kReadAhead = SHARE * kEach <= 16 ? 4 : 2;
// Columns that the warps are joined over at a time: what shared memory of fixed size has room for.
constexpr int kWhole = kEach * kGroup, kRoom = (32 << 10) / (kWarps * SHARE * int(sizeof(Acc)));
constexpr int kPanel = kRoom < kWhole ? kRoom : kWhole;

__device__ int element_of(int e, int lane) {
  return e / kVector * kStride + lane * kVector + e % kVector;
}

// A lane's elements of a row: kVector of them, then on past those of the other lanes of its group.
// Elements beyond the width, which may be there in part where it is not kAligned, are 0.
template <bool kAligned>
__device__ __forceinline__ void load_row(const Cached *row, int width, int lane,
                                         CachedVector (&out)[kVectors]) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    load_cached<kAligned>(row, element_of(v * kVector, lane), width, out[v]);
}

#ifndef CACHE_IS_T
// The same of queries, one by one: there are few.
template <bool kAligned>
__device__ __forceinline__ void load_query(const T *row, int width, int lane, Acc (&out)[kEach]) {
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int at = element_of(e, lane);
    out[e] = at < width ? Acc(row[at]) : Acc(0);
  }
}
#else
template <bool kAligned>
__device__ __forceinline__ void load_query(const T *row, int width, int lane, Acc (&out)[kEach]) {
  CachedVector vectors[kVectors];
  load_row<kAligned>(row, width, lane, vectors);
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    out[e] = vectors[e / kVector].at(e % kVector);
}
#endif

struct Running { // of one head
  Acc query[kEach], weighted[kEach], sum, largest;
};

// The SHARE heads of the rows from `q` on, before the first position. Queries are as they are: what
// is done with them has to wait for them.
__device__ __forceinline__ void begin_heads(const T *q, int width, bool aligned,
                                            Running (&heads)[SHARE]) {
  const int lane = threadIdx.x % kGroup;
#pragma unroll
  for (int s = 0; s < SHARE; ++s) {
    if (aligned)
      load_query<true>(q + s * width, width, lane, heads[s].query);
    else
      load_query<false>(q + s * width, width, lane, heads[s].query);
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      heads[s].weighted[e] = 0;
    heads[s].sum = 0;
    heads[s].largest = no_score(); // no position yet
  }
}

// The positions from `first` to `length`; `mask` is of position 0. Queries are scaled once the
// first keys are on their way.
template <bool kAligned, int kAtOnce, class Mask>
__device__ __forceinline__ void attend(const Cached *keys, const Cached *values, long long stride,
                                       int width, long long first, long long length, Acc scale,
                                       Mask mask, Running (&heads)[SHARE]) {
  const int group = threadIdx.x / kGroup, lane = threadIdx.x % kGroup;
#pragma unroll 1
  for (long long begin = first;; begin += kGroups * kAtOnce) {
    CachedVector key[kAtOnce][kVectors], value[kAtOnce][kVectors]; // beyond the last position zeros
    bool inside[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const long long at = begin + u * kGroups + group;
      inside[u] = at < length;
      load_row<kAligned>(keys + at * stride, inside[u] ? width : 0, lane, key[u]);
      load_row<kAligned>(values + at * stride, inside[u] ? width : 0, lane, value[u]);
    }
    // Here, so that all loads are on their way before the first is used; and as a vote, so that
    // ptxas knows that whole warps take part in the shuffles.
    if (!__any_sync(0xffffffffu, begin < length))
      break;
    if (begin == first)
#pragma unroll
      for (int s = 0; s < SHARE; ++s)
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          heads[s].query[e] *= scale;
#pragma unroll
    for (int s = 0; s < SHARE; ++s) {
      Running &head = heads[s];
      Acc score[kAtOnce], next = head.largest;
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        score[u] = 0;
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          score[u] = fma(head.query[e], key[u][e / kVector].at(e % kVector), score[u]);
#pragma unroll
        for (int distance = kGroup / 2; distance > 0; distance /= 2)
          score[u] += __shfl_xor_sync(0xffffffffu, score[u], distance);
        if (inside[u])
          score[u] += mask(s, begin + u * kGroups + group);
        else
          score[u] = no_score();
        next = larger(next, score[u]);
      }
      const Acc keep = weight_of(head.largest, next);
      head.largest = next;
      head.sum *= keep;
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        head.weighted[e] *= keep;
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const Acc weight = weight_of(score[u], next);
        head.sum += weight;
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          const Acc element = value[u][e / kVector].at(e % kVector);
#ifdef HAS_MASK // what a mask hides may be infinite
          if (score[u] != no_score())
            head.weighted[e] = fma(weight, element, head.weighted[e]);
#else
          head.weighted[e] = fma(weight, element, head.weighted[e]);
#endif
        }
      }
    }
  }
}

// What all groups of a block have of each head, joined over warps and then over the block:
// store(head, column, value, largest, sum), where value and sum are relative to the largest score.
template <class Store>
__device__ __forceinline__ void join_groups(Running (&heads)[SHARE], int width, Store store) {
  __shared__ Acc largest_of[SHARE][kWarps], sum_of[SHARE][kWarps], row_of[SHARE][kWarps][kPanel];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % kGroup;
#pragma unroll
  for (int s = 0; s < SHARE; ++s) {
    Acc largest = heads[s].largest;
#pragma unroll
    for (int distance = kGroup; distance < 32; distance *= 2)
      largest = larger(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    if (threadIdx.x % 32 == 0)
      largest_of[s][warp] = largest;
  }
  __syncthreads();
  Acc all[SHARE]; // the largest of a head
#pragma unroll
  for (int s = 0; s < SHARE; ++s) {
    Running &head = heads[s];
    all[s] = largest_of[s][0];
#pragma unroll
    for (int w = 1; w < kWarps; ++w)
      all[s] = larger(all[s], largest_of[s][w]);
    const Acc keep = weight_of(head.largest, all[s]);
    auto over_warp = [&](Acc value) {
      value *= keep;
#pragma unroll
      for (int distance = kGroup; distance < 32; distance *= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
      return value;
    };
    head.sum = over_warp(head.sum);
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      head.weighted[e] = over_warp(head.weighted[e]);
    if (threadIdx.x % 32 == 0)
      sum_of[s][warp] = head.sum;
  }
#pragma unroll 1
  for (int begin = 0; begin < (kPanel == kWhole ? 1 : width); begin += kPanel) {
    if (begin > 0)
      __syncthreads(); // the panel before has been read
    if (threadIdx.x % 32 < kGroup)
#pragma unroll
      for (int s = 0; s < SHARE; ++s)
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          const int column = element_of(e, lane) - begin;
          if (kPanel == kWhole || (column >= 0 && column < kPanel))
            row_of[s][warp][column] = heads[s].weighted[e];
        }
    __syncthreads();
    const int columns = width - begin < kPanel ? width - begin : kPanel;
#pragma unroll
    for (int s = 0; s < SHARE; ++s) {
      Acc sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w)
        sum += sum_of[s][w];
#pragma unroll 1
      for (int e = threadIdx.x; e < columns; e += kThreads) {
        Acc value = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w)
          value += row_of[s][w][e];
        store(s, begin + e, value, all[s], sum);
      }
    }
  }
}

#ifdef SPLIT
// Joins `count` parts of each of the SHARE heads, whose first one begins at `parts` and which lie
// `splits` of them apart. A warp weighs the parts of a head, and all threads add them up.
__device__ __forceinline__ void join_parts(const Acc *parts, T *y, int splits, int count,
                                           int width) {
  __shared__ Acc factor_of[SHARE][kMostSplits];
  const int part = width + 2, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < SHARE) {
    const Acc *row = parts + warp * splits * part + width;
    Acc largest = lane < count ? row[lane * part] : no_score();
    Acc sum = lane < count ? row[lane * part + 1] : Acc(0);
    Acc all = largest;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      all = larger(all, __shfl_xor_sync(0xffffffffu, all, distance));
    const Acc keep = weight_of(largest, all);
    sum *= keep;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    factor_of[warp][lane] = all == no_score() ? Acc(0) : keep / sum;
  }
  __syncthreads();
  int s = 0;
#pragma unroll 1
  for (int e = threadIdx.x;; e += kThreads) {
    for (; e >= width; e -= width)
      if (++s == SHARE)
        return;
    const Acc *row = parts + s * splits * part + e;
    Acc value = 0;
#pragma unroll 8
    for (int p = 0; p < count; ++p)
      value = fma(row[p * part], factor_of[s][p], value);
    y[s * width + e] = T(value);
  }
}
#endif

extern "C" __global__ void __launch_bounds__(kThreads) ENTRY(PARAMETERS(RESULT) SPLIT_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
#ifdef SPLIT
  const unsigned block = blockIdx.x / unsigned(splits), split = blockIdx.x % unsigned(splits);
#else
  const unsigned block = blockIdx.x;
#endif
  // Numbers of blocks, and so of what they are made of, fit in 32 bits.
  const unsigned across = unsigned(heads / SHARE); // blocks of a query
  const long long head = block % across * SHARE, place = block / across % unsigned(queries);
  const long long sequence = block / across / unsigned(queries);
  const long long first_row = block / across * heads + head; // of y
  const int elements = int(width);
  const long long row_width = KV_ROW, stride = cached_offset(row_width);
  const long long begin = cached_offset(ROW_OF(sequence) * capacity * row_width +
                                        unsigned(head) / unsigned(heads / kv_heads) * width);
  q += block / across * Q_ROW + head * width;
  keys += begin;
  values += begin;
  const unsigned long long of_queries = // which are read one by one where the cache is not of T
      IS_SET(CACHE_IS_T) ? (unsigned long long)(q) : 0;
  const bool aligned = width % kVector == 0 && Q_ROW % kVector == 0 && KV_ROW % kVector == 0 &&
                       ((of_queries | (unsigned long long)(keys) | (unsigned long long)(values)) %
                        kCachedAlignment) == 0;
  Running running[SHARE];
  begin_heads(q, elements, aligned, running);
  long long length = seen_by(place, LENGTH_OF(sequence), queries);
#ifdef HAS_MASK
  mask += sequence * mask_sequence + head * mask_head + place * mask_query;
  auto mask_at = [&](int s, long long position) {
    return Acc(mask[s * mask_head + position * mask_position]);
  };
#else
  auto mask_at = [](int, long long) { return Acc(0); };
#endif
  long long first_position = first_seen(length);
#ifdef SPLIT
  // Chunks that hold seen positions; the first of them answers if there are none.
  const long long first_chunk = first_position / chunk;
  const long long count = length > first_position ? (length - 1) / chunk + 1 - first_chunk : 1;
  if (split < first_chunk || split >= first_chunk + count)
    return;
  first_position = first_position > split * chunk ? first_position : split * chunk;
  length = length < (split + 1) * chunk ? length : (split + 1) * chunk;
#endif
  // One of both has nothing to do.
  attend<true, kReadAhead>(keys, values, stride, elements, first_position,
                           aligned ? length : first_position, scale, mask_at, running);
  attend<false, 1>(keys, values, stride, elements, aligned ? length : first_position, length, scale,
                   mask_at, running);

  T *const to = y + first_row * width;
#ifndef SPLIT
  constexpr bool is_part = false;
#else
  const bool is_part = count > 1;
  Acc *const part = parts + (first_row * splits + split) * (width + 2);
#endif
  join_groups(running, elements, [&](int s, int e, Acc value, Acc largest, Acc sum) {
    if (!is_part) {
      to[s * elements + e] = T(largest == no_score() ? Acc(0) : value * (1 / sum));
      return;
    }
#ifdef SPLIT
    Acc *const own = part + s * splits * (width + 2);
    own[e] = value;
    if (e == 0) {
      own[width] = largest;
      own[width + 1] = sum;
    }
#endif
  });
#ifdef SPLIT
  if (!is_part)
    return;
  __shared__ bool is_last;
  __syncthreads(); // the block's part is written
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicInc(counters + block, unsigned(count) - 1) == unsigned(count) - 1;
    __threadfence();
  }
  __syncthreads();
  if (is_last)
    join_parts(parts + (first_row * splits + first_chunk) * (width + 2), to, int(splits),
               int(count), elements);
#endif
}

#endif
