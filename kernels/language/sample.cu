// The end of a decoder's step: each place's next token, drawn from its logits, and the state that
// the next step begins with. An empty place (length 0) stays as it is; one whose prompt is not in
// yet gets no token.
//
//   logits: [places or 1, vocabulary]   samplers: [places, 8]   counts: [places, vocabulary]
//
// Samplers, and how a token is drawn, are those of draw.cuh, counts those of sampler.cuh.
//
//   entry           block   grid
//   sample_step     1024    places: after a step of all places
//   sample_prompt   1024    1: after a part of a prompt, of the place that the request names
//
// sample_step also ends the step. The host has each token from a ring in pinned memory:
//
//   limits: [places]   ends: [places, ceil(vocabulary / 32)], bits   told: [2 + places]: rows that
//   the host has taken, whether something is to change, and whether a place is cancelled
//   steps: [2] u32: steps that were made, and blocks of this one that have come; of the session
//   ring: [capacity, places]   published: [1] u32, steps that were made, for the host
//
// Row `made % capacity` of the ring gets the token of every place that was open, and -1 of others.
// A place whose token ends a text, which stands at its limit or is cancelled is made empty. The
// last block to come publishes the row. The loop over steps goes on while a place is open, the ring
// has room for one more row and nothing is to change.
//
// Compiled with -fmad=false; with -DOF_PROMPT for sample_prompt, else for sample_step.
//
// Without a bench: no op becomes it: language models' modules name it; a block a sequence.

#ifdef OF_PROMPT // once a prompt
#define IS_SELDOM
#endif
#include "language/draw.cuh"
#include "language/publish.cuh"
#include "shared/programmatic.cuh"

// What a block adds to the counter: it has come, and its place is still open. Places are at most
// 1024.
constexpr unsigned kCome = 1, kOpen = 1 << 16;

#ifndef OF_PROMPT
extern "C" __global__ void __launch_bounds__(kThreads)
    sample_step(const float *__restrict__ logits, const int *__restrict__ samplers,
                int *__restrict__ counts, int *__restrict__ tokens, int *__restrict__ positions,
                int *__restrict__ lengths, const int *__restrict__ limits,
                const unsigned *__restrict__ ends, const int *__restrict__ told, unsigned *steps,
                volatile int *ring, unsigned *published, int *__restrict__ goes_on,
                long long places, long long vocabulary, long long capacity) {
  BEGIN_EARLY();
  const long long place = blockIdx.x;
  if (place >= places)
    return;
  const int *words = samplers + place * kWords;
  const First first = first_of(words); // asked for before it is known whether there is a sequence
  const int position = positions[place] + 1, limit = limits[place];
  const int cancelled = told[kCancel + place];
  const unsigned made = steps[0];
  const bool was_open = lengths[place] > 0;
  int *own = counts + place * vocabulary;
  int token = -1;
  if (was_open) {
    token = sample(logits + place * vocabulary, own, first, words, int(vocabulary), position);
    __syncthreads(); // the counts and the state have been read
  }
  if (threadIdx.x != 0)
    return;
  bool is_open = false;
  if (was_open) {
    const unsigned end = ends[place * ((vocabulary + 31) / 32) + token / 32] >> (token % 32) & 1;
    is_open = !end && position < limit && !cancelled;
    tokens[place] = token;
    positions[place] = position;
    lengths[place] = is_open ? position + 1 : 0;
    atomicAdd(own + token, 1); // which nobody waits for
  }
  ring[made % (unsigned long long)(capacity)*places + place] = token;
  if (places > 1) {
    const unsigned before = join(&steps[1], kCome + (is_open ? kOpen : 0));
    if (before % kOpen + 1 != places)
      return;
    is_open = is_open || before >= kOpen;
    steps[1] = 0;
  }
  steps[0] = made + 1;
  goes_on[0] = is_open && !told[kChange] && made + 1 - unsigned(told[kTaken]) < capacity;
  publish(published, made + 1);
}
#else

extern "C" __global__ void __launch_bounds__(kThreads)
    sample_prompt(const int *__restrict__ request, const float *__restrict__ logits,
                  const int *__restrict__ samplers, int *__restrict__ counts,
                  int *__restrict__ tokens, int *__restrict__ positions, int *__restrict__ lengths,
                  long long places, long long vocabulary) {
  BEGIN_EARLY();
  const int place = request[0];
  if (place < 0 || place >= places)
    return;
  const int position = request[1] + request[2];
  if (request[3] == 0) {
    if (threadIdx.x == 0)
      lengths[place] = 0;
    return;
  }
  int *own = counts + place * vocabulary;
  const int *words = samplers + place * kWords;
  const int token = sample(logits, own, first_of(words), words, int(vocabulary), position);
  __syncthreads();
  if (threadIdx.x == 0) {
    const volatile int *again = request; // so that nothing of it is kept over the sample
    tokens[again[0]] = token;
    positions[again[0]] = again[1] + again[2];
    lengths[again[0]] = again[1] + again[2] + 1;
    atomicAdd(counts + again[0] * vocabulary + token, 1); // which nobody waits for
  }
}
#endif
