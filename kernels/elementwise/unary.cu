// Elementwise operations with one operand: y[i] = OP(x[i]), contiguous, in vectors.
//
// Options: -DOP=relu names the operation (elementwise.cuh, or integers.cuh), and with it the entry,
// relu_elementwise; PARAMETERS, how many numbers it takes besides (0, 1 or 2); TO_BOOL for tests,
// whose result is a bool; those of number.cuh, vectors.cuh and assume.cuh. x and y may be the same
// tensor, where their elements have one size.

#include "shared/assume.cuh"
#include "shared/number.cuh"
#include "elementwise/operations.cuh"
#include "shared/programmatic.cuh"
#include "shared/vectors.cuh"

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

__device__ __forceinline__ Result result_of(T x PARAMETERS_) {
  return Result(OPERATIONS::OP(Acc(x) ARGUMENTS_));
}

extern "C" __global__ void ENTRY(OP)(const T *x, Result *y, long long count PARAMETERS_) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  const Index first = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index vectors = vector_count(count, x, y);
  for (Index at = first; at < vectors; at += step) {
    const Vector<T> in = load_vector(x, at);
    Vector<Result> out;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e)
      out.element[e] = result_of(in.element[e] ARGUMENTS_);
    store_vector(y, at, out);
  }
  for (Index i = vectors * VECTOR + first; i < Index(count); i += step)
    y[i] = result_of(x[i] ARGUMENTS_);
}
