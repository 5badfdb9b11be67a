// Launching of regions; see graph_cache.h.
#include "device/graph/graph_cache.h"

#include "device/code/loaded_code.h"

#include <algorithm>

namespace cugrt::runtime {

static bool has_cooperative_bodies(const RunBinding &run, const plan::Region &region) {
  if (!plan::has_conditionals(run.function, region))
    return false;
  const auto levels = plan::find_region_levels(run.function, region.steps);
  for (uint32_t s = 0; s < region.steps.count; ++s)
    if (const uint32_t kernel = run.function.steps[region.steps.begin + s].kernel;
        levels->level_of[s] != 0 && kernel != kNone)
      for (const bool cooperative : run.plan.kernels[kernel].cooperative)
        if (cooperative)
          return true;
  return false;
}

/// In strict mode, a region that is launched eagerly is an error.
static PolicyOptions policy_options(const GraphCache::Options &options) {
  PolicyOptions policy = options.policy;
  policy.at_any_price = policy.at_any_price || options.strict;
  return policy;
}

GraphCache::GraphCache(const LoadedCode &code, Options options, Counters &counters, LaunchLog &log,
                       GiveUp give_up)
    : code_(code), options_(options), counters_(counters), log_(log), give_up_(std::move(give_up)),
      policy_(policy_options(options)) {}

uint32_t GraphCache::add_function(const RunBinding &run) {
  auto first = static_cast<uint32_t>(regions_.size());
  for (uint32_t i = 0; i < run.function.regions.size(); ++i) {
    const plan::Region &planned = run.function.regions[i];
    CachedRegion region{&run,
                        i,
                        &planned.name,
                        {},
                        plan::has_conditionals(run.function, planned),
                        has_cooperative_bodies(run, planned),
                        nullptr,
                        std::make_unique<TopologyClasses>()};
    Range steps = run.function.regions[i].steps;
    for (uint32_t step = steps.begin; step < steps.end(); ++step) {
      const Range launches = run.program.step_variants[step];
      if (launches.count > 1 ||
          (launches.count == 1 && run.program.variants[launches.begin].predicate.valid()))
        region.choices.push_back(step);
    }
    regions_.push_back(std::move(region));
  }
  return first;
}

/// Launches a region whose run has changed since its last launch.
Status GraphCache::launch_changed(uint32_t number, driver::StreamRef stream) {
  CachedRegion &region = regions_[number];
  if (!region.last || !region.last->can_move_bases(*region.run))
    return launch_by_key(number, stream);
  // The last instance has this key: only addresses differ.
  auto counts = [&] {
    ScopeTimer timer(timed(&LaunchRecord::patch_ns));
    return region.last->move_bases(*region.run);
  }();
  if (!counts.ok()) [[unlikely]] {
    drop_last(region);
    return counts.take_status();
  }
  if (Status status = launch_instance(region, *region.last, stream); !status.ok()) [[unlikely]]
    return region.last->values().after_patch(std::move(status), *region.run, region.run->moved());
  count(*counts);
  return {};
}

void GraphCache::find_key(uint32_t number, const RunBinding &run, std::vector<int64_t> &key) const {
  key.assign(1, number);
  for (ir::SymbolId symbol : run.function.regions[regions_[number].index].key)
    key.push_back(run.symbols[symbol.index]);
}

/// Cost grows with the number of choices, not with the region: classes differ in choices only.
Result<TopologyClasses::Known> GraphCache::find_class(CachedRegion &region) {
  const RunBinding &run = *region.run;
  chosen_.clear();
  for (uint32_t step : region.choices) {
    CUGRT_ASSIGN(uint32_t variant, choose_variant(run, code_.executable(), &code_, step));
    chosen_.push_back(variant);
  }
  if (auto known = region.classes->find(chosen_))
    return std::move(*known);
  CUGRT_ASSIGN(std::vector<uint32_t> variants,
               choose_variants(run, code_.executable(), &code_, region.index));
  auto made = std::make_shared<const TopologyClass>(
      make_topology_class(run, region.index, std::move(variants)));
  return region.classes->add(chosen_, {classes_++, std::move(made)});
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

void GraphCache::count_built() {
  ++counters_.regions_built;
  if (record_)
    record_->kind = CUGRT_LAUNCH_BUILT;
}

Status GraphCache::launch_instance(CachedRegion &region, GraphInstance &instance,
                                   driver::StreamRef stream) {
  instance.last_launch = ++launches_;
  if (record_) {
    record_->nodes = instance.topology().graph_node_count();
    record_->edges = instance.topology().edge_count();
  }
  ScopeTimer timer(timed(&LaunchRecord::launch_ns));
  return instance.launch(stream, *region.name);
}

Status GraphCache::launch_logged(uint32_t number, driver::StreamRef stream) {
  CachedRegion &region = regions_[number];
  ProfilerRange range(log_.ranges(), *region.name);
  LaunchRecord record = log_.begin(*region.run, region.index, *region.name);
  record_ = &record;
  Status status;
  if (region.last && region.last->bound_to(*region.run)) {
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
  if (!can_build(region))
    return launch_eagerly(region, EagerReason::conditional, stream);
  if (prepared_.waiting())
    adopt_prepared();
  find_key(number, *region.run, key_);
  CUGRT_ASSIGN(TopologyClasses::Known topology, find_class(region));
  uint64_t bytes = options_.cost.bytes(topology.topology->graph_node_count());
  InstancePolicy::Ask ask{[&](InstanceId id) { return is_idle(id, stream); },
                          [&](InstanceId id) { return cached_[id].instance->last_launch; },
                          launches_};
  InstancePolicy::Decision decision = sealed() ? policy_.reuse(key_, topology.number, ask)
                                               : policy_.decide(key_, topology.number, bytes, ask,
                                                                uses_to_earn(*topology.topology));
  switch (decision.kind) {
  case InstancePolicy::Decision::Kind::build:
    return build(number, topology, std::move(decision), stream);
  case InstancePolicy::Decision::Kind::eager:
    return sealed() ? refuse_sealed(number) : launch_eagerly(region, decision.reason, stream);
  case InstancePolicy::Decision::Kind::use:
  case InstancePolicy::Decision::Kind::patch:
    break;
  }
  CUGRT_ASSIGN(Rebound rebound, rebind(number, decision.instance, stream));
  Status status = launch_instance(region, *region.last, stream);
  if (rebound.built) {
    if (status.ok())
      count_built();
    return status;
  }
  if (!status.ok())
    return region.last->values().after_patch(std::move(status), *region.run, changes_.inputs);
  count(rebound.counts);
  return {};
}

/// Patches an instance to the run. Destroys an instance whose state is unknown afterwards.
Result<GraphCache::Rebound> GraphCache::rebind(uint32_t number, InstanceId id,
                                               driver::StreamRef stream) {
  CachedRegion &region = regions_[number];
  GraphInstance &instance = *cached_[id].instance;
  if (!instance.nodes().can_patch() && !instance.bound_to(*region.run)) {
    CUGRT_TRY(rebuild(number, id, stream));
    return Rebound{true, {}};
  }
  auto counts = [&] {
    ScopeTimer timer(timed(&LaunchRecord::patch_ns));
    return instance.rebind(*region.run, changes_);
  }();
  if (!counts.ok()) {
    if (!instance.is_whole())
      drop(id);
    return counts.take_status();
  }
  if (counts->rebuild) [[unlikely]] {
    CUGRT_TRY(rebuild(number, id, stream));
    return Rebound{true, {}};
  }
  policy_.rebind(id, key_);
  region.last = &instance;
  return Rebound{false, *counts};
}

/// attribute() adds the key to this error.
Status GraphCache::refuse_sealed(uint32_t number) const {
  return Status::error(Code::invalid_argument,
                       "the session is sealed, and " + region_text(regions_[number]) +
                           " has no graph that can be patched to this key: prepare one before the "
                           "session is sealed");
}

/// Builds an instance anew where setters do not reach all of its nodes.
Status GraphCache::rebuild(uint32_t number, InstanceId id, driver::StreamRef stream) {
  CachedRegion &region = regions_[number];
  if (sealed())
    return refuse_sealed(number);
  if (!is_idle(id, stream)) {
    CUGRT_TRY(stream.synchronize());
    completed_ = launches_;
  }
  auto instance = [&] {
    ScopeTimer timer(timed(&LaunchRecord::build_ns));
    return GraphInstance::build(*region.run, code_,
                                cached_[id].instance->values().shared_topology(), stream,
                                options_.instances);
  }();
  if (!instance.ok())
    return cached_[id].instance->values().instead(instance.take_status(), *region.run);
  cached_[id].instance = std::move(*instance);
  region.last = cached_[id].instance.get();
  policy_.rebind(id, key_);
  return {};
}

Status GraphCache::build(uint32_t number, const TopologyClasses::Known &topology,
                         InstancePolicy::Decision decision, driver::StreamRef stream) {
  CachedRegion &region = regions_[number];
  for (InstanceId id : decision.give_up) {
    drop(id);
    ++counters_.instances_evicted;
  }
  auto make = [&] {
    ScopeTimer timer(timed(&LaunchRecord::build_ns));
    return GraphInstance::build(*region.run, code_, topology.topology, stream, options_.instances);
  };
  auto instance = make();
  while (!instance.ok() && instance.status().code() == Code::out_of_device_memory) {
    if (!give_up_())
      return launch_eagerly(region, EagerReason::no_memory, stream);
    instance = make();
  }
  if (!instance.ok())
    return instance.take_status();
  region.last = keep(number, topology.number, key_, std::move(decision.room), std::move(*instance));
  CUGRT_TRY(launch_instance(region, *region.last, stream));
  count_built();
  return {};
}

GraphInstance *GraphCache::keep(uint32_t number, uint64_t topology, std::span<const int64_t> key,
                                BudgetShare room, std::unique_ptr<GraphInstance> instance) {
  const TopologyClass &made = instance->topology();
  // These two may fail; what follows may not.
  cached_.resize(std::max(cached_.size(), policy_.capacity() + 1));
  changes_.reserve(made);
  InstanceId id = policy_.add(key, topology, std::move(room));
  counters_.largest_nodes = std::max<uint64_t>(counters_.largest_nodes, made.graph_node_count());
  counters_.largest_edges = std::max<uint64_t>(counters_.largest_edges, made.edge_count());
  cached_[id] = {number, ++built_, std::move(instance)};
  return cached_[id].instance.get();
}

/// Patching to a key costs setters each time, an instance of its own costs one build. The key earns
/// the build once its setters have cost as much, whatever comes later (the ski rental rule: each
/// build was paid for by as much patching before).
uint32_t GraphCache::uses_to_earn(const TopologyClass &topology) const {
  const InstanceCost &cost = options_.cost;
  if (cost.patch_node_ns == 0)
    return options_.policy.pin_uses;
  // Cost of launching an instance that is patched each time: its setters, and the slower replay.
  uint64_t switch_ns = 0;
  for (uint64_t part :
       {cost.patch_ns_of(topology.key_nodes),
        cost.patched_dims_ns_of(topology.key_dims_nodes, topology.graph_node_count())})
    if (__builtin_add_overflow(switch_ns, part, &switch_ns))
      switch_ns = UINT64_MAX;
  uint64_t uses = cost.build_ns_of(topology.graph_node_count()) / std::max<uint64_t>(1, switch_ns);
  return static_cast<uint32_t>(std::clamp<uint64_t>(uses, 2, 1u << 20));
}

Status GraphCache::attribute(uint32_t number, Status status) const {
  const CachedRegion &region = regions_[number];
  const plan::Function &function = region.run->function;
  const plan::Region &planned = function.regions[region.index];
  std::string key;
  for (ir::SymbolId symbol : planned.key)
    key += (key.empty() ? " with " : ", ") + function.symbols[symbol.index].name + " = " +
           std::to_string(region.run->symbols[symbol.index]);
  return std::move(status)
      .in("region " + *region.name + " of function @" + function.name + key)
      .at(code_.executable().location(function.steps[planned.steps.begin].location));
}

std::optional<InstanceId> GraphCache::oldest() const {
  std::optional<InstanceId> oldest;
  for (InstanceId id = 0; id < cached_.size(); ++id)
    if (cached_[id].instance &&
        (!oldest || cached_[id].instance->last_launch < cached_[*oldest].instance->last_launch))
      oldest = id;
  return oldest;
}

bool GraphCache::give_up_oldest(const std::function<Status()> &wait) {
  adopt_prepared();
  std::optional<InstanceId> id = oldest();
  if (!id)
    return false;
  if (cached_[*id].instance->last_launch > completed_) {
    if (!wait().ok())
      return false;
    completed_ = launches_;
  }
  drop(*id);
  ++counters_.instances_evicted;
  return true;
}

void GraphCache::drop_all() {
  adopt_prepared();
  for (InstanceId id = 0; id < cached_.size(); ++id)
    if (cached_[id].instance)
      drop(id);
}

void GraphCache::drop_last(const CachedRegion &region) {
  for (InstanceId id = 0; id < cached_.size(); ++id)
    if (cached_[id].instance.get() == region.last)
      return drop(id);
}

void GraphCache::drop(InstanceId id) {
  CachedInstance &cached = cached_[id];
  if (regions_[cached.region].last == cached.instance.get())
    regions_[cached.region].last = nullptr;
  cached.instance.reset();
  policy_.remove(id);
}

bool GraphCache::can_build(const CachedRegion &region) const {
  const Device &device = code_.device();
  return (!region.has_bodies || device.library().capabilities().conditional_if_while) &&
         (!region.has_cooperative_bodies || device.cooperative_bodies());
}

/// Runs of a session follow each other on the device, so a stream that has nothing left to do means
/// that every launch so far has ended.
bool GraphCache::is_idle(InstanceId id, driver::StreamRef stream) {
  if (cached_[id].instance->last_launch <= completed_)
    return true;
  auto done = stream.query();
  if (!done.ok() || !*done)
    return false;
  completed_ = launches_;
  return true;
}

std::vector<GraphCache::View> GraphCache::instances() const {
  std::vector<const CachedInstance *> alive;
  for (const CachedInstance &cached : cached_)
    if (cached.instance)
      alive.push_back(&cached);
  std::sort(alive.begin(), alive.end(), [](const CachedInstance *a, const CachedInstance *b) {
    return a->region != b->region ? a->region < b->region : a->order < b->order;
  });
  std::vector<View> views;
  for (const CachedInstance *cached : alive) {
    const CachedRegion &region = regions_[cached->region];
    views.push_back(
        {region.run, &region.run->function.regions[region.index], cached->instance.get()});
  }
  return views;
}

} // namespace cugrt::runtime
