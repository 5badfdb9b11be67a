// Convolution with channels last on tensor cores, of f16 and bf16, and of f32 with TF32, as the
// product of two matrices of which the left one is never stored (implicit GEMM). Part of
// conv2d_last.cu.
//
//              k = taps x in channels              out channels of a group
//             +------------------+                +-----+
//   pixels    |        x         |              k |  w  |    eight channels that a tap meets (four
//   of all    +------------------+                +-----+    of f32) are 16 bytes of x, or zeros in
//   images                                                   the padding
//
// A block computes kRows pixels of kColumns channels, a step taking kMmaDepth of k. While it
// multiplies one step's tiles in shared memory, those of the next kStages - 1 steps are on their
// way into others, in asynchronous copies of RUN elements; where x or w begins at no multiple of
// these, each step's are read in words before it. A thread copies the same of a step's runs for
// several pixels: whether a tap lies outside of the image is asked in a mask of each pixel's, of
// rows and columns of taps.
//
// The result goes through shared memory, so that it is stored in runs of 16 bytes; with
// RESULT_SECOND neighbours store pixels of a channel.
//
// With SPLIT `splits` blocks share a tile's steps. Each writes its sums; the one that ends last,
// which a counter says, adds them up in the blocks' order and goes on alone, so that no block waits
// and the bits are the same in each run. Counters are 0 before and after a launch.
//
// With X_SECOND a run is the channels of one pixel, which lie in as many planes: a thread reads and
// rounds them, and stores the run.
//
// Needs kernels of at most kMostSide in each dimension, and indices of 32 bits. With LARGE an
// image's may have any size: rows and columns are compared in place of masks. RUN (8, 4 or 2; of
// f32 4, 2 or 1) divides the channels of x in a group, and PITCH and FIRST_CHANNEL.
#pragma once

#include "shared/join_splits.cuh"
#include "shared/mma_tile.cuh"
#include "shared/options.cuh"
#include "shared/vectors.cuh"

#if defined(DTYPE_F16) || defined(DTYPE_BF16) || defined(TF32)

constexpr int kStagedBytes = 48 << 10; // of shared memory, which all tiles take
// A mask has 16 bits for rows of taps and as many for columns, in that order; of volumes 21 for
// planes, rows and columns. A step's 16 taps at most end below row or plane 16, too.
constexpr int kMostSide = 12;
#ifdef LARGE
constexpr int kNowhere = 1 << 30; // a row that is in no image, also with another one added
#endif
#ifdef VOLUME
typedef unsigned long long Mask;
constexpr int kRowBit = 21, kColumnBit = 42;
#else
typedef unsigned Mask;
constexpr int kRowBit = 0, kColumnBit = 16;
#endif
constexpr int kRun = RUN;

constexpr bool kWholeSteps = IS_SET(WHOLE_STEPS);

// Elements `from`[offset] to [offset + kRun - 1], or zeros; nothing is read then.
template <bool kAligned>
__device__ __forceinline__ void copy_run(T *to, const T *from, int offset, bool there) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kAligned) {
    unsigned long long address;
    asm("mad.wide.s32 %0, %1, %2, %3;"
        : "=l"(address)
        : "r"(offset), "n"(int(sizeof(T))), "l"(from));
    copy_or_zeros<kRun *int(sizeof(T))>(there, shared_address(to),
                                        reinterpret_cast<const void *>(address));
    return;
  }
#endif
#ifdef TF32
#pragma unroll
  for (int i = 0; i < kRun; ++i)
    to[i] = there ? from[offset + i] : T(0);
#else
  unsigned pairs[kRun / 2];
  read_words<kRun>(from + offset, there ? kRun : 0, pairs);
#pragma unroll
  for (int i = 0; i < kRun / 2; ++i)
    reinterpret_cast<unsigned *>(to)[i] = pairs[i];
#endif
}

#ifdef X_SECOND
// The same of a pixel's element in each plane, `apart` from one to the next.
__device__ __forceinline__ void read_planes(T *to, const INPUT *from, int offset, bool there,
                                            int count, int apart) {
  alignas(kRun * sizeof(T)) T run[kRun];
#pragma unroll
  for (int i = 0; i < kRun; ++i)
    run[i] = there && i < count ? T(from[offset + i * apart]) : T(0);
  typedef typename Chosen<sizeof(run) == 8, uint2, uint4>::type Bytes;
  *reinterpret_cast<Bytes *>(to) = *reinterpret_cast<const Bytes *>(run);
}
#endif

