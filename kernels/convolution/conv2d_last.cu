// Convolution (cross-correlation) with channels last, zero padding, of two dimensions, or with
// VOLUME of three (last_depth.cuh), whose entries are called conv3d_last.
//
//   x: [batch, height, width, channels]     y: [batch, out_height, out_width, out_channels]
//   w: [out_channels, kernel_h, kernel_w, channels / groups]
//   bias: [out_channels], with HAS_BIAS
//
//   entry                  pixels x channels   for
//   conv2d_last            1 x 1 a thread      what no other takes
//   conv2d_last_depthwise  4 x RUN a thread    a channel a group: conv2d_last_depthwise.cuh
//   conv2d_last_128x128    a block's           tensor cores: conv2d_last_mma.cuh
//   conv2d_last_128x64     likewise
//   conv2d_last_64x64      likewise
//   conv2d_last_64x32      likewise
//
// Sums are in float (double for f64).
//
// Options: those of floating.cuh, fusion.cuh and assume.cuh; HAS_BIAS adds the bias parameter,
// WITH_DEPTHWISE or WITH_MMA, for indices of 32 bits, other forms instead of the direct one, with
// WITH_128x128 and so on each those that are launched; TF32, with WITH_MMA of f32, whose factors
// are rounded; LARGE, with WITH_MMA of images, whose kernels may then have any size; RUN, elements
// of a copy or a thread's channels; WHOLE_STEPS where a group of x has a multiple of the channels
// that a step takes of k; CHANNEL_RANGE (last_depth.cuh); RESULT_SECOND, but for depthwise ones: y
// is [batch, out_channels, out_height, out_width]; PHASES (last_depth.cuh), likewise: y is
// [batch, y_h, y_w, out_channels / (phases_h * phases_w)], or has these channels second; SPLIT
// where blocks share out a tile's steps: parts, [tiles, splits] of a tile's sums each, counters, a
// tile's each, and splits; X_SECOND (last_depth.cuh), not of volumes and with WITH_MMA for RUN
// channels; X_F32 with it: x is f32, and rounded.

#include "convolution/last_depth.cuh"
#include "shared/assume.cuh"
#include "shared/bias.cuh"
#include "shared/floating.cuh"
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

#ifdef SPLIT
#define PARTS_PARAMETERS float *parts, unsigned *__restrict__ counters,
#define PARTS_ARGUMENTS parts, counters,
#define SPLITS_PARAMETER , long long splits
#define SPLITS_ARGUMENT , splits
#else
#define PARTS_PARAMETERS
#define PARTS_ARGUMENTS
#define SPLITS_PARAMETER
#define SPLITS_ARGUMENT
#endif

#define PARAMETERS                                                                                 \
  const INPUT *__restrict__ x, const T *__restrict__ w,                                            \
      BIAS_PARAMETER PARTS_PARAMETERS OUT *__restrict__ y, DEPTH_PARAMETERS long long batch,       \
      long long channels, RANGE_PARAMETERS long long height, long long width,                      \
      long long out_channels, long long out_height, long long out_width, long long kernel_h,       \
      long long kernel_w, long long stride_h, long long stride_w, long long pad_h,                 \
      long long pad_w, long long dilation_h, long long dilation_w,                                 \
      long long groups PHASES_PARAMETERS SPLITS_PARAMETER FUSED_PARAMETERS

#define ARGUMENTS                                                                                  \
  x, w, BIAS_ARGUMENT PARTS_ARGUMENTS y, DEPTH_ARGUMENTS batch, channels, RANGE_ARGUMENTS height,  \
      width, out_channels, out_height, out_width, kernel_h, kernel_w, stride_h, stride_w, pad_h,   \
      pad_w, dilation_h, dilation_w, groups PHASES_ARGUMENTS SPLITS_ARGUMENT FUSED_ARGUMENTS

#ifdef VOLUME
#define ENTRY(form) conv3d_last##form
#else
#define ENTRY(form) conv2d_last##form
#endif

#if defined(WITH_DEPTHWISE)
#include "convolution/conv2d_last_depthwise.cuh"

