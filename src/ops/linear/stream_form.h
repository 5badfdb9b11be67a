// Products of few rows by blocks that stay, with rings in shared memory:
// kernels/linear/stream.cuh.
#pragma once

#include "ops/emit/kernel_table.h"

namespace cugrt::codegen {

/// Rows of x, and columns of a group.
inline constexpr int64_t kMostStreamRows = 8, kStreamColumns = 16;

/// Whether rows of `dtype` have rings; those of numbers whatever their sizes.
bool has_rings(ir::DType dtype, const Target &target);

/// Whether they multiply x of `dtype` by repacked blocks [n, k] of `format`.
bool streams_blocks(ir::DType dtype, ir::DType format, int64_t n, int64_t k);

/// Rows of x that a form for up to `rows` holds: with f16 and bf16, on tensor cores, one or eight.
int64_t stream_rows(ir::DType dtype, int64_t rows);

/// Bytes of a slot for all warps of a block, with stream_rows() rows of x if they belong there; 0
/// if x lies elsewhere. `format` of w: blocks or numbers.
int64_t stream_slot_bytes(ir::DType dtype, ir::DType format, int64_t rows);

/// How many blocks a multiprocessor has at once, and how many slots each of their warps.
struct StreamRing {
  int64_t blocks, slots;
};

/// At most `most_blocks`, 1 or 2; one if the rings of two would not have two slots. `beside`: bytes
/// of a block's other shared memory.
StreamRing stream_ring(int64_t slot_bytes, int64_t beside, int64_t most_blocks,
                       const Target &target);

} // namespace cugrt::codegen
