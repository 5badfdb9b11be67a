// The walk of operands that broadcast to a result: the result's index is taken apart over at most
// MAX_RANK dimensions, outermost first (size0 is implied by the count), and each operand has one
// stride a dimension, 0 where it broadcasts. The caller merges dimensions that all operands walk
// alike; with their sizes in ASSUME, unused dimensions cost nothing.
//
// With vectors (vectors.cuh) they lie along dimension INNERMOST, whose size is a multiple of
// VECTOR; along it an operand's stride is 1, and its other ones are multiples of VECTOR, or 0.
//
// Options: MAX_RANK 4 or 8; INNERMOST.
#pragma once

#include "shared/dimensions.cuh"
#include "shared/vectors.cuh"

#ifndef INNERMOST
#define INNERMOST 0
#endif

template <int kOperands> struct Walk {
  long long size[MAX_RANK];
  long long stride[kOperands][MAX_RANK];

  // Gives the places of the operands' elements that make the result's element i.
  __device__ __forceinline__ void offsets(Index i, Index (&at)[kOperands]) const {
    Index rest = i;
#pragma unroll
    for (int o = 0; o < kOperands; ++o)
      at[o] = 0;
#pragma unroll
    for (int d = MAX_RANK - 1; d >= 0; --d) {
      const Index outer = d > 0 ? rest / Index(size[d]) : 0;
      const Index along = d > 0 ? rest - outer * Index(size[d]) : rest;
#pragma unroll
      for (int o = 0; o < kOperands; ++o)
        at[o] += along * Index(stride[o][d]);
      rest = outer;
    }
  }

  // A vector of an operand from element `at` on: its own, or one element in all places.
  template <class E>
  __device__ __forceinline__ Vector<E> vector_of(int operand, const E *tensor, Index at) const {
    if (stride[operand][INNERMOST] != 0)
      return load_vector(tensor, at / VECTOR);
    return same_vector(tensor[at]);
  }
};
