// Depthwise convolution, a channel of x a group: part of conv2d.cu. A thread computes kHigh
// elements below one another. Of each row of x that their windows meet it reads KERNEL_W elements,
// once for all windows; threads of a warp stand side by side along rows.
//
//      x                  y          stride 1, 3 x 3: six rows of three elements are read for four
//   | a a a |
//   | b b b |  a b c  ->  | 0 |      results, where each by itself would read nine
//   | c c c |  b c d  ->  | 1 |
//   | d d d |  c d e  ->  | 2 |
//   | e e e |  d e f  ->  | 3 |
//   | f f f |
//
// Taps are added in the order of w, as in the direct form. Options: KERNEL_H, KERNEL_W, STRIDE_H
// and DILATION_H, the parameters of these names.
#pragma once

__device__ __forceinline__ void convolve_depthwise(PARAMETERS) {
  constexpr int kHigh = 4, kRows = (kHigh - 1) * STRIDE_H + (KERNEL_H - 1) * DILATION_H + 1;
  const Index strips = (Index(out_height) + kHigh - 1) / kHigh, out_group = out_channels / groups;
  const Index in_plane = Index(height) * Index(width);
  const Index out_plane = Index(out_height) * Index(out_width);
  const Index count = Index(batch) * Index(out_channels) * strips * Index(out_width);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index column = i % Index(out_width), above = i / Index(out_width) % strips * kHigh;
    const Index plane = i / Index(out_width) / strips; // of y
    const Index channel = plane % Index(out_channels), image = plane / Index(out_channels);
    const int top = int(above) * int(stride_h) - int(pad_h);
    const int left = int(column) * int(stride_w) - int(pad_w);
    const T *in = x + (image * Index(channels) + channel / out_group) * in_plane;
    const T *filter = w + channel * (KERNEL_H * KERNEL_W);

    Acc tap[KERNEL_H][KERNEL_W], sum[kHigh];
#pragma unroll
    for (int r = 0; r < KERNEL_H; ++r)
#pragma unroll
      for (int q = 0; q < KERNEL_W; ++q)
        tap[r][q] = Acc(filter[r * KERNEL_W + q]);
#pragma unroll
    for (int o = 0; o < kHigh; ++o)
      sum[o] = BIAS_AT(channel);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = top + r;
      Acc value[KERNEL_W];
#pragma unroll
      for (int q = 0; q < KERNEL_W; ++q) {
        const int at = left + q * int(dilation_w);
        const bool inside = row >= 0 && row < int(height) && at >= 0 && at < int(width);
        value[q] = inside ? Acc(in[(long long)(row)*width + at]) : Acc(0);
      }
#pragma unroll
      for (int o = 0; o < kHigh; ++o) {
        constexpr int kApart = DILATION_H;
        const int behind = r - o * STRIDE_H; // the first row of o's window
        if (behind >= 0 && behind % kApart == 0 && behind / kApart < KERNEL_H)
#pragma unroll
          for (int q = 0; q < KERNEL_W; ++q)
            sum[o] = fma(value[q], tap[behind / kApart][q], sum[o]);
      }
    }
    const Index first = plane * out_plane + above * Index(out_width) + column;
#pragma unroll
    for (int o = 0; o < kHigh; ++o)
      if (above + o < Index(out_height))
        STORE(first + o * Index(out_width), sum[o]);
  }
}
