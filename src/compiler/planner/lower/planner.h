// The planner: kernel-level IR in, plan and report out. A pure, deterministic function.
#pragma once

#include "compiler/planner/storage/fronts.h"
#include "ir/module/module.h"
#include "plan/format/plan.h"

namespace cugrt::plan {

/// Rules that make static regions.
enum class Policy : uint8_t {
  patch,     // callers' buffers are slots; only true dynamism ends a region
  published, // the published rules: steps on callers' buffers and output storage stay outside
};

struct PlannerOptions {
  Policy policy = Policy::patch;
  bool regions = true;               // off: every step is run eagerly
  std::string target{};              // named profile, kept in the plan
  uint32_t max_region_nodes = 10000; // steps; at most kMaxRegionNodes
  uint32_t max_lanes = 0;            // steps of a region side by side, 1 to 32; 0: no limit
  /// Under policy patch, branches and loops over device scalars become conditional nodes of the
  /// region around them, where nothing in them needs the host; off: the host runs all of them.
  bool conditional_nodes = true;
  bool cooperative_bodies = false; // what is launched cooperatively may be in them
  /// Edges between kernels that are written with wait and trigger are marked as programmatic.
  bool programmatic_edges = true;
};

/// The choices that follow from the policy and other options. No later part asks for the policy.
struct PlanningChoices {
  bool published_regions;  // by the published rules; else only true dynamism ends a region
  bool inlines_calls;      // before storage is planned; else calls stay
  bool moves_steps;        // into the region before them, where nothing between is in the way
  bool reorders_nodes;     // of a region; else they keep the program's order
  bool programmatic_edges; // are marked, and kernels that are written for them chosen
  bool offsets_by_bucket;  // of planned tensors; else one number holds in all buckets
  Reuse reuse;             // what storage may take for steps to run side by side
};

PlanningChoices choices_of(const PlannerOptions &options);

/// A call whose callee's bindings stand in its place.
struct CallNote {
  std::string callee;      // without @
  SourceLocation location; // of the call
};

/// The calls that something came from, innermost first: the first ones, and how many more there
/// are.
struct CallChain {
  static constexpr size_t kMaxCalls = 8;
  std::vector<CallNote> calls;
  uint32_t more = 0;
};

/// Why a binding is, or is not, in a region: for people. A call that was inlined has a note too.
struct BindingNote {
  uint32_t function = 0;
  SourceLocation location;
  std::string binding;     // as printed
  uint32_t region = kNone; // of the function
  std::string reason;      // in words: the rule that put it there or kept it out
  CallChain from{};
};

/// One planned tensor's place, for storage tables and drawings. Times count steps, half-open.
struct StorageNote {
  uint32_t function = 0;
  std::string name, scope;
  std::string bucket{}; // "n_bucket = 8", where each bucket has offsets of its own; else empty
  int64_t offset_bytes = 0, bytes = 0;
  uint32_t first_step = 0, end_step = 0;
  std::vector<std::pair<uint32_t, uint32_t>>
      gaps{};       // steps between, when others may have its bytes
  CallChain from{}; // of its binding
};

struct EdgeNote {
  uint32_t function = 0, region = 0;
  Edge edge;
  std::string reason; // "RAW %lv0 [0, 4096) of arena global"
};

struct PlanReport {
  std::vector<BindingNote> bindings;
  std::vector<StorageNote> storages;
  std::vector<EdgeNote> edges;
  int64_t storage_before_bytes = 0; // one allocation for each storage, no sharing between functions
};

/// Plans a verified kernel-level module (no tensor-level ops). Errors: verify_error with the
/// location, naming an op that was not legalized, a symbol without the bound that sizing the arena
/// needs, or recursion; out_of_range for sizes that overflow.
Result<Plan> make_plan(const ir::Module &module, const PlannerOptions &options,
                       PlanReport *report = nullptr);

} // namespace cugrt::plan
