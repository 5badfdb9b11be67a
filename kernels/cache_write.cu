// Appends rows of keys and values to the caches of a decoder, in place:
//
//   keys, values: [rows, width]   key_cache, value_cache: [rows / each, capacity, width]
//
// Row r belongs to sequence r / each and goes to its position positions[r]. Nothing is written for
// positions at or beyond the sequence's length (an empty place has length 0), or outside the cache.
//
// Options: those of floating.cuh.

#include "floating.cuh"
#include "programmatic.cuh"

extern "C" __global__ void cache_write(const T *__restrict__ keys, const T *__restrict__ values,
                                       const int *__restrict__ positions,
                                       const int *__restrict__ lengths, T *__restrict__ key_cache,
                                       T *__restrict__ value_cache, long long rows, long long each,
                                       long long capacity, long long width) {
  BEGIN_EARLY();
  const long long i = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows * width)
    return;
  const long long row = i / width, sequence = row / each;
  const long long position = positions[row];
  if (position < 0 || position >= capacity || position >= lengths[sequence])
    return;
  const long long to = (sequence * capacity + position) * width + i % width;
  key_cache[to] = keys[i];
  value_cache[to] = values[i];
}
