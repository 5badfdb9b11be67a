// Transposed convolution over three dimensions, direct: each element of y gathers what it is given.
//
//   x: [batch, channels, size..]          w: [channels, out_channels / groups, kernel..]
//   y: [batch, out_channels, out..]       bias: [out_channels], with HAS_BIAS
//
// Element i of x along a dimension gives to those at i stride + tap dilation - pad. A thread
// computes one element of y.
//
// With WITH_REGISTER=16 or 64 there is conv_transpose_register_16 or _64, which computes so many
// channels a block (conv_transpose_register.cuh); with WITHOUT_DIRECT there is nothing else.
//
// Options: those of floating.cuh, fusion.cuh and assume.cuh; HAS_BIAS.

#include "shared/assume.cuh"
#include "shared/bias.cuh"
#include "shared/floating.cuh"
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"
#include "convolution/volume.cuh"

#include "convolution/conv_transpose_register.cuh"

#ifdef WITH_REGISTER
extern "C" __global__ void REGISTER_BOUNDS REGISTER_ENTRY(conv_transpose)(CONVOLUTION_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  transpose_convolve_in_registers<RegisterTileOf<WITH_REGISTER>>(CONVOLUTION_ARGUMENTS);
}
#endif

#ifndef WITHOUT_DIRECT
// Which element of x gives to the one at `from` by a tap `reach` away; -1: none.
__device__ __forceinline__ long long giver(long long from, long long reach, long long stride,
                                           long long size) {
  const long long at = from - reach;
  return at >= 0 && at % stride == 0 && at / stride < size ? at / stride : -1;
}

extern "C" __global__ void conv_transpose(CONVOLUTION_PARAMETERS) {
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
    const long long front = (long long)(at / Index(out_w) / Index(out_h)) + pad_d;
    const long long top = (long long)(at / Index(out_w) % Index(out_h)) + pad_h;
    const long long left = (long long)(at % Index(out_w)) + pad_w;
    const Index first = channel / out_group * in_group; // of the group's channels of x
    const T *in = x + (image * Index(channels) + first) * in_volume;
    const T *filter = w + (first * out_group + channel % out_group) * taps;
    Acc sum = BIAS_AT(channel);
    for (int p = 0; p < kernel_d; ++p) {
      const long long plane = giver(front, p * dilation_d, stride_d, size_d);
      for (int r = 0; r < kernel_h && plane >= 0; ++r) {
        const long long row = giver(top, r * dilation_h, stride_h, size_h);
        for (int q = 0; q < kernel_w && row >= 0; ++q) {
          const long long column = giver(left, q * dilation_w, stride_w, size_w);
          if (column < 0)
            continue;
          const T *in_tap = in + (plane * size_h + row) * size_w + column;
          const T *filter_tap = filter + (p * kernel_h + r) * kernel_w + q;
          for (Index c = 0; c < in_group; ++c)
            sum = fma(Acc(in_tap[c * in_volume]), Acc(filter_tap[c * out_group * taps]), sum);
        }
      }
    }
    STORE(i, sum);
  }
}
#endif