// This thread's part of the copies of a step, which goes from run to run along k.
template <class M> struct LastCopies {
  static constexpr int kAcross = kMmaDepth / kRun, kStep = M::kThreads / kAcross;
  static constexpr int kPixels = M::kRows / kStep, kFilters = M::kColumns / kStep;
  static_assert(kStep % 8 == 0, "rows so far apart lie alike");
  const INPUT *x;     // where the runs lie that the offsets below are added to
  const T *w;         // likewise
  int pixel[kPixels]; // offsets of the pixels' windows in x
#ifdef LARGE
  unsigned top[kPixels], first[kPixels];           // rows and columns of the pixels' windows
  int dilation_h, dilation_w, tap_row, tap_column; // the tap's in a window
  unsigned height, width;
#else
  Mask outside[kPixels]; // rows and so on of taps that lie outside of the image, as bits
  Mask tap;              // the tap's row and so on, as bits
#endif
  int filter[kFilters]; // offsets of rows of w
  int left;             // elements of k from there on
  int place;            // of the runs in a tile
  int channel, column;  // the runs' channel (with kWholeSteps the step's), the tap's column
  int in_group, last_column;
  int to_column, to_row; // elements from a tap's end to the next column, more to a next row
#if defined(VOLUME) || defined(LARGE)
  int row, last_row; // the tap's row
#endif
#ifdef VOLUME
  int to_plane; // elements more to a next plane
#endif
#ifdef X_SECOND
  int planes, plane; // how many, and elements of each
#endif

  // To element `first` of k, plus `own` of this thread's, from the first one on.
  __device__ __forceinline__ void begin(int first, int own) {
    w += first, left -= first;
    move<false>(kWholeSteps ? first : first + own);
  }

  // Moves by as many elements of k; with kOneTap at most to the next tap's.
  template <bool kOneTap> __device__ __forceinline__ void move(int by) {
    channel += by;
    x += by;
    if (kOneTap ? channel != in_group : channel < in_group)
      return;
    const int taps = kOneTap ? 1 : channel / in_group;
    channel -= taps * in_group, column += taps;
    const int rows = kOneTap ? column == last_column : column / last_column;
    column -= rows * last_column;
    x += taps * to_column + rows * to_row;
#ifdef LARGE
    row += rows;
    tap_row = row < last_row ? row * dilation_h : kNowhere, tap_column = column * dilation_w;
#elif defined(VOLUME)
    row += rows;
    const int planes = kOneTap ? row == last_row : row / last_row;
    row -= planes * last_row;
    x += planes * to_plane;
    tap = (tap << planes & ((Mask(1) << kRowBit) - 1)) | Mask(1) << kRowBit + row |
          Mask(1) << kColumnBit + column;
#else
    tap = (tap << rows & 0xffffu) | 0x10000u << column;
#endif
  }

  // Whether pixel j has the tap.
  __device__ __forceinline__ bool has_tap(int j) const {
#ifdef LARGE
    return top[j] + unsigned(tap_row) < height && first[j] + unsigned(tap_column) < width;
#else
    return !(outside[j] & tap);
#endif
  }

  template <bool kAligned> __device__ __forceinline__ void copy(T *stage) {
#pragma unroll
    for (int j = 0; j < kPixels; ++j)
#ifdef X_SECOND
      read_planes(stage + place + j * kStep * kMmaDepth, x, pixel[j], has_tap(j), planes, plane);
#else
      copy_run<kAligned>(stage + place + j * kStep * kMmaDepth, x, pixel[j], has_tap(j));
#endif
#pragma unroll
    for (int j = 0; j < kFilters; ++j)
      copy_run<kAligned>(stage + M::A::kElements + place + j * kStep * kMmaDepth, w, filter[j],
                         kWholeSteps || left > 0);
    w += kMmaDepth, left -= kMmaDepth;
    move<kWholeSteps>(kMmaDepth);
  }
};

#ifdef PHASES
// Where an element of w's channels at a pixel of all images is in y, which has `own` channels;
// false where it is none of it.
__device__ __forceinline__ bool find_place(unsigned pixel, unsigned channel, unsigned own,
                                           unsigned depth, unsigned height, unsigned width,
                                           long long &place PHASES_PARAMETERS) {
  const unsigned phase = channel / own;
  const unsigned column =
      pixel % width * unsigned(phases_w) + phase % unsigned(phases_w) - unsigned(cut_w);
  const unsigned row = pixel / width % height * unsigned(phases_h) +
                       phase / unsigned(phases_w) % unsigned(phases_h) - unsigned(cut_h);
  const unsigned at = pixel / width / height, image = at / depth;
  const unsigned plane = at % depth * unsigned(phases_d) +
                         phase / unsigned(phases_w) / unsigned(phases_h) - unsigned(cut_d);
  const unsigned within = (plane * unsigned(y_h) + row) * unsigned(y_w) + column;
  place = IS_SET(RESULT_SECOND)
              ? (long long)(image * own + channel % own) * (y_d * y_h * y_w) + within
              : ((long long)(image) * (y_d * y_h * y_w) + within) * own + channel % own;
  return plane < unsigned(y_d) && row < unsigned(y_h) && column < unsigned(y_w);
}
#endif

