// Launches regions step by step, and steps alone; see graph_cache.h. It then runs branches and
// loops from the host, which waits for each condition.
#include "device/graph/graph_cache.h"

#include "device/code/loaded_code.h"

namespace cugrt::runtime {

std::string GraphCache::region_text(const CachedRegion &region) {
  const plan::Function &function = region.run->function;
  Range steps = function.regions[region.index].steps;
  return "region " + *region.name + " (" + std::to_string(steps.count) + " steps from '" +
         function.steps[steps.begin].name + "')";
}

Status GraphCache::launch_eagerly(const CachedRegion &region, EagerReason reason,
                                  driver::StreamRef stream) {
  Range steps = region.run->function.regions[region.index].steps;
  if (options_.strict)
    CUGRT_TRY(check_strict(region_text(region), reason));
  if (reason != EagerReason::requested && code_.device().log().enabled(LogLevel::info))
    code_.device().log()(LogLevel::info,
                         region_text(region) + " is launched step by step: " + reason_text(reason));
  LaunchRecord *record = std::exchange(record_, nullptr); // each step has one of its own
  CUGRT_TRY(launch_steps(*region.run, steps, reason, stream));
  if (record) {
    record->kind = CUGRT_LAUNCH_EAGER;
    record->reason = reason;
    record->nodes = steps.count;
  }
  ++counters_.regions_eager;
  ++counters_.eager[static_cast<size_t>(reason)];
  return {};
}

Status GraphCache::launch_steps(const RunBinding &run, Range steps, EagerReason reason,
                                driver::StreamRef stream) {
  for (uint32_t step = steps.begin; step < steps.end(); ++step) {
    const plan::Step &planned = run.function.steps[step];
    bool runs = true;
    if (planned.when.valid()) {
      auto holds = run.evaluate(planned.when);
      if (!holds.ok())
        return at_step(holds.take_status(), run, step);
      runs = *holds != 0;
    }
    if (planned.kind != plan::StepKind::conditional) {
      if (runs)
        CUGRT_TRY(launch_step(run, step, reason, stream));
      continue;
    }
    if (runs)
      CUGRT_TRY(launch_conditional(run, step, reason, stream));
    for (uint32_t count : run.function.conditionals[planned.conditional].bodies)
      step += count;
  }
  return {};
}

/// Reads a loop's condition before its body runs, from where the body sets it, as the nodes do.
Status GraphCache::launch_conditional(const RunBinding &run, uint32_t step, EagerReason reason,
                                      driver::StreamRef stream) {
  const plan::Function &function = run.function;
  const plan::Conditional &conditional = function.conditionals[function.steps[step].conditional];
  auto holds = [&](uint32_t at) -> Result<bool> {
    uint32_t access = function.steps[at].accesses.begin;
    auto value = read_condition(run, function.buffers[function.accesses[access].buffer], stream);
    if (!value.ok())
      return at_step(value.take_status(), run, at);
    return value;
  };
  CUGRT_ASSIGN(bool condition, holds(step));
  Range body{step + 1, conditional.bodies[0]};
  if (conditional.kind == plan::ConditionalKind::if_) {
    if (!condition && conditional.bodies.size() == 1)
      return {};
    if (!condition)
      body = {body.end(), conditional.bodies[1]};
    return launch_steps(run, body, reason, stream);
  }
  uint32_t sets = body.begin; // the step of the body that sets the condition
  while (function.steps[sets].kind != plan::StepKind::set_condition ||
         function.steps[sets].conditional != function.steps[step].conditional)
    ++sets;
  while (condition) {
    CUGRT_TRY(launch_steps(run, {body.begin, sets - body.begin}, reason, stream));
    CUGRT_ASSIGN(condition, holds(sets));
    CUGRT_TRY(launch_steps(run, {sets + 1, body.end() - sets - 1}, reason, stream));
  }
  return {};
}

Status GraphCache::launch_step(const RunBinding &run, uint32_t step, EagerReason reason,
                               driver::StreamRef stream) {
  return at_step(launch_logged_step(run, step, reason, stream), run, step);
}

Status GraphCache::at_step(Status status, const RunBinding &run, uint32_t step) const {
  if (status.ok())
    return status;
  return std::move(status).at(code_.executable().location(run.function.steps[step].location));
}

Status GraphCache::launch_logged_step(const RunBinding &run, uint32_t step, EagerReason reason,
                                      driver::StreamRef stream) {
  const std::string &name = run.function.steps[step].name;
  auto count = [&] {
    ++counters_.eager_steps;
    counters_.eager[static_cast<size_t>(reason)] += reason == EagerReason::outside;
  };
  if (reason == EagerReason::outside)
    CUGRT_TRY(check_outside(run, step));
  if (!log_.on()) {
    CUGRT_TRY(runtime::launch_step(run, code_, step, stream, scratch_));
    count();
    return {};
  }
  ProfilerRange range(log_.ranges(), name);
  LaunchRecord record = log_.begin(run, kNone, name);
  record.kind = CUGRT_LAUNCH_STEP;
  record.reason = reason;
  CUGRT_TRY(log_.step_begins(stream));
  CUGRT_TRY(runtime::launch_step(run, code_, step, stream, scratch_));
  count();
  record.launch_ns = steady_ns() - record.begin_ns;
  CUGRT_TRY(log_.step_ends(stream));
  log_.end(record);
  return {};
}

/// Names a symbol without a bound, if it leaves the step's memory without a planned place.
std::string GraphCache::unbounded_symbol(const RunBinding &run, uint32_t step) const {
  const plan::Function &function = run.function;
  const plan::Range accesses = function.steps[step].accesses;
  std::vector<ir::SymbolId> symbols;
  for (uint32_t a = accesses.begin; a < accesses.end(); ++a) {
    const plan::Buffer &buffer = function.buffers[function.accesses[a].buffer];
    symbols.clear();
    if (buffer.base == plan::BufferBase::dynamic && buffer.bytes.valid())
      run.plan.exprs.collect_symbols(buffer.bytes, symbols);
    for (ir::SymbolId symbol : symbols) {
      const plan::Symbol &s = function.symbols[symbol.index];
      if (s.bounds.upper != INT64_MAX)
        continue;
      const SourceLocation place = definition_of(run.plan, function, symbol);
      return "%" + buffer.name + " has no planned place, since symbol " + s.name +
             (place.known() ? ", defined at " + code_.executable().location(place) + "," : "") +
             " has no upper bound";
    }
  }
  return "";
}

Status GraphCache::check_outside(const RunBinding &run, uint32_t step) const {
  if (!options_.strict)
    return {};
  return at_step(
      check_strict("step '" + run.function.steps[step].name + "' of function @" + run.function.name,
                   EagerReason::outside, unbounded_symbol(run, step)),
      run, step);
}

Status GraphCache::check_region(uint32_t number) const {
  const CachedRegion &region = regions_[number];
  if (!options_.strict || can_build(region))
    return {};
  return attribute(number, check_strict(region_text(region), EagerReason::conditional));
}

Status GraphCache::check_strict(const std::string &what, EagerReason reason,
                                const std::string &detail) const {
  if (!options_.strict)
    return {};
  return Status::error(Code::unsupported,
                       "strict mode: " + what + " is not launched as part of a graph, because " +
                           reason_text(reason) + (detail.empty() ? "" : ": " + detail));
}

} // namespace cugrt::runtime
