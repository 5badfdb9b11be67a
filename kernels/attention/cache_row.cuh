// Places of rows that are written to a cache, as the op cache_write has it. Row r of sequence s = r
// / each goes to position positions[s] + r % each of row sequences[s] of the cache, or of row s.
// Where lengths are given, what lies at or behind the sequence's length is not written. A position
// or sequence outside of the cache becomes the nearest one, and raises the session's flag
// (device_symbol.cuh).
#pragma once

#include "shared/device_symbol.cuh"

// Less than 0: nowhere. `lengths` may be null.
template <class Id>
__device__ __forceinline__ long long cache_position(const Id *positions, const Id *lengths,
                                                    const cugrt_symbol<Id> &position, long long row,
                                                    long long each, long long capacity) {
  const long long sequence = row / each, at = positions[sequence] + row % each;
  if (capacity <= 0 || (lengths && at >= lengths[sequence]))
    return -1;
  return cugrt_within(position, at, 0, capacity - 1);
}

// The row of a cache of `rows`, at least one.
template <class Id>
__device__ __forceinline__ long long cache_sequence(const Id *sequences,
                                                    const cugrt_symbol<Id> &sequence,
                                                    long long number, long long rows) {
  return cugrt_within(sequence, sequences[number], 0, rows - 1);
}
