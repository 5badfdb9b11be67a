// Rotary embedding of positions: pairs of elements of a head are turned by an angle that grows with
// the row's position.
//
//   x, y: [rows, heads, width]   positions: [rows]
//
// The first `turned` elements of a head (an even number) are turned, the rest is copied. Pair i is
// (x[i], x[i + turned / 2]), with INTERLEAVED (x[2 i], x[2 i + 1]); its angle is position * scale *
// base^(-2 i / turned), or with HAS_TABLES has its cosine and sine in row `position` of two tables,
// [table_rows, turned / 2]; a position outside of them takes the nearest row.
//
// A thread turns one pair or copies one element.
//
// Options: INTERLEAVED, HAS_TABLES; WIDE_IDS for positions of i64 (i32 otherwise); those of
// floating.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/floating.cuh"
#include "shared/programmatic.cuh"
#include "attention/rotation.cuh"

#ifdef WIDE_IDS
typedef long long Id;
#else
typedef int Id;
#endif
#ifdef HAS_TABLES
#define TABLES_PARAMETER const T *__restrict__ cosines, const T *__restrict__ sines,
#else
#define TABLES_PARAMETER
#endif

extern "C" __global__ void rotary(const T *__restrict__ x, const Id *__restrict__ positions,
                                  TABLES_PARAMETER T *__restrict__ y, long long rows,
                                  long long heads, long long width, long long turned,
                                  long long table_rows, Acc base, Acc scale) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index half = Index(turned / 2), items = Index(width) - half; // of a head
  const Index count = Index(rows) * Index(heads) * items, step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index head = i / items, item = i % items;
    const Index begin = head * Index(width);
    if (item >= half) { // beyond the turned ones
      y[begin + half + item] = x[begin + half + item];
      continue;
    }
    const long long position = positions[head / Index(heads)];
#ifdef HAS_TABLES
    const Rotation by = rotation(position, item, half, cosines, sines, table_rows);
#else
    const Rotation by = rotation(position, item, turned, base, scale);
#endif
#ifdef INTERLEAVED
    const Index first = begin + 2 * item, second = first + 1;
#else
    const Index first = begin + item, second = first + half;
#endif
    const Acc a = Acc(x[first]), b = Acc(x[second]);
    y[first] = T(a * by.cosine - b * by.sine);
    y[second] = T(a * by.sine + b * by.cosine);
  }
}
