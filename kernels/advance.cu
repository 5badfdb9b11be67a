// Advances a decoder's state by `count` tokens: the next token of each place, its position, and how
// many positions are its own then. A place that is empty (length 0) stays so, unless `opens`.

#include "programmatic.cuh"

extern "C" __global__ void advance(const int *__restrict__ next, int *__restrict__ tokens,
                                   int *__restrict__ positions, int *__restrict__ lengths,
                                   long long places, long long count, long long opens) {
  BEGIN_EARLY();
  const long long place = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (place >= places || (!opens && lengths[place] == 0))
    return;
  const int position = positions[place] + int(count);
  tokens[place] = next[place];
  positions[place] = position;
  lengths[place] = position + 1;
}
