// Graph cache: the instances of all regions of a session, and the launch of a region through them.
//
// Every launch of a region counts once: built (a new instance), patched (fields set), hit (nothing
// to set) or eager. Used by the session's thread only.
#pragma once

#include "device/graph/graph_instance.h"
#include "device/graph/instance_policy.h"
#include "device/graph/launch_log.h"
#include "device/graph/prepared_instances.h"
#include "device/graph/topology_classes.h"

namespace cugrt::runtime {

/// Totals of a session; see cugrt_counters.
struct Counters {
  uint64_t runs = 0;
  uint64_t regions_prepared = 0; // instances that were made ahead
  uint64_t regions_built = 0, regions_hit = 0, regions_patched = 0, regions_eager = 0;
  uint64_t fields_patched = 0, expressions_evaluated = 0, eager_steps = 0;
  uint64_t instances_evicted = 0, largest_nodes = 0, largest_edges = 0;
  /// Indexed by EagerReason: counts launches of regions, and steps for those outside of regions.
  std::array<uint64_t, kEagerReasons> eager{};
};

class GraphCache {
public:
  struct Options {
    PolicyOptions policy;
    InstanceCost cost;
    bool eager = false; // build nothing
    InstanceOptions instances;
    bool strict = false; // what is not launched as part of a graph is an error
  };

  /// Frees device memory by giving up an instance, of this cache or another; false if there is
  /// none.
  using GiveUp = std::function<bool()>;

  /// `counters` and `log` outlive the cache.
  GraphCache(const LoadedCode &code, Options options, Counters &counters, LaunchLog &log,
             GiveUp give_up);

  /// Adds the regions of a function; `run` must outlive the cache. Returns the number of the first;
  /// the others follow.
  uint32_t add_function(const RunBinding &run);

  /// Launches a region with the run's binding. Context current. Bypasses the log, which
  /// launch_logged() keeps. Inlined into every run, however many files are compiled together.
  [[gnu::always_inline]] Status launch(uint32_t region, driver::StreamRef stream) {
    CachedRegion &cached = regions_[region];
    if (!cached.last || !cached.last->bound_to(*cached.run)) [[unlikely]]
      return launch_changed(region, stream);
    cached.last->last_launch = ++launches_;
    CUGRT_TRY(cached.last->launch(stream, *cached.name));
    ++counters_.regions_hit;
    return {};
  }
  Status launch_logged(uint32_t region, driver::StreamRef stream);
  /// Launches one step alone, for `reason`. Context current.
  Status launch_step(const RunBinding &run, uint32_t step, EagerReason reason,
                     driver::StreamRef stream);
  /// Fails in strict mode, since the plan has the step outside of regions.
  Status check_outside(const RunBinding &run, uint32_t step) const;
  /// Fails in strict mode if the driver cannot build the region as a graph.
  Status check_region(uint32_t region) const;
  bool strict() const { return options_.strict; }
  /// From now on launches make no instance; they patch existing ones, prepared ones too.
  void seal() {
    adopt_prepared();
    sealed_.store(true, std::memory_order_relaxed);
  }
  bool sealed() const { return sealed_.load(std::memory_order_relaxed); }
  /// Sets the priority of later instances, as the driver counts.
  void set_priority(int priority) { options_.instances.priority = priority; }
  /// Fails in strict mode: `what` cannot be in a graph.
  Status check_strict(const std::string &what, EagerReason reason,
                      const std::string &detail = "") const;

  /// Makes an instance for the region's key in `run`, a run of the caller's own, unless there is
  /// one. Uploads it on `stream` and leaves it for the next launch that needs one. Adds to the
  /// report. Any thread. Context current.
  Status prepare(uint32_t region, const RunBinding &run, driver::StreamRef stream,
                 PrepareReport &report);
  /// Takes in the instances that prepare() has made.
  void adopt_prepared();

  /// Adds function, region and key to an error of a region's launch.
  Status attribute(uint32_t region, Status status) const;

  /// Destroys the least recently used instance, also one made ahead. If its work may not have
  /// ended, `wait` first waits for all of the session's work. False if that failed. Context
  /// current.
  bool give_up_oldest(const std::function<Status()> &wait);

  /// Destroys all instances, also those made ahead, because their addresses have moved. All work
  /// has ended, and no thread prepares any.
  void drop_all();

