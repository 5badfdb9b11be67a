// The beginning of taking in a part of a prompt: passes the request's fields on to the ops behind.
//
//   request: [4] i32: the place; the position of the first token; how many of the rows are real;
//            whether they are the prompt's last
//
// Row r stands at position + r. `sequence` is the length that the rows' queries stand at the end
// of, `own` that of the real rows: rows behind it are not written to the caches. `last` is the last
// real row. The place's counts note the real tokens: [places, vocabulary].
//
// The host writes requests whose rows lie within the caches, whose place is one, and ids that are
// tokens.
//
//   entry         block   grid
//   prompt_rows   64      ceil(rows / 64)
//
// Without a bench: no op becomes it: language models' modules name it; a thread a row.

#include "shared/programmatic.cuh"
#include "language/sampler.cuh"

extern "C" __global__ void prompt_rows(const int *__restrict__ request, const int *__restrict__ ids,
                                       int *__restrict__ counts, int *__restrict__ positions,
                                       int *__restrict__ place, int *__restrict__ sequence,
                                       int *__restrict__ own, int *__restrict__ last,
                                       long long rows, long long vocabulary) {
  BEGIN_EARLY();
  const long long row = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  const int first = request[1];
  if (row < rows)
    positions[row] = first + int(row);
  if (row < request[2])
    atomicOr(counts + request[0] * vocabulary + ids[row], kInPrompt);
  if (row == 0) {
    place[0] = request[0];
    sequence[0] = first + int(rows);
    own[0] = first + request[2];
    last[0] = request[2] - 1;
  }
}
