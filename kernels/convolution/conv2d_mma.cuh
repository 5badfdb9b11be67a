// Convolution on tensor cores, of f16 and bf16, as the product of two matrices of which the right
// one is never stored (implicit GEMM). Part of conv2d.cu.
//
//                       k = in channels x taps       pixels of all images
//                      +------------------+         +--------+
//   out channels       |        w         |       k |   x    |   row k of a pixel's column: what
//   of a group         +------------------+         +--------+   that tap meets in x, or 0 in the
//                                                                padding
//
// A block computes kRows channels of kColumns pixels, a step taking kMmaDepth of k. It has as many
// threads as pixels: each gathers its pixel's elements of a step into registers while the tensor
// cores multiply the step before, and stores them as a row of the tile (the right matrix
// transposed). Where a row of k lies in x, relative to the pixel's first tap, and which tap it is,
// is the same for all threads: a table of one step in shared memory, written two steps ahead. Which
// taps lie inside of the image is a mask that each thread keeps.
//
// Needs at most 63 taps, and indices of 32 bits.
#pragma once

#include "shared/divisor.cuh"
#include "shared/mma_tile.cuh"
#include "shared/vectors.cuh"

#if defined(DTYPE_F16) || defined(DTYPE_BF16)

constexpr int kMostTaps = 63;

template <int kWarpRows, int kWarpColumns, int kHigh, int kWide>
__device__ __forceinline__ void convolve_tiles(PARAMETERS) {
  __builtin_assume(ASSUME);
  typedef MmaTile<kWarpRows, kWarpColumns, kHigh, kWide, true> M;
  constexpr int kRows = M::kRows, kColumns = M::kColumns, kThreads = M::kThreads;
  static_assert(kThreads == kColumns, "a thread a pixel");
  constexpr int kResultWidth = kColumns + kChunk; // in shared memory, off a single bank
  constexpr int kShared =
      2 * M::kStage > kRows * kResultWidth ? 2 * M::kStage : kRows * kResultWidth;
  __shared__ alignas(16) T shared[kShared];
  __shared__ uint2 table[2][kMmaDepth]; // {offset in x, tap} of each row of a step
  const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
  const int warp_row = warp / kWarpColumns * kHigh * 16,
            warp_column = warp % kWarpColumns * kWide * 8;

  const unsigned in_group = unsigned(channels / groups), m = unsigned(out_channels / groups);
  const unsigned taps = unsigned(kernel_h) * unsigned(kernel_w), k = in_group * taps;
  const unsigned in_plane = unsigned(height) * unsigned(width);
  const unsigned out_plane = unsigned(out_height) * unsigned(out_width);
  const unsigned n = unsigned(batch) * out_plane;
  const unsigned across = (n + kColumns - 1) / kColumns, down = (m + kRows - 1) / kRows;
  const unsigned first_row = blockIdx.x / across % down * kRows, group = blockIdx.x / across / down;
  const unsigned first_column = blockIdx.x % across * kColumns;
  const int steps = int((k + kMmaDepth - 1) / kMmaDepth);
  w += (unsigned long long)(group)*m * k;

  // This thread's pixel.
  const unsigned pixel = first_column + thread;
  const unsigned image = pixel / out_plane, place = pixel % out_plane;
  const int top = int(place / unsigned(out_width)) * int(stride_h) - int(pad_h);
  const int left = int(place % unsigned(out_width)) * int(stride_w) - int(pad_w);
  const T *in =
      x + ((unsigned long long)(image)*channels + (unsigned long long)(group)*in_group) * in_plane +
      (long long)(top)*width + left;
  // One address, to which one instruction adds an element's place.
  unsigned long long from = __cvta_generic_to_global(in);
  asm("" : "+l"(from));
  in = static_cast<const T *>(__cvta_global_to_generic(from));
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
    if (thread < kMmaDepth) {
      const unsigned at = unsigned(step) * kMmaDepth + thread, channel = at / taps, tap = at % taps;
      const unsigned r = tap / unsigned(kernel_w), q = tap % unsigned(kernel_w);
      table[step % 2][thread] =
          at < k ? make_uint2(channel * in_plane + r * unsigned(dilation_h) * unsigned(width) +
                                  q * unsigned(dilation_w),
                              tap)
                 : make_uint2(0, kMostTaps); // a tap that is never inside
    }
  };
  unsigned short gathered[kMmaDepth]; // packed when they are stored, not waited for before
  auto gather = [&](int step) {
#pragma unroll
    for (int i = 0; i < kMmaDepth; ++i) {
      const uint2 entry = table[step % 2][i];
      gathered[i] = 0;
      if (inside >> entry.y & 1)
        gathered[i] = __ldg(reinterpret_cast<const unsigned short *>(in + entry.x));
    }
  };
  auto pair = [&](int i) { return gathered[2 * i] | unsigned(gathered[2 * i + 1]) << 16; };

  const bool aligned = __CUDA_ARCH__ >= 800 && k % kChunk == 0 && ((unsigned long long)(w)&15) == 0;
  TileCopies<typename M::A, false> w_copies(w, first_row, 0, m, k, thread);
  if (aligned)
    w_copies.copy(shared);
  end_copies();
  write_table(0);
  write_table(1);
  __syncthreads();
  gather(0);

  float sum[kHigh][kWide][4] = {};
