// Convolution as the product of two matrices of which the right one is never stored (implicit GEMM),
// summed in registers: for what tensor cores do not take, f32 above all. Part of conv2d.cu.
//
//                       k = in channels x taps       pixels of all images
//                      +------------------+         +--------+
//   out channels       |        w         |       k |   x    |   row k of a pixel's column: the
//   element of a group         +------------------+         +--------+   of x that tap meets, or 0
//   in the padding
//
// A block computes kDown x kHigh channels of kAcross x kWide pixels, a step taking kDepth of k; a
// thread kHigh x kWide of them. While it multiplies a step, what it reads for the next one is on its
// way into registers: elements of w, and elements of x for one pixel. Where a row of k lies in x,
// relative to the pixel's first tap, and which tap it is, is the same for all threads: a table of
// one step in shared memory, written two steps ahead. Which taps lie inside of the image is a mask
// that each thread keeps.
//
// Needs at most 63 taps, and indices of 32 bits.
#pragma once

#include "vectors.cuh"

template <int kHigh, int kWide, int kDown, int kAcross>
__device__ __forceinline__ void convolve_in_registers(PARAMETERS) {
  __builtin_assume(ASSUME);
  constexpr int kDepth = 16, kRows = kDown * kHigh, kColumns = kAcross * kWide;
  constexpr int kThreads = kDown * kAcross, kNoTap = 63; // no tap is inside with that number
  constexpr int kPitch = kRows + 4;                      // of w's tile, off a single bank
  constexpr int kWeights = kRows * kDepth / kThreads, kInputs = kColumns * kDepth / kThreads;
  static_assert(kThreads % kColumns == 0 && kThreads % kDepth == 0, "a thread reads for one pixel");
  __shared__ alignas(16) Acc w_tile[2][kDepth][kPitch];
  __shared__ alignas(16) Acc x_tile[2][kDepth][kColumns];
  __shared__ uint2 table[2][kDepth]; // {offset in x, tap} of each row of a step
  const int thread = threadIdx.x;

  const unsigned in_group = unsigned(channels / groups), m = unsigned(out_channels / groups);
  const unsigned taps = unsigned(kernel_h) * unsigned(kernel_w), k = in_group * taps;
  const unsigned in_plane = unsigned(height) * unsigned(width);
  const unsigned out_plane = unsigned(out_height) * unsigned(out_width);
  const unsigned n = unsigned(batch) * out_plane;
  const unsigned across = (n + kColumns - 1) / kColumns, down = (m + kRows - 1) / kRows;
  const unsigned first_row = blockIdx.x / across % down * kRows, group = blockIdx.x / across / down;
  const unsigned first_column = blockIdx.x % across * kColumns;
  const int steps = int((k + kDepth - 1) / kDepth);
  w += (unsigned long long)(group)*m * k;

  // The pixel that this thread reads for.
  const unsigned pixel = first_column + thread % kColumns;
  const unsigned image = pixel / out_plane, place = pixel % out_plane;
  const int top = int(place / unsigned(out_width)) * int(stride_h) - int(pad_h);
  const int left = int(place % unsigned(out_width)) * int(stride_w) - int(pad_w);
  const T *in =
      x + ((unsigned long long)(image)*channels + (unsigned long long)(group)*in_group) * in_plane +
      (long long)(top)*width + left;
  unsigned long long inside = 0;
  if (pixel < n)
    for (unsigned r = 0; r < unsigned(kernel_h); ++r)
      for (unsigned q = 0; q < unsigned(kernel_w); ++q) {
        const int row = top + int(r * unsigned(dilation_h)),
                  column = left + int(q * unsigned(dilation_w));
        if (row >= 0 && row < int(height) && column >= 0 && column < int(width))
          inside |= 1ull << (r * unsigned(kernel_w) + q);
      }

  auto write_table = [&](int step) {
    if (thread < kDepth) {
      const unsigned at = unsigned(step) * kDepth + thread, channel = at / taps, tap = at % taps;
      const unsigned r = tap / unsigned(kernel_w), q = tap % unsigned(kernel_w);
      table[step % 2][thread] =
          at < k ? make_uint2(channel * in_plane + r * unsigned(dilation_h) * unsigned(width) +
                                  q * unsigned(dilation_w),
                              tap)
                 : make_uint2(0, kNoTap);
    }
  };
  // The weights that this thread reads: of one row of k a step, of every kApart-th channel.
  constexpr int kApart = kThreads / kDepth;
  unsigned from = (first_row + thread / kDepth) * k + thread % kDepth;
  unsigned has = 0; // bit i: channel i of this thread's is there
#pragma unroll
  for (int i = 0; i < kWeights; ++i)
    has |= unsigned(first_row + thread / kDepth + i * kApart < m) << i;
  Acc weights[kWeights], inputs[kInputs];
  auto read = [&](int step) {
    const unsigned there = unsigned(step) * kDepth + thread % kDepth < k ? has : 0;
#pragma unroll
    for (int i = 0; i < kWeights; ++i)
      weights[i] = there >> i & 1 ? Acc(w[from + i * kApart * k]) : Acc(0);
    from += kDepth;
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      const uint2 entry = table[step % 2][thread / kColumns + i * (kThreads / kColumns)];
      inputs[i] = inside >> entry.y & 1 ? Acc(in[entry.x]) : Acc(0);
    }
  };
  auto write = [&](int step) {
#pragma unroll
    for (int i = 0; i < kWeights; ++i)
      w_tile[step % 2][thread % kDepth][thread / kDepth + i * kApart] = weights[i];
#pragma unroll
    for (int i = 0; i < kInputs; ++i)
      x_tile[step % 2][thread / kColumns + i * (kThreads / kColumns)][thread % kColumns] =
          inputs[i];
  };

  write_table(0);
  write_table(1);
  __syncthreads();
  read(0);
  write(0);
  __syncthreads();

  const int row = thread / kAcross * kHigh, column = thread % kAcross * kWide;
  Acc sum[kHigh][kWide] = {};
