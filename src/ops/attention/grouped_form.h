// Few queries over keys and values that heads share: kernels/attention/attention_grouped.cu.
#pragma once

#include "ir/module/module.h"
#include "ops/emit/kernel_table.h"

#include <optional>

namespace cugrt::codegen {

/// Queries from which on attention_mma, with tiles of 64 of them, is better.
inline constexpr int64_t kManyQueries = 16;
/// Blocks a multiprocessor up to which a call's are few: then a cache of kLongCache positions is
/// cut.
inline constexpr int64_t kFewBlocksEach = 4, kLongCache = 256;
/// No call with more blocks a chunk is cut, whatever is asked for: each counts at a word of state.
inline constexpr int64_t kMostCounters = 1 << 20;

/// A call of attention, by the most that its symbols come to. `window`: 0 where it has none.
struct GroupedCall {
  ir::DType dtype, cache;
  int64_t sequences, queries, capacity, heads, kv_heads, width, window;
  bool has_mask;
};

/// How it is computed.
struct GroupedForm {
  int64_t share, queries; // that a block has: heads, and queries of each
  int64_t warps, stages;  // of a block; tiles in a warp's ring
  int64_t shared_bytes;   // of a block
  int64_t stage_bytes;    // of these, for a tile in each warp's ring
  int64_t splits;         // the most chunks of a sequence, a power of two; 1: it is not cut
  int64_t blocks;         // of a grid that goes through chunks
};

/// None if another kernel takes the call.
std::optional<GroupedForm> grouped_form(const GroupedCall &call, const KernelChoice &choice);

} // namespace cugrt::codegen
