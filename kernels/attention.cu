// Attention of queries over a cache of keys and values, by heads:
//
//   y[s, p, h] = sum over i of softmax_i(scale * q[s, p, h] . keys[s, i, g] + mask[s, h, p, i])
//                              * values[s, i, g]
//
//   q, y: [sequences, queries, heads, width]   keys, values: [sequences, capacity, kv_heads, width]
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
// joins their parts, in the order of the cache whoever came last. Counters are 0 before a launch,
// and after it. Many queries of f16 and bf16 are for tensor cores: attention_mma.cuh.
//
//   entry             block   grid
//   attention         256     sequences * queries * heads / SHARE
//   attention_split   256     sequences * queries * heads / SHARE * splits
//   attention_mma     128     sequences * heads * ceil(queries / 64)
//
// Options: MAX_WIDTH, the most elements of a head, a multiple of 32: a lane's registers; SHARE, a
// divisor of heads / kv_heads, 1 by default; CAUSAL; SPLIT; HAS_LENGTHS, with WIDE_LENGTHS for i64
// (i32 otherwise); HAS_PLACES, with WIDE_PLACES alike; WINDOW, with CAUSAL; HAS_MASK, with a stride
// for each of the mask's dimensions; WITH_MMA for that
// entry, MMA_ALONE where no launch takes the other; those of floating.cuh and assume.cuh.

#include "assume.cuh"
#include "attention_parts.cuh"
#include "floating.cuh"
#include "programmatic.cuh"

#ifndef MAX_WIDTH
#define MAX_WIDTH 64
#endif
#ifndef SHARE
#define SHARE 1
#endif
#ifdef WIDE_LENGTHS
typedef long long Length;
#else
typedef int Length;
#endif
#ifdef HAS_LENGTHS
#define LENGTHS_PARAMETER const Length *__restrict__ lengths,
#else
#define LENGTHS_PARAMETER
#endif
#ifdef HAS_MASK
#define MASK_PARAMETER const T *__restrict__ mask,
#define MASK_STRIDES                                                                               \
  , long long mask_sequence, long long mask_head, long long mask_query, long long mask_position
#else
#define MASK_PARAMETER
#define MASK_STRIDES
#endif
#ifdef WIDE_PLACES
typedef long long Place;
#else
typedef int Place;
#endif
#ifdef HAS_PLACES
#include "positions.cuh"
#define PLACES_PARAMETER const Place *__restrict__ places,
#define ROWS_PARAMETER long long cache_rows,
#else
#define PLACES_PARAMETER
#define ROWS_PARAMETER
#endif
#ifdef SPLIT
#define ENTRY attention_split
#define RESULT Acc *parts, unsigned *__restrict__ counters, T *__restrict__ y
#define SPLIT_PARAMETERS , long long splits, long long chunk
#else
#define ENTRY attention
#define RESULT T *__restrict__ y
#define SPLIT_PARAMETERS
#endif

#define PARAMETERS(result)                                                                         \
  const T *__restrict__ q, const T *__restrict__ keys, const T *__restrict__ values,               \
      LENGTHS_PARAMETER MASK_PARAMETER PLACES_PARAMETER result, long long sequences,               \
      long long queries, long long heads, long long kv_heads, long long width, long long capacity, \
      ROWS_PARAMETER Acc scale MASK_STRIDES

// The positions of sequence `s` that are filled, and its row of keys and values.
#ifdef HAS_PLACES
#define ROW_OF(s) nearest(places[s], cache_rows)
#define CAPACITY (cache_rows > 0 ? capacity : 0)
#else
#define ROW_OF(s) s
#define CAPACITY capacity
#endif
#ifdef HAS_LENGTHS
#define LENGTH_OF(s) length_within(lengths[s], CAPACITY)
#else
#define LENGTH_OF(s) CAPACITY
#endif

__device__ __forceinline__ long long length_within(long long given, long long capacity) {
  return given < 0 ? 0 : given > capacity ? capacity : given;
}

// Of `length` positions, those that query `place` sees.
__device__ __forceinline__ long long seen_by(long long place, long long length, long long queries) {
#ifdef CAUSAL
  const long long last = length - queries + place;
  return last < 0 ? 0 : last + 1;
#else
  return length;
#endif
}

// The first position of those that a query sees, of which `seen` is the end.
__device__ __forceinline__ long long first_seen(long long seen) {
#ifdef WINDOW
  return seen > WINDOW ? seen - WINDOW : 0;
#else
  return 0;
#endif
}

