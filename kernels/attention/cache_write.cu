// Writes rows of keys or values to a decoder's cache, in place (the op cache_write):
//
//   cache: [rows, capacity, width]   x: [given, each, width]
//   positions, sequences, lengths: [given]
//
// Which rows go where stands in cache_row.cuh. The cache may be of another dtype; of q8_0, 32 lanes
// make a block.
//
//   entry         block   grid
//   cache_write   256     ceil(given * each * width / 256)
//
// Options: WIDE_IDS for positions, sequences and lengths of i64 (i32 otherwise); HAS_SEQUENCES,
// HAS_LENGTHS; those of cached.cuh for the cache, and of floating.cuh.
//
// Without a bench: writes a parameter in place, which no case has; moves rows as copy.cu does.

#include "attention/cache_row.cuh"
#include "index/positions.cuh"
#include "shared/cached.cuh"
#include "shared/floating.cuh"
#include "shared/programmatic.cuh"

#ifdef HAS_SEQUENCES
#define SEQUENCES_PARAMETER const Id *__restrict__ sequences, cugrt_symbol<Id> sequence,
#define SEQUENCE_OF(s) cache_sequence(sequences, sequence, s, rows)
#else
#define SEQUENCES_PARAMETER
#define SEQUENCE_OF(s) (s)
#endif
#ifdef HAS_LENGTHS
#define LENGTHS_PARAMETER const Id *__restrict__ lengths,
#define LENGTHS lengths
#else
#define LENGTHS_PARAMETER
#define LENGTHS (const Id *)nullptr
#endif

extern "C" __global__ void cache_write(Cached *__restrict__ cache, const T *__restrict__ x,
                                       const Id *__restrict__ positions, cugrt_symbol<Id> position,
                                       SEQUENCES_PARAMETER LENGTHS_PARAMETER long long given,
                                       long long each, long long rows, long long capacity,
                                       long long width) {
  BEGIN_EARLY();
  const long long i = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= given * each * width) // of blocks, whole warps
    return;
  const long long row = i / width;
  const long long at = cache_position(positions, LENGTHS, position, row, each, capacity);
  if (at < 0 || rows <= 0) // likewise
    return;
  const long long to = (SEQUENCE_OF(row / each) * capacity + at) * width + i % width;
#ifdef CACHE_Q8_0
  store_cached(cache, to, Acc(x[i]));
#elif defined(CACHE_IS_T)
  cache[to] = x[i];
#else
  cache[to] = Cached(Acc(x[i]));
#endif
}
