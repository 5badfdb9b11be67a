// Parts of one query's attention, each over positions of its own, as one: a part has its largest
// score, the sum of its weights and its weighted values, both relative to that score. Parts are
// taken in their order, so that results do not depend on which was there first.
#pragma once

#include "floating.cuh"

// The largest score of a part without positions.
__device__ __forceinline__ Acc no_score() { return -infinity(); }

// The factor by which a sum shrinks when its maximum moves from `from` to `to`.
__device__ __forceinline__ Acc shrink(Acc from, Acc to) {
  return from == to ? Acc(1) : exp(from - to);
}

struct Joined {
  Acc largest, sum;
};

template <class Largest, class Sum>
__device__ __forceinline__ Joined join(int parts, Largest largest_of, Sum sum_of) {
  Joined all = {largest_of(0), 0};
  for (int p = 1; p < parts; ++p) {
    const Acc largest = largest_of(p);
    all.largest =
        largest > all.largest || largest != largest ? largest : all.largest; // a NaN stays
  }
  for (int p = 0; p < parts; ++p) {
    const Acc largest = largest_of(p);
    all.sum += largest == no_score() ? Acc(0) : sum_of(p) * shrink(largest, all.largest);
  }
  return all;
}

// One element of the weighted values.
template <class Largest, class Value>
__device__ __forceinline__ Acc join_values(int parts, Acc largest_of_all, Largest largest_of,
                                           Value value_of) {
  Acc value = 0;
  for (int p = 0; p < parts; ++p) {
    const Acc largest = largest_of(p);
    value += largest == no_score() ? Acc(0) : value_of(p) * shrink(largest, largest_of_all);
  }
  return value;
}
