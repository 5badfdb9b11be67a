// Seals sessions, reports how long their runs take, and waits for them.
#include "device/session/function_state.h"
#include "device/session/session.h"
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>

#include <sched.h>

namespace cugrt::runtime {

Status Session::seal() {
  InUse use(in_use_);
  CUGRT_TRY(take(use));
  CUGRT_TRY(code_->device().check());
  if (cache_.sealed())
    return {};
  CUGRT_ASSIGN(driver::ContextGuard guard, code_->device().context().enter());
  const Word::Hold hold(word_.get());
  CUGRT_TRY(follow_group());
  for (size_t i = 0; i < arenas_.size(); ++i) {
    const plan::Arena &arena = executable().plan().arenas[i];
    const auto bytes = static_cast<uint64_t>(arena.bytes);
    const std::string what = "sealing: arena of storage scope '" + arena.scope + "', " +
                             std::to_string(bytes) + " bytes for all values of symbols";
    if (arenas_[i]->moves_for(bytes))
      return Status::error(Code::unsupported,
                           what + ": the device has no addresses for it, and what moves cannot be "
                                  "sealed");
    if (Status status = arenas_[i]->commit(bytes); !status.ok())
      return std::move(status).in(what);
  }
  find_arenas_room();
  for (const auto &state : functions_)
    if (!state->run.function.is_private)
      CUGRT_TRY(seal_results(*state));
  cache_.seal();
  if (word_)
    ++word_->sealed;
  return {};
}

/// Allocates the results that callers may leave to the session, if the plan bounds them.
Status Session::seal_results(FunctionState &state) {
  const ir::ExprPool &exprs = executable().plan().exprs;
  const ir::SymbolDomain domain = plan::symbol_domain(exprs, state.run.function);
  for (uint32_t slot : state.result_slots)
    if (const int64_t upper = exprs.range(state.run.function.slots[slot].bytes, domain).upper;
        upper != INT64_MAX) {
      auto memory = result_memory(state, slot, static_cast<uint64_t>(std::max<int64_t>(upper, 0)));
      if (!memory.ok())
        return memory.take_status().in("sealing");
    }
  return {};
}

Status Session::refuse_sealed(const FunctionState &state, const std::string &what) const {
  std::string symbols;
  for (size_t i = 0; i < state.run.symbols.size(); ++i)
    symbols += (i ? ", " : "") + state.run.function.symbols[i].name + " = " +
               std::to_string(state.run.symbols[i]);
  return Status::error(Code::invalid_argument, "the session is sealed, and function @" +
                                                   state.run.function.name + " (" + symbols +
                                                   ") needs memory for " + what);
}

Status Session::add_latency(DurationHistogram &host, DurationHistogram &device) {
  InUse use(in_use_);
  CUGRT_TRY(take(use));
  if (!times_)
    return Status::error(Code::invalid_argument,
                         "the session keeps no times of runs: open it with measure_latency");
  CUGRT_ASSIGN(driver::ContextGuard guard, code_->device().context().enter());
  times_->collect();
  host.add(times_->host());
  device.add(times_->device());
  return {};
}

Status Session::add_deadline(DurationHistogram &whole, uint64_t &missed) {
  InUse use(in_use_);
  CUGRT_TRY(take(use));
  const DeadlineWatch *deadline = times_ ? times_->deadline() : nullptr;
  if (!deadline)
    return Status::error(Code::invalid_argument,
                         "the session has no deadline: open it with deadline_us");
  CUGRT_ASSIGN(driver::ContextGuard guard, code_->device().context().enter());
  CUGRT_TRY(deadline->settle());
  whole.add(deadline->times());
  missed += deadline->missed();
  return {};
}

Status Session::wait_as_told() const {
  if (wait_ == CUGRT_WAIT_BLOCK) {
    if (!end_recorded_)
      CUGRT_TRY(order_event_.record(last_stream_));
    return order_event_.synchronize();
  }
  while (true) {
    CUGRT_ASSIGN(const bool ended, end_recorded_ ? order_event_.query() : last_stream_.query());
    if (ended)
      return {};
    if (wait_ == CUGRT_WAIT_YIELD)
      sched_yield();
  }
}

} // namespace cugrt::runtime