extern "C" __global__ void __launch_bounds__(128, 2) conv2d_last_depthwise(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  convolve_depthwise(ARGUMENTS);
}
#elif defined(WITH_MMA)
#include "convolution/conv2d_last_mma.cuh"

#ifdef TF32
#define COPY_BYTES (RUN * 4)
#else
#define COPY_BYTES (RUN * 2)
#endif

// Blocks that a multiprocessor's shared memory has room for, of kStagedBytes each; fewer where
// registers hold the masks of eight pixels of volumes, or the places of as many windows.
#if (defined(VOLUME) || defined(LARGE)) && COPY_BYTES < 8
#define MOST_BLOCKS 2
#elif COPY_BYTES == 16 && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
#define MOST_BLOCKS 4
#else
#define MOST_BLOCKS 3
#endif

#ifdef WITH_128x128
extern "C" __global__ void __launch_bounds__(128, 2) ENTRY(_128x128)(PARAMETERS) {
  BEGIN_EARLY();
  convolve_last<2, 2, 4, 8>(ARGUMENTS);
}
#endif

#ifdef WITH_128x64
extern "C" __global__ void __launch_bounds__(128, 3) ENTRY(_128x64)(PARAMETERS) {
  BEGIN_EARLY();
  convolve_last<2, 2, 4, 4>(ARGUMENTS);
}
#endif

#ifdef WITH_64x64
extern "C" __global__ void __launch_bounds__(128, MOST_BLOCKS) ENTRY(_64x64)(PARAMETERS) {
  BEGIN_EARLY();
  convolve_last<2, 2, 2, 4>(ARGUMENTS);
}
#endif

#ifdef WITH_64x32
extern "C" __global__ void __launch_bounds__(128, MOST_BLOCKS) ENTRY(_64x32)(PARAMETERS) {
  BEGIN_EARLY();
  convolve_last<2, 2, 2, 2>(ARGUMENTS);
}
#endif
#else
#include "convolution/last_window.cuh"

extern "C" __global__ void ENTRY()(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
#ifdef PHASES
  const Index own = Index(out_channels) / (Index(phases_d) * Index(phases_h) * Index(phases_w));
  const Index count = Index(batch) * Index(y_d) * Index(y_h) * Index(y_w) * own;
#else
  const Index count =
      Index(batch) * Index(out_depth) * Index(out_height) * Index(out_width) * Index(out_channels);
#endif
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
#ifdef PHASES
#ifdef RESULT_SECOND
    const Index pixels = Index(y_d) * Index(y_h) * Index(y_w), pixel = i % pixels;
    const Index image = i / pixels / own, channel = i / pixels % own;
#else
    const Index pixel = i / own % (Index(y_d) * Index(y_h) * Index(y_w)), channel = i % own;
    const Index image = i / own / (Index(y_d) * Index(y_h) * Index(y_w));
#endif
    const Index plane = pixel / Index(y_w) / Index(y_h) + Index(cut_d),
                row = pixel / Index(y_w) % Index(y_h) + Index(cut_h),
                column = pixel % Index(y_w) + Index(cut_w);
    const Index phase =
        (plane % Index(phases_d) * Index(phases_h) + row % Index(phases_h)) * Index(phases_w) +
        column % Index(phases_w);
    const Index place = (((image * Index(out_depth) + plane / Index(phases_d)) * Index(out_height) +
                          row / Index(phases_h)) *
                             Index(out_width) +
                         column / Index(phases_w)) *
                            Index(out_channels) +
                        phase * own + channel;
#elif defined(RESULT_SECOND)
    const Index pixels = Index(out_depth) * Index(out_height) * Index(out_width);
    const Index pixel = i % pixels, channel = i / pixels % Index(out_channels);
    const Index place =
        (i / pixels / Index(out_channels) * pixels + pixel) * Index(out_channels) + channel;
#else
    const Index place = i;
#endif
    Sum sum{BIAS_AT(place % Index(out_channels))};
    add_window(sum, x, w, place, DEPTH_ARGUMENTS channels, RANGE_ARGUMENTS height, width,
               out_channels, out_height, out_width, kernel_h, kernel_w, stride_h, stride_w, pad_h,
               pad_w, dilation_h, dilation_w, groups);
    STORE(i, sum.sum);
  }
}
#endif
