// Binds a run's arguments and results to a session's function.
//
// The difference from the binding that was checked last (last_binding.h) decides: nothing means no
// work, addresses alone are taken over, and anything else goes to bind(), which makes every check.
#include "device/program/symbol_binding.h"
#include "device/session/function_state.h"
#include "device/session/session.h"
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>

namespace cugrt::runtime {

// Names of ranges beyond the slots, in BoundRange::name.
constexpr uint32_t kWeightsRange = UINT32_MAX, kConstantsRange = UINT32_MAX - 1,
                   kFirstArenaRange = UINT32_MAX - 4096;

static std::string range_text(const BoundRange &range) {
  return "[" + hex_text(range.begin) + ", " + hex_text(range.begin + range.bytes) + ")";
}

Status Session::check_counts(const FunctionState &state, const RunRequest &request) const {
  const plan::Function &function = state.run.function;
  size_t params = state.run.program.call_params.size();
  if (request.arguments.size() != params)
    return Status::error(Code::invalid_argument,
                         "function @" + function.name + " takes " + std::to_string(params) +
                             " arguments (weights are not among them), got " +
                             std::to_string(request.arguments.size()));
  if (!request.results.empty() && request.results.size() != function.results.size())
    return Status::error(Code::invalid_argument, "function @" + function.name + " has " +
                                                     std::to_string(function.results.size()) +
                                                     " results, got room for " +
                                                     std::to_string(request.results.size()));
  return {};
}

Status Session::bind(FunctionState &state, const RunRequest &request) {
  CUGRT_TRY(check_counts(state, request));
  for (size_t i = 0; i < request.arguments.size(); ++i)
    state.params[state.run.program.call_params[i]] = request.arguments[i];
  CUGRT_TRY(bind_parameters(state.run, state.params));
  CUGRT_TRY(cover_from_start(state));
  for (size_t i = 0; i < state.results.size(); ++i) {
    cugrt_value given = request.results.empty() ? cugrt_value{} : request.results[i];
    bool unbound = given.kind != CUGRT_VALUE_TENSOR || given.as.tensor.address == 0 ||
                   state.result_memory[i].handed_out(given.as.tensor.address);
    state.given_results[i] = unbound ? cugrt_value{} : given;
  }
  CUGRT_TRY(bind_results(state));
  return check_overlaps(state, 0);
}

/// Keeps a binding that has passed every check, for comparison with the next run.
void Session::remember(FunctionState &state, const RunRequest &request) {
  const RunBinding &run = state.run;
  const plan::Function &function = run.function;
  size_t arguments = request.arguments.size();
  state.places.assign(arguments + state.results.size(), {});
  auto use_slot = [&](LastBinding::Place &place, uint32_t slot, uint32_t alignment_bytes) {
    place.base = run.program.base_of_slot(slot);
    place.movable = true;
    place.written = ir::writes(function.slots[slot].access);
    place.bytes = run.base_bytes[place.base];
    place.alignment_bytes = std::max<uint32_t>(alignment_bytes, 1);
  };
  for (size_t i = 0; i < arguments; ++i) {
    const plan::Param &param = function.params[run.program.call_params[i]];
    if (param.slot != kNone)
      use_slot(state.places[i], param.slot, param.alignment_bytes);
  }
  for (size_t i = 0; i < state.result_slots.size(); ++i) {
    const plan::Slot &slot = function.slots[state.result_slots[i]];
    LastBinding::Place &place = state.places[arguments + slot.index];
    use_slot(place, state.result_slots[i], slot.alignment_bytes);
    // The run itself binds a slot whose size follows from a match.
    place.movable = state.result_matches[i] == kNone;
  }
  find_fixed_ranges(fixed_ranges_);
  state.last.set(run, request.arguments, state.given_results, state.places, fixed_ranges_);
}

/// Collects ranges that stay as long as the session. No other memory of a run may overlap them: a
/// run writes all of the arenas.
void Session::find_fixed_ranges(std::vector<BoundRange> &ranges) const {
  ranges.clear();
  weights_->each_memory([&](uint64_t address, uint64_t bytes) {
    if (bytes != 0)
      ranges.push_back({address, bytes, false, kWeightsRange});
  });
  ranges.push_back(
      {code_->constants().address(), code_->constants().size_bytes(), false, kConstantsRange});
  for (uint32_t i = 0; i < arenas_.size(); ++i)
    ranges.push_back(
        {arenas_[i]->address(), arenas_[i]->capacity_bytes(), true, kFirstArenaRange + i});
}

/// Binds results whose sizes follow from match `match` of the body, which has run.
Status Session::bind_matched_results(FunctionState &state, uint32_t match) {
  bool any = false;
  for (size_t i = 0; i < state.result_slots.size(); ++i)
    if (state.result_matches[i] == match) {
      CUGRT_TRY(bind_result(state, state.result_slots[i]));
      any = true;
    }
  return any && state.checked_serial != state.run.serial ? check_overlaps(state, match + 1)
                                                         : Status();
}

/// Binds results whose sizes are known before a run.
Status Session::bind_results(FunctionState &state) {
  for (size_t i = 0; i < state.result_slots.size(); ++i)
    if (state.result_matches[i] == kNone)
      CUGRT_TRY(bind_result(state, state.result_slots[i]));
  // Refuses a caller's memory for a result that is another tensor (a parameter, say).
  for (size_t i = 0; i < state.results.size(); ++i) {
    const plan::FunctionResult &result = state.run.function.results[i];
    if (state.given_results[i].kind != CUGRT_VALUE_NONE && !state.has_own_slot[i] &&
        result.buffer != kNone)
      return Status::error(Code::invalid_argument,
                           "function @" + state.run.function.name + ", result " +
                               std::to_string(i) + " is tensor %" +
                               state.run.function.buffers[result.buffer].name +
                               " itself and cannot be bound to other memory; leave its address 0");
  }
  return {};
}

Status Session::bind_result(FunctionState &state, uint32_t slot_index) {
  const plan::Slot &slot = state.run.function.slots[slot_index];
  auto evaluated = state.run.evaluate(slot.bytes);
  if (!evaluated.ok())
    return evaluated.take_status().in("function @" + state.run.function.name + ", result " +
                                      std::to_string(slot.index));
  auto bytes = static_cast<uint64_t>(std::max<int64_t>(*evaluated, 0));
  const cugrt_value &given = state.given_results[slot.index];
  uint64_t address = 0;
  if (given.kind == CUGRT_VALUE_TENSOR) {
    CUGRT_TRY(check_given_result(state, slot.index, given.as.tensor));
    address = given.as.tensor.address;
    if (slot.alignment_bytes > 1 && address % slot.alignment_bytes != 0)
      return Status::error(Code::invalid_argument,
                           "function @" + state.run.function.name + ", result " +
                               std::to_string(slot.index) + ": address " + hex_text(address) +
                               " is not a multiple of " + std::to_string(slot.alignment_bytes) +
                               " bytes");
  } else {
    CUGRT_ASSIGN(address, result_memory(state, slot_index, bytes));
  }
  state.run.set_base(state.run.program.base_of_slot(slot_index), address, bytes);
  return {};
}

/// Returns the session's memory for a result: a bounded one gets its upper bound once and for all;
/// else it grows.
Result<uint64_t> Session::result_memory(FunctionState &state, uint32_t slot_index, uint64_t bytes) {
  const plan::Slot &slot = state.run.function.slots[slot_index];
  ResultMemory &memory = state.result_memory[slot.index];
  if (memory.size_bytes() >= bytes)
    return memory.address();
  if (cache_.sealed())
    return refuse_sealed(state, "result " + std::to_string(slot.index));
  const ir::ExprPool &exprs = executable().plan().exprs;
  int64_t upper = exprs.range(slot.bytes, plan::symbol_domain(exprs, state.run.function)).upper;
  uint64_t wanted = upper == INT64_MAX ? std::max(bytes, 2 * memory.size_bytes())
                                       : std::max(bytes, static_cast<uint64_t>(upper));
  auto allocated = wanted > bytes ? MemoryBlock::allocate(code_->device().context(),
                                                          allocator_.get(), wanted, result_charge())
                                  : allocate_memory(bytes);
  if (!allocated.ok() && allocated.status().code() == Code::out_of_device_memory && wanted > bytes)
    allocated = allocate_memory(bytes);
  if (!allocated.ok())
    return allocated.take_status().in("memory for result " + std::to_string(slot.index) +
                                      " of function @" + state.run.function.name + ", " +
                                      std::to_string(bytes) + " bytes");
  memory.use(std::move(*allocated));
  return memory.address();
}

/// Gives up the least recently used instance.
bool Session::give_up_one() {
  return cache_.give_up_oldest([&] { return wait_for_last(); });
}

/// Gives up graph instances if the device's memory is full; if that is not enough, the error has
/// the figures.
Result<MemoryBlock> Session::allocate_memory(uint64_t bytes) {
  while (true) {
    auto allocated =
        MemoryBlock::allocate(code_->device().context(), allocator_.get(), bytes, result_charge());
    if (allocated.ok() || allocated.status().code() != Code::out_of_device_memory)
      return allocated;
    if (!give_up_one())
      return allocated.take_status().in(memory_figures());
  }
}

/// Backs the arenas with the memory that the function needs for its symbols' values.
Status Session::cover(FunctionState &state) {
  if (!arenas_grow_ || !state.needs.cover(state.run))
    return {};
  for (size_t i = 0; i < arenas_.size(); ++i) {
    const uint64_t bytes = state.needs.bytes()[i];
    Status status = arenas_[i]->commit(bytes);
    while (status.code() == Code::out_of_device_memory && give_up_one())
      status = arenas_[i]->commit(bytes);
    if (!status.ok()) {
      state.needs = {}; // the next run tries again
      return arena_error(std::move(status), state, i, bytes);
    }
  }
  find_arenas_room();
  return {};
}

/// Finds whether some arena has less memory, or fewer addresses, than the plan may need.
void Session::find_arenas_room() {
  arenas_grow_ = arenas_move_ = false;
  for (size_t i = 0; i < arenas_.size(); ++i) {
    const auto bytes = static_cast<uint64_t>(executable().plan().arenas[i].bytes);
    arenas_grow_ = arenas_grow_ || arenas_[i]->committed_bytes() < bytes;
    arenas_move_ = arenas_move_ || arenas_[i]->moves_for(bytes);
  }
}

Status Session::arena_error(Status status, const FunctionState &state, size_t arena,
                            uint64_t bytes) const {
  return std::move(status)
      .in(memory_figures())
      .in("arena of storage scope '" + executable().plan().arenas[arena].scope + "', " +
          std::to_string(bytes) + " bytes for function @" + state.run.function.name);
}

/// Calls cover() before any data of a run lies in an arena: only now can an arena move. A function
/// that learns sizes from calls or matches gets all of an arena that may have to move.
Status Session::cover_from_start(FunctionState &state) {
  if (!arenas_move_)
    return cover(state);
  ArenaNeeds needs = state.needs;
  if (!needs.cover(state.run))
    return {};
  for (size_t i = 0; i < arenas_.size(); ++i) {
    const ArenaMemory &arena = *arenas_[i];
    const auto all = static_cast<uint64_t>(executable().plan().arenas[i].bytes);
    const uint64_t bytes = state.learns_sizes && arena.moves_for(all) ? all : needs.bytes()[i];
    if (arena.moves_for(bytes))
      CUGRT_TRY(move_arena(state, i, bytes));
  }
  return cover(state);
}

/// Drops the instances, which are bound to the old address; threads that prepare some wait.
Status Session::move_arena(FunctionState &state, size_t arena, uint64_t bytes) {
  const driver::Context &context = word_ ? memory_device().context() : code_->device().context();
  if (word_)
    CUGRT_TRY(word_->wait());
  std::unique_lock lock(moving_);
  CUGRT_TRY(wait_for_last());
  cache_.drop_all();
  Status status = arenas_[arena]->move(context, bytes);
  while (status.code() == Code::out_of_device_memory && give_up_one())
    status = arenas_[arena]->move(context, bytes);
  if (word_)
    arena_moves_ = ++word_->moves;
  set_fixed_bases(state.run);
  bind_to_arenas();
  return status.ok() ? std::move(status) : arena_error(std::move(status), state, arena, bytes);
}

/// Binds all functions to the arenas' present addresses.
void Session::bind_to_arenas() {
  for (const auto &state : functions_) {
    set_fixed_bases(state->run);
    state->last.forget();
    state->needs = {}; // what it had is gone
  }
}

std::string Session::memory_figures() const {
  uint64_t arena_bytes = 0, result_bytes = 0;
  for (const auto &arena : arenas_)
    arena_bytes += arena->committed_bytes();
  for (const auto &state : functions_)
    for (const ResultMemory &memory : state->result_memory)
      result_bytes += memory.total_bytes();
  std::string text = "the session holds " + std::to_string(arena_bytes) + " bytes of arenas, " +
                     std::to_string(weights_->size_bytes()) + " of weights, " +
                     std::to_string(result_bytes) + " of results and no graph instances";
  if (auto memory = code_->device().context().memory(); memory.ok())
    text += "; the device has " + std::to_string(memory->free_bytes) + " of " +
            std::to_string(memory->total_bytes) + " bytes free";
  return text;
}

Status Session::check_given_result(const FunctionState &state, uint32_t result,
                                   const cugrt_tensor &given) const {
  const plan::Function &function = state.run.function;
  const plan::Buffer &buffer = function.buffers[function.results[result].buffer];
  cugrt_value wanted{}, got{};
  wanted.kind = got.kind = CUGRT_VALUE_TENSOR;
  wanted.as.tensor.dtype = static_cast<int32_t>(buffer.dtype);
  CUGRT_TRY(find_dims(state, function.results[result].buffer, wanted.as.tensor));
  const cugrt_tensor &tensor = wanted.as.tensor;
  if (given.dtype == tensor.dtype && given.rank == tensor.rank &&
      std::equal(tensor.dims, tensor.dims + tensor.rank, given.dims))
    return {};
  got.as.tensor = given;
  return Status::error(Code::invalid_argument, "function @" + function.name + ", result " +
                                                   std::to_string(result) +
                                                   ": expected memory for " + value_text(wanted) +
                                                   ", got " + value_text(got));
}

/// Checks all slots that are bound when the first `reached` items of the body have run.
Status Session::check_overlaps(FunctionState &state, uint32_t reached) {
  const RunBinding &run = state.run;
  unbound_.assign(run.function.slots.size(), false);
  for (size_t i = 0; i < state.result_slots.size(); ++i)
    unbound_[state.result_slots[i]] =
        state.result_matches[i] != kNone && state.result_matches[i] >= reached;
  find_fixed_ranges(ranges_);
  for (uint32_t s = 0; s < run.function.slots.size(); ++s) {
    if (unbound_[s])
      continue;
    bool written = ir::writes(run.function.slots[s].access);
    const uint32_t base = run.program.base_of_slot(s);
    const uint64_t begin = run.bases[base], bytes = run.base_bytes[base];
    ranges_.push_back({begin, bytes, written, s});
    if (begin + bytes < begin)
      return Status::error(Code::invalid_argument,
                           range_name(state, s) + " wraps around the end of the address space");
  }
  Overlap overlap;
  if (!find_overlap(ranges_, overlap)) {
    bool all = std::find(unbound_.begin(), unbound_.end(), true) == unbound_.end();
    state.checked_serial = all ? run.serial : 0;
    return {};
  }
  const BoundRange &a = ranges_[overlap.first], &b = ranges_[overlap.second];
  return Status::error(Code::invalid_argument,
                       "function @" + run.function.name + ": " + range_name(state, a.name) + " " +
                           range_text(a) + " overlaps " + range_name(state, b.name) + " " +
                           range_text(b) +
                           "; memory that a run writes may not overlap anything else it uses");
}

std::string Session::range_name(const FunctionState &state, uint32_t name) const {
  if (name == kWeightsRange)
    return "the session's weights";
  if (name == kConstantsRange)
    return "the module's constants";
  if (name >= kFirstArenaRange)
    return "the session's arena '" + executable().plan().arenas[name - kFirstArenaRange].scope +
           "'";
  const plan::Function &function = state.run.function;
  return (function.slots[name].kind == plan::SlotKind::param ? "parameter " : "") +
         function.slot_text(name);
}

/// Remembers the address of a result that lies in another slot's memory, such as a parameter's: the
/// caller may still read it there after later runs.
void Session::note_place(FunctionState &state, size_t result) {
  const cugrt_value &value = state.results[result];
  if (value.kind == CUGRT_VALUE_TENSOR && !state.has_own_slot[result])
    state.result_memory[result].found_at(value.as.tensor.address);
}

/// Call after a run with another binding than the results describe.
Status Session::update_results(FunctionState &state) {
  if (state.results_serial == 0 || state.results_serial != state.run.moves_since)
    return describe_results(state);
  const plan::Function &function = state.run.function;
  for (uint32_t result : state.results_in_slots) {
    CUGRT_ASSIGN(uint64_t address,
                 state.run.address(function.buffers[function.results[result].buffer]));
    state.results[result].as.tensor.address = address;
    note_place(state, result);
  }
  state.results_serial = state.run.serial;
  return {};
}

/// Describes the results of a run: tensors with dimensions and address, host scalars with values.
Status Session::describe_results(FunctionState &state) {
  const RunBinding &run = state.run;
  for (size_t i = 0; i < state.results.size(); ++i) {
    const plan::FunctionResult &result = run.function.results[i];
    cugrt_value value{};
    if (result.buffer != kNone) {
      CUGRT_ASSIGN(value, describe_buffer(state, result.buffer));
    } else if (result.host_value != kNone) {
      CUGRT_ASSIGN(value, describe_host_value(run, result.host_value));
    }
    state.results[i] = value;
    note_place(state, i);
  }
  state.results_serial = run.serial;
  return {};
}

} // namespace cugrt::runtime
