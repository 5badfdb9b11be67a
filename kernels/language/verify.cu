// The end of a step that verifies drafts (draft.cu): the tokens that each place is given, and the
// state that the next step begins with. All as by sample_step (sample.cu), but for these:
//
//   logits: [places * rows, vocabulary]   ids, row_lengths: [places, rows], of draft_rows
//   texts: [places, context]   chosen: [places, rows], left by blocks for the last one to come
//   ring: [capacity, places, rows]: the tokens of a place in order, -1 behind them
//
// A row's token is the one that sample_step would draw at that position, with the same number, had
// the rows before it been given: penalties count them. A place is given the token of its first row,
// and that of the next one as long as the row's draft is the token that was given before it.
//
// This is rejection: the draft is a distribution of one token, which the draw equals with that
// token's probability, and which it has where it does not equal it by the probabilities of the
// others. So tokens are distributed as without drafts, and are the same ones where logits are.
//
// Tokens behind one that ends the text or stands at the limit are not given. Counts and texts get
// those that are.
//
//   entry         block   grid
//   verify_step   1024    places * rows
//
// Compiled with -fmad=false.
//
// Without a bench: no op becomes it: language models' modules name it; a block a row.

#define WITH_DRAFTS
#if __CUDA_ARCH__ >= 1200 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1305
// The other code spills there.
#define IS_SELDOM
#endif
#include "language/draw.cuh"
#include "language/publish.cuh"
#include "shared/programmatic.cuh"

extern "C" __global__ void __launch_bounds__(kThreads)
    verify_step(const float *__restrict__ logits, const int *__restrict__ samplers, int *counts,
                int *tokens, int *positions, int *lengths, const int *__restrict__ limits,
                const unsigned *__restrict__ ends, const int *__restrict__ told, unsigned *steps,
                volatile int *ring, unsigned *published, int *__restrict__ goes_on,
                const int *__restrict__ ids, const int *__restrict__ row_lengths,
                int *__restrict__ texts, int *chosen, long long places, long long vocabulary,
                long long capacity, long long rows, long long context) {
  BEGIN_EARLY();
  __shared__ bool is_last;
  const int block = int(blockIdx.x); // of at most 1024 places of 8 rows
  if (block >= places * rows)
    return;
  if (row_lengths[block] > 0) {
    const int place = block / int(rows), row = block % int(rows);
    const int *words = samplers + place * kWords;
    if (threadIdx.x < row)
      block_drafts().tokens[threadIdx.x] = ids[block - threadIdx.x];
    if (threadIdx.x == 0)
      block_drafts().count = row;
    __syncthreads();
    const int token = sample(logits + block * vocabulary, counts + place * vocabulary,
                             first_of(words), words, int(vocabulary), positions[place] + row + 1);
    if (threadIdx.x == 0)
      chosen[block] = token;
  }
  const unsigned made = steps[0];
  __syncthreads(); // the counts and the state have been read
  if (threadIdx.x == 0)
    is_last = join(&steps[1], 1) + 1 == places * rows;
  __syncthreads();
  if (!is_last)
    return;

  bool is_open = false; // one of this thread's places
  for (long long place = threadIdx.x; place < places; place += kThreads) {
    const long long first = place * rows;
    volatile int *given = ring + (made % (unsigned long long)(capacity)*places + place) * rows;
    int position = positions[place], token = -1;
    const int limit = limits[place], cancelled = told[kCancel + place];
    bool goes = lengths[place] > 0; // the next row's token is given
    bool stays = goes;
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
      goes = goes &&
             (row == 0 || (stays && row_lengths[first + row] > 0 && ids[first + row] == token));
      if (!goes) {
        given[row] = -1;
        continue;
      }
      token = chosen[first + row];
      ++position;
      const unsigned end = ends[place * ((vocabulary + 31) / 32) + token / 32] >> (token % 32) & 1;
      stays = !end && position < limit && !cancelled;
      given[row] = token;
      if (position < context)
        texts[place * context + position] = token;
      counts[place * vocabulary + token] += 1;
    }
    if (token < 0)
      continue;
    tokens[place] = token;
    positions[place] = position;
    lengths[place] = stays ? position + 1 : 0;
    is_open = is_open || stays;
  }
  is_open = __syncthreads_or(is_open);
  if (threadIdx.x != 0)
    return;
  steps[0] = made + 1;
  steps[1] = 0;
  goes_on[0] = is_open && !told[kChange] && made + 1 - unsigned(told[kTaken]) < capacity;
  publish(published, made + 1);
}
