// Storage planning of unplanned allocations, for the pass that rewrites them.
//
// Each `alloc` of a function either gets a place, a scope and a byte offset in one storage per
// scope, or stays unplanned for a stated reason. Sizes are taken at the symbols' upper bounds,
// lifetimes, with their gaps, from compiler/planner/analysis/liveness.h; branches share, and what
// is live into a loop and used in it lives to its end. Storage that is reused orders launches, so
// launches that can run side by side are planned to do so (compiler/planner/storage/fronts.h) as
// far as the peak does not grow too much.
//
// One set of offsets serves all values of the symbols: each tensor has the room that it ever takes.
// Where the function has buckets, and tensors that are large in one are small in another, offsets
// for each bucket may take much less together. Then they are a table.
#pragma once

#include "base/status.h"
#include "compiler/planner/packing/packing.h"
#include "compiler/planner/storage/fronts.h"
#include "ir/module/module.h"
#include "plan/symbols/bucket_boxes.h"

#include <optional>
#include <string>
#include <vector>

namespace cugrt::plan {

struct TensorPlan {
  ir::ValueId tensor; // the alloc binding's result
  bool planned = false;
  std::string reason;          // why not
  uint32_t scope = 0;          // of the module's TypePool
  int64_t offset_bytes = 0;    // in the scope's storage, a multiple of 256
  int64_t bytes = 0;           // at upper bounds
  uint32_t begin = 0, end = 0; // life, in binding times of the order planned
  ir::Range gaps{};            // MemoryPlan::gaps: when others may have its bytes
  ir::ValueId over{};          // the tensor whose place it has, written by the launch that reads it
                               // last (compiler/planner/analysis/liveness.h); invalid: none
  uint32_t table = kNone;      // MemoryPlan::table_offsets, of each box; kNone: offset_bytes
};

struct ScopePlan {
  uint32_t scope = 0;
  int64_t peak_bytes = 0;        // the storage's size; with tables that of the largest bucket
  int64_t lower_bound_bytes = 0; // no packing is smaller
  int64_t tensor_bytes = 0;      // without any sharing
};

struct MemoryPlan {
  std::vector<TensorPlan> tensors; // every alloc, by value
  std::vector<LifeGap> gaps;
  std::vector<ScopePlan> scopes; // those with planned tensors, by scope name
  BucketBoxes boxes{{}, {}};     // of the function's buckets
  std::vector<int64_t> table_offsets;
  /// The function with its bindings in the planned order, if that is another one, for
  /// rewriting.
  std::optional<ir::Function> interleaved;
};

struct MemoryOptions {
  Reuse reuse = Reuse::balanced;
  bool tables = true; // offsets may differ from bucket to bucket
  Effort effort = Effort::load;
};

/// `summaries` as for analyze_liveness (summarize_called gives them). Leaves function results
/// unplanned (they become result slots), tensors that host builtins may keep, and sizes without an
/// upper bound. Launches write in place where that makes the scope's storage smaller.
Result<MemoryPlan> plan_memory(const ir::Module &module, const ir::Function &function,
                               std::span<const FunctionSummary> summaries,
                               const MemoryOptions &options = {});

} // namespace cugrt::plan
