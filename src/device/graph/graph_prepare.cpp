// Makes instances ahead, on any thread, and hands them to the cache; see graph_cache.h.
#include "device/graph/graph_cache.h"

#include "device/code/loaded_code.h"

namespace cugrt::runtime {

Status GraphCache::prepare(uint32_t number, const RunBinding &run, driver::StreamRef stream,
                           PrepareReport &report) {
  const CachedRegion &region = regions_[number];
  std::vector<int64_t> key;
  find_key(number, run, key);
  PreparedInstances::Claim claim(prepared_, key);
  if (prepared_.contains(key) || policy_.contains(key)) { // in the order of their way
    ++report.present;
    return {};
  }
  CUGRT_ASSIGN(std::vector<uint32_t> variants,
               choose_variants(run, code_.executable(), &code_, region.index));
  auto topology = std::make_shared<const TopologyClass>(
      make_topology_class(run, region.index, std::move(variants)));
  uint64_t bytes = options_.cost.bytes(topology->graph_node_count());
  uint64_t left = 0;
  auto refuse = [&](EagerReason reason) {
    if (report.refused++ == 0) {
      report.reason = reason;
      report.region = region.name;
      report.needed_bytes = bytes;
      report.free_bytes = left;
    }
    return Status();
  };
  if (options_.eager)
    return refuse(EagerReason::requested);
  if (!can_build(region))
    return refuse(EagerReason::conditional);
  BudgetShare room;
  if (prepared_.has_room())
    room = policy_.reserve(bytes, 0, &left);
  if (!room)
    return refuse(bytes > policy_.budget_bytes() ? EagerReason::too_large
                                                 : EagerReason::budget_full);
  auto instance = GraphInstance::build(run, code_, std::move(topology), stream, options_.instances);
  if (!instance.ok() && instance.status().code() == Code::out_of_device_memory)
    return refuse(EagerReason::no_memory);
  if (!instance.ok())
    return instance.take_status();
  // The upload must have ended before another stream launches it.
  CUGRT_TRY(stream.synchronize());
  prepared_.put({number, std::move(key), std::move(room), std::move(*instance)});
  ++report.built;
  report.built_bytes += bytes;
  return {};
}

/// Destroys an instance whose key got another one from a run meanwhile.
void GraphCache::adopt_prepared() {
  prepared_.take([&](PreparedInstance prepared) {
    if (policy_.contains(prepared.key))
      return;
    CachedRegion &region = regions_[prepared.region];
    const TopologyClass &made = prepared.instance->topology();
    uint32_t first_step = region.run->function.regions[region.index].steps.begin;
    chosen_.clear();
    for (uint32_t step : region.choices)
      chosen_.push_back(made.variants[step - first_step]);
    auto known = region.classes->find(chosen_);
    if (!known)
      known =
          region.classes->add(chosen_, {classes_++, prepared.instance->values().shared_topology()});
    prepared.instance->share_topology(known->topology);
    prepared.instance->last_launch = completed_; // as recent as anything that has ended
    keep(prepared.region, known->number, prepared.key, std::move(prepared.room),
         std::move(prepared.instance));
    ++counters_.regions_prepared;
  });
}

} // namespace cugrt::runtime
