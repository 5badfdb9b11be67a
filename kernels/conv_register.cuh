// Convolution in tiles of registers (register_tile.cuh): part of conv2d.cu and conv3d.cu. The right
// matrix has a column for each pixel of all images, in order.
//
// Needs at most 63 taps, and indices of 32 bits.
#pragma once

#include "register_tile.cuh"
#include "vectors.cuh"
#include "volume.cuh"

template <class Tile>
__device__ __forceinline__ void
convolve_in_registers(const T *__restrict__ x, const T *__restrict__ w,
                      BIAS_PARAMETER OUT *__restrict__ y, long long batch, long long channels,
                      SIDES(long long size), long long out_channels, SIDES(long long out),
                      SIDES(long long kernel), SIDES(long long stride), SIDES(long long pad),
                      SIDES(long long dilation), long long groups FUSED_PARAMETERS) {
  const unsigned in_group = unsigned(channels / groups), m = unsigned(out_channels / groups);
  const unsigned plane_taps = unsigned(kernel_h) * unsigned(kernel_w);
  const unsigned taps = unsigned(kernel_d) * plane_taps, k = in_group * taps;
  const int in_plane = int(size_h) * int(size_w), in_volume = int(size_d) * in_plane;
  const unsigned out_plane = unsigned(out_h) * unsigned(out_w);
  const unsigned out_volume = unsigned(out_d) * out_plane, n = unsigned(batch) * out_volume;
  const unsigned across = (n + Tile::kColumns - 1) / Tile::kColumns;
  const unsigned down = (m + Tile::kRows - 1) / Tile::kRows;
  const unsigned first_row = blockIdx.x / across % down * Tile::kRows;
  const unsigned group = blockIdx.x / across / down;
  const unsigned first_column = blockIdx.x % across * Tile::kColumns;

  const unsigned pixel = first_column + Tile::read_column();
  const unsigned image = pixel / out_volume, place = pixel % out_volume;
  const int front = int(place / out_plane) * int(stride_d) - int(pad_d);
  const int top = int(place % out_plane / unsigned(out_w)) * int(stride_h) - int(pad_h);
  const int left = int(place % unsigned(out_w)) * int(stride_w) - int(pad_w);
  const T *in = x + (long long)(image * unsigned(channels) + group * in_group) * in_volume +
                (long long)(front)*in_plane + top * int(size_w) + left;
  unsigned long long inside = 0, tap = 1;
  for (int p = 0; p < kernel_d; ++p)
    for (int r = 0; r < kernel_h; ++r)
      for (int q = 0; q < kernel_w; ++q, tap <<= 1) {
        const int plane = front + p * int(dilation_d), row = top + r * int(dilation_h);
        const int column = left + q * int(dilation_w);
        if (pixel < n && plane >= 0 && plane < size_d && row >= 0 && row < size_h && column >= 0 &&
            column < size_w)
          inside |= tap;
      }

  Acc sum[Tile::kChannels][Tile::kPixels] = {};
  Tile::add(
      w + (unsigned long long)(group * m + first_row) * k, k, m - first_row, in, inside, k,
      [&](unsigned at) {
        const unsigned channel = at / taps, of = at % taps, in_of = of % plane_taps;
        const unsigned r = in_of / unsigned(kernel_w), q = in_of % unsigned(kernel_w);
        return TileRow{int(channel) * in_volume +
                           int(of / plane_taps * unsigned(dilation_d)) * in_plane +
                           int(r * unsigned(dilation_h)) * int(size_w) +
                           int(q * unsigned(dilation_w)),
                       int(at), int(of)};
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
      return ((long long)(of / out_volume) * out_channels + channel) * out_volume +
             of % out_volume;
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
