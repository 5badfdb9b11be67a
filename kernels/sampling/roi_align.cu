// RoiAlign: regions of an image, each cut into rows x columns bins, and of each bin the mean or the
// largest of samples between the elements. Source: ONNX's definition.
//
// x [images, channels, height, width], regions [count, 4] as x, y, x, y, images_of [count] -> y
// [count, channels, rows, columns].
//
//   SCALE      from the regions' numbers to x's
//   HALF_PIXEL places are those of the elements' middles; else regions are at least 1 x 1
//   SAMPLES    of a bin, along each side; 0: as many as it has elements, rounded up
//   LARGEST    the largest, also of the four weighted elements that make a sample; else the mean
//
// Options: those.
//
// Without a bench: no op becomes it: the importer of ONNX files declares it; a thread a bin.

#include "shared/options.cuh"

__device__ __forceinline__ void sample(const float *image, long long height, long long width,
                                       float y, float x, float (&parts)[4]) {
  parts[0] = parts[1] = parts[2] = parts[3] = 0;
  if (!(y >= -1 && y <= float(height) && x >= -1 && x <= float(width)))
    return;
  y = fmaxf(y, 0.0f), x = fmaxf(x, 0.0f);
  long long y0 = (long long)(y), x0 = (long long)(x), y1 = y0 + 1, x1 = x0 + 1;
  if (y0 >= height - 1)
    y0 = y1 = height - 1, y = float(y0);
  if (x0 >= width - 1)
    x0 = x1 = width - 1, x = float(x0);
  const float down = y - float(y0), right = x - float(x0);
  parts[0] = (1 - down) * (1 - right) * image[y0 * width + x0];
  parts[1] = (1 - down) * right * image[y0 * width + x1];
  parts[2] = down * (1 - right) * image[y1 * width + x0];
  parts[3] = down * right * image[y1 * width + x1];
}

extern "C" __global__ void roi_align(const float *__restrict__ x, const float *__restrict__ regions,
                                     const long long *__restrict__ images_of, float *__restrict__ y,
                                     long long images, long long channels, long long height,
                                     long long width, long long rows, long long columns,
                                     long long count) {
  const long long i = (long long)(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count)
    return;
  const long long column = i % columns, row = i / columns % rows;
  const long long channel = i / columns / rows % channels, r = i / columns / rows / channels;
  const float *region = regions + r * 4;
  const float off = IS_SET(HALF_PIXEL) ? 0.5f : 0.0f;
  const float left = region[0] * SCALE - off, top = region[1] * SCALE - off;
  float wide = region[2] * SCALE - off - left, high = region[3] * SCALE - off - top;
  if (!IS_SET(HALF_PIXEL))
    wide = fmaxf(wide, 1.0f), high = fmaxf(high, 1.0f);
  const float bin_high = high / float(rows), bin_wide = wide / float(columns);
  // A region that no image has is not sampled for ever.
  const long long most = 2 * (height + width) + 1;
  const long long down = SAMPLES > 0 ? SAMPLES : (long long)(fminf(ceilf(bin_high), float(most))),
                  across = SAMPLES > 0 ? SAMPLES : (long long)(fminf(ceilf(bin_wide), float(most)));
  long long from = images_of[r];
  from = from < 0 ? 0 : from >= images ? images - 1 : from;
  const float *image = x + (from * channels + channel) * height * width;
  float result = 0;
  bool first = true;
  for (long long a = 0; a < down; ++a)
    for (long long b = 0; b < across; ++b) {
      float parts[4];
      sample(image, height, width,
             top + float(row) * bin_high + (float(a) + 0.5f) * bin_high / float(down),
             left + float(column) * bin_wide + (float(b) + 0.5f) * bin_wide / float(across), parts);
#ifdef LARGEST
      const float value = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
      result = first ? value : fmaxf(result, value);
#else
      result += parts[0] + parts[1] + parts[2] + parts[3];
#endif
      first = false;
    }
#ifndef LARGEST
  result /= float(down * across > 0 ? down * across : 1);
#endif
  y[i] = result;
}
