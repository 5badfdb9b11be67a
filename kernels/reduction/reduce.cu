// Sums, products, means, maxima and minima over any set of axes: y[kept] = OP over reduced of
// x[kept, reduced].
//
// The caller merges neighbouring axes of one kind, so that x has at most four kept and four reduced
// dimensions, each with its stride in x; the outermost of each kind is dimension 0, its size
// implied by the counts. y is contiguous over the kept ones.
//
// Entries: OP_rows, one block a result, for axes that include the innermost one; OP_columns, whose
// 256 threads have VECTOR neighbouring results each, ACROSS of them beside one another, so that
// neighbours read neighbouring addresses; the others of the block have other slices of the reduced
// elements. With SPLIT `splits` blocks share a tile of results, the last of which to end adds up
// `parts`, [tiles, splits, results of a tile], in their order; counters, a tile's each, are 0
// before and after a launch.
//
// Over no elements the sum is 0, the product 1, the mean a NaN, the maximum the least value there
// is and the minimum the largest. A NaN among the elements is the result.
//
// Options: -DOP=sum, prod, mean (of floating point), max or min; those of number.cuh and
// assume.cuh; those of row.cuh, where the reduced axes are one run of elements; for OP_columns,
// which is there alone then, ACROSS, VECTOR, of which the innermost kept dimension is a multiple,
// and SPLIT, of floats that are summed in f32.

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

#ifdef SPLIT
#define PARTS_PARAMETERS float *parts, unsigned *__restrict__ counters, long long splits,
#else
#define PARTS_PARAMETERS
#endif
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

#ifndef ACROSS
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

#else
constexpr int kThreads = 256, kSlices = kThreads / ACROSS, kWide = ACROSS * VECTOR;

extern "C" __global__ void __launch_bounds__(kThreads)
    ENTRY(OP, columns)(PARTS_PARAMETERS PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  const long long kept_size[] = {0, INNER(kept_size)}, kept_stride[] = {EACH(kept_stride)};
  const long long reduced_size[] = {0, INNER(reduced_size)};
  const long long reduced_stride[] = {EACH(reduced_stride)};
  __shared__ Acc partial[kSlices][kWide];
#ifdef SPLIT
  const long long tile = blockIdx.x / unsigned(splits), split = blockIdx.x % unsigned(splits);
  const long long first = split * reduced / splits, last = (split + 1) * reduced / splits;
#else
  const long long tile = blockIdx.x, first = 0, last = reduced;
#endif
  const int across = threadIdx.x % ACROSS * VECTOR, slice = threadIdx.x / ACROSS;
  const long long column = tile * kWide + across;
  Acc value[VECTOR];
#pragma unroll
  for (int e = 0; e < VECTOR; ++e)
    value[e] = reduction::OP::start();
  if (column < kept) {
    const long long begin = offset_of(column, kept_size, kept_stride);
#ifdef LOADS_X
    const bool aligned = VECTOR > 1 && are_aligned(x);
#else
    const bool aligned = false;
#endif
    if (aligned) {
#ifdef LOADS_X
#pragma unroll 4
      for (long long i = first + slice; i < last; i += kSlices) {
        const Vector<T> run =
            load_vector(x + begin + offset_of(i, reduced_size, reduced_stride), 0);
#pragma unroll
        for (int e = 0; e < VECTOR; ++e)
          value[e] = reduction::OP::combine(value[e], Acc(run.element[e]));
      }
#endif
    } else {
#pragma unroll 4
      for (long long i = first + slice; i < last; i += kSlices) {
        const long long at = begin + offset_of(i, reduced_size, reduced_stride);
#pragma unroll
        for (int e = 0; e < VECTOR; ++e)
          value[e] = reduction::OP::combine(value[e], Acc(LOAD(at + e)));
      }
    }
  }
#pragma unroll
  for (int e = 0; e < VECTOR; ++e)
    partial[slice][across + e] = value[e];
  __syncthreads();
#pragma unroll 1
  for (int c = threadIdx.x; c < kWide; c += kThreads) {
    Acc all = partial[0][c];
#pragma unroll 8
    for (int s = 1; s < kSlices; ++s)
      all = reduction::OP::combine(all, partial[s][c]);
#ifdef SPLIT
    parts[(long long)(blockIdx.x) * kWide + c] = all;
#else
    if (tile * kWide + c < kept)
      STORE(tile * kWide + c, reduction::OP::finish(all, reduced));
#endif
  }
#ifdef SPLIT
  __shared__ unsigned ended;
  __syncthreads(); // the block's part is written
  if (threadIdx.x == 0) {
    __threadfence();
    ended = atomicInc(counters + tile, unsigned(splits) - 1);
    __threadfence();
  }
  __syncthreads();
  if (ended != unsigned(splits) - 1)
    return;
#pragma unroll 1
  for (int c = threadIdx.x; c < kWide && tile * kWide + c < kept; c += kThreads) {
    const float *part = parts + tile * splits * kWide + c;
    Acc all = __ldcg(part);
#pragma unroll 4
    for (int s = 1; s < int(splits); ++s)
      all = reduction::OP::combine(all, __ldcg(part + s * kWide));
    STORE(tile * kWide + c, reduction::OP::finish(all, reduced));
  }
#endif
}
#endif
