// Operands of direct convolutions, X and W, and Sum, which adds up their products: floats, or with
// INTEGERS bytes less their zero points, exactly.
//
// With X_F32 X is float, and rounded to W, the type that floating.cuh chooses.
//
// Options: INTEGERS with X_UNSIGNED, W_UNSIGNED, HAS_X_ZERO, one for all, and HAS_W_ZERO, one each
// w_zero_step channels (0: one for all); else those of floating.cuh.
#pragma once

// First, since a file's text stands once, and the headers for bytes include it, too.
#ifndef INTEGERS
#include "shared/floating.cuh"
#endif

#ifdef INTEGERS
#include "shared/byte_sums.cuh"
#include "shared/byte_tile.cuh"
#include "shared/options.cuh"
typedef Chosen<IS_SET(X_UNSIGNED), unsigned char, signed char>::type X;
typedef Chosen<IS_SET(W_UNSIGNED), unsigned char, signed char>::type W;
#else
#ifdef X_F32
typedef float X;
#else
typedef T X;
#endif
typedef T W;
#endif

#ifdef HAS_X_ZERO
#define X_ZERO_PARAMETER const X *__restrict__ x_zero,
#define X_ZERO_ARGUMENT x_zero,
#define X_ZERO Acc(x_zero[0])
constexpr bool kHasXZero = true;
#else
#define X_ZERO_PARAMETER
#define X_ZERO_ARGUMENT
#define X_ZERO Acc(0)
constexpr bool kHasXZero = false;
#endif
#ifdef HAS_W_ZERO
#define W_ZERO_PARAMETER const W *__restrict__ w_zero, long long w_zero_step,
#define W_ZERO_ARGUMENT w_zero, w_zero_step,
#define W_ZERO(channel) Acc(w_zero[(channel)*w_zero_step])
constexpr bool kHasWZero = true;
#else
#define W_ZERO_PARAMETER
#define W_ZERO_ARGUMENT
#define W_ZERO(channel) Acc(0)
constexpr bool kHasWZero = false;
#endif

#ifdef INTEGERS
typedef ByteSum<X, W, kHasWZero, kHasXZero> Sum;
#else
struct Sum {
  Acc sum;
  __device__ __forceinline__ void add(X x, W w) { sum = fma(Acc(W(x)), Acc(w), sum); }
  __device__ __forceinline__ Acc total(Acc, Acc) const { return sum; }
};
#endif
