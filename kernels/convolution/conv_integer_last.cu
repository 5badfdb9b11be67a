// Two-dimensional convolution of bytes less their zero points with channels last, exactly, to i32,
// whose low bits are kept; the padding is the zero point.
//
//   x: [batch, height, width, channels]     y: [batch, out_height, out_width, out_channels]
//   w: [out_channels, kernel_h, kernel_w, channels / groups]
//
//   entry                      pixels x channels   for
//   conv_integer_last          1 x 1 a thread      what no other takes: dp4a
//   conv_integer_last_128x128  a block's           tensor cores: byte_tile.cuh
//   conv_integer_last_128x64   likewise
//   conv_integer_last_64x64    likewise
//   conv_integer_last_64x32    likewise
//
// On tensor cores it is the product of two matrices of which the left one is never stored: its rows
// are pixels of all images, its columns the channels of a tap, tap after tap. RUN channels that a
// tap meets are as many bytes of x, or zero points in the padding, so that what zero points take
// away is the same for all pixels:
//   sum (x - p)(w - q) = sum x w - p sum w - q sum x + k p q
//
// Options: those of operands.cuh for bytes; WITH_MMA and the entries' sizes, as WITH_64x32, for
// indices of 32 bits and a multiple of RUN (16, 8, 4) channels of x in a group, with STAGES, of
// which a block has as many in dynamic shared memory, and SPLIT, with which `splits` blocks share a
// tile's steps (join_splits.cuh); those of fusion.cuh and assume.cuh.

#define INTEGERS

#include "convolution/last_window.cuh"
#include "shared/assume.cuh"
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"

#define PARAMETERS                                                                                 \
  const X *__restrict__ x, const W *__restrict__ w,                                                \
      X_ZERO_PARAMETER W_ZERO_PARAMETER SPLIT_PARAMETERS OUT *__restrict__ y, long long batch,     \
      long long channels, long long height, long long width, long long out_channels,               \
      long long out_height, long long out_width, long long kernel_h, long long kernel_w,           \
      long long stride_h, long long stride_w, long long pad_h, long long pad_w,                    \
      long long dilation_h, long long dilation_w, long long groups FUSED_PARAMETERS
#define ARGUMENTS                                                                                  \
  x, w, X_ZERO_ARGUMENT W_ZERO_ARGUMENT SPLIT_ARGUMENTS y, batch, channels, height, width,         \
      out_channels, out_height, out_width, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w,   \
      dilation_h, dilation_w, groups FUSED_ARGUMENTS

#ifdef WITH_MMA
#if __CUDA_ARCH__ >= 800

struct alignas(RUN) Run {
  unsigned word[RUN / 4];
};

// Copies of the tile of x: 16 bytes of k for some pixels, by runs of a tap's channels.
template <class Tile> struct PixelCopies {
  const X *x;
  int window[Tile::kChunks], top[Tile::kChunks], left[Tile::kChunks]; // of the pixels
  int height, width, channels, dilation_h, dilation_w;
  unsigned in_group, kernel_w, k, padding;
  unsigned at; // of k, of the next step

  template <bool kAligned> __device__ __forceinline__ void copy(unsigned char *stage) {
#pragma unroll
    for (unsigned run = 0; run < 16; run += RUN) {
      const unsigned own = at + run, tap = own / in_group;
      const int row = int(tap / kernel_w) * dilation_h, column = int(tap % kernel_w) * dilation_w;
      const X *from = x + (row * width + column) * channels + int(own % in_group);
#pragma unroll
      for (int j = 0; j < Tile::kChunks; ++j) {
        const bool inside = own < k && unsigned(top[j] + row) < unsigned(height) &&
                            unsigned(left[j] + column) < unsigned(width);
        const bool pads = kHasXZero && own < k && !inside;
        unsigned char *to = stage + Tile::at(Tile::left_row(j), Tile::chunk()) + run;
        Run bytes;
        if (!kAligned)
          read_bytes<RUN, false>(from + window[j], inside ? RUN : 0, bytes.word);
        if (pads)
#pragma unroll
          for (unsigned &word : bytes.word)
            word = padding;
        if (!kAligned || pads)
          *reinterpret_cast<Run *>(to) = bytes;
        else
          copy_or_zeros<RUN>(inside, shared_address(to), from + window[j]);
      }
    }
    at += Tile::kDepth;
  }
};

template <class Tile, int kBytes, class Sum>
__device__ __forceinline__ void add_products(PixelCopies<Tile> &pixels, const W *w, int channels,
                                             ByteSteps steps, unsigned char *stages, Sum &sum,
                                             int *row_sums, int *column_sums) {
  RowCopies<Tile, Tile::kColumns, kBytes, W> filters(w, channels, pixels.k,
                                                     steps.first * Tile::kDepth);
  Tile::template add_copied<kHasWZero, kHasXZero, STAGES, kBytes == 1>(
      steps.count,
      [&](unsigned char *stage) {
        pixels.template copy<kBytes != 1>(stage);
        filters.copy(stage, Tile::kRows);
      },
      stages, sum, row_sums, column_sums);
}

