// What the host and the steps of a decoder share: each step's tokens, in a ring of pinned memory,
// and whether the loop over steps goes on (docs/language_models.md).
//
//   tokens, positions, lengths, limits: [places] i32   ends: [places, ceil(vocabulary / 32)], bits
//   words: [3] u32: steps that were made, steps that the host has taken, and the change word
//   cancel: [places] i32   ring: [capacity, places] i32
//
// Row `made % capacity` of the ring gets the token of every place that was open, and -1 of others.
// A place whose token ends a text, which stands at its limit or is cancelled is made empty. The
// loop goes on while a place is open, the ring has room for one more row and nothing is to change.
//
// The count is written behind the row, and the fence lets the host see them in that order. The host
// writes its words while a step runs; whichever value a step reads, the next one reads the other.
//
//   entry          block   grid
//   decode_begin   1       1: before the loop
//   decode_end     256     1: behind sample_step

#include "shared/programmatic.cuh"

extern "C" __global__ void decode_begin(int *__restrict__ goes_on) {
  BEGIN_EARLY();
  goes_on[0] = 1;
}

extern "C" __global__ void decode_end(const int *__restrict__ tokens,
                                      const int *__restrict__ positions, int *__restrict__ lengths,
                                      const int *__restrict__ limits,
                                      const unsigned *__restrict__ ends, volatile unsigned *words,
                                      const volatile int *cancel, volatile int *ring,
                                      int *__restrict__ goes_on, long long places,
                                      long long vocabulary, long long capacity) {
  BEGIN_EARLY();
  const unsigned made = words[0], taken = words[1], change = words[2];
  const long long row = made % (unsigned long long)(capacity)*places;
  const long long end_words = (vocabulary + 31) / 32;
  bool is_open = false;
  for (long long place = threadIdx.x; place < places; place += blockDim.x) {
    int token = -1;
    if (lengths[place] > 0) {
      token = tokens[place];
      const unsigned end = ends[place * end_words + token / 32] >> (token % 32) & 1;
      if (end || positions[place] >= limits[place] || cancel[place])
        lengths[place] = 0;
      else
        is_open = true;
    }
    ring[row + place] = token;
  }
  __threadfence_system();
  const bool any_open = __syncthreads_or(is_open);
  if (threadIdx.x == 0) {
    words[0] = made + 1;
    goes_on[0] = any_open && !change && made + 1 - taken < capacity;
  }
}
