// Appends rows of keys and values to the caches of a decoder, in place:
//
//   keys, values: [rows, width]   key_cache, value_cache: [places, capacity, width]
//
// Row r belongs to sequence s = r / each and goes to its position positions[r], of place s, or with
// HAS_PLACES of_sequence[s]. Nothing is written for positions at or beyond the sequence's length
// (an empty place has length 0), or outside the cache.
//
//   entry         block   grid
//   cache_write   256     ceil(rows * width / 256)
//
// Options: HAS_PLACES; those of floating.cuh.

#include "floating.cuh"
#include "programmatic.cuh"

#ifdef HAS_PLACES
#define PLACES_PARAMETER const int *__restrict__ of_sequence,
#define PLACE_OF(sequence) of_sequence[sequence]
#else
#define PLACES_PARAMETER
#define PLACE_OF(sequence) sequence
#endif

extern "C" __global__ void cache_write(const T *__restrict__ keys, const T *__restrict__ values,
                                       const int *__restrict__ positions,
                                       const int *__restrict__ lengths,
                                       PLACES_PARAMETER T *__restrict__ key_cache,
                                       T *__restrict__ value_cache, long long rows, long long each,
                                       long long places, long long capacity, long long width) {
  BEGIN_EARLY();
  const long long i = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows * width)
    return;
  const long long row = i / width, sequence = row / each, place = PLACE_OF(sequence);
  const long long position = positions[row];
  if (place < 0 || place >= places || position < 0 || position >= capacity ||
      position >= lengths[sequence])
    return;
  const long long to = (place * capacity + position) * width + i % width;
  key_cache[to] = keys[i];
  value_cache[to] = values[i];
}
