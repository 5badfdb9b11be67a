// Two-dimensional pooling over NCHW images.
//
//   x: [planes, height, width]   y: [planes, out_height, out_width]      planes = batch x channels
//
// max_pool2d: a NaN in the window is the result; padding never wins (it counts as minus infinity).
// avg_pool2d: the sum divided by the window's size, with padding counted as zeros where
// count_padding is not 0, else by the number of elements inside the image.
//
// Options: those of floating.cuh and assume.cuh.

#include "assume.cuh"
#include "floating.cuh"
#include "fusion.cuh"
#include "programmatic.cuh"

#define PARAMETERS                                                                                 \
  const T *__restrict__ x, OUT *__restrict__ y, long long planes, long long height,                \
      long long width, long long out_height, long long out_width, long long kernel_h,              \
      long long kernel_w, long long stride_h, long long stride_w, long long pad_h,                 \
      long long pad_w, long long count_padding FUSED_PARAMETERS
#define ARGUMENTS                                                                                  \
  x, y, planes, height, width, out_height, out_width, kernel_h, kernel_w, stride_h, stride_w,      \
      pad_h, pad_w, count_padding FUSED_ARGUMENTS

template <bool kMax> __device__ __forceinline__ void pool(PARAMETERS) {
  __builtin_assume(ASSUME);
  const Index out_plane = Index(out_height) * Index(out_width);
  const Index count = Index(planes) * out_plane, step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index pixel = i % out_plane;
    const long long top = (long long)(pixel / Index(out_width)) * stride_h - pad_h;
    const long long left = (long long)(pixel % Index(out_width)) * stride_w - pad_w;
    const T *in = x + i / out_plane * (Index(height) * Index(width));

    Acc result = kMax ? -Acc(1) / Acc(0) : Acc(0);
    int inside = 0;
    for (int r = 0; r < kernel_h; ++r) {
      const long long row = top + r;
      for (int q = 0; q < kernel_w; ++q) {
        const long long column = left + q;
        if (row < 0 || row >= height || column < 0 || column >= width)
          continue;
        const Acc value = Acc(in[row * width + column]);
        if (kMax)
          result = value > result || value != value ? value : result;
        else
          result += value;
        ++inside;
      }
    }
    if (!kMax)
      result /= Acc(count_padding != 0 ? int(kernel_h * kernel_w) : inside);
    STORE(i, result);
  }
}

extern "C" __global__ void max_pool2d(PARAMETERS) {
  BEGIN_EARLY();
  pool<true>(ARGUMENTS);
}

extern "C" __global__ void avg_pool2d(PARAMETERS) {
  BEGIN_EARLY();
  pool<false>(ARGUMENTS);
}
