// Where the largest element of each window of a pool stands: the first one, among all elements of x
// [planes, depth, height, width], or with COLUMNS_FIRST within its plane the first dimension
// fastest.
//
//   WIDE       x is f64; else f32
//   KERNEL     numbers of three dimensions, as STRIDES, DILATION and BEFORE (the padding)
//
// Options: those.
//
// Without a bench: no op becomes it: the importer of ONNX files declares it; a thread a window.

#include "shared/options.cuh"

typedef Chosen<IS_SET(WIDE), double, float>::type T;

extern "C" __global__ void pool_positions(const T *__restrict__ x, long long *__restrict__ y,
                                          long long depth, long long height, long long width,
                                          long long y_depth, long long y_height, long long y_width,
                                          long long count) {
  const long long i = (long long)(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count)
    return;
  constexpr long long kKernel[] = {KERNEL}, kStrides[] = {STRIDES}, kDilation[] = {DILATION},
                      kBefore[] = {BEFORE};
  const long long plane = i / y_width / y_height / y_depth;
  const long long d0 = i / y_width / y_height % y_depth * kStrides[0] - kBefore[0],
                  h0 = i / y_width % y_height * kStrides[1] - kBefore[1],
                  w0 = i % y_width * kStrides[2] - kBefore[2];
  x += plane * depth * height * width;
  long long best = -1;
  T largest = 0;
  for (long long a = 0; a < kKernel[0]; ++a)
    for (long long b = 0; b < kKernel[1]; ++b)
      for (long long c = 0; c < kKernel[2]; ++c) {
        const long long d = d0 + a * kDilation[0], h = h0 + b * kDilation[1],
                        w = w0 + c * kDilation[2];
        if (d < 0 || d >= depth || h < 0 || h >= height || w < 0 || w >= width)
          continue;
        const T value = x[(d * height + h) * width + w];
        if (best >= 0 && !(value > largest))
          continue;
        largest = value;
        best = IS_SET(COLUMNS_FIRST) ? (w * height + h) * depth + d : (d * height + h) * width + w;
      }
  y[i] = plane * depth * height * width + best;
}
