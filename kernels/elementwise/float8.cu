// y [count]: x rounded to a float of 8 bits, to the nearest one and of two as near ones to the even
// one, which stays an f32 here. Sources: "FP8 Formats for Deep Learning" (Micikevicius et al.,
// 2022) and ONNX's table of casts to floats of 8 bits.
//
//   FRACTION   bits behind the point; LEAST: the exponent of the smallest normal number
//   LARGEST    the largest number
//   BEYOND     what is larger, infinities too, becomes: LARGEST (ONNX's saturate), infinity or NaN
//
// A thread an element. Options: those.
//
// Without a bench: no op becomes it: the importer of ONNX files declares it; a thread an element.

extern "C" __global__ void float8(const float *__restrict__ x, float *__restrict__ y,
                                  long long count) {
  const long long i = (long long)(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count)
    return;
  const float value = x[i];
  const int exponent = max((int)(__float_as_uint(value) >> 23 & 255) - 127, LEAST);
  const float step = __uint_as_float((unsigned)(exponent - FRACTION + 127) << 23);
  const float rounded = rintf(value / step) * step; // both exact: step is a power of two
  y[i] = fabsf(rounded) > LARGEST ? copysignf(BEYOND, value) : rounded;
}
