// Positions that come from outside: memory beyond what they count must not be reached, so what lies
// outside is the nearest element. Where there are no elements, the result is none either.
#pragma once

__device__ __forceinline__ long long nearest(long long position, long long size) {
  return position < 0 ? 0 : position >= size ? size - 1 : position;
}

// A negative position counts from the end.
__device__ __forceinline__ long long from_either_end(long long position, long long size) {
  return nearest(position < 0 ? position + size : position, size);
}