#ifdef WITH_MMA
#include "attention_mma.cuh"
#endif

#ifndef MMA_ALONE

constexpr int kThreads = 256;
constexpr int kVector = 16 / sizeof(T); // consecutive elements of a lane

// Lanes at one position: a power of two.
__device__ constexpr int lanes_of(int vectors) {
  return vectors > 16 ? 32 : vectors > 8 ? 16 : vectors > 4 ? 8 : 4;
}
constexpr int kGroup = lanes_of(MAX_WIDTH / kVector), kGroups = kThreads / kGroup;
constexpr int kStride = kGroup * kVector;
constexpr int kVectors = (MAX_WIDTH + kStride - 1) / kStride,
              kEach = kVectors * kVector; // of a lane
// Columns that the groups are joined over at a time: what shared memory of fixed size has room for.
constexpr int kWhole = kEach * kGroup, kRoom = (32 << 10) / (kGroups * int(sizeof(Acc)));
constexpr int kPanel = kRoom < kWhole ? kRoom : kWhole;

union Elements {
  uint4 word;
  T element[kVector];
  __device__ Elements() {}
};

__device__ int element_of(int e, int lane) {
  return e / kVector * kStride + lane * kVector + e % kVector;
}

// A lane's elements of a row: kVector of them, then on past those of the other lanes of its group.
// Elements beyond the width, which may be there in part where it is not kAligned, are 0.
template <bool kAligned>
__device__ __forceinline__ void load_row(const T *row, int width, int lane,
                                         Elements (&out)[kVectors]) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int first = element_of(v * kVector, lane);
    if constexpr (kAligned) {
      out[v].word = first < width ? *reinterpret_cast<const uint4 *>(row + first) : uint4{};
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        out[v].element[i] = first + i < width ? row[first + i] : T(0.0f);
    }
  }
}

struct Running { // of one head
  Acc query[kEach], weighted[kEach], sum, largest;
};

// The positions from `first` to `length`, for the SHARE heads; `mask` is of position 0.
template <bool kAligned, int kAtOnce, class Mask>
__device__ __forceinline__ void attend(const T *keys, const T *values, long long stride, int width,
                                       long long first, long long length, Mask mask,
                                       Running (&heads)[SHARE]) {
  const int group = threadIdx.x / kGroup, lane = threadIdx.x % kGroup;
  // Whole warps take part in every shuffle: positions beyond the last weigh nothing.
#pragma unroll 1
  for (long long begin = first; begin < length; begin += kGroups * kAtOnce) {
    Elements key[kAtOnce][kVectors], value[kAtOnce][kVectors];
    long long position[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const long long at = begin + u * kGroups + group;
      position[u] = at < length ? at : length - 1;
      load_row<kAligned>(keys + position[u] * stride, width, lane, key[u]);
      load_row<kAligned>(values + position[u] * stride, width, lane, value[u]);
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
#pragma unroll
      for (int s = 0; s < SHARE; ++s) {
        Running &head = heads[s];
        Acc score = 0;
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          score = fma(head.query[e], Acc(key[u][e / kVector].element[e % kVector]), score);
#pragma unroll
        for (int distance = kGroup / 2; distance > 0; distance /= 2)
          score += __shfl_xor_sync(0xffffffffu, score, distance);
        score += mask(s, position[u]);
        const bool seen = begin + u * kGroups + group < length && score != no_score();
        const Acc next = seen && !(score <= head.largest) ? score : head.largest; // a NaN stays
        const Acc keep = head.largest == no_score() ? Acc(0) : shrink(head.largest, next);
        const Acc weight = seen ? exp(score - next) : Acc(0);
        head.largest = next;
        head.sum = fma(head.sum, keep, weight);
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          const Acc element = Acc(value[u][e / kVector].element[e % kVector]);
          head.weighted[e] =
              seen ? fma(weight, element, head.weighted[e] * keep) : head.weighted[e] * keep;
        }
      }
  }
}

#ifdef SPLIT
// Joins the parts of the SHARE heads from `parts` on.
__device__ __forceinline__ void join_parts(const Acc *parts, T *y, int splits, int width) {
  for (int i = threadIdx.x; i < SHARE * width; i += kThreads) {
    const int e = i % width, part = width + 2;
    const Acc *row = parts + i / width * splits * part;
    auto largest_of = [&](int p) { return row[p * part + width]; };
    const Joined all = join(splits, largest_of, [&](int p) { return row[p * part + width + 1]; });
    const Acc value =
        join_values(splits, all.largest, largest_of, [&](int p) { return row[p * part + e]; });
    y[i] = T(all.largest == no_score() ? Acc(0) : value * (1 / all.sum));
  }
}
#endif

