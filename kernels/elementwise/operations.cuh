// Parts that an elementwise kernel of T computes with: the namespace OPERATIONS of the operations,
// and the type Result of their results.
//
// INTEGER for integers and bools; TO_BOOL for comparisons and tests, whose result is a bool.
#pragma once

// Here, not in the branches below: a text is put in place once, and would be missing in the other.
#include "elementwise/comparisons.cuh"
#include "shared/number.cuh"
#include "shared/options.cuh"

typedef Chosen<IS_SET(TO_BOOL), bool, T>::type Result;

#ifdef INTEGER
#include "elementwise/integers.cuh"
#define OPERATIONS integer
#else
#include "elementwise/elementwise.cuh"
#define OPERATIONS op
#endif
