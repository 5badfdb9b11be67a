// The elementwise comparisons, the same for floats (elementwise.cuh) and for integers and bools
// (integers.cuh). A NaN is unequal to everything, and neither less nor greater.
#pragma once

namespace comparison {

template <class A> __device__ bool equal(A a, A b) { return a == b; }
template <class A> __device__ bool not_equal(A a, A b) { return a != b; }
template <class A> __device__ bool less(A a, A b) { return a < b; }
template <class A> __device__ bool less_equal(A a, A b) { return a <= b; }
template <class A> __device__ bool greater(A a, A b) { return a > b; }
template <class A> __device__ bool greater_equal(A a, A b) { return a >= b; }

} // namespace comparison
