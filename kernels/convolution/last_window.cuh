// A convolution with channels last, one element of y: for whatever no tile takes.
#pragma once

#include "convolution/last_depth.cuh"
#include "convolution/operands.cuh"
#include "shared/assume.cuh"

// Adds the products of the element's window of x and its channel's filter to `sum`; gives the
// channel. i: the element's place in y.
__device__ __forceinline__ Index
add_window(Sum &sum, const X *__restrict__ x, const W *__restrict__ w, Index i,
           DEPTH_PARAMETERS long long channels, RANGE_PARAMETERS long long height, long long width,
           long long out_channels, long long out_height, long long out_width, long long kernel_h,
           long long kernel_w, long long stride_h, long long stride_w, long long pad_h,
           long long pad_w, long long dilation_h, long long dilation_w, long long groups) {
  const Index out_plane = Index(out_height) * Index(out_width);
  const Index in_group = Index(channels / groups), out_group = Index(out_channels / groups);
  const Index channel = i % Index(out_channels), pixel = i / Index(out_channels) % out_plane;
  const Index plane = i / Index(out_channels) / out_plane % Index(out_depth);
  const Index image = i / Index(out_channels) / out_plane / Index(out_depth);
  const long long front = (long long)(plane)*stride_d - pad_d;
  const long long top = (long long)(pixel / Index(out_width)) * stride_h - pad_h;
  const long long left = (long long)(pixel % Index(out_width)) * stride_w - pad_w;
  const Index in_plane = Index(depth) * Index(height) * Index(width);
  const X *in = x + image * (in_plane * Index(planes) * Index(PITCH)) + FIRST_CHANNEL +
                channel / out_group * in_group;
  const W *filter = w + channel * (Index(kernel_d) * Index(kernel_h) * Index(kernel_w) * in_group);
  for (int p = 0; p < kernel_d; ++p) {
    const long long within = front + p * dilation_d;
    for (int r = 0; r < kernel_h; ++r) {
      const long long row = top + r * dilation_h;
      for (int q = 0; q < kernel_w; ++q) {
        const long long column = left + q * dilation_w;
        if (within < 0 || within >= depth || row < 0 || row >= height || column < 0 ||
            column >= width)
          continue;
        const X *in_tap = in + ((within * height + row) * width + column) * PITCH;
        const W *filter_tap = filter + ((p * kernel_h + r) * kernel_w + q) * (long long)(in_group);
#ifdef X_SECOND
        for (Index c = 0; c < Index(planes); ++c)
          sum.add(in_tap[c * in_plane], filter_tap[c]);
#else
        for (Index c = 0; c < in_group; ++c)
          sum.add(in_tap[c], filter_tap[c]);
#endif
      }
    }
  }
  return channel;
}
