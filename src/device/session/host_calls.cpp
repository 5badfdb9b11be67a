// Calls by the host's program of other functions of the module, host builtins and extern functions;
// see host_program.h.
#include "base/check.h"
#include "device/context/abi_types.h"
#include "device/program/symbol_binding.h"
#include "device/session/host_program.h"
#include "device/session/session.h"

#include <algorithm>

namespace cugrt::runtime {

// Calls nest as deep as functions call each other. The planner refuses recursion; this limit
// refuses deep chains.
constexpr uint32_t kMaxCallDepth = 200;

/// Fails unless the callee left the destination that it was to fill.
static Status check_filled(const plan::Item &item, size_t index, const cugrt_tensor &given,
                           const cugrt_tensor &returned) {
  const bool same = returned.address == given.address && returned.dtype == given.dtype &&
                    returned.rank == given.rank &&
                    std::equal(given.dims, given.dims + given.rank, returned.dims);
  if (same)
    return {};
  auto text = [](const cugrt_tensor &tensor) {
    cugrt_value value{};
    value.kind = CUGRT_VALUE_TENSOR;
    value.as.tensor = tensor;
    return value_text(value) + " at " + hex_text(tensor.address);
  };
  return Status::error(Code::invalid_argument,
                       "host function \"" + item.name + "\" made result " + std::to_string(index) +
                           " " + text(returned) + ", but its size is known before the call: the " +
                           "function must write the " + text(given) +
                           " that the result describes, and leave the description as it is");
}

Result<cugrt_value> HostProgram::value_of(const FunctionState &state,
                                          const plan::OperandRef &operand) const {
  using Kind = plan::OperandRef::Kind;
  cugrt_value value{};
  switch (operand.kind) {
  case Kind::none:
    break;
  case Kind::buffer:
    return describe_buffer(state, operand.index);
  case Kind::host_value:
    return describe_host_value(state.run, operand.index);
  case Kind::expr: {
    value.kind = CUGRT_VALUE_INT;
    CUGRT_ASSIGN(value.as.integer, state.run.evaluate(ExprId{operand.index}));
    break;
  }
  case Kind::string:
    value.kind = CUGRT_VALUE_STRING;
    value.as.string = state.run.function.strings[operand.index].c_str();
    break;
  case Kind::dtype:
    value.kind = CUGRT_VALUE_DTYPE;
    value.as.integer = operand.index;
    break;
  case Kind::list: {
    value.kind = CUGRT_VALUE_SHAPE;
    CUGRT_ASSIGN(std::vector<int64_t> dims, dims_of(state, operand));
    if (dims.size() > CUGRT_MAX_RANK)
      return Status::error(Code::unsupported, "a list of " + std::to_string(dims.size()) +
                                                  " elements is passed as a shape; at most 8 are "
                                                  "possible");
    value.as.shape.rank = static_cast<uint32_t>(dims.size());
    std::copy(dims.begin(), dims.end(), value.as.shape.dims);
    break;
  }
  }
  return value;
}

/// Returns the dimensions of a tensor, or the elements of a list of integers.
Result<std::vector<int64_t>> HostProgram::dims_of(const FunctionState &state,
                                                  const plan::OperandRef &operand) const {
  using Kind = plan::OperandRef::Kind;
  std::vector<int64_t> dims;
  if (operand.kind == Kind::buffer) {
    cugrt_tensor tensor{};
    CUGRT_TRY(find_dims(state, operand.index, tensor));
    dims.assign(tensor.dims, tensor.dims + tensor.rank);
    return dims;
  }
  if (operand.kind != Kind::list)
    return Status::error(Code::unsupported, "a tensor or a shape was expected");
  for (const plan::OperandRef &element : state.run.function.lists[operand.index]) {
    if (element.kind != Kind::expr && element.kind != Kind::host_value)
      return Status::error(Code::unsupported,
                           "tuples of tensors are not passed to functions of the host");
    CUGRT_ASSIGN(cugrt_value value, value_of(state, element));
    if (value.kind != CUGRT_VALUE_INT)
      return Status::error(Code::unsupported, "of lists, only those of integers are passed to "
                                              "functions of the host, as shapes");
    dims.push_back(value.as.integer);
  }
  return dims;
}

Status HostProgram::call(FunctionState &state, const plan::Item &item) {
  FunctionState &callee = *session_.functions_[item.index];
  if (depth_ >= kMaxCallDepth)
    return Status::error(Code::out_of_range, "calls nest deeper than " +
                                                 std::to_string(kMaxCallDepth) + " at @" +
                                                 callee.run.function.name);
  callee.last.forget(); // what its own callers bound is overwritten
  CUGRT_TRY(bind_callee(state, item, callee));
  ++depth_;
  Status status = run(item.index);
  --depth_;
  CUGRT_TRY(std::move(status));
  for (size_t i = 0; i < item.results.size(); ++i) {
    const plan::FunctionResult &result = callee.run.function.results[i];
    if (item.results[i].kind != plan::OperandRef::Kind::host_value || result.host_value == kNone)
      continue;
    CUGRT_ASSIGN(uint64_t bits, callee.run.host_value(result.host_value));
    state.run.set_host_value(item.results[i].index, bits);
  }
  return {};
}

/// Binds parameters to the operands, and result slots to the buffers that the caller names.
Status HostProgram::bind_callee(FunctionState &state, const plan::Item &item,
                                FunctionState &callee) {
  CUGRT_CHECK(item.operands.size() == callee.params.size());
  for (size_t i = 0; i < item.operands.size(); ++i) {
    CUGRT_ASSIGN(callee.params[i], value_of(state, item.operands[i]));
    // The caller may have a boolean where the callee has an int, and so on: the verifier has
    // checked the types, and the value's bits count.
    const plan::Param &param = callee.run.function.params[i];
    if (param.kind == plan::ParamKind::scalar && callee.params[i].kind == CUGRT_VALUE_INT &&
        param.scalar == ir::ScalarKind::boolean)
      callee.params[i].kind = CUGRT_VALUE_BOOL;
  }
  CUGRT_TRY(bind_parameters(callee.run, callee.params));
  CUGRT_TRY(session_.with_unplanned_given_back([&] { return session_.cover(callee); }));
  for (uint32_t slot : callee.result_slots) {
    uint32_t result = callee.run.function.slots[slot].index;
    CUGRT_CHECK(result < item.results.size() &&
                item.results[result].kind == plan::OperandRef::Kind::buffer);
    const plan::Buffer &buffer = state.run.function.buffers[item.results[result].index];
    CUGRT_ASSIGN(uint64_t address, state.run.address(buffer));
    CUGRT_ASSIGN(uint64_t bytes, state.run.bytes(buffer));
    callee.run.set_base(callee.run.program.base_of_slot(slot), address, bytes);
  }
  return {};
}

Status HostProgram::call_host(FunctionState &state, const plan::Item &item) {
  CUGRT_ASSIGN(const HostFunction found, session_.code_->device().host_functions().find(item.name));
  std::vector<cugrt_value> arguments, results;
  for (const plan::OperandRef &operand : item.operands) {
    CUGRT_ASSIGN(cugrt_value value, value_of(state, operand));
    arguments.push_back(value);
  }
  for (const plan::OperandRef &operand : item.results) {
    cugrt_value value{};
    bool unknown = operand.kind == plan::OperandRef::Kind::buffer &&
                   !state.run.function.buffers[operand.index].bytes.valid();
    if (unknown)
      value.kind = CUGRT_VALUE_TENSOR; // the callee says where it is and what it is
    else {
      CUGRT_ASSIGN(value, value_of(state, operand));
    }
    results.push_back(value);
  }
  const std::vector<cugrt_value> given = results;
  cugrt_status *returned = nullptr;
  CUGRT_TRY(call_back("host function \"" + item.name + "\"", [&] {
    returned = found.function(found.user, arguments.data(), arguments.size(), results.data(),
                              results.size(), stream_.get());
  }));
  if (Status status = take_status(returned); !status.ok())
    return std::move(status).in("host function \"" + item.name + "\"");
  for (size_t i = 0; i < results.size(); ++i)
    CUGRT_TRY(take_host_result(state, item, i, given[i], results[i]));
  return {};
}

Status HostProgram::take_host_result(FunctionState &state, const plan::Item &item, size_t index,
                                     const cugrt_value &given, const cugrt_value &returned) {
  const plan::OperandRef &operand = item.results[index];
  if (returned.kind != given.kind)
    return Status::error(Code::invalid_argument, "host function \"" + item.name +
                                                     "\" made result " + std::to_string(index) +
                                                     " " + value_text(returned) + ", expected " +
                                                     value_text(given));
  if (operand.kind == plan::OperandRef::Kind::host_value) {
    state.run.set_host_value(operand.index, static_cast<uint64_t>(returned.as.integer));
    return {};
  }
  if (operand.kind != plan::OperandRef::Kind::buffer)
    return {};
  const plan::Buffer &buffer = state.run.function.buffers[operand.index];
  if (buffer.bytes.valid() || buffer.base != plan::BufferBase::dynamic)
    return check_filled(item, index, given.as.tensor, returned.as.tensor);
  CUGRT_ASSIGN(uint64_t bytes, tensor_bytes(returned.as.tensor));
  if (returned.as.tensor.dtype != static_cast<int32_t>(buffer.dtype) ||
      (bytes != 0 && returned.as.tensor.address == 0))
    return Status::error(Code::invalid_argument, "host function \"" + item.name +
                                                     "\" must set address, dimensions and "
                                                     "dtype of result " +
                                                     std::to_string(index));
  state.dynamic_tensors[buffer.index] = returned.as.tensor;
  state.run.set_base(state.run.program.base_of(buffer), returned.as.tensor.address, bytes);
  return {};
}

} // namespace cugrt::runtime
