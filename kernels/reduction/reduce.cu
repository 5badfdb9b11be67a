// Sums, products, means, maxima and minima over any set of axes: y[kept] = OP over reduced of
// x[kept, reduced].
//
// The caller merges neighbouring axes of one kind, so that x has at most four kept and four reduced
// dimensions, each with its stride in x; the outermost of each kind is dimension 0, its size
// implied by the counts. y is contiguous over the kept ones.
//
// Entries: OP_rows, one block a result, for axes that include the innermost one; OP_columns, 32 by
// 8 threads for 32 results, so that neighbours read neighbouring addresses. Over no elements the
// sum is 0, the product 1, the mean a NaN, the maximum the least value there is and the minimum the
// largest. A NaN among the elements is the result.
//
// Options: -DOP=sum, prod, mean (of floating point), max or min; those of number.cuh and
// assume.cuh; those of row.cuh, where the reduced axes are one run of elements.

#define MAX_RANK 4

#include "shared/assume.cuh"
#include "shared/block_reduce.cuh"
#include "shared/dimensions.cuh"
#include "shared/fusion.cuh"
#include "shared/programmatic.cuh"
#include "shared/row.cuh"

#define PARAMETERS                                                                                 \
  LOADED_PARAMETER OUT *__restrict__ y, long long kept, long long reduced,                         \
      INNER(long long kept_size), EACH(long long kept_stride), INNER(long long reduced_size),      \
      EACH(long long reduced_stride) FUSED_PARAMETERS

namespace reduction {

struct sum {
  static __device__ Acc start() { return 0; }
#ifdef INTEGER
  static __device__ Acc combine(Acc p, Acc q) { return Acc(Bits(p) + Bits(q)); }
#else
  static __device__ Acc combine(Acc p, Acc q) { return p + q; }
#endif
  static __device__ Acc finish(Acc value, long long count) { return value; }
};

struct mean : sum {
  static __device__ Acc finish(Acc value, long long count) { return value / Acc(count); }
};

struct prod : sum {
  static __device__ Acc start() { return 1; }
#ifdef INTEGER
  static __device__ Acc combine(Acc p, Acc q) { return Acc(Bits(p) * Bits(q)); }
#else
  static __device__ Acc combine(Acc p, Acc q) { return p * q; }
#endif
};

struct max : sum {
  static __device__ Acc start() { return lowest(); }
  static __device__ Acc combine(Acc p, Acc q) { return p > q || p != p ? p : q; }
};

struct min : sum {
  static __device__ Acc start() { return highest(); }
  static __device__ Acc combine(Acc p, Acc q) { return p < q || p != p ? p : q; }
};

} // namespace reduction

// The offset of element `index` of a space of MAX_RANK dimensions.
__device__ __forceinline__ long long offset_of(long long index, const long long (&size)[MAX_RANK],
                                               const long long (&stride)[MAX_RANK]) {
  long long offset = 0;
#pragma unroll
  for (int d = MAX_RANK - 1; d > 0; --d) {
    offset += index % size[d] * stride[d];
    index /= size[d];
  }
  return offset + index * stride[0];
}

#define ENTRY_(operation, kind) operation##_##kind
#define ENTRY(operation, kind) ENTRY_(operation, kind)

#if defined(ROW_VECTORS) && defined(LOADS_X)
#define LOAD_ROW() const Row<T> row(x + begin, reduced)
#define ELEMENT(place, i) row.at(place, i)
#elif defined(ROW_VECTORS) // in the same order
#define LOAD_ROW()
#define ELEMENT(place, i) LOAD(begin + i)
#else
#define LOAD_ROW()                                                                                 \
  const long long reduced_size[] = {0, INNER(reduced_size)};                                       \
  const long long reduced_stride[] = {EACH(reduced_stride)}
#define ELEMENT(place, i) LOAD(begin + offset_of(i, reduced_size, reduced_stride))
#endif

extern "C" __global__ void ROW_BOUNDS ENTRY(OP, rows)(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long kept_size[] = {0, INNER(kept_size)}, kept_stride[] = {EACH(kept_stride)};
  __shared__ Acc shared[32];
  const long long begin = offset_of(blockIdx.x, kept_size, kept_stride);
  LOAD_ROW();
  Acc value = reduction::OP::start();
  each_column(reduced, [&](int place, long long i) {
    value = reduction::OP::combine(value, Acc(ELEMENT(place, i)));
  });
  value = block_reduce(value, shared, reduction::OP::combine);
  if (threadIdx.x == 0)
    STORE(blockIdx.x, reduction::OP::finish(value, reduced));
}

#ifndef ROW_VECTORS
constexpr int kColumns = 32, kSlices = 8;

extern "C" __global__ void __launch_bounds__(kColumns *kSlices) ENTRY(OP, columns)(PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long kept_size[] = {0, INNER(kept_size)}, kept_stride[] = {EACH(kept_stride)};
  const long long reduced_size[] = {0, INNER(reduced_size)};
  const long long reduced_stride[] = {EACH(reduced_stride)};
  __shared__ Acc partial[kSlices][kColumns];
  const int slice = threadIdx.y;
  const long long column = (long long)(blockIdx.x) * kColumns + threadIdx.x;
  Acc value = reduction::OP::start();
  if (column < kept) {
    const long long begin = offset_of(column, kept_size, kept_stride);
#pragma unroll 4
    for (long long i = slice; i < reduced; i += kSlices)
      value = reduction::OP::combine(value,
                                     Acc(LOAD(begin + offset_of(i, reduced_size, reduced_stride))));
  }
  partial[slice][threadIdx.x] = value;
  __syncthreads();
  if (slice > 0 || column >= kept)
    return;
#pragma unroll
  for (int s = 1; s < kSlices; ++s)
    value = reduction::OP::combine(value, partial[s][threadIdx.x]);
  STORE(column, reduction::OP::finish(value, reduced));
}
#endif
