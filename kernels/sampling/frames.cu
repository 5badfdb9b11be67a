// A camera's frames as a network takes them: resized, normalised and with their channels first, in
// one launch.
//
// y[n, c, h, w] = factor[c] value + shift[c], where value is what lies at the place of (h, w) in
// frame n: linear between the four elements around it, by half pixels. Nothing is rounded on the
// way; frames of y's own size keep their elements.
//
//   CHANNELS       1, 3 or 4; a frame is [rows, columns, CHANNELS] bytes
//   NV12           a frame is [3 rows / 2, columns] bytes: Y, and below it U and V in turns, a pair
//                  for each 2 x 2 elements, which become R, G, B by BT.601 from 16 to 235
//   SWAP           channels stand in y in the opposite order
//   LAST           y is [n, h, w, c]
//   FACTORS        numbers for each channel of y
//   SHIFTS         likewise
//   HALF           y is f16
//
// Blocks of 32 x 8 threads stand over (w, h), and one along the grid's third dimension for each n.
// Options: those.
//
// Without a bench: no op becomes it: the importer of ONNX files declares it; four bytes a channel
// of a place.

#include "shared/options.cuh"
#ifdef HALF
#include <cuda_fp16.h>
typedef __half Out;
#else
typedef float Out;
#endif

// An element of a frame, channel by channel.
__device__ __forceinline__ void element(const unsigned char *frame, long long row, long long column,
                                        long long rows, long long columns,
                                        float (&value)[CHANNELS]) {
#ifdef NV12
  const unsigned char *pair = frame + (rows + row / 2) * columns + column / 2 * 2;
  const float y = 1.164384f * (float(frame[row * columns + column]) - 16.0f);
  const float u = float(pair[0]) - 128.0f, v = float(pair[1]) - 128.0f;
  value[0] = fminf(fmaxf(y + 1.596027f * v, 0.0f), 255.0f);
  value[1] = fminf(fmaxf(y - 0.391762f * u - 0.812968f * v, 0.0f), 255.0f);
  value[2] = fminf(fmaxf(y + 2.017232f * u, 0.0f), 255.0f);
#else
  const unsigned char *at = frame + (row * columns + column) * CHANNELS;
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c)
    value[c] = float(at[c]);
#endif
}

// The two elements around a place, and the weight of the second.
struct Around {
  long long first, second;
  float weight;
};
__device__ __forceinline__ Around around(long long i, long long size, long long from) {
  if (size == from)
    return {i, i, 0.0f};
  const float place = (float(i) + 0.5f) * (float(from) / float(size)) - 0.5f;
  const float lower = fminf(fmaxf(floorf(place), 0.0f), float(from - 1));
  const long long first = (long long)(lower);
  return {first, first + 1 < from ? first + 1 : first, fminf(fmaxf(place - lower, 0.0f), 1.0f)};
}

// A thread computes all channels of a place, so that neighbours write neighbouring addresses.
extern "C" __global__ void frames(const unsigned char *__restrict__ x, Out *__restrict__ y,
                                  long long rows, long long columns, long long y_rows,
                                  long long y_columns, long long count) {
  constexpr float kFactors[CHANNELS] = {FACTORS}, kShifts[CHANNELS] = {SHIFTS};
  const long long w = (long long)(blockIdx.x) * 32 + threadIdx.x,
                  h = (long long)(blockIdx.y) * 8 + threadIdx.y, n = blockIdx.z;
  if (w >= y_columns || h >= y_rows || rows == 0 || columns == 0)
    return;
  const Around row = around(h, y_rows, rows), column = around(w, y_columns, columns);
  const long long size = IS_SET(NV12) ? rows + rows / 2 : rows * CHANNELS; // times columns
  const unsigned char *frame = x + n * size * columns;
  float corner[4][CHANNELS];
  element(frame, row.first, column.first, rows, columns, corner[0]);
  element(frame, row.first, column.second, rows, columns, corner[1]);
  element(frame, row.second, column.first, rows, columns, corner[2]);
  element(frame, row.second, column.second, rows, columns, corner[3]);
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) {
    const bool is_swapped = IS_SET(SWAP) && CHANNELS >= 3 && c < 3; // a fourth keeps its place
    const int from = is_swapped ? 2 - c : c;
    const float above = fmaf(column.weight, corner[1][from] - corner[0][from], corner[0][from]);
    const float below = fmaf(column.weight, corner[3][from] - corner[2][from], corner[2][from]);
    const float value = fmaf(row.weight, below - above, above);
    y[IS_SET(LAST) ? ((n * y_rows + h) * y_columns + w) * CHANNELS + c
                   : ((n * CHANNELS + c) * y_rows + h) * y_columns + w] =
        Out(fmaf(value, kFactors[c], kShifts[c]));
  }
}
