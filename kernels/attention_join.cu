// The second kernel of attention over a cache that is split: what the blocks of attention_split
// left in `parts`, in the order of the cache.
//
//   parts: [rows, splits, width + 2]    y: [rows, width]    rows = sequences * queries * heads
//
// A part is a block's weighted values, the largest score of its positions, and the sum of their
// weights.
//
//   entry            block   grid
//   attention_join   128     rows
//
// Options: those of floating.cuh and assume.cuh.

#include "assume.cuh"
#include "attention_parts.cuh"
#include "floating.cuh"
#include "programmatic.cuh"

extern "C" __global__ void __launch_bounds__(128)
    attention_join(const Acc *__restrict__ parts, T *__restrict__ y, long long rows,
                   long long splits, long long width) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long part = width + 2;
  const Acc *row = parts + blockIdx.x * splits * part;
  auto largest_of = [&](int p) { return row[p * part + width]; };
  const Joined all =
      join(int(splits), largest_of, [&](int p) { return row[p * part + width + 1]; });
  const Acc inverse = 1 / all.sum;
  for (int e = threadIdx.x; e < int(width); e += blockDim.x) {
    const Acc value =
        join_values(int(splits), all.largest, largest_of, [&](int p) { return row[p * part + e]; });
    y[blockIdx.x * width + e] = T(all.largest == no_score() ? Acc(0) : value * inverse);
  }
}