#pragma unroll 1
  for (int s = 0; s < steps; ++s) {
    T *const now = shared + s % 2 * M::kStage;
#pragma unroll
    for (int q = 0; q < kMmaDepth / kChunk; ++q)
      *reinterpret_cast<uint4 *>(now + M::A::kElements + M::C::at(thread, q * kChunk)) =
          make_uint4(pair(q * 4), pair(q * 4 + 1), pair(q * 4 + 2), pair(q * 4 + 3));
    if (!aligned)
      read_tile<typename M::A, kRows, kMmaDepth, kThreads>(now, w, first_row,
                                                           (long long)(s)*kMmaDepth, m, k, thread);
    wait_for_copies<0>();
    __syncthreads(); // this step's tiles are there for all, and those of the step before are read
    if (s + 1 < steps) {
      if (aligned)
        w_copies.copy(shared + (s + 1) % 2 * M::kStage);
      end_copies();
      gather(s + 1);
      write_table(s + 2);
    }
    M::add(now, lane, warp_row, warp_column, sum);
  }

  __syncthreads();
#pragma unroll
  for (int r = 0; r < kHigh; ++r)
#pragma unroll
    for (int e = 0; e < 2; ++e) { // rows of a fragment
      const int row = warp_row + r * 16 + lane / 4 + e * 8;
      const bool there = first_row + row < m;
      const Acc more = there ? BIAS_AT(group * m + first_row + row) : Acc(0);
#pragma unroll
      for (int q = 0; q < kWide; ++q)
#pragma unroll
        for (int c = 0; c < 2; ++c)
          shared[row * kResultWidth + warp_column + q * 8 + lane % 4 * 2 + c] =
              T(sum[r][q][e * 2 + c] + more);
    }
  __syncthreads();
  // Runs of eight pixels lie in one image where an image has a multiple of eight.
  const bool whole =
      out_plane % kChunk == 0 && Run<kChunk, OUT>::is_aligned(y) && RESULTS_ALIGNED(kChunk);
  const DivisorOf<int> planes(out_plane);
  constexpr int kAcross = kColumns / kChunk;
#pragma unroll 1
  for (int i = thread; i < kRows * kAcross; i += kThreads) {
    const unsigned row = first_row + i / kAcross, column = first_column + i % kAcross * kChunk;
    if (row >= m || column >= n)
      continue;
    const T *values = shared + i / kAcross * kResultWidth + i % kAcross * kChunk;
    unsigned image = unsigned(planes.quotient(int(column))), place = column - image * out_plane;
    auto index = [&] {
      return ((long long)(image)*out_channels + group * m + row) * out_plane + place;
    };
    if (whole) {
      const long long first = index();
      Run<kChunk, OUT> run;
      RESULTS(kChunk, run, first, values[e], true, kChunk);
      run.store(y + first, true);
    } else {
      for (int e = 0; e < kChunk && column + e < n; ++e) {
        STORE(index(), values[e]);
        if (++place == out_plane)
          place = 0, ++image;
      }
    }
  }
}

#endif
