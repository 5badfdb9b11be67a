// Walks the blocks of a function's plan, the host's part of a run: launches regions through the
// graph cache and everything else step by step.
//
// Tensors are moved by the plan's own copy steps; the host moves host scalars: operands to
// parameters on entry to a loop; results to the item's results or the parameters after a branch or
// an iteration, all at once.
#pragma once

#include "cugrt/cugrt.h"
#include "device/driver/stream.h"
#include "device/session/function_state.h"

namespace cugrt::runtime {

class Session;

class HostProgram {
public:
  HostProgram(Session &session, driver::StreamRef stream) : session_(session), stream_(stream) {}

  /// Runs a function whose binding is complete.
  Status run(uint32_t function);

private:
  Status find_refused(const FunctionState &state, uint32_t block,
                      std::vector<uint32_t> &unknown) const;
  Status check_strict(uint32_t function) const;
  Status check_copy(const FunctionState &state, const plan::Item &item) const;
  Status run_block(FunctionState &state, uint32_t block);
  Status run_item(FunctionState &state, const plan::Item &item);
  template <class Launch> Status admitted(Launch launch);
  Status run_region(uint32_t number);
  Status run_step(FunctionState &state, uint32_t step);
  Status allocate(FunctionState &state, const plan::Item &item);
  Status release(FunctionState &state, uint32_t dynamic);
  Status release_all(FunctionState &state);
  Status match(FunctionState &state, const plan::Item &item);
  Status branch(FunctionState &state, const plan::Item &item);
  Status loop(FunctionState &state, const plan::Item &item);
  Status copy(FunctionState &state, const plan::Item &item);
  Status call(FunctionState &state, const plan::Item &item);
  Status bind_callee(FunctionState &state, const plan::Item &item, FunctionState &callee);
  Status call_host(FunctionState &state, const plan::Item &item);
  Status take_host_result(FunctionState &state, const plan::Item &item, size_t index,
                          const cugrt_value &given, const cugrt_value &returned);

  Result<bool> condition(const FunctionState &state, const plan::OperandRef &operand);
  Result<cugrt_value> value_of(const FunctionState &state, const plan::OperandRef &operand) const;
  Result<std::vector<int64_t>> dims_of(const FunctionState &state,
                                       const plan::OperandRef &operand) const;
  /// Moves host scalars from operands to host values; reads all before it writes any.
  Status move(FunctionState &state, const std::vector<plan::OperandRef> &from,
              const std::vector<plan::OperandRef> &to);

  Session &session_;
  driver::StreamRef stream_;
  uint32_t depth_ = 0; // of calls
};

} // namespace cugrt::runtime
