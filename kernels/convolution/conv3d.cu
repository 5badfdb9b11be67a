// Convolution (cross-correlation) over three dimensions, direct, with zero padding.
//
//   x: [batch, channels, size..]          w: [out_channels, channels / groups, kernel..]
//   y: [batch, out_channels, out..]       bias: [out_channels], with HAS_BIAS
//
// conv3d: of floats. conv_integer, with X_UNSIGNED and W_UNSIGNED: of bytes, less their zero points
// (HAS_X_ZERO; HAS_W_ZERO, one each w_zero_step channels: 0 of one for all), exactly, to i32, whose
// low bits are kept; the padding is the zero point. A thread computes one element of y, of bytes
// four products at a time.
//
// With WITH_MMA, for bytes, there is conv_integer_mma, on tensor cores (conv_integer_mma.cuh).
// With WITH_REGISTER=16 or 64, for floats, there is conv3d_register_16 or _64, which computes so
// many channels a block (register_tile.cuh); with WITHOUT_DIRECT there is nothing else.
//
// Options: those of operands.cuh, INTEGERS for conv_integer; of fusion.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/bias.cuh"
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"
#include "convolution/operands.cuh"
#include "convolution/volume.cuh"

#define DIRECT_PARAMETERS                                                                          \
  const X *__restrict__ x, const W *__restrict__ w,                                                \
      BIAS_PARAMETER X_ZERO_PARAMETER W_ZERO_PARAMETER OUT *__restrict__ y, long long batch,       \
      long long channels, SIDES(long long size), long long out_channels, SIDES(long long out),     \
      SIDES(long long kernel), SIDES(long long stride), SIDES(long long pad),                      \
      SIDES(long long dilation), long long groups FUSED_PARAMETERS

#ifdef INTEGERS
#define ENTRY conv_integer
#else
#define ENTRY conv3d
#endif

#ifndef INTEGERS
#include "convolution/conv_register.cuh"
#include "convolution/conv_slices.cuh"
#elif defined(WITH_MMA)
#include "convolution/conv_integer_mma.cuh"
#endif

#ifdef WITH_SLICES
extern "C" __global__ void SLICES_BOUNDS conv3d_slices(CONVOLUTION_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  convolve_in_slices(CONVOLUTION_ARGUMENTS);
}
#endif
#ifdef WITH_REGISTER
extern "C" __global__ void REGISTER_BOUNDS REGISTER_ENTRY(conv3d)(CONVOLUTION_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  convolve_in_registers<RegisterTileOf<WITH_REGISTER>>(CONVOLUTION_ARGUMENTS);
}
#endif

#ifndef WITHOUT_DIRECT
extern "C" __global__ void ENTRY(DIRECT_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index in_volume = Index(size_d) * Index(size_h) * Index(size_w);
  const Index taps = Index(kernel_d) * Index(kernel_h) * Index(kernel_w);
  const Index out_volume = Index(out_d) * Index(out_h) * Index(out_w);
  const Index in_group = Index(channels / groups), out_group = Index(out_channels / groups);
  const Index count = Index(batch) * Index(out_channels) * out_volume;
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index at = i % out_volume, channel = i / out_volume % Index(out_channels);
    const Index image = i / out_volume / Index(out_channels);
    const long long front = (long long)(at / Index(out_w) / Index(out_h)) * stride_d - pad_d;
    const long long top = (long long)(at / Index(out_w) % Index(out_h)) * stride_h - pad_h;
    const long long left = (long long)(at % Index(out_w)) * stride_w - pad_w;
    const X *in = x + (image * Index(channels) + channel / out_group * in_group) * in_volume;
    const W *filter = w + channel * in_group * taps;
#ifdef INTEGERS
    Sum sum;
#else
    Sum sum{BIAS_AT(channel)};
#endif
    for (int p = 0; p < kernel_d; ++p) {
      const long long plane = front + p * dilation_d;
      for (int r = 0; r < kernel_h; ++r) {
        const long long row = top + r * dilation_h;
        for (int q = 0; q < kernel_w; ++q) {
          const long long column = left + q * dilation_w;
          if (plane < 0 || plane >= size_d || row < 0 || row >= size_h || column < 0 ||
              column >= size_w)
            continue;
          const X *in_tap = in + (plane * size_h + row) * size_w + column;
          const W *filter_tap = filter + (p * kernel_h + r) * kernel_w + q;
          for (Index c = 0; c < in_group; ++c)
            sum.add(in_tap[c * in_volume], filter_tap[c * taps]);
        }
      }
    }
    STORE(i, sum.total(X_ZERO, W_ZERO(channel)));
  }
}
#endif