template <int kWarpRows, int kWarpColumns, int kHigh, int kWide>
__device__ __forceinline__ void convolve_last(PARAMETERS) {
  __builtin_assume(ASSUME);
  typedef MmaTile<kWarpRows, kWarpColumns, kHigh, kWide, true> M;
  typedef LastCopies<M> Copies;
  constexpr int kRows = M::kRows, kColumns = M::kColumns, kThreads = M::kThreads;
  constexpr int kStages = kStagedBytes / int(M::kStage * sizeof(T)); // 3, 4, 6, 8
  constexpr int kResultWidth = kColumns + kChunk; // in shared memory, off a single bank
  // Rows of the result that are there at a time.
  constexpr int kPass = kRows * kResultWidth * int(sizeof(T)) > kStagedBytes ? kRows / 2 : kRows;
  static_assert(kPass % (kHigh * 16) == 0, "a warp's rows are of one pass");
  constexpr int kShared =
      kStages * M::kStage > kPass * kResultWidth ? kStages * M::kStage : kPass * kResultWidth;
  __shared__ alignas(16) T shared[kShared];
  const int lane = threadIdx.x, warp = threadIdx.y, thread = warp * 32 + lane;
  const int warp_row = warp / kWarpColumns * kHigh * 16,
            warp_column = warp % kWarpColumns * kWide * 8;

  const unsigned in_group = unsigned(channels / groups), n = unsigned(out_channels / groups);
  const unsigned k = in_group * unsigned(kernel_d) * unsigned(kernel_h) * unsigned(kernel_w);
  const unsigned out_plane = unsigned(out_height) * unsigned(out_width);
  const unsigned m = unsigned(batch) * unsigned(out_depth) * out_plane;
  const unsigned across = (n + kColumns - 1) / kColumns, down = (m + kRows - 1) / kRows;
#ifdef SPLIT
  const unsigned tile = blockIdx.x / unsigned(splits), split = blockIdx.x % unsigned(splits);
#else
  const unsigned tile = blockIdx.x, split = 0, splits = 1;
#endif
  const unsigned first_column = tile % across * kColumns, first_row = tile / across % down * kRows,
                 group = tile / across / down;
  const unsigned all_steps = (k + kMmaDepth - 1) / kMmaDepth;
  const int first_step = int(split * all_steps / unsigned(splits));
  const int steps = int((split + 1) * all_steps / unsigned(splits)) - first_step;

  Copies copies;
  const int own_row = thread / Copies::kAcross, own_k = thread % Copies::kAcross * kRun;
#pragma unroll
  for (int j = 0; j < Copies::kPixels; ++j) {
    const unsigned pixel = first_row + own_row + j * Copies::kStep;
    const unsigned plane = pixel / out_plane, at = pixel % out_plane;
    const int front = int(plane % unsigned(out_depth)) * int(stride_d) - int(pad_d);
    const int in_plane = int(plane / unsigned(out_depth)) * int(depth) + front;
    const int top = int(at / unsigned(out_width)) * int(stride_h) - int(pad_h);
    const int left = int(at % unsigned(out_width)) * int(stride_w) - int(pad_w);
    copies.pixel[j] =
        ((in_plane * int(planes) * int(height) + top) * int(width) + left) * int(PITCH) +
        int(FIRST_CHANNEL) + int(group * in_group);
#ifdef LARGE
    copies.top[j] = unsigned(pixel < m ? top : kNowhere), copies.first[j] = unsigned(left);
#else
    Mask outside = ~Mask(0);
    if (pixel < m) {
#ifdef VOLUME
      for (int p = 0; p < int(kernel_d); ++p)
        if (unsigned(front + p * int(dilation_d)) < unsigned(depth))
          outside &= ~(Mask(1) << p);
#endif
      for (int r = 0; r < int(kernel_h); ++r)
        if (unsigned(top + r * int(dilation_h)) < unsigned(height))
          outside &= ~(Mask(1) << kRowBit + r);
      for (int q = 0; q < int(kernel_w); ++q)
        if (unsigned(left + q * int(dilation_w)) < unsigned(width))
          outside &= ~(Mask(1) << kColumnBit + q);
    }
    copies.outside[j] = outside;
#endif
  }
#pragma unroll
  for (int j = 0; j < Copies::kFilters; ++j) { // behind the last channel its row is read again
    const unsigned column = first_column + own_row + j * Copies::kStep;
    copies.filter[j] = int((group * n + (column < n ? column : n - 1)) * k);
  }
  copies.x = kWholeSteps ? x + own_k : x, copies.w = w + own_k;
  copies.left = int(k) - own_k;
  copies.place = M::A::at(own_row, own_k);
  copies.channel = copies.column = 0;
#ifdef LARGE
  copies.dilation_h = int(dilation_h), copies.dilation_w = int(dilation_w);
  copies.height = unsigned(height), copies.width = unsigned(width);
  copies.row = copies.tap_row = copies.tap_column = 0, copies.last_row = int(kernel_h);
#else
  copies.tap = Mask(1) | Mask(1) << kRowBit | Mask(1) << kColumnBit;
#endif
#ifdef X_SECOND
  copies.planes = int(planes), copies.plane = int(height) * int(width);
#endif
  copies.in_group = int(in_group), copies.last_column = int(kernel_w);
  copies.to_column = int(dilation_w) * int(PITCH) - int(in_group);
  copies.to_row = (int(dilation_h) * int(width) - int(kernel_w) * int(dilation_w)) * int(PITCH);
#ifdef VOLUME
  copies.row = 0, copies.last_row = int(kernel_h);
  copies.to_plane =
      (int(dilation_d) * int(height) - int(kernel_h) * int(dilation_h)) * int(width) * int(PITCH);
#endif
  copies.begin(first_step * kMmaDepth, own_k);

  float sum[kHigh][kWide][4] = {};
#if __CUDA_ARCH__ >= 800
  const unsigned long long begins =
      (IS_SET(X_SECOND) ? 0 : (unsigned long long)(x)) | (unsigned long long)(w);
  const bool aligned = (begins & (kRun * sizeof(T) - 1)) == 0;
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

#ifdef SPLIT
  if (!join_splits<M::kThreads>(parts, counters, blockIdx.x / unsigned(splits),
                                blockIdx.x % unsigned(splits), unsigned(splits), thread, shared,
                                sum))
    return;
#endif
#ifdef PHASES
  const unsigned own = n / (unsigned(phases_d) * unsigned(phases_h) * unsigned(phases_w));
#else
  const unsigned own = n;
#endif
#ifndef RESULT_SECOND
  const bool whole =
      own % kChunk == 0 && Run<kChunk, OUT>::is_aligned(y) && RESULTS_ALIGNED(kChunk);
  constexpr int kAcross = kColumns / kChunk;
#endif
#pragma unroll 1
  for (int pass = 0; pass < kRows; pass += kPass) {
    __syncthreads(); // what is there has been read
    if (kPass == kRows || (warp_row >= pass && warp_row < pass + kPass))
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
              shared[(warp_row - pass + r * 16 + lane / 4 + e * 8) * kResultWidth + column] =
                  T(sum[r][q][e * 2 + c] + more);
        }
    __syncthreads();
#ifdef RESULT_SECOND
    const unsigned pixels = unsigned(out_depth) * out_plane;
#pragma unroll 1
    for (int i = thread; i < kPass * kColumns; i += kThreads) {
      const unsigned row = first_row + pass + i % kPass, column = first_column + i / kPass;
      if (row >= m || column >= n)
        continue;
#ifdef PHASES
      long long at;
      if (!find_place(row, column, own, unsigned(out_depth), unsigned(out_height),
                      unsigned(out_width), at PHASES_ARGUMENTS))
        continue;
#else
      const long long at =
          ((long long)(row / pixels) * out_channels + group * n + column) * pixels + row % pixels;
#endif
      STORE(at, shared[i % kPass * kResultWidth + i / kPass]);
    }
#else
#pragma unroll 1
    for (int i = thread; i < kPass * kAcross; i += kThreads) {
      const unsigned row = first_row + pass + i / kAcross,
                     column = first_column + i % kAcross * kChunk;
      if (row >= m || column >= n)
        continue;
      const T *values = shared + i / kAcross * kResultWidth + i % kAcross * kChunk;
#ifdef PHASES
      long long first;
      if (!whole) {
#pragma unroll 1
        for (unsigned e = 0; e < kChunk && column + e < n; ++e)
          if (find_place(row, column + e, own, unsigned(out_depth), unsigned(out_height),
                         unsigned(out_width), first PHASES_ARGUMENTS))
            STORE(first, values[e]);
        continue;
      }
      if (!find_place(row, column, own, unsigned(out_depth), unsigned(out_height),
                      unsigned(out_width), first PHASES_ARGUMENTS))
        continue;
#else
      const long long first = (long long)(row)*out_channels + group * n + column;
#endif
      STORE_RUN(kChunk, first, values[e], whole, int(n - column));
    }
#endif
  }
}

#endif
