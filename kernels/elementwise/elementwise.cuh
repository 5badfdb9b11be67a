// The elementwise operations, on values of the type that kernels compute in: float, or double for
// f64.
//
// The library's kernels and generated ones share them: each is one function here, named after the
// op (ops with attributes have several).
#pragma once

#include "elementwise/comparisons.cuh"

namespace op {

using namespace comparison;

// a / b within two units in the last place, without the branch to a slow path that an exact
// quotient has. For functions that round in between anyway.
__device__ __forceinline__ float quotient(float a, float b) {
  float q;
  asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
  return q;
}
__device__ __forceinline__ double quotient(double a, double b) { return a / b; }

// --- One operand. relu is not fmax: a NaN stays a NaN. ---

template <class A> __device__ A relu(A x) { return x < 0 ? A(0) : x; }
template <class A> __device__ A neg(A x) { return -x; }
template <class A> __device__ A abs(A x) { return ::fabs(x); }
template <class A> __device__ A exp(A x) { return ::exp(x); }
template <class A> __device__ A log(A x) { return ::log(x); }
template <class A> __device__ A sqrt(A x) { return ::sqrt(x); }
template <class A> __device__ A rsqrt(A x) { return 1 / ::sqrt(x); }
template <class A> __device__ A tanh(A x) { return ::tanh(x); }
template <class A> __device__ A sigmoid(A x) { return quotient(A(1), 1 + ::exp(-x)); }
template <class A> __device__ A silu(A x) { return quotient(x, 1 + ::exp(-x)); }

template <class A> __device__ A gelu(A x) {
  const A kSqrtHalf = 0.70710678118654752440;
  return A(0.5) * x * (1 + ::erf(x * kSqrtHalf));
}

template <class A> __device__ A gelu_tanh(A x) {
  const A kSqrtTwoOverPi = 0.79788456080286535588;
  return A(0.5) * x * (1 + ::tanh(kSqrtTwoOverPi * (x + A(0.044715) * x * x * x)));
}

template <class A> __device__ A erf(A x) { return ::erf(x); }
template <class A> __device__ A sin(A x) { return ::sin(x); }
template <class A> __device__ A cos(A x) { return ::cos(x); }
template <class A> __device__ A tan(A x) { return ::tan(x); }
template <class A> __device__ A asin(A x) { return ::asin(x); }
template <class A> __device__ A acos(A x) { return ::acos(x); }
template <class A> __device__ A atan(A x) { return ::atan(x); }
template <class A> __device__ A sinh(A x) { return ::sinh(x); }
template <class A> __device__ A cosh(A x) { return ::cosh(x); }
template <class A> __device__ A asinh(A x) { return ::asinh(x); }
template <class A> __device__ A acosh(A x) { return ::acosh(x); }
template <class A> __device__ A atanh(A x) { return ::atanh(x); }
template <class A> __device__ A log1p(A x) { return ::log1p(x); }
template <class A> __device__ A floor(A x) { return ::floor(x); }
template <class A> __device__ A ceil(A x) { return ::ceil(x); }
template <class A> __device__ A round(A x) { return ::rint(x); } // halves to even
template <class A> __device__ A reciprocal(A x) { return 1 / x; }
template <class A> __device__ A sign(A x) { return x > 0 ? A(1) : x < 0 ? A(-1) : x; }
// log(1 + exp(x)) without overflow.
template <class A> __device__ A softplus(A x) {
  return (x < 0 ? A(0) : x) + ::log1p(::exp(-::fabs(x)));
}
template <class A> __device__ A softsign(A x) { return x / (1 + ::fabs(x)); }
template <class A> __device__ A hard_swish(A x) {
  const A gate = x + 3;
  return x * (gate < 0 ? A(0) : gate > 6 ? A(6) : gate) / 6;
}

template <class A> __device__ bool is_nan(A x) { return x != x; }
template <class A> __device__ bool is_inf(A x) { return ::isinf(x); }

template <class A> __device__ A leaky_relu(A x, A alpha) { return x < 0 ? alpha * x : x; }
template <class A> __device__ A elu(A x, A alpha) { return x < 0 ? alpha * ::expm1(x) : x; }
template <class A> __device__ A hard_sigmoid(A x, A alpha, A beta) {
  const A y = alpha * x + beta;
  return y < 0 ? A(0) : y > 1 ? A(1) : y;
}
template <class A> __device__ A clip(A x, A least, A most) {
  x = x < least ? least : x;
  return x > most ? most : x;
}

// --- Two operands. Of maximum and minimum, a NaN on either side is the result. ---

template <class A> __device__ A add(A a, A b) { return a + b; }
template <class A> __device__ A sub(A a, A b) { return a - b; }
template <class A> __device__ A mul(A a, A b) { return a * b; }
template <class A> __device__ A div(A a, A b) { return a / b; }
template <class A> __device__ A maximum(A a, A b) { return a > b || a != a ? a : b; }
template <class A> __device__ A minimum(A a, A b) { return a < b || a != a ? a : b; }
template <class A> __device__ A pow(A a, A b) { return ::pow(a, b); }
// The remainder has the dividend's sign.
template <class A> __device__ A fmod(A a, A b) { return ::fmod(a, b); }
// The remainder has the divisor's sign, as % of Python.
template <class A> __device__ A mod(A a, A b) {
  const A rest = ::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
template <class A> __device__ A prelu(A a, A b) { return a < 0 ? a * b : a; }

// --- An element's place. ---

template <class A> __device__ A range(long long i, A start, A step) { return start + A(i) * step; }

} // namespace op
