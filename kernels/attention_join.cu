// The second kernel of attention over a cache that is split: what the blocks of attention_split
// left in `parts`, in the order of the cache.
//
//   parts: [rows, splits, WIDTH + 2]    y: [rows, WIDTH]    rows = sequences * queries * heads
//
// A part is a block's weighted values, the largest score of its positions, and the sum of their
// weights.
//
//   entry            block   grid
//   attention_join   128     rows
//
// Options: WIDTH; those of floating.cuh and assume.cuh.

#include "assume.cuh"
#include "attention_parts.cuh"
#include "floating.cuh"
#include "programmatic.cuh"

#ifndef WIDTH
#define WIDTH 64
#endif

extern "C" __global__ void __launch_bounds__(128)
    attention_join(const Acc *__restrict__ parts, T *__restrict__ y, long long rows,
                   long long splits) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  constexpr int kPart = WIDTH + 2;
  const Acc *row = parts + blockIdx.x * splits * kPart;
  auto largest_of = [&](int p) { return row[p * kPart + WIDTH]; };
  const Joined all =
      join(int(splits), largest_of, [&](int p) { return row[p * kPart + WIDTH + 1]; });
  for (int e = threadIdx.x; e < WIDTH; e += blockDim.x) {
    const Acc value = join_values(int(splits), all.largest, largest_of,
                                  [&](int p) { return row[p * kPart + e]; });
    y[blockIdx.x * (long long)(WIDTH) + e] =
        T(all.largest == no_score() ? Acc(0) : value / all.sum);
  }
}
