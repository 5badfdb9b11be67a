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
// A thread turns one pair, or with vectors as many pairs as a vector has elements, of up to
// kHeadsEach heads of a row, for all of which it asks for the angles once; or it copies the rest of
// them. With vectors, turned / 2 and the width are multiples of VECTOR.
//
// Options: INTERLEAVED, HAS_TABLES; WIDE_IDS for positions of i64 (i32 otherwise); those of
// floating.cuh, vectors.cuh and assume.cuh.

#include "attention/rotation.cuh"
#include "index/positions.cuh"
#include "shared/assume.cuh"
#include "shared/options.cuh"
#include "shared/floating.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

#ifdef HAS_TABLES
#define TABLES_PARAMETER const T *__restrict__ cosines, const T *__restrict__ sines,
#else
#define TABLES_PARAMETER
#endif

constexpr int kHeadsEach = 8;

// kCount pairs at a time. angle(position, pair) is what a pair turns by.
template <int kCount, class Angle>
__device__ __forceinline__ void turn_rows(const T *x, const Id *positions, T *y, Index rows,
                                          Index heads, Index width, Index half, Angle angle) {
  typedef typename Word<kCount * sizeof(T)>::Type Words;
  const Index turning = half / kCount, units = turning + (width - 2 * half) / kCount; // of a head
  const Index groups = (heads + kHeadsEach - 1) / kHeadsEach, count = rows * groups * units;
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index part = i / units, unit = i - part * units;
    const Index row = part / groups, head = (part - row * groups) * kHeadsEach;
    const Index begin = (row * heads + head) * width;
    const int each = int(heads - head < kHeadsEach ? heads - head : Index(kHeadsEach));
    if (unit >= turning) { // beyond the turned ones
      const Index at = begin + 2 * half + (unit - turning) * kCount;
#pragma unroll 4
      for (int h = 0; h < each; ++h)
        *reinterpret_cast<Words *>(y + at + h * width) =
            *reinterpret_cast<const Words *>(x + at + h * width);
      continue;
    }
    const long long position = positions[row];
    Rotation by[kCount];
#pragma unroll
    for (int e = 0; e < kCount; ++e)
      by[e] = angle(position, unit * kCount + e);
    const Index at = begin + (IS_SET(INTERLEAVED) ? 2 : 1) * unit * kCount;
    const Index other = at + (IS_SET(INTERLEAVED) ? kCount : half);
#pragma unroll 4
    for (int h = 0; h < each; ++h) {
      union Pairs {
        Words words[2];
        T element[2][kCount];
        T pair[kCount][2];
        __device__ Pairs() {}
      } pairs;
      pairs.words[0] = *reinterpret_cast<const Words *>(x + at + h * width);
      pairs.words[1] = *reinterpret_cast<const Words *>(x + other + h * width);
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        T &first = IS_SET(INTERLEAVED) ? pairs.pair[e][0] : pairs.element[0][e];
        T &second = IS_SET(INTERLEAVED) ? pairs.pair[e][1] : pairs.element[1][e];
        const Acc a = Acc(first), b = Acc(second);
        first = T(a * by[e].cosine - b * by[e].sine);
        second = T(a * by[e].sine + b * by[e].cosine);
      }
      *reinterpret_cast<Words *>(y + at + h * width) = pairs.words[0];
      *reinterpret_cast<Words *>(y + other + h * width) = pairs.words[1];
    }
  }
}

extern "C" __global__ void rotary(const T *__restrict__ x, const Id *__restrict__ positions,
                                  TABLES_PARAMETER T *__restrict__ y, long long rows,
                                  long long heads, long long width, long long turned,
                                  long long table_rows, Acc base, Acc scale) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index half = Index(turned / 2);
  auto angle = [&](long long position, Index pair) {
#ifdef HAS_TABLES
    return rotation(position, pair, half, cosines, sines, table_rows);
#else
    return rotation(position, pair, turned, base, scale);
#endif
  };
  if (VECTOR > 1 && are_aligned(x, y))
    turn_rows<VECTOR>(x, positions, y, Index(rows), Index(heads), Index(width), half, angle);
  else
    turn_rows<1>(x, positions, y, Index(rows), Index(heads), Index(width), half, angle);
}
