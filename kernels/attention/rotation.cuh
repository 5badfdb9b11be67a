// The angle by which rotary embedding turns pair `pair` of a head at a position: it is position *
// scale * base^(-2 pair / turned), or has its cosine and sine in a row of two tables [table_rows,
// half].
#pragma once

#include "shared/floating.cuh"

struct Rotation {
  Acc cosine, sine;
};

__device__ __forceinline__ Rotation rotation(long long position, long long pair, long long turned,
                                             Acc base, Acc scale) {
  const Acc angle = Acc(position) * scale * pow(base, Acc(-2) * Acc(pair) / Acc(turned));
  return {cos(angle), sin(angle)};
}

// A position outside of the tables takes the nearest row.
template <class Table>
__device__ __forceinline__ Rotation rotation(long long position, long long pair, long long half,
                                             const Table *cosines, const Table *sines,
                                             long long table_rows) {
  if (table_rows <= 0)
    return {1, 0};
  const long long nearest = position < 0 ? 0 : position >= table_rows ? table_rows - 1 : position;
  return {Acc(cosines[nearest * half + pair]), Acc(sines[nearest * half + pair])};
}
