// The windows of a deformable convolution, as columns of a product: what lies at each tap, which an
// offset moves, times a mask. Between elements values are linear, outside of the image 0.
//
// x [images, channels, height, width], offsets [images, groups * taps * 2, rows, columns] (down and
// right in turns), mask [images, groups * taps, rows, columns] -> y [images, channels * taps, rows
// * columns].
//
//   KERNEL     height and width, as STRIDES, DILATION and BEFORE (the padding)
//   GROUPS     of channels, each with its own offsets
//   MASKED     there is a mask
//
// Options: those.
//
// Without a bench: no op becomes it: the importer of ONNX files declares it; a thread an element.

#ifdef MASKED
#define MASK_PARAMETER const float *__restrict__ mask,
#else
#define MASK_PARAMETER
#endif

__device__ __forceinline__ float at(const float *plane, long long height, long long width,
                                    long long row, long long column) {
  return row >= 0 && row < height && column >= 0 && column < width ? plane[row * width + column]
                                                                   : 0.0f;
}

extern "C" __global__ void deform_columns(const float *__restrict__ x,
                                          const float *__restrict__ offsets,
                                          MASK_PARAMETER float *__restrict__ y, long long channels,
                                          long long height, long long width, long long rows,
                                          long long columns, long long count) {
  const long long i = (long long)(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count)
    return;
  constexpr long long kKernel[] = {KERNEL}, kStrides[] = {STRIDES}, kDilation[] = {DILATION},
                      kBefore[] = {BEFORE}, kTaps = kKernel[0] * kKernel[1];
  const long long column = i % columns, row = i / columns % rows;
  const long long tap = i / columns / rows % kTaps, channel = i / columns / rows / kTaps % channels,
                  n = i / columns / rows / kTaps / channels;
  const long long group = channel / (channels / GROUPS), plane = rows * columns,
                  place = row * columns + column;
  const float *moved = offsets + ((n * GROUPS + group) * kTaps + tap) * 2 * plane + place;
  const float down = float(row * kStrides[0] - kBefore[0] + tap / kKernel[1] * kDilation[0]) +
                     moved[0],
              right = float(column * kStrides[1] - kBefore[1] + tap % kKernel[1] * kDilation[1]) +
                      moved[plane];
  float value = 0;
  if (down > -1 && right > -1 && down < float(height) && right < float(width)) {
    const float *image = x + (n * channels + channel) * height * width;
    const float upper = floorf(down), left = floorf(right), a = down - upper, b = right - left;
    const long long r = (long long)(upper), c = (long long)(left);
    value = (1 - a) * ((1 - b) * at(image, height, width, r, c) +
                       b * at(image, height, width, r, c + 1)) +
            a * ((1 - b) * at(image, height, width, r + 1, c) +
                 b * at(image, height, width, r + 1, c + 1));
  }
#ifdef MASKED
  value *= mask[((n * GROUPS + group) * kTaps + tap) * plane + place];
#endif
  y[i] = value;
}
