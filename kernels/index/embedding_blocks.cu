// Embedding from a table of blocks, as GGUF stores it or repacked: y[i] = the elements of row
// ids[i]. An id outside [0, rows) reads the nearest row.
//
//   table: [rows, width / 32 units]   ids: [count]   y: [count, width]
//
//   entry              block   grid
//   embedding_blocks   256     looped, at most count * width
//
// Options: -DFORMAT, a name of block_formats.cuh or its number; REPACKED: the layout is that of
// repacked.cuh; WIDE_IDS: ids are of 64 bits; those of floating.cuh and assume.cuh.
//
// Without a bench: a few rows a step; their bytes are those of matmul_blocks' weights.

#include "shared/assume.cuh"
#include "shared/floating.cuh"
#include "index/positions.cuh"
#include "shared/programmatic.cuh"
#include "linear/repacked.cuh"

__device__ __forceinline__ float element_of_row(const Byte *table, long long row, long long column,
                                                long long rows, long long width) {
  const long long units = width / kUnitSize;
#ifdef REPACKED
  return Repacked<FORMAT>::element_at(table, row, column, rows, units);
#else
  typedef BlockFormat<FORMAT> Format;
  const Byte *block =
      table +
      (row * (units / Format::kUnits) + column / kUnitSize / Format::kUnits) * Format::kBytes;
  const int unit = int(column / kUnitSize % Format::kUnits), place = int(column % kUnitSize);
  return Format::element_of(Format::template part_of<1>(block, unit, place / 16),
                            Format::template quants_of<1>(block, unit, place & ~3), place % 4);
#endif
}

extern "C" __global__ void embedding_blocks(const Byte *__restrict__ table,
                                            const Id *__restrict__ ids, T *__restrict__ y,
                                            long long count, long long rows, long long width) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  for (long long i = (long long)(blockIdx.x) * blockDim.x + threadIdx.x; i < count * width;
       i += (long long)(gridDim.x) * blockDim.x) {
    const long long row = i / width;
    y[i] = rows == 0
               ? T(0.0f)
               : T(element_of_row(table, nearest(ids[row], rows), i - row * width, rows, width));
  }
}
