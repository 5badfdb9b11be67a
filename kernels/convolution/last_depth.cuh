// The third dimension of convolutions with channels last. With VOLUME images are volumes, x being
// [batch, depth, height, width, channels], y and w likewise; without it all depths are 1.
//
// With CHANNEL_RANGE pixels of x have PITCH channels, of which `channels` are read, from
// FIRST_CHANNEL on.
#pragma once

#ifdef VOLUME
#define DEPTH_PARAMETERS                                                                           \
  long long depth, long long out_depth, long long kernel_d, long long stride_d, long long pad_d,   \
      long long dilation_d,
#define DEPTH_ARGUMENTS depth, out_depth, kernel_d, stride_d, pad_d, dilation_d,
#else
#define DEPTH_PARAMETERS
#define DEPTH_ARGUMENTS
constexpr long long depth = 1, out_depth = 1, kernel_d = 1, stride_d = 1, pad_d = 0, dilation_d = 1;
#endif

#ifdef CHANNEL_RANGE
#define RANGE_PARAMETERS long long pitch, long long first_channel,
#define RANGE_ARGUMENTS pitch, first_channel,
#define PITCH pitch
#define FIRST_CHANNEL first_channel
#else
#define RANGE_PARAMETERS
#define RANGE_ARGUMENTS
#define PITCH channels
#define FIRST_CHANNEL 0
#endif
