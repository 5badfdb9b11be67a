// What stands around the steps of a decoder beside sample.cu (docs/language_models.md).
//
//   entry          block   grid
//   decode_begin   1       1: before a loop over steps
//   decode_hear    256     ceil(count / 256): at a step's start, beside what it computes
//
// decode_hear copies the host's words, `count` of them, from pinned memory to the device. The host
// writes them while a step runs; whichever value a step has, the next one has the other.
//
// Without a bench: no op becomes it: language models' modules name it; a thread a word.

#include "shared/programmatic.cuh"

extern "C" __global__ void decode_begin(int *__restrict__ goes_on) {
  BEGIN_EARLY();
  goes_on[0] = 1;
}

extern "C" __global__ void decode_hear(const volatile int *heard, int *__restrict__ told,
                                       long long count) {
  BEGIN_EARLY();
  const long long i = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count)
    told[i] = heard[i];
}
