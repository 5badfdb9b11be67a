// A session's state of one function between runs. Internal to the session.
#pragma once

#include "cugrt/cugrt.h"
#include "device/context/arena.h"
#include "device/context/result_memory.h"
#include "device/program/run_binding.h"
#include "device/session/last_binding.h"

#include <optional>

namespace cugrt::runtime {

struct FunctionState {
  FunctionState(const plan::Plan &plan, const plan::Function &function,
                const FunctionProgram &program)
      : run(plan, function, program) {}

  RunBinding run;
  uint32_t first_region = 0; // of the graph cache

  // The error that strict mode has for every run, callees included; empty: not known yet.
  std::optional<Status> refused;

  ArenaNeeds needs;          // of the arenas, for the symbols so far
  bool learns_sizes = false; // some are known in the middle of a run only

  bool is_region = false; // the body is one region and nothing else, and no log is kept

  // The last binding that passed every check. The values below belong to the last binding from the
  // start; addresses may have moved since.
  LastBinding last;
  std::vector<LastBinding::Place> places; // scratch of what it is told
  std::vector<cugrt_value> params;        // one for each parameter, weights included
  std::vector<cugrt_value> given_results; // as the caller gave them

  // Results. Slots of results are bound to `result_memory` unless the caller brings memory.
  std::vector<bool> has_own_slot;          // by result: callers can bind it
  std::vector<uint32_t> result_slots;      // slots of kind result
  std::vector<uint32_t> result_matches;    // of result_slots: the item of the body, a match, after
                                           // which the size is known; kNone: before the run
  uint64_t checked_serial = 0;             // of the run in which no results overlap anything
  std::vector<ResultMemory> result_memory; // by result
  std::vector<cugrt_value> results;        // as last handed out
  uint64_t results_serial = 0;             // of the run that `results` describe
  std::vector<uint32_t> results_in_slots;  // those whose address moves with a slot

  // Unplanned allocations, by number: their blocks, and tensors whose shape only a host call
  // knows.
  std::vector<uint64_t> dynamic_blocks;
  std::vector<cugrt_tensor> dynamic_tensors;
};

/// Sets rank and dimensions from a buffer; if the plan does not know its shape, from its present
/// tensor. Allocates nothing.
Status find_dims(const FunctionState &state, uint32_t buffer, cugrt_tensor &tensor);
/// Describes a buffer as a tensor value of the public API.
Result<cugrt_value> describe_buffer(const FunctionState &state, uint32_t buffer);
/// Describes a host scalar likewise.
Result<cugrt_value> describe_host_value(const RunBinding &run, uint32_t index);

} // namespace cugrt::runtime
