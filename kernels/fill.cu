// Fills: y[i] = value, the same bits everywhere.
//
// Options: BYTES of an element (1, 2, 4, 8), the low ones of `bits`; INDEX and ASSUME as in
// unary.cu.

#ifndef BYTES
#define BYTES 4
#endif
#if BYTES == 1
typedef unsigned char T;
#elif BYTES == 2
typedef unsigned short T;
#elif BYTES == 4
typedef unsigned int T;
#else
typedef unsigned long long T;
#endif

#ifndef ASSUME
#define ASSUME true
#endif
#ifndef INDEX
#define INDEX long long
#endif
typedef INDEX Index;

extern "C" __global__ void fill(T *y, long long count, long long bits) {
  __builtin_assume(ASSUME);
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(count); i += step)
    y[i] = T(bits);
}
