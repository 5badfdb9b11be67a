// Convolutions as the product of two matrices of which the right one is never stored (implicit
// GEMM), summed in registers: for what tensor cores do not take, f32 above all. conv_register.cuh
// and conv_transpose_register.cuh stand on it.
//
//                       k = in channels x taps       pixels
//                      +------------------+         +--------+
//   out channels       |        w         |       k |   x    |   row k of a pixel's column: what
//   of a group         +------------------+         +--------+   that tap meets in x, or 0 in the
//                                                                padding
//
// A block computes kDown x kHigh channels of kAcross x kWide pixels, a step taking kDepth of k; a
// thread kHigh x kWide of them. While it multiplies a step, what it reads for the next one is on
// its way into registers: elements of w, and elements of x for one pixel. Where a row of k lies is
// the same for all threads: a table of one step in shared memory, written two steps ahead. Which
// taps lie inside of x is a mask of 64 bits, the pixel's.
#pragma once

// Place of a row of k: in x from the pixel's place on, and in w from a channel's begin on.
struct TileRow {
  int x, w, tap;
};

constexpr int kNoTap = 63; // never inside: the taps that there are have smaller numbers

template <int kHigh, int kWide, int kDown, int kAcross> struct RegisterTile {
  static constexpr int kDepth = 16, kRows = kDown * kHigh, kColumns = kAcross * kWide;
  static constexpr int kChannels = kHigh, kPixels = kWide; // a thread's
  static constexpr int kThreads = kDown * kAcross;
  static constexpr int kPitch = kRows + 4; // of w's tile, off a single bank
  static constexpr int kWeights = kRows * kDepth / kThreads;
  static constexpr int kInputs = kColumns * kDepth / kThreads;
  static_assert(kThreads % kColumns == 0 && kThreads % kDepth == 0, "a thread reads for one pixel");

  // The first of this thread's channels and pixels in the tile.
  static __device__ __forceinline__ int row() { return threadIdx.x / kAcross * kHigh; }
  static __device__ __forceinline__ int column() { return threadIdx.x % kAcross * kWide; }
  // The pixel of the tile that this thread reads for.
  static __device__ __forceinline__ int read_column() { return threadIdx.x % kColumns; }

  // Adds up this thread's part of the tile. `w` is the first channel of `channels`, each w_stride
  // elements behind the one before; `in` and `inside` are the read pixel's; row_of(i) is row i of
  // k.
  template <class RowOf>
  static __device__ __forceinline__ void add(const T *w, unsigned w_stride, unsigned channels,
                                             const T *in, unsigned long long inside, unsigned k,
                                             RowOf row_of, Acc (&sum)[kHigh][kWide]) {
    constexpr int kApart = kThreads / kDepth;
    __shared__ alignas(16) Acc w_tile[2][kDepth][kPitch];
    __shared__ alignas(16) Acc x_tile[2][kDepth][kColumns];
    __shared__ TileRow table[2][kDepth];
    const int thread = threadIdx.x, depth = thread % kDepth;
    const int steps = int((k + kDepth - 1) / kDepth);
    w += thread / kDepth * w_stride;
    unsigned has = 0; // bit i: channel i of those that this thread reads is there
#pragma unroll
    for (int i = 0; i < kWeights; ++i)
      has |= unsigned(thread / kDepth + i * kApart < channels) << i;

    auto write_table = [&](int step) {
      const unsigned at = unsigned(step) * kDepth + thread;
      if (thread < kDepth)
        table[step % 2][thread] = at < k ? row_of(at) : TileRow{0, 0, kNoTap};
    };
    Acc weights[kWeights], inputs[kInputs];
    auto read = [&](int step) {
      const TileRow mine = table[step % 2][depth];
      const unsigned there = mine.tap == kNoTap ? 0 : has;
#pragma unroll
      for (int i = 0; i < kWeights; ++i)
        weights[i] = there >> i & 1 ? Acc(w[mine.w + i * kApart * w_stride]) : Acc(0);
#pragma unroll
      for (int i = 0; i < kInputs; ++i) {
        const TileRow r = table[step % 2][thread / kColumns + i * (kThreads / kColumns)];
        inputs[i] = inside >> r.tap & 1 ? Acc(in[r.x]) : Acc(0);
      }
    };
    auto write = [&](int step) {
#pragma unroll
      for (int i = 0; i < kWeights; ++i)
        w_tile[step % 2][depth][thread / kDepth + i * kApart] = weights[i];
#pragma unroll
      for (int i = 0; i < kInputs; ++i)
        x_tile[step % 2][thread / kColumns + i * (kThreads / kColumns)][read_column()] = inputs[i];
    };

    write_table(0);
    write_table(1);
    __syncthreads();
    read(0);
    write(0);
    __syncthreads();
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
          a[r] = w_tile[s % 2][i][row() + r];
#pragma unroll
        for (int q = 0; q < kWide; ++q)
          b[q] = x_tile[s % 2][i][column() + q];
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
  }
};

// The channels of a block choose it: 16 of 128 pixels, or 64 of 64. WITH_REGISTER, where it is
// defined, is one of the two, and REGISTER_ENTRY(conv2d) is conv2d_register_16 or
// conv2d_register_64.
template <int kRows> struct RegisterTileOf : RegisterTile<4, 4, 4, 32> {};
template <> struct RegisterTileOf<64> : RegisterTile<8, 4, 8, 16> {};

// NVRTC 13.5 takes 96 registers for sm_86 to sm_89 where it is not told that four blocks a
// multiprocessor are enough, and spills.
#if !defined(DTYPE_F64) && __CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 900
#define REGISTER_BOUNDS __launch_bounds__(128, 4)
#else
#define REGISTER_BOUNDS __launch_bounds__(128)
#endif
#define REGISTER_ENTRY_JOINED(op, rows) op##_register_##rows
#define REGISTER_ENTRY_OF(op, rows) REGISTER_ENTRY_JOINED(op, rows)
#define REGISTER_ENTRY(op) REGISTER_ENTRY_OF(op, WITH_REGISTER)