  /// All work of the session has ended.
  void all_done() { completed_ = launches_; }

  const InstanceCost &cost() const { return options_.cost; }
  uint64_t instance_bytes() const { return policy_.bytes(); }
  size_t instance_count() const { return policy_.size(); }

  struct View {
    const RunBinding *run;
    const plan::Region *region;
    const GraphInstance *instance;
  };
  /// The instances alive, by region and then in the order of their building.
  std::vector<View> instances() const;

private:
  struct CachedRegion {
    const RunBinding *run;
    uint32_t index; // Function::regions
    const std::string *name;
    std::vector<uint32_t>
        choices;     // steps whose launch rules have conditions, which tell classes apart
    bool has_bodies; // conditional nodes
    bool has_cooperative_bodies;
    GraphInstance *last = nullptr;
    std::unique_ptr<TopologyClasses> classes;
  };
  struct CachedInstance {
    uint32_t region = 0;
    uint64_t order = 0;
    std::unique_ptr<GraphInstance> instance;
  };

  Status launch_changed(uint32_t number, driver::StreamRef stream);
  Status launch_by_key(uint32_t number, driver::StreamRef stream);
  /// "region main.0 (3 steps from 'add0')"
  static std::string region_text(const CachedRegion &region);
  Status launch_eagerly(const CachedRegion &region, EagerReason reason, driver::StreamRef stream);
  Status launch_instance(CachedRegion &region, GraphInstance &instance, driver::StreamRef stream);
  Status build(uint32_t number, const TopologyClasses::Known &topology,
               InstancePolicy::Decision decision, driver::StreamRef stream);
  /// Counts to add once the region is launched.
  struct Rebound {
    bool built = false; // anew
    PatchCounts counts;
  };
  Result<Rebound> rebind(uint32_t number, InstanceId id, driver::StreamRef stream);
  Status rebuild(uint32_t number, InstanceId id, driver::StreamRef stream);
  Status refuse_sealed(uint32_t number) const;
  Status launch_steps(const RunBinding &run, Range steps, EagerReason reason,
                      driver::StreamRef stream);
  Status launch_logged_step(const RunBinding &run, uint32_t step, EagerReason reason,
                            driver::StreamRef stream);
  std::string unbounded_symbol(const RunBinding &run, uint32_t step) const;
  /// Adds its step's place in the module to an error.
  Status at_step(Status status, const RunBinding &run, uint32_t step) const;
  Status launch_conditional(const RunBinding &run, uint32_t step, EagerReason reason,
                            driver::StreamRef stream);
  void count(const PatchCounts &counts);
  void count_built();
  Result<TopologyClasses::Known> find_class(CachedRegion &region);
  void find_key(uint32_t number, const RunBinding &run, std::vector<int64_t> &key) const;
  /// Keeps an instance for `key`.
  GraphInstance *keep(uint32_t number, uint64_t topology, std::span<const int64_t> key,
                      BudgetShare room, std::unique_ptr<GraphInstance> instance);
  uint32_t uses_to_earn(const TopologyClass &topology) const;
  /// The field that the present launch writes its time to; null without a log.
  int64_t *timed(int64_t LaunchRecord::*field) { return record_ ? &(record_->*field) : nullptr; }
  void drop(InstanceId id);
  void drop_last(const CachedRegion &region);
  std::optional<InstanceId> oldest() const;
  bool is_idle(InstanceId id, driver::StreamRef stream);
  /// Whether the driver can build the region as a graph.
  bool can_build(const CachedRegion &region) const;

  const LoadedCode &code_;
  Options options_;
  Counters &counters_;
  LaunchLog &log_;
  GiveUp give_up_;
  LaunchRecord *record_ = nullptr; // of the launch that is on its way
  InstancePolicy policy_;
  PreparedInstances prepared_;
  std::vector<CachedRegion> regions_;
  std::vector<CachedInstance> cached_; // by InstanceId
  std::vector<int64_t> key_;           // scratch
  std::vector<uint32_t> chosen_;       // likewise
  LaunchScratch scratch_;
  RunChanges changes_; // likewise
  uint64_t launches_ = 0, completed_ = 0, built_ = 0, classes_ = 0;
  std::atomic<bool> sealed_ = false; // any thread asks
};

} // namespace cugrt::runtime
