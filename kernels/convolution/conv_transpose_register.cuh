// Transposed convolution in tiles of registers (register_tile.cuh): part of conv_transpose.cu.
//
// Along a dimension, element o of y is given to by those taps whose reach, tap times dilation, is
// o + pad modulo the stride: elements of y whose remainders are the same, a phase, have their taps
// in common. A block computes pixels of one phase; the phase's taps are its rows of k, so that
// nothing is multiplied for taps that give to others.
//
//   stride 2, 4 taps     o + pad:  0 1 2 3 4 5 ..      phase 0: taps 0 and 2
//                        phase:    0 1 0 1 0 1         phase 1: taps 1 and 3
//
// Needs at most 63 taps, and indices of 32 bits.
#pragma once

#include "convolution/register_tile.cuh"
#include "convolution/volume.cuh"

// A phase along one dimension: its elements of y are first, first + stride, ..
struct Phase {
  int remainder, first, count;
};

__device__ __forceinline__ Phase phase_of(unsigned number, long long stride, long long pad,
                                          long long out) {
  const int s = int(stride), first = int(((int(number) - int(pad)) % s + s) % s);
  return {int(number), first, first < int(out) ? (int(out) - first + s - 1) / s : 0};
}

template <class Tile>
__device__ __forceinline__ void transpose_convolve_in_registers(CONVOLUTION_PARAMETERS) {
  __shared__ int phase_taps[kNoTap], phase_tap_count;
  const unsigned in_group = unsigned(channels / groups), m = unsigned(out_channels / groups);
  const unsigned taps = unsigned(kernel_d) * unsigned(kernel_h) * unsigned(kernel_w);
  const int in_plane = int(size_h) * int(size_w), in_volume = int(size_d) * in_plane;
  // The largest phase is the first one's size or less along each dimension.
  const unsigned most = unsigned((out_d + stride_d - 1) / stride_d) *
                        unsigned((out_h + stride_h - 1) / stride_h) *
                        unsigned((out_w + stride_w - 1) / stride_w) * unsigned(batch);
  const unsigned across = (most + Tile::kColumns - 1) / Tile::kColumns;
  const unsigned down = (m + Tile::kRows - 1) / Tile::kRows;
  const unsigned first_column = blockIdx.x % across * Tile::kColumns;
  const unsigned first_row = blockIdx.x / across % down * Tile::kRows;
  const unsigned phases = unsigned(stride_d) * unsigned(stride_h) * unsigned(stride_w);
  const unsigned number = blockIdx.x / across / down % phases;
  const unsigned group = blockIdx.x / across / down / phases;
  const Phase d =
      phase_of(number / unsigned(stride_w) / unsigned(stride_h), stride_d, pad_d, out_d);
  const Phase h =
      phase_of(number / unsigned(stride_w) % unsigned(stride_h), stride_h, pad_h, out_h);
  const Phase v = phase_of(number % unsigned(stride_w), stride_w, pad_w, out_w);
  const unsigned volume = unsigned(d.count) * unsigned(h.count) * unsigned(v.count);
  const unsigned n = unsigned(batch) * volume;
  if (first_column >= n)
    return; // the whole block

  // Tap number t along each dimension, and the element of x that it takes from for the phase's
  // first element of y; that moves on by one with each further element.
  auto giver = [](const Phase &of, int t, long long dilation, long long stride, long long pad) {
    return (of.first + int(pad) - t * int(dilation)) / int(stride);
  };
  auto gives = [](const Phase &of, int t, long long dilation, long long stride) {
    return t * int(dilation) % int(stride) == of.remainder;
  };
  if (threadIdx.x == 0) {
    int count = 0, tap = 0;
    for (int p = 0; p < kernel_d; ++p)
      for (int r = 0; r < kernel_h; ++r)
        for (int q = 0; q < kernel_w; ++q, ++tap)
          if (gives(d, p, dilation_d, stride_d) && gives(h, r, dilation_h, stride_h) &&
              gives(v, q, dilation_w, stride_w))
            phase_taps[count++] = tap;
    phase_tap_count = count;
  }

  // Where pixel `of` of the phase lies among its image's: in steps of the strides.
  auto place = [&](unsigned of, int &plane, int &row, int &column) {
    const unsigned in_image = of % volume;
    column = int(in_image % unsigned(v.count));
    row = int(in_image / unsigned(v.count) % unsigned(h.count));
    plane = int(in_image / unsigned(v.count) / unsigned(h.count));
  };
  const unsigned pixel = first_column + Tile::read_column();
  int plane, row, column;
  place(pixel, plane, row, column);
  const T *in = x +
                (long long)(pixel / volume * unsigned(channels) + group * in_group) * in_volume +
                plane * in_plane + row * int(size_w) + column;
  unsigned long long inside = 0, bit = 1;
  for (int p = 0; p < kernel_d; ++p)
    for (int r = 0; r < kernel_h; ++r)
      for (int q = 0; q < kernel_w; ++q, bit <<= 1) {
        const int a = plane + giver(d, p, dilation_d, stride_d, pad_d);
        const int b = row + giver(h, r, dilation_h, stride_h, pad_h);
        const int c = column + giver(v, q, dilation_w, stride_w, pad_w);
        if (pixel < n && a >= 0 && a < size_d && b >= 0 && b < size_h && c >= 0 && c < size_w)
          inside |= bit;
      }
  __syncthreads();
  const unsigned each = unsigned(phase_tap_count);

  Acc sum[Tile::kChannels][Tile::kPixels] = {};
  Tile::add(
      w + (unsigned long long)(group * in_group * m + first_row) * taps, taps, m - first_row, in,
      inside, in_group * each,
      [&](unsigned at) {
        const unsigned channel = at / each, tap = unsigned(phase_taps[at % each]);
        const int p = int(tap / unsigned(kernel_w) / unsigned(kernel_h));
        const int r = int(tap / unsigned(kernel_w) % unsigned(kernel_h));
        const int q = int(tap % unsigned(kernel_w));
        return TileRow{int(channel) * in_volume +
                           giver(d, p, dilation_d, stride_d, pad_d) * in_plane +
                           giver(h, r, dilation_h, stride_h, pad_h) * int(size_w) +
                           giver(v, q, dilation_w, stride_w, pad_w),
                       int(channel * m * taps + tap), int(tap)};
      },
      sum);

#pragma unroll
  for (int q = 0; q < Tile::kPixels; ++q) {
    const unsigned of = first_column + Tile::column() + q;
    if (of >= n)
      continue;
    place(of, plane, row, column);
    const long long in_image =
        ((d.first + plane * stride_d) * out_h + h.first + row * stride_h) * out_w + v.first +
        column * stride_w;
#pragma unroll
    for (int r = 0; r < Tile::kChannels; ++r) {
      if (first_row + Tile::row() + r >= m)
        continue;
      const unsigned channel = group * m + first_row + Tile::row() + r;
      STORE(((long long)(of / volume) * out_channels + channel) * out_d * out_h * out_w + in_image,
            sum[r][q] + BIAS_AT(channel));
    }
  }
}
