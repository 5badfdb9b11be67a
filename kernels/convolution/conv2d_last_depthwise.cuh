// Depthwise convolution with channels last, a channel of x and one of y a group: part of
// conv2d_last.cu. A thread computes RUN channels of HIGH pixels below one another, so that x is
// read in runs of them, and a row's run once for all windows that meet it. Its taps are w's run of
// RUN x KERNEL_H x KERNEL_W elements, read once. Taps are added in the order of w.
//
// Where x, w or y begins at no multiple of a run's bytes, or of 16, a thread takes its elements one
// by one. Options: RUN, of which channels are a multiple: as many as leave the taps in registers;
// HIGH, 4, or 1 where threads would be too few to hide what loads take; KERNEL_H, KERNEL_W,
// STRIDE_H and DILATION_H, the parameters of these names.
#pragma once

__device__ __forceinline__ void convolve_depthwise(PARAMETERS) {
  constexpr int kRun = RUN, kHigh = HIGH, kTaps = KERNEL_H * KERNEL_W;
  constexpr int kRows = (kHigh - 1) * STRIDE_H + (KERNEL_H - 1) * DILATION_H + 1;
  const Index strips = (Index(out_height) + kHigh - 1) / kHigh, runs = Index(channels) / kRun;
  const Index count = Index(batch) * strips * Index(out_width) * runs;
  const Index step = Index(gridDim.x) * blockDim.x;
  const bool aligned = Run<kRun, T>::is_aligned(x) && Run<kRun, T>::is_aligned(w) &&
                       Run<kRun, OUT>::is_aligned(y) && RESULTS_ALIGNED(kRun);
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index channel = i % runs * kRun, column = i / runs % Index(out_width);
    const Index above = i / runs / Index(out_width) % strips * kHigh;
    const Index image = i / runs / Index(out_width) / strips;
    const int top = int(above) * int(stride_h) - int(pad_h);
    const int left = int(column) * int(stride_w) - int(pad_w);
    const auto is_inside = [&](int row, int at) {
      return row >= 0 && row < int(height) && at >= 0 && at < int(width);
    };
    const T *in =
        x + image * (Index(height) * Index(width) * Index(PITCH)) + FIRST_CHANNEL + channel;

    const Index out =
        ((image * Index(out_height) + above) * Index(out_width) + column) * Index(channels) +
        channel;
    const Index out_row = Index(out_width) * Index(channels);
    if (!aligned) {
#pragma unroll 1
      for (int n = 0; n < kHigh * kRun && above + n / kRun < Index(out_height); ++n) {
        const int e = n % kRun, window = top + n / kRun * STRIDE_H;
        Acc sum = BIAS_AT(channel + e);
#pragma unroll 1
        for (int t = 0; t < kTaps; ++t) {
          const int row = window + t / KERNEL_W * DILATION_H;
          const int at = left + t % KERNEL_W * int(dilation_w);
          if (is_inside(row, at))
            sum = fma(Acc(in[((long long)(row)*width + at) * PITCH + e]),
                      Acc(w[(channel + e) * kTaps + t]), sum);
        }
        STORE(out + n / kRun * out_row + e, sum);
      }
      continue;
    }

    Run<kRun, T> tap[kTaps]; // element t of channel c: number c * kTaps + t
#pragma unroll
    for (int t = 0; t < kTaps; ++t)
      tap[t].load(w + channel * kTaps + t * kRun);
    Acc sum[kHigh][kRun];
#pragma unroll
    for (int e = 0; e < kRun; ++e) {
      const Acc first = BIAS_AT(channel + e);
#pragma unroll
      for (int o = 0; o < kHigh; ++o)
        sum[o][e] = first;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = top + r;
      Run<kRun, T> loaded[KERNEL_W]; // all of a row are on their way before one is used
#pragma unroll
      for (int q = 0; q < KERNEL_W; ++q)
        if (is_inside(row, left + q * int(dilation_w)))
          loaded[q].load(in + ((long long)(row)*width + left + q * int(dilation_w)) * PITCH);
#pragma unroll
      for (int q = 0; q < KERNEL_W; ++q) {
        if (!is_inside(row, left + q * int(dilation_w)))
          continue;
        const Run<kRun, T> &run = loaded[q];
#pragma unroll
        for (int o = 0; o < kHigh; ++o) {
          const int behind = r - o * STRIDE_H; // the first row of o's window
          if (behind >= 0 && behind % DILATION_H == 0 && behind / DILATION_H < KERNEL_H)
#pragma unroll
            for (int e = 0; e < kRun; ++e) {
              const int number = e * kTaps + behind / DILATION_H * KERNEL_W + q;
              sum[o][e] = fma(Acc(run.element[e]), Acc(tap[number / kRun].element[number % kRun]),
                              sum[o][e]);
            }
        }
      }
    }
#pragma unroll
    for (int o = 0; o < kHigh; ++o)
      if (above + o < Index(out_height)) {
        Run<kRun, OUT> run;
        RESULTS(kRun, run, out + o * out_row, sum[o][e], true, kRun);
        run.store(y + out + o * out_row, true);
      }
  }
}
