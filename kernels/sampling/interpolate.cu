// Resizing: y is x with other numbers of elements along some axes, by ONNX's rules.
//
// The index of y is taken apart over at most MAX_RANK dimensions, outermost first; RESIZED has a
// bit for each that is resized, AXES of them. Along these an element of y lies at a place of x that
// COORDINATES says, from its scale: scales[a], or y's size by x's. It is the nearest element, or
// made of the neighbours' by weights: what lies outside is the edge.
//
//   COORDINATES   0 (i + 1/2) / scale - 1/2
//                 1 the same, about the middle
//                 2 the same; 0 where y has one element
//                 3 from corner to corner
//                 4 i / scale
//                 5 (i + 1/2) / scale
//                 6 from region[a] to region[AXES + a], parts of x's extent; extrapolation beyond x
//   NEAREST       0 halves to the lower, 1 to the upper, 2 the lower, 3 the upper
//   TAPS          1 the nearest element; 2 linear; 4 cubic, with the coefficient cubic; what
//                 EXCLUDE_OUTSIDE leaves out at the edges, the rest makes up for
//
// Where it lies, and the weights, are computed once for up to PLANES elements along dimension 0,
// which is not resized then; and for a vector of elements along the last one, of whose size VECTOR
// is a divisor.
//
// Places are computed in float whatever the elements are, so that which one is nearest does not
// depend on them.
//
// Options: those; HAS_SCALES; with TAPS 1 those of bytes.cuh, where the number beyond x is given as
// bits; else those of floating.cuh; those of vectors.cuh and assume.cuh.

#include "index/positions.cuh"
#include "shared/assume.cuh"
#include "shared/dimensions.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"
#if TAPS == 1
#include "shared/bytes.cuh"
typedef T Value;
typedef float Weight;
#define EXTRAPOLATION long long extrapolation
#else
#include "shared/floating.cuh"
typedef Acc Value;
typedef Acc Weight;
#define EXTRAPOLATION Acc extrapolation
#endif

#ifndef PLANES
#define PLANES 1
#endif

#ifdef HAS_SCALES
#define SCALES_PARAMETER const float *__restrict__ scales,
#else
#define SCALES_PARAMETER
#endif
#if COORDINATES == 6
#define REGION_PARAMETER const float *__restrict__ region,
#else
#define REGION_PARAMETER
#endif

__device__ __forceinline__ float place_of(long long i, float scale, long long size,
                                          long long x_size, float from, float to) {
  const float at = float(i);
#if COORDINATES == 0
  return (at + 0.5f) / scale - 0.5f;
#elif COORDINATES == 1
  const float middle = float(x_size) / 2;
  const float begin = middle * (1 - float(size) / (scale * float(x_size)));
  return begin + (at + 0.5f) / scale - 0.5f;
#elif COORDINATES == 2
  return size > 1 ? (at + 0.5f) / scale - 0.5f : 0.0f;
#elif COORDINATES == 3
  return size > 1 ? at * float(x_size - 1) / float(size - 1) : 0.0f;
#elif COORDINATES == 4
  return at / scale;
#elif COORDINATES == 5
  return (at + 0.5f) / scale;
#else
  const float last = float(x_size - 1);
  return size > 1 ? from * last + at * (to - from) * last / float(size - 1)
                  : 0.5f * (from + to) * last;
#endif
}

__device__ __forceinline__ long long nearest_of(float place) {
#if NEAREST == 0
  return (long long)(ceilf(place - 0.5f));
#elif NEAREST == 1
  return (long long)(floorf(place + 0.5f));
#elif NEAREST == 2
  return (long long)(floorf(place));
#else
  return (long long)(ceilf(place));
#endif
}

// Along one axis, offsets in x and weights of what an element is made of.
struct Taps {
  long long offset[TAPS];
  Weight weight[TAPS];
};

#if TAPS > 1
// The weight of a neighbour so far away.
__device__ __forceinline__ Weight weight_of(Weight distance, Weight cubic) {
  const Weight d = fabs(distance);
#if TAPS == 2
  return 1 - d;
#else
  return d <= 1 ? ((cubic + 2) * d - (cubic + 3)) * d * d + 1
                : ((cubic * d - 5 * cubic) * d + 8 * cubic) * d - 4 * cubic;
#endif
}
#endif

__device__ __forceinline__ Taps taps_of(float place, long long size, long long stride,
                                        Weight cubic) {
  Taps taps;
#if TAPS == 1
  taps.offset[0] = nearest(nearest_of(place), size) * stride;
#else
  const float lower = floorf(place);
  const Weight rest = Weight(place) - Weight(lower);
  Weight sum = 0;
#pragma unroll
  for (int t = 0; t < TAPS; ++t) {
    const int away = t + 1 - TAPS / 2;
    const long long at = (long long)(lower) + away;
    taps.offset[t] = nearest(at, size) * stride;
    taps.weight[t] = weight_of(rest - Weight(away), cubic);
#ifdef EXCLUDE_OUTSIDE
    if (at < 0 || at >= size)
      taps.weight[t] = 0;
#endif
    sum += taps.weight[t];
  }
#ifdef EXCLUDE_OUTSIDE
#pragma unroll
  for (int t = 0; t < TAPS; ++t)
    taps.weight[t] /= sum;
#endif
#endif
  return taps;
}

