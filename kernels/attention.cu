// Attention of one query position over a cache of keys and values, by heads:
//
//   y[s, h] = sum over i of softmax_i(scale * q[s, h] . keys[s, i, g]) * values[s, i, g]
//
//   q, y: [sequences, heads, WIDTH]   keys, values: [sequences, capacity, kv_heads, WIDTH]
//
// i runs over the first `length` positions; g = h / (heads / kv_heads): heads share keys and values
// in groups. One block a head and sequence. Eight lanes work at one position, each on WIDTH / 8
// elements, so that a block is at 32 positions at a time; every such group of lanes keeps a running
// maximum, sum and weighted value (the sum is rescaled when the maximum moves), and the groups are
// joined at the end. Keys and values are read once.
//
//   entry        block   grid
//   attention    256     sequences * heads
//
// Options: those of floating.cuh and assume.cuh; WIDTH, elements of a head, a multiple of 32.

#include "assume.cuh"
#include "floating.cuh"
#include "programmatic.cuh"

#ifndef WIDTH
#define WIDTH 64
#endif

constexpr int kThreads = 256, kGroup = 8, kGroups = kThreads / kGroup, kEach = WIDTH / kGroup;
constexpr int kVector = 4; // consecutive elements of a lane
static_assert(WIDTH % (kGroup * kVector) == 0, "WIDTH must be a multiple of 32");

struct alignas(kVector * sizeof(T)) Vector {
  T element[kVector];
};

// A lane's elements of a row: kVector of them, then on past those of the other lanes of its group.
__device__ void load_row(const T *row, int lane, float (&out)[kEach]) {
#pragma unroll
  for (int e = 0; e < kEach; e += kVector) {
    const Vector v = *reinterpret_cast<const Vector *>(row + e * kGroup + lane * kVector);
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      out[e + i] = float(v.element[i]);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    attention(const T *__restrict__ q, const T *__restrict__ keys, const T *__restrict__ values,
              T *__restrict__ y, long long sequences, long long heads, long long kv_heads,
              long long capacity, long long length, float scale) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ float largest_of[kGroups], sum_of[kGroups], row_of[kGroups][WIDTH];
  const float kNone = __int_as_float(0xff800000); // -infinity: no position yet
  const int group = threadIdx.x / kGroup, lane = threadIdx.x % kGroup;
  const long long head = blockIdx.x % heads, sequence = blockIdx.x / heads;
  const long long stride = kv_heads * WIDTH;
  const long long first = sequence * capacity * stride + head / (heads / kv_heads) * WIDTH;

  float query[kEach], weighted[kEach] = {}, sum = 0, largest = kNone;
  load_row(q + blockIdx.x * (long long)(WIDTH), lane, query);
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    query[e] *= scale;
  // Whole warps take part in every shuffle: positions beyond the last weigh nothing.
  for (long long begin = 0; begin < length; begin += kGroups) {
    const long long position = begin + group;
    const long long row = first + (position < length ? position : length - 1) * stride;
    float element[kEach], score = 0;
    load_row(keys + row, lane, element);
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      score += query[e] * element[e];
#pragma unroll
    for (int distance = kGroup / 2; distance > 0; distance /= 2)
      score += __shfl_xor_sync(0xffffffffu, score, distance);
    score = position < length ? score : kNone;
    const float next = fmaxf(largest, score);
    // The first position of a group is below `length` unless all of them are beyond it.
    const float keep = next == largest ? 1.0f : expf(largest - next);
    const float weight = position < length ? expf(score - next) : 0.0f;
    largest = next;
    load_row(values + row, lane, element);
    sum = sum * keep + weight;
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      weighted[e] = weighted[e] * keep + weight * element[e];
  }
  if (lane == 0) {
    largest_of[group] = largest;
    sum_of[group] = sum;
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    row_of[group][e / kVector * kVector * kGroup + lane * kVector + e % kVector] = weighted[e];
  __syncthreads();

  float all = largest_of[0];
  for (int g = 1; g < kGroups; ++g)
    all = fmaxf(all, largest_of[g]);
  float total = 0;
  for (int g = 0; g < kGroups; ++g)
    total += sum_of[g] * (largest_of[g] == all ? 1.0f : expf(largest_of[g] - all));
  for (int e = threadIdx.x; e < WIDTH; e += kThreads) {
    float result = 0;
    for (int g = 0; g < kGroups; ++g)
      result += row_of[g][e] * (largest_of[g] == all ? 1.0f : expf(largest_of[g] - all));
    y[blockIdx.x * (long long)(WIDTH) + e] = T(result / total);
  }
}
