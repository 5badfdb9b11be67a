// Attention of few queries over a cache of keys and values whose heads share these, on tensor
// cores, for f16 and bf16. What it computes, and its operands, are those of attention.cu.
//
// SHARE heads of QUERIES queries are up to 16 rows that meet the same keys and values. A warp goes
// over tiles of 16 positions, of the block's every kWarps-th, positions being rows of the mma:
//
//   scores^T (16 x rows)     = keys x queries^T         queries stay in registers
//   weights = 2^(scores - reference)                    in registers, turned by movmatrix
//   values^T (width x rows) += values^T x weights^T     values are turned as they are read
//
// A row's reference is the largest score of the first tile, and moves, with what was summed, where
// a score exceeds it by 2^8: weights are within what f16 holds. It is the row's own, so that a row
// does not depend on the others. Weights are rounded to T for the product, and summed as they are.
//
// Keys and values come into a ring of STAGES tiles a warp by asynchronous copies of 16 bytes: while
// a tile is worked at, those behind are on their way. Only tiles at the edges of the seen positions
// ask which of theirs are seen. Warps are joined in shared memory.
//
//   a tile   | keys, 16 rows | values, 16 rows |
//
// Chunks of 16 bytes lie so that those of one column in eight rows are in different banks.
//
// With SPLIT the positions that a sequence's queries see are cut into chunks, at most SPLIT of
// them, a power of two: of kStep positions, or of the least power of two times as many. So they
// follow from the sequence's own length, and sums do not depend on others. Blocks go through the
// work of all sequences, which they count from the lengths: sequence after sequence, its chunks,
// the heads of a chunk. A block leaves its part as those of attention.cu do, and the last to come
// joins them:
//
//   parts: [sequences * queries * heads, SPLIT, width + 2]   values, reference, sum
//   counters: [sequences * blocks of a chunk]                0 before a launch, and after it
//
//   entry               block          grid
//   attention_grouped   32 * kWarps    any; a block has every grid-th piece of work
//
// Dynamic shared memory: kWarps * kWarpBytes. Options: MAX_WIDTH, the width of a head, a multiple
// of 16, with caches of q8_0 of 64; SHARE, QUERIES; STAGES; SPLIT; those of
// attention_parameters.cuh but for masks; of floating.cuh and assume.cuh. From sm_80 on.
#include "attention/grouped_pieces.cuh"

#ifdef HAS_LENGTHS
#define LENGTHS_ARGUMENT lengths,
#else
#define LENGTHS_ARGUMENT
#endif
#ifdef HAS_PLACES
#define PLACES_ARGUMENT places,
#define ROWS_ARGUMENT cache_rows,
#else
#define PLACES_ARGUMENT
#define ROWS_ARGUMENT
#endif
#ifdef ROWS_APART
#define ROW_ARGUMENTS , q_row, kv_row
#else
#define ROW_ARGUMENTS
#endif

// For sm_120 NVRTC 13.0 takes 64 to 80 registers, and spills, unless the bound says that two blocks
// are enough.
#if __CUDA_ARCH__ >= 1200
#define GROUPED_BOUNDS __launch_bounds__(kThreads, 2)
#else
#define GROUPED_BOUNDS __launch_bounds__(kThreads)
#endif

extern "C" __global__ void GROUPED_BOUNDS attention_grouped(PARAMETERS(RESULT)) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) unsigned char ring[];
  attend_pieces(ring, threadIdx.x, blockIdx.x, gridDim.x, q, keys, values,
                LENGTHS_ARGUMENT PLACES_ARGUMENT RESULT_ARGUMENTS, sequences, queries, heads,
                kv_heads, width, capacity, ROWS_ARGUMENT scale ROW_ARGUMENTS);
#endif
}