template <int kHigh, int kWide> __device__ __forceinline__ void convolve_byte_tiles(PARAMETERS) {
  __builtin_assume(ASSUME);
  typedef ByteTile<X, W, kHigh, kWide> Tile;
  extern __shared__ __align__(16) unsigned char stages[];
  __shared__ int row_sums[Tile::kRows], column_sums[Tile::kColumns];
  for (int i = Tile::thread(); i < Tile::kRows; i += Tile::kThreads)
    row_sums[i] = 0;
  for (int i = Tile::thread(); i < Tile::kColumns; i += Tile::kThreads)
    column_sums[i] = 0;

  const unsigned in_group = unsigned(channels / groups), n = unsigned(out_channels / groups);
  const unsigned k = in_group * unsigned(kernel_h) * unsigned(kernel_w);
  const unsigned out_plane = unsigned(out_height) * unsigned(out_width);
  const unsigned m = unsigned(batch) * out_plane;
  const unsigned across = (n + Tile::kColumns - 1) / Tile::kColumns;
  const unsigned down = (m + Tile::kRows - 1) / Tile::kRows;
#ifdef SPLIT
  const unsigned blocks = unsigned(splits);
#else
  const unsigned blocks = 1;
#endif
  const unsigned tile = blockIdx.x / blocks, first_column = tile % across * Tile::kColumns;
  const unsigned first_row = tile / across % down * Tile::kRows, group = tile / across / down;
  const ByteSteps steps(k, Tile::kDepth, blockIdx.x % blocks, blocks);

  PixelCopies<Tile> pixels;
#pragma unroll
  for (int j = 0; j < Tile::kChunks; ++j) {
    const unsigned pixel = first_row + Tile::left_row(j);
    const unsigned image = pixel / out_plane, at = pixel % out_plane;
    const int top = int(at / unsigned(out_width)) * int(stride_h) - int(pad_h);
    const int left = int(at % unsigned(out_width)) * int(stride_w) - int(pad_w);
    pixels.window[j] = ((int(image) * int(height) + top) * int(width) + left) * int(channels) +
                       int(group * in_group);
    pixels.top[j] = pixel < m ? top : int(height); // else outside
    pixels.left[j] = left;
  }
  pixels.x = x, pixels.height = int(height), pixels.width = int(width);
  pixels.channels = int(channels), pixels.in_group = in_group, pixels.k = k;
  pixels.dilation_h = int(dilation_h), pixels.dilation_w = int(dilation_w);
  pixels.at = unsigned(steps.first * Tile::kDepth + Tile::chunk()),
  pixels.kernel_w = unsigned(kernel_w);
  pixels.padding = unsigned(X_ZERO & 0xff) * 0x01010101u;
  const W *from = w + (long long)(group * n + first_column) * k;
  int sum[kHigh][kWide][4] = {};
  if (((unsigned long long)(x) | (unsigned long long)(w)) % RUN == 0)
    add_products<Tile, RUN>(pixels, from, int(n - first_column), steps, stages, sum, row_sums,
                            column_sums);
  else
    add_products<Tile, 1>(pixels, from, int(n - first_column), steps, stages, sum, row_sums,
                          column_sums);
  __syncthreads();
  const auto x_zero_of = [&](int) { return X_ZERO; };
  const auto w_zero_of = [&](int c) {
    return first_column + c < n ? W_ZERO(group * n + first_column + c) : 0;
  };
  Tile::template take_zeros<kHasWZero, kHasXZero>(sum, row_sums, column_sums, steps.bytes,
                                                  x_zero_of, w_zero_of);
#ifdef SPLIT
  if (!join_splits<Tile::kThreads>(parts, counters, tile, blockIdx.x % blocks, blocks,
                                   Tile::thread(), stages, sum))
    return;
  __syncthreads(); // the counter has been read
#endif
  Tile::each_sum(sum, stages, [&](int r, int c, int value) {
    const unsigned pixel = first_row + r, channel = first_column + c;
    if (pixel < m && channel < n)
      STORE(Index(pixel) * Index(out_channels) + group * n + channel, value);
  });
}

#define FORM(bounds, name, high, wide)                                                             \
  extern "C" __global__ void __launch_bounds__ bounds name(PARAMETERS) {                           \
    BEGIN_EARLY();                                                                                 \
    convolve_byte_tiles<high, wide>(ARGUMENTS);                                                    \
  }
#ifdef WITH_64x32 // of which NVRTC 13.5 gives 48 registers else, and spills on sm_80
FORM((128, 8), conv_integer_last_64x32, 2, 2)
#endif
#ifdef WITH_64x64
FORM((128), conv_integer_last_64x64, 2, 4)
#endif
#ifdef WITH_128x64
FORM((128), conv_integer_last_128x64, 4, 4)
#endif
#ifdef WITH_128x128
FORM((128), conv_integer_last_128x128, 4, 8)
#endif

#endif
#else

extern "C" __global__ void conv_integer_last(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index count = Index(batch) * Index(out_height) * Index(out_width) * Index(out_channels);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    Sum sum;
    const Index channel = add_window(sum, x, w, i, channels, height, width, out_channels,
                                     out_height, out_width, kernel_h, kernel_w, stride_h, stride_w,
                                     pad_h, pad_w, dilation_h, dilation_w, groups);
    STORE(i, sum.total(X_ZERO, W_ZERO(channel)));
  }
}
#endif
