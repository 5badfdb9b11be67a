// Drafts of a sequence's next tokens from its own text, at the beginning of a step that verifies
// them (verify.cu).
//
//   texts: [places, context], the token at each position of a place's text, prompt and answer
//   tokens, positions, lengths, limits: [places]
//   ids, row_positions, row_places, row_lengths: [places, rows]
//
// draft_rows: row 0 of a place is its token, at its position; the rows behind it are the tokens
// that followed where the text's last tokens stood before: up to kLongest of them, of these places
// the one that has the most, and of equal ones the last. Where what followed ends with the text it
// is repeated. A row that stands at the place's limit or behind it, all of an empty place, and the
// drafted ones of a text whose last token stood nowhere before, have length 0: nothing is written
// to the caches for them, and they see nothing.
//
// prompt_text notes the real rows of a part of a prompt (prompt.cu) in the text of their place.
//
//   entry         block   grid
//   draft_rows    256     places
//   prompt_text   64      ceil(rows / 64)
//
// Without a bench: no op becomes it: language models' modules name it; a block a sequence.

#include "shared/programmatic.cuh"

constexpr int kDraftThreads = 256, kLongest = 4;

extern "C" __global__ void __launch_bounds__(kDraftThreads)
    draft_rows(const int *__restrict__ tokens, const int *__restrict__ positions,
               const int *__restrict__ lengths, const int *__restrict__ limits, int *texts,
               int *__restrict__ ids, int *__restrict__ row_positions, int *__restrict__ row_places,
               int *__restrict__ row_lengths, long long places, long long rows, long long context) {
  BEGIN_EARLY();
  __shared__ unsigned long long best_of[kDraftThreads / 32];
  const long long place = blockIdx.x;
  if (place >= places)
    return;
  const int token = tokens[place], position = positions[place], limit = limits[place];
  const bool is_open = lengths[place] > 0;
  int *const text = texts + place * context;
  const int last = is_open && position < context ? position : 0; // the text ends there
  // The token that a draft's first one followed, with how many before it are the text's last ones.
  unsigned long long best = 0;
  int ending[kLongest];
#pragma unroll
  for (int i = 1; i < kLongest; ++i)
    ending[i] = i <= last ? text[last - i] : -1;
  for (int at = int(threadIdx.x); at < last; at += kDraftThreads) {
    if (text[at] != token)
      continue;
    unsigned count = 1;
    while (count < kLongest && int(count) <= at && text[at - int(count)] == ending[count])
      ++count;
    const unsigned long long found = (unsigned long long)(count) << 32 | unsigned(at);
    best = found > best ? found : best;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, best, distance);
    best = other > best ? other : best;
  }
  if (threadIdx.x % 32 == 0)
    best_of[threadIdx.x / 32] = best;
  __syncthreads();
  for (int warp = 0; warp < kDraftThreads / 32; ++warp)
    best = best_of[warp] > best ? best_of[warp] : best;

  const int from = int(unsigned(best)) + 1, period = last + 1 - from;
  for (long long row = threadIdx.x; row < rows; row += kDraftThreads) {
    const long long at = position + row;
    const bool is_real = is_open && (row == 0 || (best != 0 && at < limit && at < context));
    int id = token;
    if (is_real && row > 0) {
      const int behind = from + int((row - 1) % period);
      id = behind < last ? text[behind] : token;
    }
    const long long to = place * rows + row;
    ids[to] = id;
    row_positions[to] = is_real ? int(at) : position;
    row_places[to] = int(place);
    row_lengths[to] = is_real ? int(at) + 1 : 0;
  }
  if (threadIdx.x == 0 && is_open && position < context)
    text[position] = token; // which nobody reads here
}

extern "C" __global__ void prompt_text(const int *__restrict__ request, const int *__restrict__ ids,
                                       int *__restrict__ texts, long long rows, long long context) {
  BEGIN_EARLY();
  const long long row = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < rows && row < request[2] && request[1] + row < context)
    texts[request[0] * context + request[1] + row] = ids[row];
}
