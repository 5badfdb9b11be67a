// Convolution with channels last on tensor cores, of f16 and bf16, as the product of two matrices
// of which the left one is never stored (implicit GEMM). Part of conv2d_last.cu.
//
//              k = taps x in channels              out channels of a group
//             +------------------+                +-----+
//   pixels    |        x         |              k |  w  |    eight channels that a tap meets are 16
//   of all    +------------------+                +-----+    bytes of x, or zeros in the padding
//   images
//
// A block computes kRows pixels of kColumns channels, a step taking kMmaDepth of k. While it
// multiplies one step's tiles in shared memory, those of the next kStages - 1 steps are on their
// way into others, in asynchronous copies of 16 bytes (element by element where x or w begins at no
// multiple of that). A thread copies the same of a step's chunks for several pixels: whether a tap
// lies outside of the image is asked in a mask of each pixel's, of rows and columns of taps.
//
// The result goes through shared memory, so that it is stored in runs of eight elements.
//
// Needs a multiple of eight channels of x in a group, kernels of at most kMostSide x kMostSide, and
// indices of 32 bits.
#pragma once

#include "shared/mma_tile.cuh"
#include "shared/vectors.cuh"

#if defined(DTYPE_F16) || defined(DTYPE_BF16)

constexpr int kStagedBytes = 48 << 10; // of shared memory, which all tiles take
// A mask has 16 bits for rows of taps and as many for columns; a step goes up to three taps beyond
// the last.
constexpr int kMostSide = 12;

#ifdef WHOLE_STEPS
constexpr bool kWholeSteps = true;
#else
constexpr bool kWholeSteps = false;
#endif

// Elements `from`[offset] to [offset + 7], or zeros; nothing is read then.
template <bool kAligned>
__device__ __forceinline__ void copy_chunk(T *to, const T *from, int offset, bool there) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kAligned) {
    unsigned long long address;
    asm("mad.wide.s32 %0, %1, 2, %2;" : "=l"(address) : "r"(offset), "l"(from));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(address), "r"(there ? 16 : 0)
                 : "memory");
    return;
  }
#endif
#pragma unroll 1
  for (int e = 0; e < kChunk; ++e)
    to[e] = there ? from[offset + e] : T(0.0f);
}

// This thread's part of the copies of a step, which goes from chunk to chunk along k.
template <class M> struct LastCopies {
  typedef typename M::A A;
  typedef typename M::C C;
  const T *x, *w;               // where the chunks lie that the offsets below are added to
  int pixel[A::kCopies];        // offsets of the pixels' windows in x
  unsigned outside[A::kCopies]; // rows and columns of taps that lie outside of the image, as bits
  int filter[C::kCopies];       // offsets of rows of w
  int left;                     // elements of k from there on
  int place;                    // of the chunks in a tile
  int channel, column; // the chunks' channel (with kWholeSteps the step's), the tap's column
  unsigned tap;        // the tap's row and column, as bits
  int in_group, last_column;
  int to_column, to_row; // elements from a tap's end to the next column, more to a next row

  // The chunk whose place among channels has gone beyond its tap; how far its tap lies behind.
  __device__ __forceinline__ int to_next_tap() {
    channel -= in_group;
    tap += tap & 0xffff0000u;
    if (++column < last_column)
      return to_column;
    column = 0;
    tap = (tap & 0xffffu) << 1 | 0x10000u;
    return to_column + to_row;
  }
  __device__ __forceinline__ void move(int by) {
    channel += by;
    if (kWholeSteps) {
      if (channel == in_group)
        by += to_next_tap();
    } else {
      while (channel >= in_group)
        by += to_next_tap();
    }
    x += by;
  }

  template <bool kAligned> __device__ __forceinline__ void copy(T *stage) {
#pragma unroll
    for (int j = 0; j < A::kCopies; ++j)
      copy_chunk<kAligned>(stage + place + j * A::kStep * kMmaDepth, x, pixel[j],
                           !(outside[j] & tap));
#pragma unroll
    for (int j = 0; j < C::kCopies; ++j)
      copy_chunk<kAligned>(stage + A::kElements + place + j * C::kStep * kMmaDepth, w, filter[j],
                           kWholeSteps || left > 0);
    w += kMmaDepth, left -= kMmaDepth;
    move(kMmaDepth);
  }
};

