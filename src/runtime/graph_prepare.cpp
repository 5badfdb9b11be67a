// Instances made ahead, on any thread, and their way into the cache; see graph_cache.h.
#include "runtime/graph_cache.h"

#include "runtime/loaded_code.h"

#include <algorithm>

namespace cugrt::runtime {

Status GraphCache::prepare(uint32_t number, const Frame &frame, driver::StreamRef stream,
                           PrepareReport &report) {
  const CachedRegion &region = regions_[number];
  std::vector<int64_t> key = key_of(number, frame);
  if (policy_.contains(key) || prepared_.contains(key)) {
    ++report.present;
    return {};
  }
  CUGRT_ASSIGN(std::vector<uint32_t> launches,
               choose_launches(frame, code_.executable(), region.index));
  auto topology = std::make_shared<const RegionClass>(
      make_region_class(frame, region.index, std::move(launches)));
  uint64_t bytes = options_.cost.bytes(topology->graph_node_count());
  uint64_t used = policy_.bytes() + prepared_.bytes();
  uint64_t left = options_.policy.budget_bytes - std::min(used, options_.policy.budget_bytes);
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
  if (bytes > left)
    return refuse(bytes > options_.policy.budget_bytes ? EagerReason::too_large
                                                       : EagerReason::budget_full);
  auto instance = GraphInstance::build(frame, code_, std::move(topology), stream);
  if (!instance.ok() && instance.status().code() == Code::out_of_device_memory)
    return refuse(EagerReason::no_memory);
  if (!instance.ok())
    return instance.take_status();
  // The upload must have ended before another stream launches it.
  CUGRT_TRY(stream.synchronize());
  if (!prepared_.put({number, std::move(key), bytes, std::move(*instance)}))
    return refuse(EagerReason::budget_full);
  ++report.built;
  report.built_bytes += bytes;
  return {};
}

/// Those that have become superfluous meanwhile, or do not fit any more, are destroyed.
void GraphCache::adopt_prepared() {
  for (PreparedInstance &prepared : prepared_.take()) {
    CachedRegion &region = regions_[prepared.region];
    if (policy_.contains(prepared.key) ||
        policy_.bytes() + prepared.bytes > options_.policy.budget_bytes)
      continue;
    const RegionClass &made = prepared.instance->topology();
    auto same = std::find_if(region.classes.begin(), region.classes.end(),
                             [&](const auto &known) { return known->launches == made.launches; });
    if (same == region.classes.end())
      same = region.classes.insert(same, prepared.instance->shared_topology());
    auto topology = static_cast<uint32_t>(same - region.classes.begin());
    keep(prepared.region, topology, prepared.key, prepared.bytes, std::move(prepared.instance));
    ++counters_.regions_prepared;
  }
}

} // namespace cugrt::runtime
