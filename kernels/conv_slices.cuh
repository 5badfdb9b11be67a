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

#include "volume.cuh"

// A product of a sum: where it lies in x, from a pixel's place on, and which tap it is of.
struct alignas(16) SliceProduct {
  int x, p, r, q;
};

__device__ __forceinline__ void
convolve_in_slices(const T *__restrict__ x, const T *__restrict__ w,
                   BIAS_PARAMETER OUT *__restrict__ y, long long batch, long long channels,
                   SIDES(long long size), long long out_channels, SIDES(long long out),
                   SIDES(long long kernel), SIDES(long long stride), SIDES(long long pad),
                   SIDES(long long dilation), long long groups FUSED_PARAMETERS) {
  constexpr int kChannels = 8, kPixels = 32, kSlices = 8, kStep = 256, kEach = 4;
  __shared__ alignas(16) Acc weights[kChannels][kStep];
  __shared__ SliceProduct products[kStep];
  __shared__ Acc partial[kSlices][kChannels][kPixels];
  const int thread = threadIdx.x, lane = thread % kPixels, slice = thread / kPixels;
  const unsigned in_group = unsigned(channels / groups), m = unsigned(out_channels / groups);
  const unsigned plane_taps = unsigned(kernel_h) * unsigned(kernel_w);
  const unsigned taps = unsigned(kernel_d) * plane_taps, k = in_group * taps;
  const int in_plane = int(size_h) * int(size_w), in_volume = int(size_d) * in_plane;
  const unsigned out_plane = unsigned(out_h) * unsigned(out_w);
  const unsigned out_volume = unsigned(out_d) * out_plane, n = unsigned(batch) * out_volume;
  const unsigned across = (n + kPixels - 1) / kPixels, down = (m + kChannels - 1) / kChannels;
  const unsigned first = blockIdx.x / across % down * kChannels;
  const unsigned group = blockIdx.x / across / down;

  const unsigned pixel = blockIdx.x % across * kPixels + lane;
  const unsigned image = pixel / out_volume, place = pixel % out_volume;
  const int front = int(place / out_plane) * int(stride_d) - int(pad_d);
  const int top = int(place % out_plane / unsigned(out_w)) * int(stride_h) - int(pad_h);
  const int left = int(place % unsigned(out_w)) * int(stride_w) - int(pad_w);
  const T *in = x + (long long)(image * unsigned(channels) + group * in_group) * in_volume +
                (long long)(front)*in_plane + top * int(size_w) + left;
  w += (unsigned long long)(group * m + first) * k;

  Acc sum[kChannels] = {};
  for (unsigned begin = 0; begin < k; begin += kStep) {
    const unsigned at = begin + thread, of = at % taps, in_of = of % plane_taps;
    SliceProduct mine = {0, int(of / plane_taps) * int(dilation_d),
                         int(in_of / unsigned(kernel_w)) * int(dilation_h),
                         int(in_of % unsigned(kernel_w)) * int(dilation_w)};
    mine.x = int(at / taps) * in_volume + mine.p * in_plane + mine.r * int(size_w) + mine.q;
    if (at >= k)
      mine.p = int(size_d) + int(pad_d); // outside, whatever the pixel
    products[thread] = mine;
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      weights[c][thread] = at < k && first + c < m ? Acc(w[c * k + at]) : Acc(0);
    __syncthreads();
    const int steps = int((min(k - begin, unsigned(kStep)) + kEach - 1) / kEach);
    for (int s = slice; s < steps; s += kSlices) {
      Acc value[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const SliceProduct product = products[s * kEach + e];
        const bool inside = pixel < n && unsigned(front + product.p) < unsigned(size_d) &&
                            unsigned(top + product.r) < unsigned(size_h) &&
                            unsigned(left + product.q) < unsigned(size_w);
        value[e] = inside ? Acc(in[product.x]) : Acc(0);
      }
#pragma unroll
      for (int c = 0; c < kChannels; ++c)
#pragma unroll
        for (int e = 0; e < kEach; ++e)
          sum[c] = fma(weights[c][s * kEach + e], value[e], sum[c]);
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
    for (int s = 0; s < kSlices; ++s)
      total += partial[s][slice][lane];
    STORE(((long long)(image)*out_channels + channel) * out_volume + place, total);
  }
}
