// Finds when the tensors of a plan's arenas are alive, from the plan's steps and items in the order
// in which they run, not from the planner's liveness: a tensor lives from its first touch to its
// last; one that is touched inside and outside a loop lives through the whole loop, and so does one
// that a loop reads before it writes it. Its life has a gap before a step that writes all of it,
// reads nothing of it, and runs whenever later steps that touch it run: others may have its bytes
// from the touch before on. State (base/type/state_scope.h) is always alive.
#pragma once

#include "plan/format/plan.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cugrt::plan {

struct Extent {
  int64_t begin = INT64_MAX, end = 0;
  bool empty() const { return begin >= end; }
  void add(const Extent &other) {
    if (other.empty())
      return;
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

struct Touch {
  uint32_t time, block, condition; // StepConditions
  bool writes_all;                 // reads nothing, and surely runs where its condition holds
};

struct Life {
  uint32_t arena = kNone;
  std::vector<std::pair<uint32_t, uint32_t>> runs; // of times, ascending, apart
  uint32_t block = kNone;                          // the innermost block that holds all touches
  bool first_is_read = false;
  Extent bytes;
  std::vector<Touch> touches;
  std::vector<uint32_t> buffers;
};

struct CallTime {
  uint32_t time, callee;
};

struct StorageLives {
  std::vector<Life> lives;
  std::vector<CallTime> calls;                            // in the order of the run
  std::unordered_map<uint32_t, const Step *> overwriting; // launches that may write over, by time
};

/// `exprs` are the plan's, and grow by differences of offsets.
Result<StorageLives> find_storage_lives(const Plan &plan, ir::ExprPool &exprs,
                                        const Function &function);

} // namespace cugrt::plan
