// Samples of x at places that a grid says, by ONNX's rules.
//
//   x: [batch, channels, size..]   grid: [batch, points, DIMENSIONS]   y: [batch, channels, points]
//
// A place's coordinates are from -1 to 1, the innermost dimension's first: the middles of the first
// and the last element, or without ALIGN_CORNERS their outer edges. What lies outside is 0 (PADDING
// 0), the nearest element (1), or the one that reflection at these ends gives (2). MODE 0 takes the
// nearest element, 1 is linear, 2 cubic.
//
// Options: DIMENSIONS 2 or 3 (size_d is 1 of two), GRID the grid's type, MODE, PADDING,
// ALIGN_CORNERS; those of floating.cuh and assume.cuh.
//
// Cubic sampling limits or reflects each element around the place, other modes the place itself.

#include "shared/assume.cuh"
#include "shared/floating.cuh"
#include "shared/options.cuh"
#include "index/positions.cuh"
#include "shared/programmatic.cuh"
#include "convolution/volume.cuh"

#if MODE == 2
#define TAPS 4
#elif MODE == 1
#define TAPS 2
#else
#define TAPS 1
#endif

// The ends between which places are reflected.
#ifdef ALIGN_CORNERS
#define LOWER Acc(0)
#define UPPER(size) Acc((size)-1)
#else
#define LOWER Acc(-0.5)
#define UPPER(size) (Acc(size) - Acc(0.5))
#endif

__device__ __forceinline__ Acc reflected(Acc place, Acc lower, Acc upper) {
  const Acc span = upper - lower;
  if (span <= 0)
    return 0;
  if (place >= lower && place <= upper)
    return place;
  const Acc beyond = place < lower ? lower - place : place - upper;
  const Acc turns = floor(beyond / span), rest = beyond - turns * span;
  const bool back = fmod(turns, Acc(2)) != 0;
  return (place < lower) == back ? upper - rest : lower + rest;
}

__device__ __forceinline__ Acc limited(Acc place, long long size) {
  const Acc last = Acc(size - 1);
  return place < 0 ? Acc(0) : place > last ? last : place; // a NaN stays
}

// A coordinate as a place among `size` elements. A NaN is -1, and so is an infinity that would be
// reflected without end.
__device__ __forceinline__ Acc place_of(Acc coordinate, long long size) {
#if PADDING == 2
  if (coordinate - coordinate != 0)
    coordinate = -1;
#else
  if (coordinate != coordinate)
    coordinate = -1;
#endif
  Acc place = IS_SET(ALIGN_CORNERS) ? (coordinate + 1) / 2 * Acc(size - 1)
                                    : ((coordinate + 1) * Acc(size) - 1) / 2;
#if MODE == 0
  place = rint(place);
#endif
#if MODE == 2
  return place;
#elif PADDING == 1
  return place < LOWER || place > UPPER(size) ? limited(place, size) : place;
#elif PADDING == 2
  return reflected(place, LOWER, UPPER(size));
#else
  return place;
#endif
}

// Along one dimension, which elements with which weights; -1: none.
struct Taps {
  long long at[TAPS];
  Acc weight[TAPS];
};

__device__ __forceinline__ long long element_of(Acc at, long long size) {
#if PADDING == 1
  at = limited(at, size);
#elif PADDING == 2
  at = limited(reflected(at, LOWER, UPPER(size)), size);
#endif
  return at >= 0 && at < Acc(size) ? (long long)(at) : -1; // a NaN is none
}

// The weight of an element so far away.
__device__ __forceinline__ Acc weight_of(Acc distance) {
  const Acc d = fabs(distance);
#if MODE == 2
  const Acc a = Acc(-0.75);
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
#else
  return 1 - d; // unused where the nearest element is taken
#endif
}

__device__ __forceinline__ Taps taps_of(Acc place, long long size) {
  Taps taps;
#if MODE == 0
  taps.at[0] = element_of(place, size);
  taps.weight[0] = 1;
#else
  const Acc lower = floor(place);
#pragma unroll
  for (int t = 0; t < TAPS; ++t) {
    const int away = t + 1 - TAPS / 2;
    taps.at[t] = element_of(lower + away, size);
    taps.weight[t] = weight_of(place - lower - away);
  }
#endif
  return taps;
}

extern "C" __global__ void grid_sample(const T *__restrict__ x, const GRID *__restrict__ grid,
                                       T *__restrict__ y, long long batch, long long channels,
                                       SIDES(long long size), long long points) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index count = Index(batch) * Index(channels) * Index(points);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index plane = i / Index(points), point = i % Index(points);
    const GRID *at = grid + (plane / Index(channels) * Index(points) + point) * DIMENSIONS;
    const T *from = x + (long long)(plane)*size_d * size_h * size_w;
    const Taps columns = taps_of(place_of(Acc(at[0]), size_w), size_w);
    const Taps rows = taps_of(place_of(Acc(at[1]), size_h), size_h);
#if DIMENSIONS == 3
    const Taps planes = taps_of(place_of(Acc(at[2]), size_d), size_d);
    constexpr int kPlanes = TAPS;
#else
    constexpr int kPlanes = 1;
#endif
    Acc sum = 0;
#pragma unroll
    for (int p = 0; p < kPlanes; ++p)
#pragma unroll
      for (int r = 0; r < TAPS; ++r)
#pragma unroll
        for (int q = 0; q < TAPS; ++q) {
#if DIMENSIONS == 3
          const long long d = planes.at[p];
          const Acc weight = planes.weight[p] * rows.weight[r] * columns.weight[q];
#else
          const long long d = 0;
          const Acc weight = rows.weight[r] * columns.weight[q];
#endif
          const long long h = rows.at[r], w = columns.at[q];
          if (d >= 0 && h >= 0 && w >= 0 && weight != 0)
            sum = fma(weight, Acc(from[(d * size_h + h) * size_w + w]), sum);
        }
    y[i] = T(sum);
  }
}
