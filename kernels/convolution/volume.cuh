// Convolutions over three dimensions: lists of parameters, and where a window lies. Fewer
// dimensions get 1s in front.
//
//   x: [batch, channels, size..]     y: [batch, out_channels, out..]
#pragma once

// One entry for each dimension, outermost first: SIDES(long long stride) is long long stride_d,
// long long stride_h, long long stride_w.
#define SIDES(name) name##_d, name##_h, name##_w

// Parameters of kernels over floats; T, OUT, BIAS_PARAMETER and FUSED_PARAMETERS are theirs.
#define CONVOLUTION_PARAMETERS                                                                     \
  const T *__restrict__ x, const T *__restrict__ w, BIAS_PARAMETER OUT *__restrict__ y,            \
      long long batch, long long channels, SIDES(long long size), long long out_channels,          \
      SIDES(long long out), SIDES(long long kernel), SIDES(long long stride),                      \
      SIDES(long long pad), SIDES(long long dilation), long long groups FUSED_PARAMETERS
#define CONVOLUTION_ARGUMENTS                                                                      \
  x, w, BIAS_ARGUMENT y, batch, channels, SIDES(size), out_channels, SIDES(out), SIDES(kernel),    \
      SIDES(stride), SIDES(pad), SIDES(dilation), groups FUSED_ARGUMENTS
