// Elementwise operations with one operand: y[i] = OP(x[i]), contiguous.
//
// Options: -DOP=relu names the operation, and with it the entry, relu_elementwise; PARAMETERS, how
// many numbers it takes besides (0, 1 or 2); TO_BOOL for tests, whose result is a bool; those of
// number.cuh and assume.cuh. x and y may be the same tensor, where their elements have one size.

#include "assume.cuh"
#include "number.cuh"
#include "programmatic.cuh"

#ifdef TO_BOOL
typedef bool Result;
#else
typedef T Result;
#endif

namespace op {

#ifdef INTEGER

__device__ Acc relu(Acc x) { return x > 0 ? x : 0; }
__device__ Acc neg(Acc x) { return Acc(Bits(0) - Bits(x)); }
__device__ Acc abs(Acc x) { return x < 0 ? neg(x) : x; }
__device__ Acc sign(Acc x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
__device__ bool logical_not(Acc x) { return x == 0; }

// Both bounds fit the type: whoever launches has limited them.
__device__ Acc clip(Acc x, Parameter least, Parameter most) {
  x = x < Acc(least) ? Acc(least) : x;
  return x > Acc(most) ? Acc(most) : x;
}

#else

// Not fmax: a NaN stays a NaN.
__device__ Acc relu(Acc x) { return x < 0 ? Acc(0) : x; }
__device__ Acc neg(Acc x) { return -x; }
__device__ Acc abs(Acc x) { return ::fabs(x); }
__device__ Acc exp(Acc x) { return ::exp(x); }
__device__ Acc log(Acc x) { return ::log(x); }
__device__ Acc sqrt(Acc x) { return ::sqrt(x); }
__device__ Acc rsqrt(Acc x) { return 1 / ::sqrt(x); }
__device__ Acc tanh(Acc x) { return ::tanh(x); }
__device__ Acc sigmoid(Acc x) { return 1 / (1 + ::exp(-x)); }
__device__ Acc silu(Acc x) { return x / (1 + ::exp(-x)); }

__device__ Acc gelu(Acc x) {
  const Acc kSqrtHalf = 0.70710678118654752440;
  return Acc(0.5) * x * (1 + ::erf(x * kSqrtHalf));
}

__device__ Acc gelu_tanh(Acc x) {
  const Acc kSqrtTwoOverPi = 0.79788456080286535588;
  return Acc(0.5) * x * (1 + ::tanh(kSqrtTwoOverPi * (x + Acc(0.044715) * x * x * x)));
}

__device__ Acc erf(Acc x) { return ::erf(x); }
__device__ Acc sin(Acc x) { return ::sin(x); }
__device__ Acc cos(Acc x) { return ::cos(x); }
__device__ Acc tan(Acc x) { return ::tan(x); }
__device__ Acc asin(Acc x) { return ::asin(x); }
__device__ Acc acos(Acc x) { return ::acos(x); }
__device__ Acc atan(Acc x) { return ::atan(x); }
__device__ Acc sinh(Acc x) { return ::sinh(x); }
__device__ Acc cosh(Acc x) { return ::cosh(x); }
__device__ Acc asinh(Acc x) { return ::asinh(x); }
__device__ Acc acosh(Acc x) { return ::acosh(x); }
__device__ Acc atanh(Acc x) { return ::atanh(x); }
__device__ Acc log1p(Acc x) { return ::log1p(x); }
__device__ Acc floor(Acc x) { return ::floor(x); }
__device__ Acc ceil(Acc x) { return ::ceil(x); }
__device__ Acc round(Acc x) { return ::rint(x); } // halves to even
__device__ Acc reciprocal(Acc x) { return 1 / x; }
__device__ Acc sign(Acc x) { return x > 0 ? Acc(1) : x < 0 ? Acc(-1) : x; }
// log(1 + exp(x)) without overflow.
__device__ Acc softplus(Acc x) { return (x < 0 ? Acc(0) : x) + ::log1p(::exp(-::fabs(x))); }
__device__ Acc softsign(Acc x) { return x / (1 + ::fabs(x)); }
__device__ Acc hard_swish(Acc x) {
  const Acc gate = x + 3;
  return x * (gate < 0 ? Acc(0) : gate > 6 ? Acc(6) : gate) / 6;
}

__device__ bool is_nan(Acc x) { return x != x; }
__device__ bool is_inf(Acc x) { return ::fabs(x) == highest(); }

__device__ Acc leaky_relu(Acc x, Parameter alpha) { return x < 0 ? alpha * x : x; }
__device__ Acc elu(Acc x, Parameter alpha) { return x < 0 ? alpha * ::expm1(x) : x; }
__device__ Acc hard_sigmoid(Acc x, Parameter alpha, Parameter beta) {
  const Acc y = alpha * x + beta;
  return y < 0 ? Acc(0) : y > 1 ? Acc(1) : y;
}
__device__ Acc clip(Acc x, Parameter least, Parameter most) {
  x = x < least ? least : x;
  return x > most ? most : x;
}

#endif

} // namespace op

#if PARAMETERS == 2
#define PARAMETERS_ , Parameter p, Parameter q
#define ARGUMENTS_ , p, q
#elif PARAMETERS == 1
#define PARAMETERS_ , Parameter p
#define ARGUMENTS_ , p
#else
#define PARAMETERS_
#define ARGUMENTS_
#endif

#define ENTRY_(operation) operation##_elementwise
#define ENTRY(operation) ENTRY_(operation)

extern "C" __global__ void ENTRY(OP)(const T *x, Result *y, long long count PARAMETERS_) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = Result(op::OP(Acc(x[i]) ARGUMENTS_));
}
