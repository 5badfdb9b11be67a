// The beginning and the end of taking in a part of a prompt: what the request says, for the ops
// between.
//
//   request: [4] i32: the place; the position of the first token; how many of the rows are real;
//            whether they are the prompt's last
//
//   prompt_rows   row r stands at position + r. `sequence` is the length that the rows' queries stand at
//                 the end of, `own` that of what is real: rows behind it are not written to the
//                 caches. `last` is the last real row.
//   prompt_end    the state's place: the next token, its position, and the length; the latter 0
//                 until the prompt is in, so that the steps of other places leave it alone.
//
// The host writes requests whose rows lie within the caches and whose place is one.
//
//   entry         block   grid
//   prompt_rows   64      ceil(rows / 64)
//   prompt_end    1       1

#include "programmatic.cuh"

extern "C" __global__ void prompt_rows(const int *__restrict__ request, int *__restrict__ positions,
                                       int *__restrict__ place, int *__restrict__ sequence,
                                       int *__restrict__ own, int *__restrict__ last,
                                       long long rows) {
  BEGIN_EARLY();
  const long long row = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  const int first = request[1];
  if (row < rows)
    positions[row] = first + int(row);
  if (row == 0) {
    place[0] = request[0];
    sequence[0] = first + int(rows);
    own[0] = first + request[2];
    last[0] = request[2] - 1;
  }
}

extern "C" __global__ void prompt_end(const int *__restrict__ request, const int *__restrict__ next,
                                      int *__restrict__ tokens, int *__restrict__ positions,
                                      int *__restrict__ lengths, long long places) {
  BEGIN_EARLY();
  const int place = request[0];
  if (place < 0 || place >= places)
    return;
  const int position = request[1] + request[2];
  tokens[place] = next[0];
  positions[place] = position;
  lengths[place] = request[3] ? position + 1 : 0;
}
