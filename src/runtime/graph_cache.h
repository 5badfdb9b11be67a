// Graph cache: the instances of all regions of a session, and the launch of a region through them.
//
// Every launch of a region counts once: built (a new instance), patched (fields set), hit (nothing
// to set) or eager. Used by the session's thread only.
#pragma once

#include "runtime/graph_instance.h"
#include "runtime/instance_policy.h"

namespace cugrt::runtime {

/// Totals of a session; see cugrt_counters.
struct Counters {
  uint64_t runs = 0;
  uint64_t regions_built = 0, regions_hit = 0, regions_patched = 0, regions_eager = 0;
  uint64_t fields_patched = 0, expressions_evaluated = 0, eager_steps = 0;
  uint64_t instances_evicted = 0, largest_nodes = 0, largest_edges = 0;
};

class GraphCache {
public:
  struct Options {
    PolicyOptions policy;
    InstanceCost cost;
    bool eager = false; // build nothing
  };

  GraphCache(const LoadedCode &code, Options options, Counters &counters);

  /// Makes room for the regions of a function; `frame` must outlive the cache. Returns the number
  /// of the first; the others follow.
  uint32_t add_function(const Frame &frame);

  /// Launches a region with what its frame holds. Context current.
  Status launch(uint32_t region, driver::StreamRef stream) {
    CachedRegion &cached = regions_[region];
    if (!cached.last || !cached.last->bound_to(*cached.frame)) [[unlikely]]
      return launch_changed(region, stream);
    CUGRT_TRY(launch_instance(cached, *cached.last, stream));
    ++counters_.regions_hit;
    return {};
  }

  /// Destroys the least recently used instance to make room on the device, waiting for `stream`,
  /// the one of the last launch, if it must. False when there is none. Context current.
  bool give_up_one(driver::StreamRef stream);

  /// All work of the session has ended.
  void all_done() { completed_ = launches_; }

  uint64_t instance_bytes() const { return policy_.bytes(); }
  size_t instance_count() const { return policy_.size(); }

  struct View {
    const Frame *frame;
    const plan::Region *region;
    const GraphInstance *instance;
  };
  /// The instances alive, by region and then in the order of their building.
  std::vector<View> instances() const;

private:
  struct CachedRegion {
    const Frame *frame;
    uint32_t index; // Function::regions
    const std::string *name;
    std::vector<uint32_t> choices; // steps that have variants, which tell classes apart
    GraphInstance *last = nullptr;
    std::vector<std::shared_ptr<const RegionClass>> classes;
  };
  struct Slot {
    uint32_t region = 0;
    uint64_t order = 0;
    std::unique_ptr<GraphInstance> instance;
  };

  Status launch_changed(uint32_t number, driver::StreamRef stream);
  Status launch_by_key(uint32_t number, driver::StreamRef stream);
  Status launch_moved(uint32_t number, driver::StreamRef stream);
  Status launch_eagerly(const CachedRegion &region, driver::StreamRef stream);
  Status launch_instance(CachedRegion &region, GraphInstance &instance, driver::StreamRef stream) {
    instance.last_launch = ++launches_;
    return instance.launch(stream, *region.name);
  }
  Status build(uint32_t number, uint32_t topology, const InstancePolicy::Decision &decision,
               driver::StreamRef stream);
  Status rebind(uint32_t number, InstanceId id);
  void count(const PatchCounts &counts);
  Result<uint32_t> find_class(CachedRegion &region);
  void make_key(uint32_t number);
  void log_eager(const CachedRegion &region, const std::string &reason) const;
  void drop(InstanceId id);
  void drop_last(const CachedRegion &region);
  bool is_idle(InstanceId id, driver::StreamRef stream);

  const LoadedCode &code_;
  Options options_;
  Counters &counters_;
  InstancePolicy policy_;
  std::vector<CachedRegion> regions_;
  std::vector<Slot> slots_;      // by InstanceId
  std::vector<int64_t> key_;     // scratch
  std::vector<uint32_t> chosen_; // likewise
  LaunchScratch scratch_;
  uint64_t launches_ = 0, completed_ = 0, built_ = 0;
};

} // namespace cugrt::runtime