extern "C" __global__ void __launch_bounds__(kThreads) ENTRY(PARAMETERS(RESULT) SPLIT_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Acc largest_of[kGroups], sum_of[kGroups], row_of[kGroups][kPanel];
  const int group = threadIdx.x / kGroup, lane = threadIdx.x % kGroup;
#ifdef SPLIT
  const long long block = blockIdx.x / splits, split = blockIdx.x % splits;
#else
  const long long block = blockIdx.x;
#endif
  const long long across = heads / SHARE; // blocks of a query
  const long long head = block % across * SHARE, place = block / across % queries;
  const long long sequence = block / across / queries;
  const long long first_row = block / across * heads + head; // of q and y
  const int elements = int(width);
  const long long stride = kv_heads * width;
  const long long begin = ROW_OF(sequence) * capacity * stride + head / (heads / kv_heads) * width;
  keys += begin;
  values += begin;
  const bool aligned =
      width % kVector == 0 &&
      (((unsigned long long)(q) | (unsigned long long)(keys) | (unsigned long long)(values)) &
       15) == 0;
  long long length = seen_by(place, LENGTH_OF(sequence), queries);
#ifdef HAS_MASK
  mask += sequence * mask_sequence + head * mask_head + place * mask_query;
  auto mask_at = [&](int s, long long position) {
    return Acc(mask[s * mask_head + position * mask_position]);
  };
#else
  auto mask_at = [](int, long long) { return Acc(0); };
#endif

  Running running[SHARE];
#pragma unroll
  for (int s = 0; s < SHARE; ++s) {
    Elements row[kVectors];
    load_row<false>(q + (first_row + s) * width, elements, lane, row);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      running[s].query[e] = Acc(row[e / kVector].element[e % kVector]) * scale;
      running[s].weighted[e] = 0;
    }
    running[s].sum = 0;
    running[s].largest = no_score(); // no position yet
  }
  long long first_position = first_seen(length);
#ifdef SPLIT
  first_position = first_position > split * chunk ? first_position : split * chunk;
  length = length < (split + 1) * chunk ? length : (split + 1) * chunk;
#endif
  if (aligned)
    attend<true, 2>(keys, values, stride, elements, first_position, length, mask_at, running);
  else
    attend<false, 1>(keys, values, stride, elements, first_position, length, mask_at, running);

  auto largest_at = [&](int g) { return largest_of[g]; };
#pragma unroll
  for (int s = 0; s < SHARE; ++s)
    for (int begin = 0; begin < (kPanel == kWhole ? 1 : elements); begin += kPanel) {
      if (s > 0 || begin > 0)
        __syncthreads(); // the panel before has been read
      if (lane == 0) {
        largest_of[group] = running[s].largest;
        sum_of[group] = running[s].sum;
      }
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int column = element_of(e, lane) - begin;
        if (kPanel == kWhole || (column >= 0 && column < kPanel))
          row_of[group][column] = running[s].weighted[e];
      }
      __syncthreads();

      const Joined all = join(kGroups, largest_at, [&](int g) { return sum_of[g]; });
#ifdef SPLIT
      Acc *part = parts + ((first_row + s) * splits + split) * (width + 2);
      if (threadIdx.x == 0) {
        part[width] = all.largest;
        part[width + 1] = all.sum;
      }
#else
      const Acc inverse = 1 / all.sum;
#endif
      const int columns = elements - begin < kPanel ? elements - begin : kPanel;
      for (int e = threadIdx.x; e < columns; e += kThreads) {
        const Acc value =
            join_values(kGroups, all.largest, largest_at, [&](int g) { return row_of[g][e]; });
#ifdef SPLIT
        part[begin + e] = value;
#else
        y[(first_row + s) * width + begin + e] =
            T(all.largest == no_score() ? Acc(0) : value * inverse);
#endif
      }
    }
#ifdef SPLIT
  __shared__ bool is_last;
  __syncthreads(); // the block's part is written
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicInc(counters + block, unsigned(splits) - 1) == unsigned(splits) - 1;
    __threadfence();
  }
  __syncthreads();
  if (is_last)
    join_parts(parts + first_row * splits * (width + 2), y + first_row * width, int(splits),
               elements);
#endif
}

#endif
