// Appends rows of keys and values of one sequence to the caches of a decoder, in place:
//
//   keys, values: [rows, width]   key_cache, value_cache: [places, capacity, width]
//
// Row r goes to position positions[r] of place[0]. Nothing is written for positions at or beyond
// length[0], or outside the caches. As cache_write.cu, which has a sequence for each place.
//
//   entry            block   grid
//   cache_write_at   256     ceil(rows * width / 256)
//
// Options: those of floating.cuh.

#include "floating.cuh"
#include "programmatic.cuh"

extern "C" __global__ void cache_write_at(const T *__restrict__ keys, const T *__restrict__ values,
                                          const int *__restrict__ positions,
                                          const int *__restrict__ length,
                                          const int *__restrict__ place, T *__restrict__ key_cache,
                                          T *__restrict__ value_cache, long long rows,
                                          long long places, long long capacity, long long width) {
  BEGIN_EARLY();
  const long long i = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows * width)
    return;
  const long long row = i / width, position = positions[row], own = place[0];
  if (own < 0 || own >= places || position < 0 || position >= capacity || position >= length[0])
    return;
  const long long to = (own * capacity + position) * width + i % width;
  key_cache[to] = keys[i];
  value_cache[to] = values[i];
}
