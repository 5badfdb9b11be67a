// The element type of kernels over any numbers, T, and the type they compute in, Acc.
//
// DTYPE_I8 to DTYPE_I64, DTYPE_U8 to DTYPE_U64 and DTYPE_BOOL name types that are INTEGER here:
// they compute in 64 bits, and the low bits are stored. Else the options of floating.cuh.
//
// Parameter is the type of numbers that are passed by value: the launch passes integers as i64.
#pragma once

#if defined(DTYPE_I8)
typedef signed char T;
#elif defined(DTYPE_I16)
typedef short T;
#elif defined(DTYPE_I32)
typedef int T;
#elif defined(DTYPE_I64)
typedef long long T;
#elif defined(DTYPE_U8) || defined(DTYPE_BOOL)
typedef unsigned char T;
#elif defined(DTYPE_U16)
typedef unsigned short T;
#elif defined(DTYPE_U32)
typedef unsigned int T;
#elif defined(DTYPE_U64)
typedef unsigned long long T;
#endif

#if defined(DTYPE_I8) || defined(DTYPE_I16) || defined(DTYPE_I32) || defined(DTYPE_I64)
#define INTEGER
typedef long long Acc;
typedef long long Parameter;
#elif defined(DTYPE_U8) || defined(DTYPE_U16) || defined(DTYPE_U32) || defined(DTYPE_U64) ||       \
    defined(DTYPE_BOOL)
#define INTEGER
#define UNSIGNED
typedef unsigned long long Acc;
typedef long long Parameter;
#else
#include "shared/floating.cuh"
typedef Acc Parameter;
#endif

#ifdef INTEGER
typedef unsigned long long Bits; // arithmetic that wraps
#endif

// The least and the largest value of T: where a search for the largest and the least begins.
#if defined(UNSIGNED)
__device__ __forceinline__ Acc lowest() { return 0; }
__device__ __forceinline__ Acc highest() { return ~0ull >> (64 - 8 * sizeof(T)); }
#elif defined(INTEGER)
__device__ __forceinline__ Acc highest() { return ~0ull >> (65 - 8 * sizeof(T)); }
__device__ __forceinline__ Acc lowest() { return -highest() - 1; }
#else
__device__ __forceinline__ Acc lowest() { return -infinity(); }
__device__ __forceinline__ Acc highest() { return infinity(); }
#endif
