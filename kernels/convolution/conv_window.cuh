// Parts that conv_register.cuh and conv_slices.cuh share: sizes of a convolution in 32 bits, the
// begin of a pixel's window in x, and the place of a sum's product behind that.
#pragma once

#include "convolution/volume.cuh"

struct ConvolutionSizes {
  unsigned in_group, out_group; // channels
  unsigned taps, k;             // k: products of a sum, in channels x taps
  int in_plane, in_volume;
  unsigned out_plane, out_volume, pixels; // pixels of all images
};

__device__ __forceinline__ ConvolutionSizes sizes_of(CONVOLUTION_PARAMETERS) {
  ConvolutionSizes s;
  s.in_group = unsigned(channels / groups), s.out_group = unsigned(out_channels / groups);
  s.taps = unsigned(kernel_d) * unsigned(kernel_h) * unsigned(kernel_w);
  s.k = s.in_group * s.taps;
  s.in_plane = int(size_h) * int(size_w), s.in_volume = int(size_d) * s.in_plane;
  s.out_plane = unsigned(out_h) * unsigned(out_w), s.out_volume = unsigned(out_d) * s.out_plane;
  s.pixels = unsigned(batch) * s.out_volume;
  return s;
}

// The window of a pixel: its first place along each dimension, which may lie in the padding, and
// that element in the first channel of a group.
struct Window {
  const T *first;
  int front, top, left;
};

__device__ __forceinline__ Window window_of(const ConvolutionSizes &s, unsigned pixel,
                                            unsigned group, CONVOLUTION_PARAMETERS) {
  const unsigned image = pixel / s.out_volume, place = pixel % s.out_volume;
  Window window;
  window.front = int(place / s.out_plane) * int(stride_d) - int(pad_d);
  window.top = int(place % s.out_plane / unsigned(out_w)) * int(stride_h) - int(pad_h);
  window.left = int(place % unsigned(out_w)) * int(stride_w) - int(pad_w);
  window.first = x + (long long)(image * unsigned(channels) + group * s.in_group) * s.in_volume +
                 (long long)(window.front) * s.in_plane + window.top * int(size_w) + window.left;
  return window;
}

// A product of a sum: elements of x behind a window's first, and how far along each dimension.
struct alignas(16) Product {
  int x, p, r, q;
};

__device__ __forceinline__ Product product_of(const ConvolutionSizes &s, unsigned number,
                                              CONVOLUTION_PARAMETERS) {
  const unsigned plane_taps = unsigned(kernel_h) * unsigned(kernel_w);
  const unsigned tap = number % s.taps, in_plane = tap % plane_taps;
  Product product = {0, int(tap / plane_taps) * int(dilation_d),
                     int(in_plane / unsigned(kernel_w)) * int(dilation_h),
                     int(in_plane % unsigned(kernel_w)) * int(dilation_w)};
  product.x = int(number / s.taps) * s.in_volume + product.p * s.in_plane +
              product.r * int(size_w) + product.q;
  return product;
}
