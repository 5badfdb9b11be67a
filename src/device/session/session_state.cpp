// A session between runs: waits, totals, instances and records; see session.h.
#include "base/type/state_scope.h"
#include "device/session/function_state.h"
#include "device/session/session.h"

namespace cugrt::runtime {

static Status earlier_failed(Device &device, Status status) {
  return device.note(std::move(status).in("work that was queued earlier failed"));
}

/// Sets state (base/type/state_scope.h) to zeros, after all work so far.
Status Session::clear_state() {
  for (size_t i = 0; i < arenas_.size(); ++i) {
    const plan::Arena &arena = executable().plan().arenas[i];
    if (arena.scope != ir::kStateScope || arena.bytes == 0)
      continue;
    const auto bytes = static_cast<uint64_t>(arena.bytes);
    CUGRT_ASSIGN(driver::ContextGuard guard, code_->device().context().enter());
    CUGRT_TRY(arenas_[i]->commit(bytes));
    CUGRT_TRY(wait_for_last());
    CUGRT_TRY(driver::fill_async(own_stream_.ref(), arenas_[i]->address(), 0, 1, bytes));
    CUGRT_TRY(own_stream_.ref().synchronize());
  }
  return {};
}

/// Clears the flag and returns its error. State that blocks wait by becomes zeros again, as when
/// the session opened.
Status Session::take_flag() {
  Status said = out_of_bounds(executable(), symbol_flag_.take());
  CUGRT_TRY(clear_state());
  return said;
}

Result<bool> Session::is_idle() {
  InUse use(in_use_);
  CUGRT_TRY(take(use));
  CUGRT_TRY(code_->device().check());
  return has_ended();
}

/// Does not wait. The session is in use.
Result<bool> Session::has_ended() {
  if (!in_flight_)
    return true;
  auto ask = [&]() -> Result<bool> {
    CUGRT_ASSIGN(driver::ContextGuard guard, code_->device().context().enter());
    return end_recorded_ ? order_event_.query() : last_stream_.query();
  };
  Result<bool> answer = ask();
  if (!answer.ok())
    return earlier_failed(code_->device(), answer.take_status());
  return answer;
}

Status Session::synchronize() {
  InUse use(in_use_);
  CUGRT_TRY(take(use));
  CUGRT_TRY(code_->device().check());
  CUGRT_TRY(finish_work());
  return check_symbols();
}

Status Session::update_weights(const WeightSet &set) {
  InUse use(in_use_);
  CUGRT_TRY(take(use));
  CUGRT_TRY(code_->device().check());
  auto loaded = load_weights(set);
  // If a budget does not hold both, the old ones leave first; if the new ones cannot be loaded, the
  // next run brings the old ones back.
  if (!loaded.ok() && loaded.status().code() == Code::out_of_device_memory && group_) {
    if (Status left = group_->evict(*this, true); left.ok())
      loaded = load_weights(set);
    else if (left.code() != Code::busy)
      return code_->device().note(std::move(left));
  }
  if (!loaded.ok())
    return code_->device().note(loaded.take_status());
  CUGRT_TRY(finish_work());
  std::unique_lock lock(moving_); // who prepares reads the weights' addresses
  const auto before = std::exchange(weights_, std::move(*loaded)); // until the group knows
  take_weights();
  if (group_)
    group_->note(*this, weights_.get());
  return {};
}

Status Session::update_weights_in_place(const WeightSet &set) {
  InUse use(in_use_);
  CUGRT_TRY(take(use));
  CUGRT_TRY(code_->device().check());
  CUGRT_TRY(finish_work());
  std::shared_ptr<LoadedWeights> computed; // beside, until they are copied
  if (weights_->computes()) {
    auto loaded = load_weights(set);
    if (!loaded.ok())
      return code_->device().note(loaded.take_status());
    computed = std::move(*loaded);
  }
  return code_->device().note(code_->replace(weights_, set, memory_device(),
                                             group_ ? group_->weights() : nullptr, computed.get()));
}

/// Waits for the session's queued work.
Status Session::finish_work() {
  if (!in_flight_)
    return {};
  auto finish = [&]() -> Status {
    CUGRT_ASSIGN(driver::ContextGuard guard, code_->device().context().enter());
    return wait_for_last();
  };
  if (Status status = finish(); !status.ok())
    return earlier_failed(code_->device(), std::move(status));
  in_flight_ = false;
  cache_.all_done();
  dynamic_memory_.all_done();
  return {};
}

Result<Session::Totals> Session::totals() {
  InUse use(in_use_);
  CUGRT_TRY(take(use));
  cache_.adopt_prepared();
  const Word::Hold hold(word_.get()); // others of the word may enlarge arenas
  Totals totals;
  totals.counters = counters_;
  totals.instances = cache_.instance_count();
  totals.instance_bytes = cache_.instance_bytes();
  totals.weight_bytes = weights_->size_bytes() + code_->constants().size_bytes();
  totals.weight_bytes_in_place = weights_->size_bytes_in_place();
  for (const auto &state : functions_)
    for (const ResultMemory &memory : state->result_memory)
      totals.result_bytes += memory.total_bytes();
  for (size_t i = 0; i < arenas_.size(); ++i)
    totals.arena_committed_bytes += arena_held(i);
  return totals;
}

Status
Session::visit_instances(const std::function<void(const std::vector<GraphCache::View> &)> &visit) {
  InUse use(in_use_);
  CUGRT_TRY(take(use));
  cache_.adopt_prepared();
  visit(cache_.instances());
  return {};
}

Result<size_t> Session::read_launches(std::span<LaunchRecord> records) {
  InUse use(in_use_);
  CUGRT_TRY(take(use));
  CUGRT_ASSIGN(driver::ContextGuard guard, code_->device().context().enter());
  return log_.read(records);
}

} // namespace cugrt::runtime
