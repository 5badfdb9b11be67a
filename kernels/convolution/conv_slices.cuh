// Convolution where tiles of registers would be few, or cannot be had: part of conv2d.cu and
// conv3d.cu. A block computes eight output channels of 32 pixels; its eight warps are slices of the
// products of a sum, in channels x taps, and what they find is added up at the end.
//
//   warp 0  | 0..3 |      |    | 32..35 |        products of a step of 256, by fours
//   warp 1  |      | 4..7 |    |        |  ..    lanes: neighbouring pixels
//
// A step's weights, and where its products lie, are put into shared memory by all threads first.
//
// Needs indices of 32 bits.
#pragma once

#include "convolution/conv_window.cuh"

// NVRTC 13.5 gives sums of f64 too few registers where it is not told that two blocks a
// multiprocessor are enough.
#ifdef DTYPE_F64
#define SLICES_BOUNDS __launch_bounds__(256, 2)
#else
#define SLICES_BOUNDS __launch_bounds__(256)
#endif

__device__ __forceinline__ void convolve_in_slices(CONVOLUTION_PARAMETERS) {
  constexpr int kChannels = 8, kPixels = 32, kSlices = 8, kStep = 256, kEach = 4;
  __shared__ alignas(16) Acc weights[kChannels][kStep];
  __shared__ Product products[kStep];
  __shared__ Acc partial[kSlices][kChannels][kPixels];
  const int thread = threadIdx.x, lane = thread % kPixels, slice = thread / kPixels;
  const ConvolutionSizes s = sizes_of(CONVOLUTION_ARGUMENTS);
  const unsigned m = s.out_group, n = s.pixels, k = s.k;
  const unsigned across = (n + kPixels - 1) / kPixels, down = (m + kChannels - 1) / kChannels;
  const unsigned first = blockIdx.x / across % down * kChannels;
  const unsigned group = blockIdx.x / across / down;
  const unsigned pixel = blockIdx.x % across * kPixels + lane;
  const Window window = window_of(s, pixel, group, CONVOLUTION_ARGUMENTS);
  w += (unsigned long long)(group * m + first) * k;

  Acc sum[kChannels] = {};
  for (unsigned begin = 0; begin < k; begin += kStep) {
    const unsigned at = begin + thread;
    Product mine = product_of(s, at, CONVOLUTION_ARGUMENTS);
    if (at >= k)
      mine.p = int(size_d) + int(pad_d); // outside, whatever the pixel
    products[thread] = mine;
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      weights[c][thread] = at < k && first + c < m ? Acc(w[c * k + at]) : Acc(0);
    __syncthreads();
    const int steps = int((min(k - begin, unsigned(kStep)) + kEach - 1) / kEach);
    for (int i = slice; i < steps; i += kSlices) {
      Acc value[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const Product product = products[i * kEach + e];
        const bool inside = pixel < n && unsigned(window.front + product.p) < unsigned(size_d) &&
                            unsigned(window.top + product.r) < unsigned(size_h) &&
                            unsigned(window.left + product.q) < unsigned(size_w);
        value[e] = inside ? Acc(window.first[product.x]) : Acc(0);
      }
#pragma unroll
      for (int c = 0; c < kChannels; ++c)
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          sum[c] = fma(weights[c][i * kEach + e], value[e], sum[c]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int c = 0; c < kChannels; ++c)
    partial[slice][c][lane] = sum[c];
  __syncthreads();

  // Warp c adds up channel c.
  const unsigned channel = group * m + first + slice;
  if (first + slice < m && pixel < n) {
    Acc total = BIAS_AT(channel);
#pragma unroll
    for (int i = 0; i < kSlices; ++i)
      total += partial[i][slice][lane];
    STORE(((long long)(pixel / s.out_volume) * out_channels + channel) * s.out_volume +
              pixel % s.out_volume,
          total);
  }
}
