// Launching of regions; see graph_cache.h.
#include "runtime/graph_cache.h"

#include "runtime/loaded_code.h"
#include "support/check.h"

#include <algorithm>

namespace cugrt::runtime {

GraphCache::GraphCache(const LoadedCode &code, Options options, Counters &counters, LaunchLog &log)
    : code_(code), options_(options), counters_(counters), log_(log), policy_(options.policy) {}

uint32_t GraphCache::add_function(const Frame &frame) {
  auto first = static_cast<uint32_t>(regions_.size());
  for (uint32_t i = 0; i < frame.function.regions.size(); ++i) {
    CachedRegion region{&frame, i, &frame.function.regions[i].name, {}, nullptr, {}};
    Range steps = frame.function.regions[i].steps;
    for (uint32_t step = steps.begin; step < steps.end(); ++step)
      if (frame.program.step_launches[step].count > 1)
        region.choices.push_back(step);
    regions_.push_back(std::move(region));
  }
  return first;
}

/// The frame has changed since the region's last launch.
Status GraphCache::launch_changed(uint32_t number, driver::StreamRef stream) {
  const CachedRegion &region = regions_[number];
  if (region.last && region.last->can_follow(*region.frame))
    return launch_moved(number, stream);
  return launch_by_key(number, stream);
}

/// The key is the one that the last instance is bound to: only addresses differ.
Status GraphCache::launch_moved(uint32_t number, driver::StreamRef stream) {
  CachedRegion &region = regions_[number];
  auto counts = [&] {
    ScopeTimer timer(timed(&LaunchRecord::patch_ns));
    return region.last->follow(*region.frame);
  }();
  if (!counts.ok()) [[unlikely]] {
    drop_last(region);
    return counts.take_status();
  }
  CUGRT_TRY(launch_instance(region, *region.last, stream));
  count(*counts);
  return {};
}

void GraphCache::make_key(uint32_t number) {
  const CachedRegion &region = regions_[number];
  key_.clear();
  key_.push_back(number);
  for (ir::SymbolId symbol : region.frame->function.regions[region.index].key)
    key_.push_back(region.frame->symbols[symbol.index]);
}

/// Costs what the choices cost, not what the region has: classes differ in nothing else.
Result<uint32_t> GraphCache::find_class(CachedRegion &region) {
  const Frame &frame = *region.frame;
  uint32_t first_step = frame.function.regions[region.index].steps.begin;
  chosen_.clear();
  for (uint32_t step : region.choices) {
    CUGRT_ASSIGN(uint32_t launch, choose_launch(frame, step));
    chosen_.push_back(launch);
  }
  for (uint32_t i = 0; i < region.classes.size(); ++i) {
    bool same = true;
    for (size_t c = 0; same && c < chosen_.size(); ++c)
      same = region.classes[i]->launches[region.choices[c] - first_step] == chosen_[c];
    if (same)
      return i;
  }
  CUGRT_ASSIGN(std::vector<uint32_t> launches, choose_launches(frame, region.index));
  region.classes.push_back(std::make_shared<const RegionClass>(
      make_region_class(frame, region.index, std::move(launches))));
  return static_cast<uint32_t>(region.classes.size() - 1);
}

void GraphCache::count(const PatchCounts &counts) {
  counters_.fields_patched += counts.fields;
  counters_.expressions_evaluated += counts.evaluated;
  ++(counts.fields ? counters_.regions_patched : counters_.regions_hit);
  if (record_) {
    record_->kind = counts.fields ? CUGRT_LAUNCH_PATCHED : CUGRT_LAUNCH_HIT;
    record_->fields_patched = counts.fields;
  }
}

Status GraphCache::launch_instance(CachedRegion &region, GraphInstance &instance,
                                   driver::StreamRef stream) {
  instance.last_launch = ++launches_;
  if (record_) {
    record_->nodes = instance.topology().node_count();
    record_->edges = instance.topology().edge_count();
  }
  ScopeTimer timer(timed(&LaunchRecord::launch_ns));
  return instance.launch(stream, *region.name);
}

Status GraphCache::launch_logged(uint32_t number, driver::StreamRef stream) {
  CachedRegion &region = regions_[number];
  LaunchRecord record = log_.begin(*region.frame, region.index, *region.name);
  record_ = &record;
  Status status;
  if (region.last && region.last->bound_to(*region.frame)) {
    status = launch_instance(region, *region.last, stream);
    counters_.regions_hit += status.ok();
  } else {
    status = launch_changed(number, stream);
  }
  record_ = nullptr;
  if (status.ok())
    log_.end(record);
  return status;
}

Status GraphCache::launch_by_key(uint32_t number, driver::StreamRef stream) {
  CachedRegion &region = regions_[number];
  if (options_.eager)
    return launch_eagerly(region, EagerReason::requested, stream);
  make_key(number);
  CUGRT_ASSIGN(uint32_t topology, find_class(region));
  uint64_t bytes = options_.cost.bytes(region.classes[topology]->node_count());
  InstancePolicy::Decision decision =
      policy_.decide(key_, (uint64_t(number) << 32) | topology, bytes,
                     [&](InstanceId id) { return is_idle(id, stream); });
  switch (decision.kind) {
  case InstancePolicy::Decision::Kind::build:
    return build(number, topology, decision, stream);
  case InstancePolicy::Decision::Kind::eager:
    return launch_eagerly(region, decision.reason, stream);
  default:
    break;
  }
  CUGRT_TRY(rebind(number, decision.instance));
  return launch_instance(region, *region.last, stream);
}

/// Patches an instance to the frame. When that fails the instance is in no known state and goes.
Status GraphCache::rebind(uint32_t number, InstanceId id) {
  CachedRegion &region = regions_[number];
  GraphInstance &instance = *slots_[id].instance;
  auto counts = [&] {
    ScopeTimer timer(timed(&LaunchRecord::patch_ns));
    return instance.rebind(*region.frame, code_);
  }();
  if (!counts.ok()) {
    drop(id);
    return counts.take_status();
  }
  policy_.rebind(id, key_);
  policy_.touch(id);
  count(*counts);
  region.last = &instance;
  return {};
}

Status GraphCache::build(uint32_t number, uint32_t topology,
                         const InstancePolicy::Decision &decision, driver::StreamRef stream) {
  CachedRegion &region = regions_[number];
  for (InstanceId id : decision.give_up) {
    drop(id);
    ++counters_.instances_evicted;
  }
  std::shared_ptr<const RegionClass> made = region.classes[topology];
  auto make = [&] {
    ScopeTimer timer(timed(&LaunchRecord::build_ns));
    return GraphInstance::build(*region.frame, code_, made, stream);
  };
  auto instance = make();
  while (!instance.ok() && instance.status().code() == Code::out_of_device_memory) {
    if (!give_up_one(stream))
      return launch_eagerly(region, EagerReason::no_memory, stream);
    instance = make();
  }
  if (!instance.ok())
    return instance.take_status();
  uint64_t bytes = options_.cost.bytes(made->node_count());
  slots_.resize(std::max(slots_.size(), policy_.capacity() + 1)); // may fail; what follows may not
  InstanceId id = policy_.add(key_, (uint64_t(number) << 32) | topology, bytes);
  slots_[id] = {number, ++built_, std::move(*instance)};
  region.last = slots_[id].instance.get();
  ++counters_.regions_built;
  if (record_)
    record_->kind = CUGRT_LAUNCH_BUILT;
  counters_.largest_nodes = std::max<uint64_t>(counters_.largest_nodes, made->node_count());
  counters_.largest_edges = std::max<uint64_t>(counters_.largest_edges, made->edge_count());
  return launch_instance(region, *region.last, stream);
}

bool GraphCache::give_up_one(driver::StreamRef stream) {
  std::optional<InstanceId> oldest = policy_.oldest();
  if (!oldest)
    return false;
  if (!is_idle(*oldest, stream)) {
    if (!stream.synchronize().ok())
      return false;
    completed_ = launches_;
  }
  drop(*oldest);
  ++counters_.instances_evicted;
  return true;
}

Status GraphCache::launch_eagerly(const CachedRegion &region, EagerReason reason,
                                  driver::StreamRef stream) {
  const plan::Function &function = region.frame->function;
  Range steps = function.regions[region.index].steps;
  auto text = [&] {
    return "region " + *region.name + " of function @" + function.name + " (" +
           std::to_string(steps.count) + " steps from '" + function.steps[steps.begin].name + "')";
  };
  ++counters_.eager[static_cast<size_t>(reason)];
  if (options_.strict)
    CUGRT_TRY(check_strict(text(), reason));
  if (reason != EagerReason::requested && code_.device().log().enabled(LogLevel::info))
    code_.device().log()(LogLevel::info,
                         text() + " is launched step by step: " + reason_text(reason));
  LaunchRecord *record = std::exchange(record_, nullptr); // each step has one of its own
  for (uint32_t step = steps.begin; step < steps.end(); ++step)
    CUGRT_TRY(launch_step(*region.frame, step, reason, stream));
  if (record) {
    record->kind = CUGRT_LAUNCH_EAGER;
    record->reason = reason;
    record->nodes = steps.count;
  }
  ++counters_.regions_eager;
  return {};
}

Status GraphCache::launch_step(const Frame &frame, uint32_t step, EagerReason reason,
                               driver::StreamRef stream) {
  const std::string &name = frame.function.steps[step].name;
  if (reason == EagerReason::outside) {
    ++counters_.eager[static_cast<size_t>(reason)];
    if (options_.strict)
      CUGRT_TRY(check_strict("step '" + name + "' of function @" + frame.function.name, reason));
  }
  ++counters_.eager_steps;
  if (!log_.on())
    return runtime::launch_step(frame, code_, step, stream, scratch_);
  LaunchRecord record = log_.begin(frame, kNone, name);
  record.kind = CUGRT_LAUNCH_STEP;
  record.reason = reason;
  CUGRT_TRY(log_.step_begins(stream));
  CUGRT_TRY(runtime::launch_step(frame, code_, step, stream, scratch_));
  record.launch_ns = steady_ns() - record.begin_ns;
  CUGRT_TRY(log_.step_ends(stream));
  log_.end(record);
  return {};
}

Status GraphCache::check_strict(const std::string &what, EagerReason reason) const {
  if (!options_.strict)
    return {};
  return Status::error(Code::unsupported, "strict mode: " + what +
                                              " is not launched as part of a graph, because " +
                                              reason_text(reason));
}

void GraphCache::drop_last(const CachedRegion &region) {
  for (InstanceId id = 0; id < slots_.size(); ++id)
    if (slots_[id].instance.get() == region.last)
      return drop(id);
}

void GraphCache::drop(InstanceId id) {
  Slot &slot = slots_[id];
  if (regions_[slot.region].last == slot.instance.get())
    regions_[slot.region].last = nullptr;
  slot.instance.reset();
  policy_.remove(id);
}

/// Runs of a session follow each other on the device, so a stream that has nothing left to do means
/// that every launch so far has ended.
bool GraphCache::is_idle(InstanceId id, driver::StreamRef stream) {
  if (slots_[id].instance->last_launch <= completed_)
    return true;
  auto done = stream.query();
  if (!done.ok() || !*done)
    return false;
  completed_ = launches_;
  return true;
}

std::vector<GraphCache::View> GraphCache::instances() const {
  std::vector<const Slot *> alive;
  for (const Slot &slot : slots_)
    if (slot.instance)
      alive.push_back(&slot);
  std::sort(alive.begin(), alive.end(), [](const Slot *a, const Slot *b) {
    return a->region != b->region ? a->region < b->region : a->order < b->order;
  });
  std::vector<View> views;
  for (const Slot *slot : alive) {
    const CachedRegion &region = regions_[slot->region];
    views.push_back(
        {region.frame, &region.frame->function.regions[region.index], slot->instance.get()});
  }
  return views;
}

} // namespace cugrt::runtime
