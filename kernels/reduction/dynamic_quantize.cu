// Floats as bytes of a range that the device finds: y = round(x / scale) + zero, halves to even,
// limited to 0 and 255.
//
//   low, high   the least and the largest number of x and 0
//   scale       (high - low) / 255, or 1 where that is 0
//   zero        round(-low / scale), limited likewise
//
// A NaN counts for no range and becomes 0.
//
//   entry                 block          grid     what it does
//   dynamic_quantize      256 or 1024    1        all, of at most kHeld elements a thread
//   dynamic_range         256            blocks   parts[b]: low and high of a block's elements
//   dynamic_bytes         256            blocks   joins these, at most 256, and makes the bytes
//
// Options: SPLIT for the last two entries; those of number.cuh, of f32, and of assume.cuh.

#include "shared/assume.cuh"
#include "shared/block_reduce.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

typedef unsigned char u8;

constexpr int kRun = 4, kRuns = 4; // elements of a run, and runs that a thread has on their way
typedef Run<kRun, float> Floats;

struct Range {
  float low = 0, high = 0;

  __device__ __forceinline__ void take(float x) {
    low = fminf(low, x);
    high = fmaxf(high, x);
  }
  __device__ __forceinline__ void join_block() {
    __shared__ float shared[32];
    low = block_reduce(low, shared, [](float p, float q) { return fminf(p, q); });
    high = block_reduce(high, shared, [](float p, float q) { return fmaxf(p, q); });
  }
};

__device__ __forceinline__ float limited(float x) { return fminf(fmaxf(x, 0.0f), 255.0f); }

struct Scale {
  float scale, zero;

  __device__ __forceinline__ explicit Scale(const Range &range) {
    scale = (range.high - range.low) / 255.0f;
    if (scale == 0)
      scale = 1;
    zero = limited(rintf(-range.low / scale));
  }
  __device__ __forceinline__ void store(float *of_scale, u8 *of_zero) const {
    *of_scale = scale;
    *of_zero = u8(zero);
  }
  __device__ __forceinline__ void store_run(u8 *y, const Floats &x, int left, bool aligned) const {
    Run<kRun, u8> bytes;
#pragma unroll
    for (int e = 0; e < kRun; ++e)
      bytes.element[e] = u8(limited(rintf(x.element[e] / scale) + zero));
    if (left >= kRun) {
      bytes.store(y, aligned);
    } else {
#pragma unroll
      for (int e = 0; e < kRun; ++e)
        if (e < left)
          y[e] = bytes.element[e];
    }
  }
};

// The elements of a run that begins with `left` of them to come; those behind the last are 0.
__device__ __forceinline__ void load_run(Floats &run, const float *x, long long left,
                                         bool aligned) {
  if (left >= kRun) {
    run.read(x, aligned);
  } else {
#pragma unroll
    for (int e = 0; e < kRun; ++e)
      run.element[e] = e < left ? x[e] : 0.0f;
  }
}

#ifndef SPLIT
extern "C" __global__ void __launch_bounds__(1024)
    dynamic_quantize(const float *__restrict__ x, u8 *__restrict__ y, float *__restrict__ scale,
                     u8 *__restrict__ zero, long long count) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const bool x_aligned = Floats::is_aligned(x), y_aligned = Run<kRun, u8>::is_aligned(y);
  Floats runs[kRuns];
  Range range;
#pragma unroll
  for (int j = 0; j < kRuns; ++j) {
    const int first = int(threadIdx.x + j * blockDim.x) * kRun;
    load_run(runs[j], x + first, int(count) - first, x_aligned);
  }
#pragma unroll
  for (int j = 0; j < kRuns; ++j)
#pragma unroll
    for (int e = 0; e < kRun; ++e)
      range.take(runs[j].element[e]);
  range.join_block();
  const Scale bytes(range);
#pragma unroll
  for (int j = 0; j < kRuns; ++j) {
    const int first = int(threadIdx.x + j * blockDim.x) * kRun;
    bytes.store_run(y + first, runs[j], int(count) - first, y_aligned);
  }
  if (threadIdx.x == 0)
    bytes.store(scale, zero);
}

#else
constexpr int kThreads = 256;

// f(first element, elements from there on) for the runs of this thread.
template <class F> __device__ __forceinline__ void each_run(long long count, F f) {
#pragma unroll kRuns
  for (long long first = ((long long)(blockIdx.x) * kThreads + threadIdx.x) * kRun; first < count;
       first += (long long)(gridDim.x) * kThreads * kRun)
    f(first, count - first);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    dynamic_range(const float *__restrict__ x, float2 *__restrict__ parts, long long count,
                  long long blocks) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const bool aligned = Floats::is_aligned(x);
  Range range;
  each_run(count, [&](long long first, long long left) {
    Floats run;
    load_run(run, x + first, left, aligned);
#pragma unroll
    for (int e = 0; e < kRun; ++e)
      range.take(run.element[e]);
  });
  range.join_block();
  if (threadIdx.x == 0)
    parts[blockIdx.x] = make_float2(range.low, range.high);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    dynamic_bytes(const float *__restrict__ x, const float2 *__restrict__ parts, u8 *__restrict__ y,
                  float *__restrict__ scale, u8 *__restrict__ zero, long long count,
                  long long blocks) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  Range range;
  if (threadIdx.x < blocks) {
    const float2 part = parts[threadIdx.x];
    range.low = part.x, range.high = part.y;
  }
  range.join_block();
  const Scale bytes(range);
  const bool x_aligned = Floats::is_aligned(x), y_aligned = Run<kRun, u8>::is_aligned(y);
  each_run(count, [&](long long first, long long left) {
    Floats run;
    load_run(run, x + first, left, x_aligned);
    bytes.store_run(y + first, run, left < kRun ? int(left) : kRun, y_aligned);
  });
  if (blockIdx.x == 0 && threadIdx.x == 0)
    bytes.store(scale, zero);
}
#endif
