// Running sums along one axis of x: [outer, axis, inner], with PRODUCT products. With REVERSE they
// run from the end; with EXCLUSIVE a place's sum leaves out its own element.
//
// cumsum_rows: inner is 1; one block of 256 threads a row, which takes 256 elements at a time and
// carries their sum. cumsum_columns: one thread a column, so that neighbours read neighbouring
// addresses.
//
// Options: those of number.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/number.cuh"
#include "shared/options.cuh"
#include "shared/programmatic.cuh"

#ifdef PRODUCT
constexpr int kOfNone = 1;
#define JOIN(a, b) ((a) * (b))
#else
constexpr int kOfNone = 0;
#define JOIN(a, b) ((a) + (b))
#endif

__device__ Acc join(Acc a, Acc b) {
#ifdef INTEGER
  return Acc(JOIN(Bits(a), Bits(b)));
#else
  return JOIN(a, b);
#endif
}

__device__ long long place(long long i, long long axis) {
  return IS_SET(REVERSE) ? axis - 1 - i : i;
}

extern "C" __global__ void __launch_bounds__(256)
    cumsum_rows(const T *__restrict__ x, T *__restrict__ y, long long outer, long long axis,
                long long inner) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kWarps = 8;
  __shared__ Acc totals[kWarps];
  x += blockIdx.x * axis;
  y += blockIdx.x * axis;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Acc carry = Acc(kOfNone);
  for (long long begin = 0; begin < axis; begin += 256) {
    const long long i = begin + threadIdx.x;
    Acc sum = i < axis ? Acc(x[place(i, axis)]) : Acc(kOfNone);
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const Acc before = __shfl_up_sync(0xffffffffu, sum, distance);
      sum = lane >= distance ? join(before, sum) : sum;
    }
    if (lane == 31)
      totals[warp] = sum;
    __syncthreads();
    Acc base = carry; // of the warps before this one
    for (int w = 0; w < kWarps; ++w) {
      if (w == warp)
        base = carry;
      carry = join(carry, totals[w]);
    }
#ifdef EXCLUSIVE
    const Acc before = __shfl_up_sync(0xffffffffu, sum, 1);
    sum = lane == 0 ? Acc(kOfNone) : before;
#endif
    if (i < axis)
      y[place(i, axis)] = T(join(base, sum));
    __syncthreads(); // the totals are read before they are written again
  }
}

extern "C" __global__ void cumsum_columns(const T *__restrict__ x, T *__restrict__ y,
                                          long long outer, long long axis, long long inner) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long column = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= outer * inner)
    return;
  const long long begin = column / inner * axis * inner + column % inner;
  Acc sum = Acc(kOfNone);
  for (long long i = 0; i < axis; ++i) {
    const long long at = begin + place(i, axis) * inner;
    const Acc value = Acc(x[at]);
#ifdef EXCLUSIVE
    y[at] = T(sum);
    sum = join(sum, value);
#else
    sum = join(sum, value);
    y[at] = T(sum);
#endif
  }
}
