// Advances a decoder's state by a token: the next token of each place, its position, and how many
// positions are its own then. A place that is empty (length 0) stays so.
//
//   entry     block   grid
//   advance   256     ceil(places / 256)

#include "programmatic.cuh"

extern "C" __global__ void advance(const int *__restrict__ next, int *__restrict__ tokens,
                                   int *__restrict__ positions, int *__restrict__ lengths,
                                   long long places) {
  BEGIN_EARLY();
  const long long place = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (place >= places || lengths[place] == 0)
    return;
  const int position = positions[place] + 1;
  tokens[place] = next[place];
  positions[place] = position;
  lengths[place] = position + 1;
}
