// Positions that come from outside or lie beyond an edge. Memory beyond the counted elements must
// not be reached, so a position outside means the nearest element, or one inside by another rule.
// Where there are no elements, the result is none either.
//
// Id, their type, is of 64 bits with WIDE_IDS and else of 32.
#pragma once

#include "shared/options.cuh"

typedef Chosen<IS_SET(WIDE_IDS), long long, int>::type Id;

__device__ __forceinline__ long long nearest(long long position, long long size) {
  return position < 0 ? 0 : position >= size ? size - 1 : position;
}

// A negative position counts from the end.
__device__ __forceinline__ long long from_either_end(long long position, long long size) {
  return nearest(position < 0 ? position + size : position, size);
}

// Beyond the first and the last element, which are not repeated, the order turns back; at most
// once.
__device__ __forceinline__ long long mirrored(long long position, long long size) {
  return position < 0 ? -position : position >= size ? 2 * (size - 1) - position : position;
}

// Whether an id, which from -depth on counts from the end, names this place of `depth`.
__device__ __forceinline__ bool is_at(long long id, long long place, long long depth) {
  return (id < 0 ? id + depth : id) == place;
}
