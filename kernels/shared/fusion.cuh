// Where a generated kernel puts other operations into one of the library's: before what it loads,
// and behind what it stores (codegen/fused_group.h).
//
// LOADED_PARAMETER   the parameter of the operand that LOAD reads; nothing where LOAD computes it
// LOAD(i)            element i of that operand, a T
// RESULT(i, value)   what the result's element i (of the whole tensor) becomes for `value`, an Acc
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
#define STORE(i, value) y[i] = RESULT(i, value)
#ifndef FUSED_PARAMETERS
#define FUSED_PARAMETERS
#define FUSED_ARGUMENTS
#endif
