// The bias of a product or convolution, where HAS_BIAS is defined: one value, a T, for each column
// or channel; 0 otherwise. The names of kernels' types, T and Acc, are theirs.
#pragma once

#ifdef HAS_BIAS
#define BIAS_PARAMETER const T *__restrict__ bias,
#define BIAS_ARGUMENT bias,
#define BIAS_AT(column) Acc(bias[column])
#else
#define BIAS_PARAMETER
#define BIAS_ARGUMENT
#define BIAS_AT(column) Acc(0)
#endif
