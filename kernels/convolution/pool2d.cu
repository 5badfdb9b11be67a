// Two-dimensional pooling over images.
//
//   x: [planes, height, width, inner]   y: [planes, out_height, out_width, inner]
//
// NCHW: planes = batch x channels, inner = 1. NHWC: planes = batch, inner = channels; with
// CHANNEL_RANGE pixels of x have `pitch` channels, of which these are from `first_channel` on.
//
// A window's elements lie dilation_h rows and dilation_w columns apart. Windows may reach beyond
// the padding (where y's size was rounded up): what lies there counts for nothing.
//
// max_pool2d: a NaN in the window is the result; padding never wins. avg_pool2d, of floats: the sum
// divided by the number of the window's elements inside the image or, where count_padding is not 0,
// inside the image with its padding, which ends before row end_h and column end_w.
//
// Options: CHANNEL_RANGE; those of number.cuh, fusion.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/fusion.cuh"
#include "shared/number.cuh"
#include "shared/programmatic.cuh"

#ifdef CHANNEL_RANGE
#define RANGE_PARAMETERS , long long pitch, long long first_channel
#define RANGE_ARGUMENTS , pitch, first_channel
#define PITCH pitch
#define FIRST_CHANNEL first_channel
#else
#define RANGE_PARAMETERS
#define RANGE_ARGUMENTS
#define PITCH inner
#define FIRST_CHANNEL 0
#endif

#define PARAMETERS                                                                                 \
  const T *__restrict__ x, OUT *__restrict__ y, long long planes, long long height,                \
      long long width, long long inner, long long out_height, long long out_width,                 \
      long long kernel_h, long long kernel_w, long long stride_h, long long stride_w,              \
      long long pad_h, long long pad_w, long long dilation_h, long long dilation_w,                \
      long long end_h, long long end_w, long long count_padding RANGE_PARAMETERS FUSED_PARAMETERS
#define ARGUMENTS                                                                                  \
  x, y, planes, height, width, inner, out_height, out_width, kernel_h, kernel_w, stride_h,         \
      stride_w, pad_h, pad_w, dilation_h, dilation_w, end_h, end_w,                                \
      count_padding RANGE_ARGUMENTS FUSED_ARGUMENTS

template <bool kMax> __device__ __forceinline__ void pool(PARAMETERS) {
  __builtin_assume(ASSUME);
  const Index within = Index(inner), row_elements = Index(out_width) * within;
  const Index out_plane = Index(out_height) * row_elements;
  const Index count = Index(planes) * out_plane, step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index place = i % out_plane;
    const long long top = (long long)(place / row_elements) * stride_h - pad_h;
    const long long left = (long long)(place % row_elements / within) * stride_w - pad_w;
    const T *in = x + i / out_plane * (Index(height) * Index(width) * Index(PITCH)) +
                  FIRST_CHANNEL + place % within;

    Acc result = kMax ? lowest() : Acc(0);
    int counted = 0;
    for (int r = 0; r < kernel_h; ++r) {
      const long long row = top + r * dilation_h;
      for (int q = 0; q < kernel_w; ++q) {
        const long long column = left + q * dilation_w;
        if (row < 0 || row >= height || column < 0 || column >= width) {
          counted += count_padding != 0 && row < end_h && column < end_w;
          continue;
        }
        const Acc value = Acc(in[(row * width + column) * PITCH]);
        if (kMax)
          result = value > result || value != value ? value : result;
        else
          result += value;
        ++counted;
      }
    }
    STORE(i, kMax ? result : result / Acc(counted));
  }
}

extern "C" __global__ void max_pool2d(PARAMETERS) {
  BEGIN_EARLY();
  pool<true>(ARGUMENTS);
}

#ifndef INTEGER
extern "C" __global__ void avg_pool2d(PARAMETERS) {
  BEGIN_EARLY();
  pool<false>(ARGUMENTS);
}
#endif
