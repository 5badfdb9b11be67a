// Two-dimensional convolution (cross-correlation), direct: NCHW images, OIHW weights, zero padding.
//
//   x: [batch, channels, height, width]     y: [batch, out_channels, out_height, out_width]
//   w: [out_channels, channels / groups, kernel_h, kernel_w]
//   bias: [out_channels], with HAS_BIAS
//
//   entry               channels x pixels   for
//   conv2d              1 x 1 a thread      what no other takes
//   conv2d_x4           4 x 1 a thread      likewise, channels of a group a multiple of 4
//   conv2d_depthwise    1 x 4 a thread      a channel of x a group: conv2d_depthwise.cuh
//   conv2d_slices       8 x 32 a block      few tiles, or too many taps for them: conv_slices.cuh
//   conv2d_register_16  16 x 128 a block    several channels: register_tile.cuh
//   conv2d_register_64  64 x 64 a block     more channels: likewise
//   conv2d_mma          64 x 128 a block    f16 and bf16, tensor cores: conv2d_mma.cuh
//
// In the first two taps are the outer loops and channels the inner one, so that whether a tap lies
// in the padding is asked once a tap. Sums are in float (double for f64).
//
// Options: those of floating.cuh, fusion.cuh and assume.cuh; HAS_BIAS adds the bias parameter,
// WITH_SLICES, WITH_DEPTHWISE, WITH_MMA and WITH_REGISTER=16 or 64 one of the others, for indices
// of 32 bits; WITHOUT_DIRECT leaves the first two out. With the kernel's size, strides and channels
// in ASSUME the loops over taps are unrolled.

#include "shared/assume.cuh"
#include "shared/bias.cuh"
#include "shared/floating.cuh"
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"

#include "convolution/conv_register.cuh"
#include "convolution/conv_slices.cuh"

#define PARAMETERS                                                                                 \
  const T *__restrict__ x, const T *__restrict__ w, BIAS_PARAMETER OUT *__restrict__ y,            \
      long long batch, long long channels, long long height, long long width,                      \
      long long out_channels, long long out_height, long long out_width, long long kernel_h,       \
      long long kernel_w, long long stride_h, long long stride_w, long long pad_h,                 \
      long long pad_w, long long dilation_h, long long dilation_w,                                 \
      long long groups FUSED_PARAMETERS

#define ARGUMENTS                                                                                  \
  x, w, BIAS_ARGUMENT y, batch, channels, height, width, out_channels, out_height, out_width,      \
      kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,                \
      groups FUSED_ARGUMENTS

#define AS_VOLUME                                                                                  \
  x, w, BIAS_ARGUMENT y, batch, channels, 1, height, width, out_channels, 1, out_height,           \
      out_width, 1, kernel_h, kernel_w, 1, stride_h, stride_w, 0, pad_h, pad_w, 1, dilation_h,     \
      dilation_w, groups FUSED_ARGUMENTS

#ifdef WITH_MMA
#include "convolution/conv2d_mma.cuh"

// Without a number of blocks ptxas takes 128 registers for 10.x and 11.0, and spills.
extern "C" __global__ void __launch_bounds__(128, 3) conv2d_mma(PARAMETERS) {
  BEGIN_EARLY();
  convolve_tiles<2, 2, 2, 8>(ARGUMENTS);
}
#endif

#ifdef WITH_REGISTER
extern "C" __global__ void REGISTER_BOUNDS REGISTER_ENTRY(conv2d)(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  convolve_in_registers<RegisterTileOf<WITH_REGISTER>>(AS_VOLUME);
}
#endif

#ifdef WITH_DEPTHWISE
#include "convolution/conv2d_depthwise.cuh"

// So many registers that a window's elements of all rows can be on their way at once.
extern "C" __global__ void __launch_bounds__(256, KERNEL_H *KERNEL_W > 9 ? 2 : 4)
    conv2d_depthwise(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  convolve_depthwise(ARGUMENTS);
}
#endif

#ifdef WITH_SLICES
extern "C" __global__ void SLICES_BOUNDS conv2d_slices(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  convolve_in_slices(AS_VOLUME);
}
#endif

#ifndef WITHOUT_DIRECT

// kOut: output channels a thread.
template <int kOut> __device__ __forceinline__ void convolve(PARAMETERS) {
  __builtin_assume(ASSUME);
  const Index in_plane = Index(height) * Index(width), taps = Index(kernel_h) * Index(kernel_w);
  const Index out_plane = Index(out_height) * Index(out_width);
  const Index in_group = Index(channels / groups), out_group = Index(out_channels / groups);
  const Index blocks = Index(out_channels) / kOut; // of kOut channels each
  const Index count = Index(batch) * blocks * out_plane, step = Index(gridDim.x) * blockDim.x;

  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index pixel = i % out_plane, image = i / out_plane / blocks;
    const Index channel = i / out_plane % blocks * kOut;
    const long long top = (long long)(pixel / Index(out_width)) * stride_h - pad_h;
    const long long left = (long long)(pixel % Index(out_width)) * stride_w - pad_w;
    const T *in = x + (image * Index(channels) + channel / out_group * in_group) * in_plane;
    const T *filter = w + channel * in_group * taps;

    Acc sum[kOut];
#pragma unroll
    for (int o = 0; o < kOut; ++o)
      sum[o] = BIAS_AT(channel + o);
    for (int r = 0; r < kernel_h; ++r) {
      const long long row = top + r * dilation_h;
      for (int q = 0; q < kernel_w; ++q) {
        const long long column = left + q * dilation_w;
        if (row < 0 || row >= height || column < 0 || column >= width)
          continue;
        const T *in_tap = in + row * width + column;
        const T *filter_tap = filter + r * kernel_w + q;
        for (Index c = 0; c < in_group; ++c) {
          const Acc value = Acc(in_tap[c * in_plane]);
#pragma unroll
          for (int o = 0; o < kOut; ++o)
            sum[o] = fma(value, Acc(filter_tap[(o * in_group + c) * taps]), sum[o]);
        }
      }
    }
    const Index out = (image * Index(out_channels) + channel) * out_plane + pixel;
#pragma unroll
    for (int o = 0; o < kOut; ++o)
      STORE(out + o * out_plane, sum[o]);
  }
}

extern "C" __global__ void conv2d(PARAMETERS) {
  BEGIN_EARLY();
  convolve<1>(ARGUMENTS);
}

extern "C" __global__ void conv2d_x4(PARAMETERS) {
  BEGIN_EARLY();
  convolve<4>(ARGUMENTS);
}
#endif