#pragma unroll 1
  for (int s = 0; s < steps; ++s) {
    if (s + 1 < steps) {
      read(s + 1);
      write_table(s + 2); // its place was read before the last barrier
    }
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      Acc a[kHigh], b[kWide];
#pragma unroll
      for (int r = 0; r < kHigh; ++r)
        a[r] = w_tile[s % 2][i][row + r];
#pragma unroll
      for (int q = 0; q < kWide; ++q)
        b[q] = x_tile[s % 2][i][column + q];
#pragma unroll
      for (int r = 0; r < kHigh; ++r)
#pragma unroll
        for (int q = 0; q < kWide; ++q)
          sum[r][q] = fma(a[r], b[q], sum[r][q]);
    }
    if (s + 1 < steps)
      write(s + 1);
    __syncthreads();
  }

  // Runs of pixels lie in one image where an image has a multiple of their number.
  const bool whole = out_plane % kWide == 0 && Run<kWide, OUT>::is_aligned(y);
#pragma unroll
  for (int r = 0; r < kHigh; ++r) {
    const unsigned channel = group * m + first_row + row + r;
    if (first_row + row + r >= m)
      continue;
    const Acc more = BIAS_AT(channel);
    auto index = [&](unsigned of) {
      return ((long long)(of / out_plane) * out_channels + channel) * out_plane + of % out_plane;
    };
    if (whole && first_column + column < n) {
      const long long first = index(first_column + column);
      Run<kWide, OUT> run;
#pragma unroll
      for (int q = 0; q < kWide; ++q)
        run.element[q] = RESULT(first + q, sum[r][q] + more);
      run.store(y + first, true);
    } else {
#pragma unroll
      for (int q = 0; q < kWide; ++q)
        if (first_column + column + q < n)
          STORE(index(first_column + column + q), sum[r][q] + more);
    }
  }
}
