// Parts that the kernels of attention share: options for operands, parameters, and the positions
// that a query sees (attention.cu).
#pragma once

#include "attention/attention_parts.cuh"
#include "shared/assume.cuh"
#include "shared/cached.cuh"
#include "shared/floating.cuh"
#include "shared/options.cuh"
#include "shared/programmatic.cuh"

#ifndef MAX_WIDTH
#define MAX_WIDTH 64
#endif
#ifndef SHARE
#define SHARE 1
#endif
typedef Chosen<IS_SET(WIDE_LENGTHS), long long, int>::type Length;
#ifdef HAS_LENGTHS
#define LENGTHS_PARAMETER const Length *__restrict__ lengths,
#else
#define LENGTHS_PARAMETER
#endif
typedef Chosen<IS_SET(MASK_F32), float, T>::type Mask;
#if defined(HAS_MASK) && !defined(MASK_OF_POSITIONS)
#define MASK_OF_ROWS
#endif
#ifdef HAS_MASK
#define MASK_PARAMETER const Mask *__restrict__ mask,
#define MASK_STRIDES                                                                               \
  , long long mask_sequence, long long mask_head, long long mask_query, long long mask_position
#else
#define MASK_PARAMETER
#define MASK_STRIDES
#endif
typedef Chosen<IS_SET(WIDE_PLACES), long long, int>::type Place;
#ifdef HAS_PLACES
#include "index/positions.cuh"
#define PLACES_PARAMETER const Place *__restrict__ places,
#define ROWS_PARAMETER long long cache_rows,
#else
#define PLACES_PARAMETER
#define ROWS_PARAMETER
#endif

#ifdef ROWS_APART
#define ROW_DISTANCES , long long q_row, long long kv_row
#define Q_ROW q_row
#define KV_ROW kv_row
#else
#define ROW_DISTANCES
#define Q_ROW (heads * width)
#define KV_ROW (kv_heads * width)
#endif

#define PARAMETERS(result)                                                                         \
  const T *__restrict__ q, const Cached *__restrict__ keys, const Cached *__restrict__ values,     \
      LENGTHS_PARAMETER MASK_PARAMETER PLACES_PARAMETER result, long long sequences,               \
      long long queries, long long heads, long long kv_heads, long long width, long long capacity, \
      ROWS_PARAMETER Acc scale MASK_STRIDES ROW_DISTANCES

// The positions of sequence `s` that are filled, and its row of keys and values.
#ifdef HAS_PLACES
#define ROW_OF(s) nearest(places[s], cache_rows)
#define CAPACITY (cache_rows > 0 ? capacity : 0)
#else
#define ROW_OF(s) s
#define CAPACITY capacity
#endif
#ifdef HAS_LENGTHS
#define LENGTH_OF(s) length_within(lengths[s], CAPACITY)
#else
#define LENGTH_OF(s) CAPACITY
#endif

__device__ __forceinline__ long long length_within(long long given, long long capacity) {
  return given < 0 ? 0 : given > capacity ? capacity : given;
}

// How many of `length` positions query `place` sees.
__device__ __forceinline__ long long seen_by(long long place, long long length, long long queries) {
#ifdef CAUSAL
  const long long last = length - queries + place;
  return last < 0 ? 0 : last + 1;
#else
  return length;
#endif
}

// The first position of those that a query sees, of which `seen` is the end.
__device__ __forceinline__ long long first_seen(long long seen) {
#ifdef WINDOW
  return seen > WINDOW ? seen - WINDOW : 0;
#else
  return 0;
#endif
}
