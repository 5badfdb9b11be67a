// Embedding from a table of blocks, as GGUF stores it: y[i] = the elements of row ids[i]. An id
// outside [0, rows) reads the nearest row.
//
//   table: [rows, width / 32 units]   ids: [count]   y: [count, width]
//
//   entry              block   grid
//   embedding_blocks   256     ceil(count * width / 256)
//
// Options: -DFORMAT, one of block_formats.cuh; those of floating.cuh.

#include "block_formats.cuh"
#include "floating.cuh"
#include "positions.cuh"
#include "programmatic.cuh"

extern "C" __global__ void embedding_blocks(const Byte *__restrict__ table,
                                            const int *__restrict__ ids, T *__restrict__ y,
                                            long long count, long long rows, long long width) {
  BEGIN_EARLY();
  const long long i = (long long)(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count * width)
    return;
  const long long column = i % width;
  if (rows == 0) {
    y[i] = T(0);
    return;
  }
  typedef BlockFormat<FORMAT> Format;
  const long long row = nearest(ids[i / width], rows), units = width / kUnitSize;
  const Byte *block =
      table +
      (row * (units / Format::kUnits) + column / kUnitSize / Format::kUnits) * Format::kBytes;
  const int unit = int(column / kUnitSize % Format::kUnits), place = int(column % kUnitSize);
  y[i] = T(Format::element_of(Format::template part_of<1>(block, unit, place / 16),
                              Format::template quants_of<1>(block, unit, place & ~3), place % 4));
}
