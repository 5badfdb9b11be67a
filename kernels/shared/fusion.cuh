// Where a generated kernel puts other operations into one of the library's: before what it loads,
// and behind what it stores (fused_group.h).
//
// LOADED_PARAMETER   the parameter of the operand that LOAD reads; nothing where LOAD computes it
// LOAD(i)            element i of that operand, a T
// RESULT(i, value)   what the result's element i (of the whole tensor) becomes for `value`, an Acc
// RESULTS(count, run, first, value, whole, left)
//                    a statement: these of the elements first + e, for e below count and left, as
//                    elements of a Run (vectors.cuh); `value` may name e. `whole`: first is a
//                    multiple of count, left no less, and RESULTS_ALIGNED(count) holds: what is
//                    read besides begins at multiples of its runs' size
// STORE(i, value)    stores it
// OUT                the type of stored elements
// FUSED_PARAMETERS   what LOAD and STORE use besides, the last of the kernel's parameters
// FUSED_ARGUMENTS    their names
#pragma once

#ifndef LOADED_PARAMETER
#define LOADED_PARAMETER const T *__restrict__ x,
#define LOAD(i) x[i]
#define LOADS_X // the operand lies in memory, as x
#endif
#ifndef RESULT
#define RESULT(i, value) T(value)
#define OUT T
#endif
#ifndef RESULTS
#define RESULTS_ALIGNED(count) true
#define RESULTS(count, run, first, value, whole, left)                                             \
  do {                                                                                             \
    _Pragma("unroll") for (int e = 0; e < count; ++e) if (e < left)(run).element[e] =              \
        RESULT((first) + e, value);                                                                \
  } while (false)
#endif
#define STORE(i, value) y[i] = RESULT(i, value)
#ifndef FUSED_PARAMETERS
#define FUSED_PARAMETERS
#define FUSED_ARGUMENTS
#endif
