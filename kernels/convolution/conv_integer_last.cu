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
// are pixels of all images, its columns the channels of a tap, tap after tap. Sixteen channels that
// a tap meets are 16 bytes of x, or zero points in the padding, so that what zero points take away
// is the same for all pixels:
//   sum (x - p)(w - q) = sum x w - p sum w - q sum x + k p q
//
// Options: those of operands.cuh for bytes; WITH_MMA and the entries' sizes, as WITH_64x32, for
// indices of 32 bits and a multiple of 16 channels of x in a group; those of fusion.cuh and
// assume.cuh.

#define INTEGERS

#include "convolution/last_window.cuh"
#include "shared/assume.cuh"
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"

#define PARAMETERS                                                                                 \
  const X *__restrict__ x, const W *__restrict__ w,                                                \
      X_ZERO_PARAMETER W_ZERO_PARAMETER OUT *__restrict__ y, long long batch, long long channels,  \
      long long height, long long width, long long out_channels, long long out_height,             \
      long long out_width, long long kernel_h, long long kernel_w, long long stride_h,             \
      long long stride_w, long long pad_h, long long pad_w, long long dilation_h,                  \
      long long dilation_w, long long groups FUSED_PARAMETERS
#define ARGUMENTS                                                                                  \
  x, w, X_ZERO_ARGUMENT W_ZERO_ARGUMENT y, batch, channels, height, width, out_channels,           \
      out_height, out_width, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h,     \
      dilation_w, groups FUSED_ARGUMENTS

#ifdef WITH_MMA
#if __CUDA_ARCH__ >= 800

// What a thread has of the tile of weights, which have k along their rows: 16 bytes of some rows.
template <class Tile, bool kAligned> struct FilterRow {
  static constexpr int kBytes = 16, kReads = Tile::kWords * 4 / kBytes;
  static constexpr int kAcross = Tile::kDepth / kBytes;
  const W *from; // the block's first channel
  long long k;
  int channels; // from there on, of the group
  unsigned word[kReads][kBytes / 4];

  static __device__ __forceinline__ int column(int i) {
    return Tile::thread() / kAcross + i * (Tile::kThreads / kAcross);
  }
  static __device__ __forceinline__ int place() { return Tile::thread() % kAcross * kBytes; }

  __device__ __forceinline__ void read(long long begin) {
    const long long at = begin + place();
#pragma unroll
    for (int i = 0; i < kReads; ++i)
      read_bytes<kBytes, kAligned>(from + column(i) * k + at, column(i) < channels ? k - at : 0,
                                   word[i]);
  }
  template <class Store> __device__ __forceinline__ void words(Store store) const {
#pragma unroll
    for (int i = 0; i < kReads; ++i)
#pragma unroll
      for (int j = 0; j < kBytes / 4; ++j)
        store(i * (kBytes / 4) + j, column(i), place() / 4 + j, word[i][j]);
  }
};

// What a thread has of the tile of x: 16 channels of a tap for some pixels.
template <class Tile> struct PixelChunks {
  const X *x;
  int window[Tile::kChunks], top[Tile::kChunks], left[Tile::kChunks]; // of the pixels
  int height, width, channels, dilation_h, dilation_w;
  unsigned in_group, kernel_w, k, padding;
  int row, column, offset; // of the tap that the chunk lies in, and its place in x
  bool there;

  __device__ __forceinline__ void find_tap(unsigned at) {
    there = at < k;
    const unsigned tap = at / in_group;
    row = int(tap / kernel_w) * dilation_h, column = int(tap % kernel_w) * dilation_w;
    offset = (row * width + column) * channels + int(at % in_group);
  }
  template <bool kAligned>
  __device__ __forceinline__ void read(int j, long long at, unsigned (&word)[4]) {
    if (j == 0) // the same for all of the thread's pixels
      find_tap(unsigned(at));
    const bool inside = there && unsigned(top[j] + row) < unsigned(height) &&
                        unsigned(left[j] + column) < unsigned(width);
    read_bytes<16, kAligned>(x + window[j] + offset, inside ? 16 : 0, word);
    if (kHasXZero && there && !inside)
      word[0] = word[1] = word[2] = word[3] = padding;
  }
};

template <class Tile, bool kAligned, class Sum>
__device__ __forceinline__ void add_products(PixelChunks<Tile> &pixels, const W *w, int channels,
                                             unsigned char *stages, Sum &sum, int *row_sums,
                                             int *column_sums) {
  FilterRow<Tile, kAligned> right;
  right.from = w, right.k = pixels.k, right.channels = channels;
  Tile::template add<kHasWZero, kHasXZero>(
      pixels.k,
      [&](int j, long long at, unsigned(&word)[4]) { pixels.template read<kAligned>(j, at, word); },
      right, stages, sum, row_sums, column_sums);
}

template <int kHigh, int kWide> __device__ __forceinline__ void convolve_byte_tiles(PARAMETERS) {
  __builtin_assume(ASSUME);
  typedef ByteTile<X, W, kHigh, kWide> Tile;
  __shared__ alignas(16) unsigned char stages[2 * Tile::kStage];
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
  const unsigned first_column = blockIdx.x % across * Tile::kColumns;
  const unsigned first_row = blockIdx.x / across % down * Tile::kRows;
  const unsigned group = blockIdx.x / across / down;

  PixelChunks<Tile> pixels;
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
  pixels.kernel_w = unsigned(kernel_w), pixels.padding = unsigned(X_ZERO & 0xff) * 0x01010101u;
  const W *from = w + (long long)(group * n + first_column) * k;
  int sum[kHigh][kWide][4] = {};
  if (((unsigned long long)(x) | (unsigned long long)(w)) % 16 == 0)
    add_products<Tile, true>(pixels, from, int(n - first_column), stages, sum, row_sums,
                             column_sums);
  else
    add_products<Tile, false>(pixels, from, int(n - first_column), stages, sum, row_sums,
                              column_sums);
  __syncthreads();
  Tile::each_sum(sum, stages, [&](int r, int c, int products) {
    const unsigned pixel = first_row + r, channel = first_column + c;
    if (pixel >= m || channel >= n)
      return;
    unsigned value = unsigned(products); // sums wrap
    const unsigned p = unsigned(X_ZERO), z = unsigned(W_ZERO(group * n + channel));
    if (kHasXZero)
      value -= p * unsigned(column_sums[c]);
    if (kHasWZero)
      value -= z * unsigned(row_sums[r]);
    STORE(Index(pixel) * Index(out_channels) + group * n + channel, int(value + k * p * z));
  });
}

#define FORM(name, high, wide)                                                                     \
  extern "C" __global__ void __launch_bounds__(128) name(PARAMETERS) {                             \
    BEGIN_EARLY();                                                                                 \
    convolve_byte_tiles<high, wide>(ARGUMENTS);                                                    \
  }
#ifdef WITH_64x32
FORM(conv_integer_last_64x32, 2, 2)
#endif
#ifdef WITH_64x64
FORM(conv_integer_last_64x64, 2, 4)
#endif
#ifdef WITH_128x64
FORM(conv_integer_last_128x64, 4, 4)
#endif
#ifdef WITH_128x128
FORM(conv_integer_last_128x128, 4, 8)
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
