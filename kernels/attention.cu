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
// queries + p. Where nothing is seen the result is 0.
//
// One block a head, query and sequence. Eight lanes work at one position, so that a block is at 32
// positions at a time; every such group of lanes keeps a running maximum, sum and weighted value
// (the sum is rescaled when the maximum moves), and the groups are joined at the end. Keys and
// values are read once.
//
// One query over a long cache would be one block at work for long. With SPLIT the cache is cut into
// `splits` chunks of `chunk` positions, a block each, whose results attention_join.cu joins.
//
//   entry             block   grid
//   attention         256     sequences * queries * heads
//   attention_split   256     sequences * queries * heads * splits
//
// Options: MAX_WIDTH, the most elements of a head, a multiple of 32: a lane's registers; CAUSAL;
// SPLIT; HAS_LENGTHS, with WIDE_LENGTHS for i64 (i32 otherwise); HAS_MASK, with a stride for each
// of the mask's dimensions; those of floating.cuh and assume.cuh.

#include "assume.cuh"
#include "attention_parts.cuh"
#include "floating.cuh"
#include "programmatic.cuh"

#ifndef MAX_WIDTH
#define MAX_WIDTH 64
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
#ifdef SPLIT
#define ENTRY attention_split
#define RESULT Acc *__restrict__ parts
#define SPLIT_PARAMETERS , long long splits, long long chunk
#else
#define ENTRY attention
#define RESULT T *__restrict__ y
#define SPLIT_PARAMETERS
#endif

constexpr int kThreads = 256, kGroup = 8, kGroups = kThreads / kGroup;
constexpr int kVector = 4; // consecutive elements of a lane
constexpr int kStride = kGroup * kVector;
constexpr int kEach = MAX_WIDTH / kStride * kVector; // of a lane; some beyond the width
static_assert(MAX_WIDTH % kStride == 0, "a lane has whole vectors");

struct alignas(kVector * sizeof(T)) Vector {
  T element[kVector];
};

__device__ int element_of(int e, int lane) {
  return e / kVector * kStride + lane * kVector + e % kVector;
}

// A lane's elements of a row: kVector of them, then on past those of the other lanes of its group.
__device__ __forceinline__ void load_row(const T *row, int width, int lane, bool aligned,
                                         Acc (&out)[kEach]) {
#pragma unroll
  for (int e = 0; e < kEach; e += kVector) {
    const int first = element_of(e, lane);
    if (aligned && first + kVector <= width) {
      const Vector v = *reinterpret_cast<const Vector *>(row + first);
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        out[e + i] = Acc(v.element[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        out[e + i] = first + i < width ? Acc(row[first + i]) : Acc(0);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    ENTRY(const T *__restrict__ q, const T *__restrict__ keys, const T *__restrict__ values,
          LENGTHS_PARAMETER MASK_PARAMETER RESULT, long long sequences, long long queries,
          long long heads, long long kv_heads, long long width, long long capacity,
          Acc scale MASK_STRIDES SPLIT_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Acc largest_of[kGroups], sum_of[kGroups], row_of[kGroups][kEach * kGroup];
  const Acc kNone = no_score(); // no position yet
  const int group = threadIdx.x / kGroup, lane = threadIdx.x % kGroup;
#ifdef SPLIT
  const long long block = blockIdx.x / splits, split = blockIdx.x % splits;
#else
  const long long block = blockIdx.x;
#endif
  const long long head = block % heads, place = block / heads % queries;
  const long long sequence = block / heads / queries;
  const int elements = int(width);
  const long long stride = kv_heads * width;
  const long long first = sequence * capacity * stride + head / (heads / kv_heads) * width;
  const bool aligned =
      width % kVector == 0 &&
      (((unsigned long long)(q) | (unsigned long long)(keys) | (unsigned long long)(values)) &
       (sizeof(Vector) - 1)) == 0;
  long long length = capacity;
#ifdef HAS_LENGTHS
  const long long given = lengths[sequence];
  length = given < 0 ? 0 : given > capacity ? capacity : given;
#endif
#ifdef CAUSAL
  const long long last = length - queries + place;
  length = last < 0 ? 0 : last + 1;
#endif
#ifdef HAS_MASK
  mask += sequence * mask_sequence + head * mask_head + place * mask_query;
#endif

  Acc query[kEach], weighted[kEach] = {}, sum = 0, largest = kNone;
  load_row(q + block * width, elements, lane, aligned, query);
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    query[e] *= scale;
  long long first_position = 0;
#ifdef SPLIT
  first_position = split * chunk;
  length = length < first_position + chunk ? length : first_position + chunk;
#endif
  // Whole warps take part in every shuffle: positions beyond the last weigh nothing.
  for (long long begin = first_position; begin < length; begin += kGroups) {
    const long long position = begin + group < length ? begin + group : length - 1;
    const long long row = first + position * stride;
    Acc element[kEach], score = 0;
    load_row(keys + row, elements, lane, aligned, element);
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      score = fma(query[e], element[e], score);
#pragma unroll
    for (int distance = kGroup / 2; distance > 0; distance /= 2)
      score += __shfl_xor_sync(0xffffffffu, score, distance);
#ifdef HAS_MASK
    score += Acc(mask[position * mask_position]);
#endif
    const bool seen = begin + group < length && score != kNone;
    const Acc next = seen && !(score <= largest) ? score : largest; // a NaN stays
    const Acc keep = largest == kNone ? Acc(0) : shrink(largest, next);
    const Acc weight = seen ? exp(score - next) : Acc(0);
    largest = next;
    load_row(values + row, elements, lane, aligned, element);
    sum = fma(sum, keep, weight);
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      weighted[e] = seen ? fma(weight, element[e], weighted[e] * keep) : weighted[e] * keep;
  }
  if (lane == 0) {
    largest_of[group] = largest;
    sum_of[group] = sum;
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    row_of[group][element_of(e, lane)] = weighted[e];
  __syncthreads();

  auto largest_at = [&](int g) { return largest_of[g]; };
  const Joined all = join(kGroups, largest_at, [&](int g) { return sum_of[g]; });
  for (int e = threadIdx.x; e < elements; e += kThreads) {
    const Acc value =
        join_values(kGroups, all.largest, largest_at, [&](int g) { return row_of[g][e]; });
#ifdef SPLIT
    parts[blockIdx.x * (width + 2) + e] = value;
#else
    y[block * width + e] = T(all.largest == kNone ? Acc(0) : value / all.sum);
#endif
  }
#ifdef SPLIT
  if (threadIdx.x == 0) {
    parts[blockIdx.x * (width + 2) + width] = all.largest;
    parts[blockIdx.x * (width + 2) + width + 1] = all.sum;
  }
#endif
}
