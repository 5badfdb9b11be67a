// The elementwise operations, on values of the type that kernels compute in: float, or double for
// f64.
//
// What the library's kernels and generated ones share: each is one function here, named after the
// op (ops with attributes have several).
#pragma once

namespace op {

// --- One operand. relu is not fmax: a NaN stays a NaN. ---

template <class A> __device__ A relu(A x) { return x < 0 ? A(0) : x; }
template <class A> __device__ A neg(A x) { return -x; }
template <class A> __device__ A abs(A x) { return ::fabs(x); }
template <class A> __device__ A exp(A x) { return ::exp(x); }
template <class A> __device__ A log(A x) { return ::log(x); }
template <class A> __device__ A sqrt(A x) { return ::sqrt(x); }
template <class A> __device__ A rsqrt(A x) { return 1 / ::sqrt(x); }
template <class A> __device__ A tanh(A x) { return ::tanh(x); }
template <class A> __device__ A sigmoid(A x) { return 1 / (1 + ::exp(-x)); }
template <class A> __device__ A silu(A x) { return x / (1 + ::exp(-x)); }

template <class A> __device__ A gelu(A x) {
  const A kSqrtHalf = 0.70710678118654752440;
  return A(0.5) * x * (1 + ::erf(x * kSqrtHalf));
}

template <class A> __device__ A gelu_tanh(A x) {
  const A kSqrtTwoOverPi = 0.79788456080286535588;
  return A(0.5) * x * (1 + ::tanh(kSqrtTwoOverPi * (x + A(0.044715) * x * x * x)));
}

// --- Two operands. Of maximum and minimum, a NaN on either side is the result. ---

template <class A> __device__ A add(A a, A b) { return a + b; }
template <class A> __device__ A sub(A a, A b) { return a - b; }
template <class A> __device__ A mul(A a, A b) { return a * b; }
template <class A> __device__ A div(A a, A b) { return a / b; }
template <class A> __device__ A maximum(A a, A b) { return a > b || a != a ? a : b; }
template <class A> __device__ A minimum(A a, A b) { return a < b || a != a ? a : b; }

} // namespace op
