// The third dimension of convolutions with channels last. With VOLUME images are volumes, x being
// [batch, depth, height, width, channels], y and w likewise; without it all depths are 1.
//
// With CHANNEL_RANGE pixels of x have PITCH channels, of which `channels` are read, from
// FIRST_CHANNEL on. With X_SECOND x is [batch, planes, height, width], of at most `channels`
// planes: the others are zeros. With X_F32 x is of floats, which are rounded to T.
#pragma once

#ifdef X_F32
#define INPUT float
#else
#define INPUT T
#endif

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

// With PHASES channels of w are those of y for each of phases_d * phases_h * phases_w places, which
// lie between those of their neighbours; places before `cut_..`, and from there on behind `y_..`,
// are no part of y.
#ifdef PHASES
#ifdef VOLUME
#define PHASES_PARAMETERS                                                                          \
  , long long phases_d, long long cut_d, long long y_d, long long phases_h, long long cut_h,       \
      long long y_h, long long phases_w, long long cut_w, long long y_w
#define PHASES_ARGUMENTS , phases_d, cut_d, y_d, phases_h, cut_h, y_h, phases_w, cut_w, y_w
#else
constexpr long long phases_d = 1, cut_d = 0, y_d = 1;
#define PHASES_PARAMETERS                                                                          \
  , long long phases_h, long long cut_h, long long y_h, long long phases_w, long long cut_w,       \
      long long y_w
#define PHASES_ARGUMENTS , phases_h, cut_h, y_h, phases_w, cut_w, y_w
#endif
#else
#define PHASES_PARAMETERS
#define PHASES_ARGUMENTS
#endif

#ifdef CHANNEL_RANGE
#define RANGE_PARAMETERS long long pitch, long long first_channel,
#define RANGE_ARGUMENTS pitch, first_channel,
#define PITCH pitch
#define FIRST_CHANNEL first_channel
#else
#ifdef X_SECOND
#define RANGE_PARAMETERS long long planes,
#define RANGE_ARGUMENTS planes,
#define PITCH 1
#else
#define RANGE_PARAMETERS
#define RANGE_ARGUMENTS
#define PITCH channels
#endif
#define FIRST_CHANNEL 0
#endif
#ifndef X_SECOND
constexpr long long planes = 1;
#endif
