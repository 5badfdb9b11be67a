// Convolution in tiles of registers (register_tile.cuh): part of conv2d.cu and conv3d.cu. The right
// matrix has a column for each pixel of all images, in order.
//
// Needs at most 63 taps, and indices of 32 bits.
#pragma once

#include "convolution/conv_window.cuh"
#include "convolution/register_tile.cuh"
#include "shared/vectors.cuh"

template <class Tile>
__device__ __forceinline__ void convolve_in_registers(CONVOLUTION_PARAMETERS) {
  const ConvolutionSizes s = sizes_of(CONVOLUTION_ARGUMENTS);
  const unsigned m = s.out_group, n = s.pixels, out_volume = s.out_volume;
  const unsigned across = (n + Tile::kColumns - 1) / Tile::kColumns;
  const unsigned down = (m + Tile::kRows - 1) / Tile::kRows;
  const unsigned first_row = blockIdx.x / across % down * Tile::kRows;
  const unsigned group = blockIdx.x / across / down;
  const unsigned first_column = blockIdx.x % across * Tile::kColumns;

  const unsigned pixel = first_column + Tile::read_column();
  const Window window = window_of(s, pixel, group, CONVOLUTION_ARGUMENTS);
  unsigned long long inside = 0, tap = 1;
  for (int p = 0; p < kernel_d; ++p)
    for (int r = 0; r < kernel_h; ++r)
      for (int q = 0; q < kernel_w; ++q, tap <<= 1) {
        const int plane = window.front + p * int(dilation_d),
                  row = window.top + r * int(dilation_h);
        const int column = window.left + q * int(dilation_w);
        if (pixel < n && plane >= 0 && plane < size_d && row >= 0 && row < size_h && column >= 0 &&
            column < size_w)
          inside |= tap;
      }

  Acc sum[Tile::kChannels][Tile::kPixels] = {};
  Tile::add(
      w + (unsigned long long)(group * m + first_row) * s.k, s.k, m - first_row, window.first,
      inside, s.k,
      [&](unsigned at) {
        return TileRow{product_of(s, at, CONVOLUTION_ARGUMENTS).x, int(at), int(at % s.taps)};
      },
      sum);

  // Runs of pixels lie in one image where an image has a multiple of their number.
  const bool whole = out_volume % Tile::kPixels == 0 && Run<Tile::kPixels, OUT>::is_aligned(y);
#pragma unroll
  for (int r = 0; r < Tile::kChannels; ++r) {
    if (first_row + Tile::row() + r >= m)
      continue;
    const unsigned channel = group * m + first_row + Tile::row() + r;
    const unsigned column = first_column + Tile::column();
    const Acc more = BIAS_AT(channel);
    auto index = [&](unsigned of) {
      return ((long long)(of / out_volume) * out_channels + channel) * out_volume + of % out_volume;
    };
    if (whole && column < n) {
      const long long first = index(column);
      Run<Tile::kPixels, OUT> run;
#pragma unroll
      for (int q = 0; q < Tile::kPixels; ++q)
        run.element[q] = RESULT(first + q, sum[r][q] + more);
      run.store(y + first, true);
    } else {
#pragma unroll
      for (int q = 0; q < Tile::kPixels; ++q)
        if (column + q < n)
          STORE(index(column + q), sum[r][q] + more);
    }
  }
}