template <int kWarpRows, int kWarpColumns, int kHigh, int kWide>
__device__ __forceinline__ void convolve_last(PARAMETERS) {
  __builtin_assume(ASSUME);
  typedef MmaTile<kWarpRows, kWarpColumns, kHigh, kWide, true> M;
  typedef LastCopies<M> Copies;
  constexpr int kRows = M::kRows, kColumns = M::kColumns, kThreads = M::kThreads;
  constexpr int kStages = kStagedBytes / int(M::kStage * sizeof(T)); // 3, 4, 6, 8
  constexpr int kResultWidth = kColumns + kChunk; // in shared memory, off a single bank
  constexpr int kShared =
      kStages * M::kStage > kRows * kResultWidth ? kStages * M::kStage : kRows * kResultWidth;
  static_assert(M::A::kStep == M::C::kStep, "a thread's chunks of both tiles lie alike");
  __shared__ alignas(16) T shared[kShared];
  const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
  const int warp_row = warp / kWarpColumns * kHigh * 16,
            warp_column = warp % kWarpColumns * kWide * 8;

  const unsigned in_group = unsigned(channels / groups), n = unsigned(out_channels / groups);
  const unsigned k = in_group * unsigned(kernel_h) * unsigned(kernel_w);
  const unsigned out_plane = unsigned(out_height) * unsigned(out_width);
  const unsigned m = unsigned(batch) * out_plane;
  const unsigned across = (n + kColumns - 1) / kColumns, down = (m + kRows - 1) / kRows;
  const unsigned first_column = blockIdx.x % across * kColumns,
                 first_row = blockIdx.x / across % down * kRows, group = blockIdx.x / across / down;
  const int steps = int((k + kMmaDepth - 1) / kMmaDepth);

  Copies copies;
  const int own_row = thread / M::A::kAcross, own_k = thread % M::A::kAcross * kChunk;
#pragma unroll
  for (int j = 0; j < M::A::kCopies; ++j) {
    const unsigned pixel = first_row + own_row + j * M::A::kStep;
    const unsigned image = pixel / out_plane, at = pixel % out_plane;
    const int top = int(at / unsigned(out_width)) * int(stride_h) - int(pad_h);
    const int left = int(at % unsigned(out_width)) * int(stride_w) - int(pad_w);
    copies.pixel[j] = ((int(image) * int(height) + top) * int(width) + left) * int(channels) +
                      int(group * in_group);
    unsigned outside = ~0u;
    if (pixel < m) {
      for (int r = 0; r < int(kernel_h); ++r)
        if (unsigned(top + r * int(dilation_h)) < unsigned(height))
          outside &= ~(1u << r);
      for (int q = 0; q < int(kernel_w); ++q)
        if (unsigned(left + q * int(dilation_w)) < unsigned(width))
          outside &= ~(0x10000u << q);
    }
    copies.outside[j] = outside;
  }
#pragma unroll
  for (int j = 0; j < M::C::kCopies; ++j) { // behind the last channel its row is read again
    const unsigned column = first_column + own_row + j * M::C::kStep;
    copies.filter[j] = int((group * n + (column < n ? column : n - 1)) * k);
  }
  copies.x = kWholeSteps ? x + own_k : x, copies.w = w + own_k;
  copies.left = int(k) - own_k;
  copies.place = M::A::at(own_row, own_k);
  copies.channel = copies.column = 0, copies.tap = 0x10001u;
  copies.in_group = int(in_group), copies.last_column = int(kernel_w);
  copies.to_column = int(dilation_w) * int(channels) - int(in_group);
  copies.to_row = (int(dilation_h) * int(width) - int(kernel_w) * int(dilation_w)) * int(channels);
  if (!kWholeSteps)
    copies.move(own_k);

  float sum[kHigh][kWide][4] = {};
#if __CUDA_ARCH__ >= 800
  const bool aligned = (((unsigned long long)(x) | (unsigned long long)(w)) & 15) == 0;
#else
  const bool aligned = false;
#endif
  if (aligned) {
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
      if (s < steps)
        copies.template copy<true>(shared + s * M::kStage);
      end_copies();
    }
#pragma unroll 1
    for (int s = 0; s < steps; s += kStages)
#pragma unroll
      for (int now = 0; now < kStages; ++now) {
        if (s + now >= steps)
          break;
        wait_for_copies<kStages - 2>();
        __syncthreads(); // the tiles are there for all, and those of the step before have been read
        if (s + now + kStages - 1 < steps)
          copies.template copy<true>(shared + (now + kStages - 1) % kStages * M::kStage);
        end_copies();
        M::add(shared + now * M::kStage, lane, warp_row, warp_column, sum);
      }
    wait_for_copies<0>();
  } else {
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      copies.template copy<false>(shared);
      __syncthreads();
      M::add(shared, lane, warp_row, warp_column, sum);
      __syncthreads(); // the next step's tiles overwrite what was read
    }
  }

  __syncthreads();
#pragma unroll
  for (int q = 0; q < kWide; ++q)
#pragma unroll
    for (int c = 0; c < 2; ++c) { // columns of a fragment
      const int column = warp_column + q * 8 + lane % 4 * 2 + c;
      const bool there = first_column + column < n;
      const Acc more = there ? BIAS_AT(group * n + first_column + column) : Acc(0);
#pragma unroll
      for (int r = 0; r < kHigh; ++r)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          shared[(warp_row + r * 16 + lane / 4 + e * 8) * kResultWidth + column] =
              T(sum[r][q][e * 2 + c] + more);
    }
  __syncthreads();
  const bool whole = n % kChunk == 0 && Run<kChunk, OUT>::is_aligned(y);
  constexpr int kAcross = kColumns / kChunk;
#pragma unroll 1
  for (int i = thread; i < kRows * kAcross; i += kThreads) {
    const unsigned row = first_row + i / kAcross, column = first_column + i % kAcross * kChunk;
    if (row >= m || column >= n)
      continue;
    const long long first = (long long)(row)*out_channels + group * n + column;
    const T *values = shared + i / kAcross * kResultWidth + i % kAcross * kChunk;
    if (whole) {
      Run<kChunk, OUT> run;
#pragma unroll
      for (int e = 0; e < kChunk; ++e)
        run.element[e] = RESULT(first + e, values[e]);
      run.store(y + first, true);
    } else {
      for (int e = 0; e < kChunk && column + e < n; ++e)
        STORE(first + e, values[e]);
    }
  }
}

#endif
