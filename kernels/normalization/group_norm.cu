// Norm of images with channels last by groups of channels: x is [images, pixels, channels]; the
// mean and the variance are those of GROUP channels of all pixels of an image.
//
//   (x - mean) / sqrt(variance + epsilon)
//
// A block has CHANNELS channels of an image, whole groups. A warp takes LANES vectors of them at
// once, of one pixel or more. The variance is taken about the mean, in a second pass: the
// difference of two sums would cancel.
//
// Options: those of floating.cuh, fusion.cuh, assume.cuh and vectors.cuh; CHANNELS, a multiple of
// GROUP and VECTOR, as are the channels; LANES, a power of two; WARPS; WIDE: results are Acc;
// CHANNEL_RANGE: pixels of x have `pitch` channels, of which these are from `first_channel` on,
// both multiples of VECTOR.

#include "shared/floating.cuh"
#if defined(WIDE) && !defined(RESULT)
#define RESULT(i, value) Acc(value)
#define OUT Acc
#endif
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

#ifdef CHANNEL_RANGE
#define RANGE_PARAMETERS , long long pitch, long long first_channel
#define PITCH pitch
#define FIRST_CHANNEL first_channel
#else
#define RANGE_PARAMETERS
#define PITCH channels
#define FIRST_CHANNEL 0
#endif

constexpr int kAcross = CHANNELS / VECTOR, kGroups = CHANNELS / GROUP;
constexpr int kHigh = WARPS * (32 / LANES); // pixels at once

// Where a thread of a block reads: f(element of x, pixel) of the image's pixels.
struct Part {
  long long first; // element of x: the block's first channel, of the image's first pixel
  Index pixels, pitch;
  int own; // of the block's channels that there are
  int lane, warp;

  template <class F> __device__ __forceinline__ void each_vector(int vector, F f) const {
    if (vector * VECTOR < own)
#pragma unroll 4
      for (Index pixel = warp * (32 / LANES) + lane / LANES; pixel < pixels; pixel += kHigh)
        f(first + (long long)(pixel)*pitch + vector * VECTOR, pixel);
  }

  // The mean over each group of what f gives, for an element and its place in the vector `at`.
  template <class F>
  __device__ __forceinline__ void means(Acc (*parts)[CHANNELS], Acc *mean, const T *x, bool aligned,
                                        F f) const {
    __syncthreads(); // what is there has been read
#pragma unroll 1
    for (int begin = 0; begin < kAcross; begin += LANES) {
      const int vector = begin + lane % LANES;
      Acc sum[VECTOR] = {};
      each_vector(vector, [&](long long at, Index) {
        Vector<T> values;
        load(values, x + at, aligned);
#pragma unroll
        for (int e = 0; e < VECTOR; ++e)
          sum[e] += f(Acc(values.element[e]), vector * VECTOR + e);
      });
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) {
#pragma unroll
        for (int distance = LANES; distance < 32; distance *= 2)
          sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], distance);
        if (lane < LANES && vector < kAcross)
          parts[warp][vector * VECTOR + e] = sum[e];
      }
    }
    __syncthreads();
    for (int group = warp; group < kGroups; group += WARPS) {
      Acc sum = 0;
      for (int i = lane; i < WARPS * GROUP; i += 32)
        sum += parts[i / GROUP][group * GROUP + i % GROUP];
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
      if (lane == 0)
        mean[group] = sum / (Acc(pixels) * Acc(GROUP));
    }
    __syncthreads();
  }

  static __device__ __forceinline__ void load(Vector<T> &values, const T *from, bool aligned) {
    if (aligned)
      values = load_vector(from, 0);
    else
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        values.element[e] = from[e];
  }
};

extern "C" __global__ void __launch_bounds__(32 * WARPS, 2)
    group_norm(const T *__restrict__ x, OUT *__restrict__ y, long long images, long long pixels,
               long long channels RANGE_PARAMETERS, Acc epsilon FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ Acc parts[WARPS][CHANNELS], mean[kGroups], factor[kGroups];
  const unsigned across = unsigned((channels + CHANNELS - 1) / CHANNELS);
  const int begin = int(blockIdx.x % across) * CHANNELS;
  const long long image = blockIdx.x / across;
  const Part part{image * pixels * PITCH + FIRST_CHANNEL + begin,
                  Index(pixels),
                  Index(PITCH),
                  int(channels) - begin < CHANNELS ? int(channels) - begin : CHANNELS,
                  int(threadIdx.x % 32),
                  int(threadIdx.x / 32)};
  const bool aligned = are_aligned(x);
  part.means(parts, mean, x, aligned, [](Acc value, int) { return value; });
  part.means(parts, factor, x, aligned, [&](Acc value, int channel) {
    const Acc off = value - mean[channel / GROUP];
    return off * off;
  });
  const bool whole = Run<VECTOR, OUT>::is_aligned(y) && RESULTS_ALIGNED(VECTOR);
#pragma unroll 1
  for (int vector = part.lane % LANES; vector < kAcross; vector += LANES) {
    Acc shift[VECTOR], scale[VECTOR];
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      const int group = (vector * VECTOR + e) / GROUP;
      shift[e] = mean[group], scale[e] = 1 / sqrt(factor[group] + epsilon);
    }
    part.each_vector(vector, [&](long long at, Index pixel) {
      Vector<T> values;
      Part::load(values, x + at, aligned);
      const long long to = (image * pixels + pixel) * channels + begin + vector * VECTOR;
      Run<VECTOR, OUT> run;
      RESULTS(VECTOR, run, to, (Acc(values.element[e]) - shift[e]) * scale[e], whole, VECTOR);
      run.store(y + to, whole);
    });
  }
}