template <int kCount> union Elements { // neighbours
  typename Word<kCount * sizeof(T)>::Type words;
  T element[kCount];
  __device__ Elements() {}
};

// The elements that axes `kAxis` and behind it make.
template <int kAxis, int kCount>
__device__ __forceinline__ void interpolate_from(const T *x, const Taps (&taps)[AXES],
                                                 Value (&made)[kCount]) {
  if constexpr (kAxis == AXES) {
    Elements<kCount> read;
    read.words = *reinterpret_cast<const decltype(read.words) *>(x);
#pragma unroll
    for (int e = 0; e < kCount; ++e)
      made[e] = Value(read.element[e]);
#if TAPS > 1
  } else {
#pragma unroll
    for (int e = 0; e < kCount; ++e)
      made[e] = 0;
#pragma unroll
    for (int t = 0; t < TAPS; ++t)
      if (taps[kAxis].weight[t] != 0) {
        Value inner[kCount];
        interpolate_from<kAxis + 1>(x + taps[kAxis].offset[t], taps, inner);
#pragma unroll
        for (int e = 0; e < kCount; ++e)
          made[e] = fma(taps[kAxis].weight[t], inner[e], made[e]);
      }
#else
  } else {
    interpolate_from<kAxis + 1>(x + taps[kAxis].offset[0], taps, made);
#endif
  }
}

#define PARAMETERS                                                                                 \
  const T *__restrict__ x, SCALES_PARAMETER REGION_PARAMETER T *__restrict__ y,                    \
      EACH(long long size), EACH(long long x_size), EACH(long long stride), float cubic,           \
      EXTRAPOLATION

// kCount elements at a time.
template <int kCount> __device__ __forceinline__ void interpolate_all(PARAMETERS) {
  const long long size[] = {EACH(size)}, x_size[] = {EACH(x_size)}, stride[] = {EACH(stride)};
  const Index step = Index(gridDim.x) * blockDim.x;
  Index plane = 1; // elements
#pragma unroll
  for (int d = 1; d < MAX_RANK; ++d)
    plane *= Index(size[d]);
  const Index planes = Index(size[0]), groups = (planes + PLANES - 1) / PLANES;
  const Index items = groups * plane / kCount;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < items; i += step) {
    Index rest = i * kCount;
    long long base = 0;
    bool is_empty = false, is_outside = false;
    Taps taps[AXES];
    int axis = AXES;
#pragma unroll
    for (int d = MAX_RANK - 1; d >= 0; --d) {
      const Index outer = d > 0 ? rest / Index(size[d]) : 0;
      const long long at = (long long)(d > 0 ? rest - outer * Index(size[d]) : rest * PLANES);
      if (d > 0)
        rest = outer;
      if (!(RESIZED >> d & 1)) {
        base += at * stride[d];
        continue;
      }
      --axis;
#ifdef HAS_SCALES
      const float scale = scales[axis];
#else
      const float scale = float(size[d]) / float(x_size[d]);
#endif
#if COORDINATES == 6
      const float from = region[axis], to = region[AXES + axis];
#else
      const float from = 0, to = 1;
#endif
      const float place = place_of(at, scale, size[d], x_size[d], from, to);
      is_outside = is_outside || place < 0 || place > float(x_size[d] - 1);
      is_empty = is_empty || x_size[d] == 0;
      taps[axis] = taps_of(place, x_size[d], stride[d], Weight(cubic));
    }
    // `rest` is the group of planes.
    const Index first = rest * PLANES;
    const int each = int(planes - first < PLANES ? planes - first : Index(PLANES));
    const T *from = x + base;
    T *to = y + (i * kCount + (first - rest) * plane);
    constexpr int kAtOnce = PLANES > 1 && (TAPS == 1 || (TAPS == 2 && AXES <= 2)) ? 4 : 1;
#pragma unroll kAtOnce
    for (int p = 0; p < each; ++p, from += stride[0], to += plane) {
      Value made[kCount];
      if (is_empty || (COORDINATES == 6 && is_outside))
#pragma unroll
        for (int e = 0; e < kCount; ++e)
          made[e] = is_empty ? Value(0) : Value(extrapolation);
      else
        interpolate_from<0>(from, taps, made);
      Elements<kCount> result;
#pragma unroll
      for (int e = 0; e < kCount; ++e)
        result.element[e] = T(made[e]);
      *reinterpret_cast<decltype(result.words) *>(to) = result.words;
    }
  }
}

extern "C" __global__ void interpolate(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
#ifdef HAS_SCALES
#define SCALES_ARGUMENT scales,
#else
#define SCALES_ARGUMENT
#endif
#if COORDINATES == 6
#define REGION_ARGUMENT region,
#else
#define REGION_ARGUMENT
#endif
#define ARGUMENTS                                                                                  \
  x, SCALES_ARGUMENT REGION_ARGUMENT y, EACH(size), EACH(x_size), EACH(stride), cubic, extrapolation
  if (VECTOR > 1 && are_aligned(x, y))
    interpolate_all<VECTOR>(ARGUMENTS);
  else
    interpolate_all<1>(ARGUMENTS);
}
