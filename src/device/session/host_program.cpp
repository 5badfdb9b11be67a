// Items of the host's program: control flow, memory, steps. Calls stand in host_calls.cpp; see
// host_program.h.
#include "device/session/host_program.h"

#include "base/check.h"
#include "device/program/symbol_binding.h"
#include "device/session/session.h"

namespace cugrt::runtime {

Status find_dims(const FunctionState &state, uint32_t index, cugrt_tensor &tensor) {
  const plan::Buffer &buffer = state.run.function.buffers[index];
  if (buffer.bytes.valid()) {
    tensor.rank = static_cast<uint32_t>(buffer.dims.size());
    for (size_t i = 0; i < buffer.dims.size(); ++i) {
      CUGRT_ASSIGN(tensor.dims[i], state.run.evaluate(buffer.dims[i]));
    }
    return {};
  }
  const cugrt_tensor *held = nullptr;
  if (buffer.base == plan::BufferBase::dynamic) {
    held = &state.dynamic_tensors[buffer.index];
  } else if (buffer.base == plan::BufferBase::slot &&
             state.run.function.slots[buffer.index].kind == plan::SlotKind::param) {
    held = &state.params[state.run.function.slots[buffer.index].index].as.tensor;
  }
  if (!held)
    return Status::error(Code::unsupported,
                         "the shape of tensor %" + buffer.name + " is not known at this point");
  tensor.rank = held->rank;
  std::copy_n(held->dims, held->rank, tensor.dims);
  return {};
}

Result<cugrt_value> describe_buffer(const FunctionState &state, uint32_t index) {
  const plan::Buffer &buffer = state.run.function.buffers[index];
  cugrt_value value{};
  value.kind = CUGRT_VALUE_TENSOR;
  CUGRT_TRY(find_dims(state, index, value.as.tensor));
  CUGRT_ASSIGN(value.as.tensor.address, state.run.address(buffer));
  value.as.tensor.dtype = static_cast<int32_t>(buffer.dtype);
  return value;
}

Result<cugrt_value> describe_host_value(const RunBinding &run, uint32_t index) {
  CUGRT_ASSIGN(uint64_t bits, run.host_value(index));
  const plan::HostValue &host = run.function.host_values[index];
  cugrt_value value{};
  value.as.integer = static_cast<int64_t>(bits); // a double's bits lie in the same place
  if (host.kind == plan::HostValueKind::object)
    value.kind = CUGRT_VALUE_OBJECT;
  else if (host.scalar == ir::ScalarKind::floating)
    value.kind = CUGRT_VALUE_FLOAT;
  else
    value.kind = host.scalar == ir::ScalarKind::boolean ? CUGRT_VALUE_BOOL : CUGRT_VALUE_INT;
  return value;
}

Status HostProgram::run(uint32_t function) {
  FunctionState &state = *session_.functions_[function];
  if (depth_ == 0)
    CUGRT_TRY(check_strict(function)); // refused before anything is launched
  // Releases the last run's allocations, such as its results.
  CUGRT_TRY(release_all(state));
  if (depth_ == 0)
    CUGRT_TRY(session_.dynamic_memory_.next_run(stream_));
  ProfilerRange range(session_.log_.ranges(), state.run.function.name);
  return run_block(state, 0);
}

/// Finds the first item that strict mode refuses, among those that run whenever the block does;
/// bodies of branches and loops may not run. Adds callees without a known answer to `unknown`.
Status HostProgram::find_refused(const FunctionState &state, uint32_t block,
                                 std::vector<uint32_t> &unknown) const {
  using plan::ItemKind;
  const GraphCache &cache = session_.cache_;
  for (const plan::Item &item : state.run.function.blocks[block].items) {
    Status status;
    if (item.kind == ItemKind::step)
      status = cache.check_outside(state.run, item.index);
    else if (item.kind == ItemKind::copy_back)
      status = check_copy(state, item);
    else if (item.kind == ItemKind::region)
      status = cache.check_region(state.first_region + item.index);
    else if (item.kind == ItemKind::while_)
      status = find_refused(state, item.blocks.begin, unknown); // its condition
    else if (item.kind != ItemKind::call)
      continue;
    else if (const auto &callee = session_.functions_[item.index]->refused)
      status = callee->clone();
    else
      unknown.push_back(item.index);
    if (!status.ok())
      return std::move(status).at(session_.executable().location(item.location));
  }
  return {};
}

/// Checks callees first. Functions do not call themselves, so all get checked.
Status HostProgram::check_strict(uint32_t function) const {
  if (!session_.cache_.strict())
    return {};
  std::vector<uint32_t> waiting;
  if (!session_.functions_[function]->refused)
    waiting.push_back(function);
  while (!waiting.empty()) {
    FunctionState &next = *session_.functions_[waiting.back()];
    const size_t count = waiting.size();
    Status refused = find_refused(next, 0, waiting);
    if (waiting.size() != count)
      continue;
    next.refused = std::move(refused);
    waiting.pop_back();
  }
  return session_.functions_[function]->refused->clone();
}

Status HostProgram::run_block(FunctionState &state, uint32_t block) {
  for (const plan::Item &item : state.run.function.blocks[block].items) {
    if (Status status = run_item(state, item); !status.ok()) [[unlikely]]
      return std::move(status).at(session_.executable().location(item.location));
  }
  return {};
}

Status HostProgram::run_item(FunctionState &state, const plan::Item &item) {
  using plan::ItemKind;
  switch (item.kind) {
  case ItemKind::region:
    return run_region(state.first_region + item.index);
  case ItemKind::step:
    return run_step(state, item.index);
  case ItemKind::allocate:
    return allocate(state, item);
  case ItemKind::release:
    return release(state, state.run.function.buffers[item.index].index);
  case ItemKind::host_call:
  case ItemKind::extern_call:
    return call_host(state, item);
  case ItemKind::call:
    return call(state, item);
  case ItemKind::match:
    return match(state, item);
  case ItemKind::read:
    return {}; // device code reads it
  case ItemKind::if_:
    return branch(state, item);
  case ItemKind::while_:
    return loop(state, item);
  case ItemKind::copy_back:
    return copy(state, item);
  }
  CUGRT_CHECK(!"an item of unknown kind");
  return {};
}

/// Launches when the limit on the session's graphs, if any, has room for one more.
template <class Launch> Status HostProgram::admitted(Launch launch) {
  return session_.ahead_ ? session_.ahead_->admit(stream_, launch) : launch();
}

Status HostProgram::run_region(uint32_t number) {
  GraphCache &cache = session_.cache_;
  Status status = admitted([&] {
    return session_.log_.on() ? cache.launch_logged(number, stream_)
                              : cache.launch(number, stream_);
  });
  if (!status.ok()) [[unlikely]]
    return cache.attribute(number, std::move(status));
  return {};
}

Status HostProgram::run_step(FunctionState &state, uint32_t step) {
  return admitted(
      [&] { return session_.cache_.launch_step(state.run, step, EagerReason::outside, stream_); });
}

Status HostProgram::allocate(FunctionState &state, const plan::Item &item) {
  const plan::Buffer &buffer = state.run.function.buffers[item.index];
  CUGRT_TRY(release(state, buffer.index)); // of an earlier iteration
  CUGRT_ASSIGN(uint64_t bytes, state.run.bytes(buffer));
  if (bytes != 0 && session_.cache_.sealed())
    return session_.refuse_sealed(state, "tensor %" + buffer.name);
  auto address = session_.dynamic_memory_.allocate(bytes, stream_);
  while (!address.ok() && address.status().code() == Code::out_of_device_memory &&
         (session_.give_back_unplanned() || session_.give_up_one()))
    address = session_.dynamic_memory_.allocate(bytes, stream_);
  if (!address.ok()) {
    bool full = address.status().code() == Code::out_of_device_memory;
    return session_
        .in_unplanned_figures(
            address.take_status().in(full ? session_.memory_figures() : "allocation"))
        .in("tensor %" + buffer.name + ", " + std::to_string(bytes) + " bytes");
  }
  state.dynamic_blocks[buffer.index] = *address;
  state.run.set_base(state.run.program.base_of(buffer), *address, bytes);
  return {};
}

Status HostProgram::release(FunctionState &state, uint32_t dynamic) {
  uint64_t address = std::exchange(state.dynamic_blocks[dynamic], 0);
  return session_.dynamic_memory_.release(address, stream_);
}

Status HostProgram::release_all(FunctionState &state) {
  for (uint32_t i = 0; i < state.dynamic_blocks.size(); ++i)
    CUGRT_TRY(release(state, i));
  return {};
}

Status HostProgram::match(FunctionState &state, const plan::Item &item) {
  CUGRT_ASSIGN(std::vector<int64_t> dims, dims_of(state, item.operands[0]));
  std::string what = "function @" + state.run.function.name + ", match";
  if (item.operands[0].kind == plan::OperandRef::Kind::buffer)
    what += " of %" + state.run.function.buffers[item.operands[0].index].name;
  CUGRT_TRY(bind_match(state.run, item, dims, what));
  // In a call, the caller has bound the results, and the planner checked memory.
  const std::vector<plan::Item> &body = state.run.function.blocks[0].items;
  const bool binds = depth_ == 0 && &item >= body.data() && &item < body.data() + body.size();
  return session_.with_unplanned_given_back([&]() -> Status {
    CUGRT_TRY(session_.cover(state));
    return binds ? session_.bind_matched_results(state, static_cast<uint32_t>(&item - body.data()))
                 : Status();
  });
}

Result<bool> HostProgram::condition(const FunctionState &state, const plan::OperandRef &operand) {
  using Kind = plan::OperandRef::Kind;
  if (operand.kind != Kind::buffer) {
    CUGRT_ASSIGN(cugrt_value value, value_of(state, operand));
    return value.as.integer != 0;
  }
  return read_condition(state.run, state.run.function.buffers[operand.index], stream_);
}

Status HostProgram::branch(FunctionState &state, const plan::Item &item) {
  CUGRT_ASSIGN(bool taken, condition(state, item.operands[0]));
  uint32_t block = item.blocks.begin + (taken ? 0 : 1);
  if (block >= item.blocks.end())
    return {};
  CUGRT_TRY(run_block(state, block));
  return move(state, state.run.function.blocks[block].results, item.results);
}

Status HostProgram::loop(FunctionState &state, const plan::Item &item) {
  uint32_t test = item.blocks.begin, body = item.blocks.begin + 1;
  const std::vector<plan::Block> &blocks = state.run.function.blocks;
  CUGRT_TRY(move(state, item.operands, blocks[test].params));
  while (true) {
    CUGRT_TRY(run_block(state, test));
    CUGRT_ASSIGN(bool again, condition(state, blocks[test].results[0]));
    if (!again)
      break;
    CUGRT_TRY(move(state, blocks[test].params, blocks[body].params));
    CUGRT_TRY(run_block(state, body));
    CUGRT_TRY(move(state, blocks[body].results, blocks[test].params));
  }
  return move(state, blocks[test].params, item.results);
}

Status HostProgram::move(FunctionState &state, const std::vector<plan::OperandRef> &from,
                         const std::vector<plan::OperandRef> &to) {
  std::vector<std::pair<uint32_t, uint64_t>> values;
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
    if (to[i].kind != plan::OperandRef::Kind::host_value)
      continue;
    CUGRT_ASSIGN(cugrt_value value, value_of(state, from[i]));
    values.emplace_back(to[i].index, static_cast<uint64_t>(value.as.integer));
  }
  for (const auto &[index, bits] : values)
    state.run.set_host_value(index, bits);
  return {};
}

Status HostProgram::copy(FunctionState &state, const plan::Item &item) {
  const plan::Buffer &from = state.run.function.buffers[item.operands[0].index];
  const plan::Buffer &to = state.run.function.buffers[item.operands[1].index];
  CUGRT_ASSIGN(uint64_t source, state.run.address(from));
  CUGRT_ASSIGN(uint64_t destination, state.run.address(to));
  CUGRT_ASSIGN(uint64_t bytes, state.run.bytes(from));
  CUGRT_TRY(check_copy(state, item));
  if (bytes != 0 && source != destination)
    CUGRT_TRY(driver::copy_async(stream_, destination, source, bytes));
  ++session_.counters_.eager_steps;
  ++session_.counters_.eager[static_cast<size_t>(EagerReason::outside)];
  return {};
}

/// Fails in strict mode.
Status HostProgram::check_copy(const FunctionState &state, const plan::Item &item) const {
  const plan::Function &function = state.run.function;
  return session_.cache_.check_strict(
      "the copy of %" + function.buffers[item.operands[0].index].name + " to %" +
          function.buffers[item.operands[1].index].name + " in function @" + function.name,
      EagerReason::outside);
}

} // namespace cugrt::runtime
