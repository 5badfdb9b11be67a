// The element type of the results of kernels that add up products of bytes, T, and the type they
// compute in, Acc: integers of 32 bits.
//
// What other ops make of such a result may be floats (fusion.cuh): kernels that store these are
// compiled with -fmad=false, as floating.cuh says.
#pragma once

typedef int T;
typedef int Acc;
