// The element type of kernels over floating point, T, and the type they compute in, Acc.
//
// DTYPE_F16, DTYPE_BF16 or DTYPE_F64 choose it, f32 otherwise; Acc is float, double for f64.
//
// These kernels are compiled with -fmad=false: a product and a sum are rounded once where the
// source says fma, and twice elsewhere. So an operation gives the same bits whatever it is compiled
// with.
#pragma once

#if defined(DTYPE_F16)
#include <cuda_fp16.h>
typedef __half T;
typedef float Acc;
#elif defined(DTYPE_BF16)
#include <cuda_bf16.h>
typedef __nv_bfloat16 T;
typedef float Acc;
#elif defined(DTYPE_F64)
typedef double T;
typedef double Acc;
#else
typedef float T;
typedef float Acc;
#endif

// Infinity, by its bits. 1 / 0 is not folded: it would be a division, with its slow path, wherever
// it stands.
__device__ __forceinline__ Acc infinity() {
#ifdef DTYPE_F64
  return __longlong_as_double(0x7ff0000000000000ll);
#else
  return __int_as_float(0x7f800000);
#endif
}
