// Convolution of bytes on tensor cores, as the product of two matrices of which the right one is
// never stored (conv2d_mma.cuh): part of conv3d.cu. A block computes 64 channels of a group for 128
// pixels of all images; each thread gathers the bytes of its pixel. Taps in the padding have the
// zero point, so that what zero points take away is the same for all pixels:
//   sum (w - q)(x - p) = sum w x - p sum w - q sum x + k p q
//
// Needs at most 63 taps, and indices of 32 bits.
#pragma once

#include "shared/byte_tile.cuh"

#if __CUDA_ARCH__ >= 800

constexpr int kNoTap = 63; // never inside: the taps that there are have smaller numbers

// A product of a sum: its place in x behind the window's first; its tap, and 64 times the byte that
// stands for it where the tap lies in the padding.
typedef int2 ByteProduct;

// What a thread has of the tile of x: a pixel's bytes of a step. Where they lie is a table of one
// step in shared memory; the next one is written while one is read.
template <class Tile, class ProductOf> struct GatheredPixel {
  static_assert(Tile::kColumns == Tile::kThreads, "a thread a pixel");
  ByteProduct (*table)[Tile::kDepth];
  ProductOf product_of;
  const X *first;
  unsigned long long inside; // bit t: tap t
  unsigned word[Tile::kWords];

  __device__ __forceinline__ void write_table(int step) {
    if (Tile::thread() < Tile::kDepth)
      table[step % 2][Tile::thread()] = product_of(unsigned(step) * Tile::kDepth + Tile::thread());
  }
  __device__ __forceinline__ void read(long long begin) {
    const int step = int(begin / Tile::kDepth);
    constexpr int kAtOnce = 16;
#pragma unroll
    for (int begin = 0; begin < Tile::kDepth; begin += kAtOnce) {
      int byte[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const ByteProduct product = table[step % 2][begin + i];
        byte[i] = product.y >> 6;
        if (inside >> (product.y & 63) & 1)
          byte[i] = first[product.x];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; i += 4) {
        const unsigned low = __byte_perm(byte[i], byte[i + 1], 0x0040);
        const unsigned high = __byte_perm(byte[i + 2], byte[i + 3], 0x0040);
        word[(begin + i) / 4] = __byte_perm(low, high, 0x5410);
      }
    }
    write_table(step + 1); // its place was read before the last barrier
  }
  template <class Store> __device__ __forceinline__ void words(Store store) const {
#pragma unroll
    for (int i = 0; i < Tile::kWords; ++i)
      store(Tile::thread(), i, word[i]);
  }
};

extern "C" __global__ void __launch_bounds__(128) conv_integer_mma(DIRECT_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kHigh = 2, kWide = 8;
  typedef ByteTile<W, X, kHigh, kWide> Tile;
  __shared__ alignas(16) unsigned char stages[2 * Tile::kStage];
  __shared__ ByteProduct table[2][Tile::kDepth];
  __shared__ int row_sums[Tile::kRows], column_sums[Tile::kColumns];
  for (int i = Tile::thread(); i < Tile::kRows; i += Tile::kThreads)
    row_sums[i] = 0;
  column_sums[Tile::thread()] = 0;

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
  w += (unsigned long long)(group * m + first_row) * k;

  const unsigned pixel = first_column + Tile::thread();
  const unsigned image = pixel / out_volume, place = pixel % out_volume;
  const int front = int(place / out_plane) * int(stride_d) - int(pad_d);
  const int top = int(place % out_plane / unsigned(out_w)) * int(stride_h) - int(pad_h);
  const int left = int(place % unsigned(out_w)) * int(stride_w) - int(pad_w);
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
  auto product_of = [&](unsigned at) {
    const unsigned number = at % taps, in_tap_plane = number % plane_taps;
    const int p = int(number / plane_taps) * int(dilation_d);
    const int r = int(in_tap_plane / unsigned(kernel_w)) * int(dilation_h);
    const int q = int(in_tap_plane % unsigned(kernel_w)) * int(dilation_w);
    const int x_place = int(at / taps) * in_volume + p * in_plane + r * int(size_w) + q;
    return at < k ? ByteProduct{x_place, int(number) | X_ZERO * 64} : ByteProduct{0, kNoTap};
  };
  GatheredPixel<Tile, decltype(product_of)> right{
      table, product_of,
      x + (long long)(image * unsigned(channels) + group * in_group) * in_volume +
          (long long)(front)*in_plane + top * int(size_w) + left,
      inside};
  right.write_table(0);
  __syncthreads();

  int sum[kHigh][kWide][4] = {};
  const bool aligned = k % 16 == 0 && (unsigned long long)(w) % 16 == 0;
  Tile::template add<kHasXZero, kHasWZero>(
      k,
      [&](int j, long long at, unsigned(&word)[4]) {
        const unsigned row = Tile::left_row(j);
        const W *from = w + (unsigned long long)(row)*k + at;
        const int there = first_row + row < m ? int(k) - int(at) : 0;
        if (aligned)
          read_bytes<16, true>(from, there, word);
        else
          read_bytes<16, false>(from, there, word);
      },
      right, stages, sum, row_sums, column_sums);
  __syncthreads();
  Tile::each_sum(sum, stages, [&](int r, int c, int products) {
    const unsigned column = first_column + c, row = first_row + r;
    if (column >= n || row >= m)
      return;
    const unsigned channel = column / out_volume * unsigned(out_channels) + group * m + row;
    unsigned value = unsigned(products); // sums wrap
    const unsigned p = unsigned(X_ZERO), z = unsigned(W_ZERO(group * m + row));
    if (kHasXZero)
      value -= p * unsigned(row_sums[r]);
    if (kHasWZero)
      value -= z * unsigned(column_sums[c]);
    STORE(Index(channel) * out_volume + column % out_volume, int(value + k * p * z));
  });
}

#endif
