// An instance of a region: the template graph that was built for it, its executable form, and a
// record of everything that its nodes are set to.
//
// An instance owns its template, since setters name the template's nodes. Graph objects are used by
// one thread at a time: the session's.
#pragma once

#include "device/context/instance_cost.h"
#include "device/driver/graph.h"
#include "device/graph/step_launch.h"
#include "device/graph/topology_class.h"

#include <memory>
#include <optional>

namespace cugrt::runtime {

/// What a rebind did.
struct PatchCounts {
  uint64_t fields = 0;    // node parameters that changed
  uint64_t evaluated = 0; // expressions and addresses that had to be computed for that
  bool rebuild = false;   // nothing is set: the run needs an instance of its own
};

struct InstanceOptions {
  bool timed = false; // with events between the nodes
  int priority = 0; // of the kernels, as the driver counts; 0: of the stream that it is launched on
};

class GraphInstance {
public:
  /// Builds node by node from the class and the run's values, instantiates, and uploads in stream
  /// order. Errors name the step.
  static Result<std::unique_ptr<GraphInstance>> build(const RunBinding &run, const LoadedCode &code,
                                                      std::shared_ptr<const TopologyClass> topology,
                                                      driver::StreamRef stream,
                                                      const InstanceOptions &options = {});

  /// Patches what differs between the run and what the instance is bound to. Where an expression
  /// has no value, or the run needs an instance of its own (PatchCounts::rebuild), it stays as it
  /// was; after an error of a setter it is not whole.
  Result<PatchCounts> rebind(const RunBinding &run, const LoadedCode &code);
  /// False: the instance is in no known state and must be destroyed.
  bool is_whole() const { return whole_; }
  bool bound_to(const RunBinding &run) const { return frame_serial_ == run.serial; }

  /// Whether nothing but the run's moves is between them and what the instance is bound to.
  bool can_move_bases(const RunBinding &run) const {
    return frame_serial_ == run.moves_since && can_patch_;
  }
  /// Reads every node back from the driver, and compares it with what the plan says for the run:
  /// the kernel, its launch dimensions and arguments, and the edges. The first difference is an
  /// error that names step and field. Of instances that are verified (Device::verifies_nodes())
  /// alone.
  Status verify(const RunBinding &run, const LoadedCode &code) const;
  bool is_verified() const { return verified_; }
  /// False where the driver's setters do not reach nodes in bodies, and these depend on what a run
  /// can change: such an instance stays as it was built.
  bool can_patch() const { return can_patch_; }
  /// As rebind(), when can_move_bases(), but the owner of a verified instance verifies it; after an
  /// error the instance must be destroyed.
  Result<PatchCounts> move_bases(const RunBinding &run);

  Status launch(driver::StreamRef stream, const std::string &name) const {
    return exec_.launch(stream, name);
  }

  /// An error of the launch right after rebind() or move_bases(), with what these changed.
  Status after_patch(Status status, const RunBinding &run) const;
  /// An error of the build that is to take this instance's place, with what it is bound to.
  Status instead(Status status, const RunBinding &run) const;

  const TopologyClass &topology() const { return *topology_; }
  std::shared_ptr<const TopologyClass> shared_topology() const { return topology_; }
  /// Takes an equal class in place of its own copy.
  void share_topology(std::shared_ptr<const TopologyClass> same) { topology_ = std::move(same); }
  const LaunchDims &dims(size_t node) const { return dims_[node]; }
  /// When a node of the region's own graph ended in the last launch, and when the last of what it
  /// waits for had, in microseconds from the graph's begin. Of instances that were built as timed,
  /// whose launch has ended.
  struct NodeTime {
    double begin_us = 0, end_us = 0;
  };
  std::optional<NodeTime> node_time(uint32_t node) const;
  /// The node's id for profilers, as drivers of CUDA 13.1 and later give them.
  std::optional<uint64_t> tools_id(uint32_t node) const;
  /// Whether the class's predecessor number `edge` is joined by a programmatic edge.
  bool is_programmatic(size_t edge) const { return !early_.empty() && early_[edge]; }
  /// The values of the key's symbols that the instance is bound to.
  std::span<const uint64_t> key() const { return {inputs_.data(), topology_->key_size}; }

  /// When the instance was last launched, by its owner's count.
  uint64_t last_launch = 0;

private:
  friend class NodeAdder;
  enum Mark : uint8_t {
    kParams = 1,   // parameters differ from the node's
    kEnabled = 2,  // the node is to be enabled or disabled
    kListed = 4,   // in touched_
    kDisabled = 8, // by its dimensions
  };

  /// What a base that moves changes, with addresses of the fields: what move_bases() reads.
  struct alignas(64) BasePatch {
    uint64_t *value = nullptr; // its only argument; null: there are none or several
    uint64_t *bound = nullptr; // in inputs_
    uint8_t *mark = nullptr;   // of the argument's node
    driver::GraphNode node = nullptr;
    const driver::KernelNodeParams *params = nullptr;
    uint32_t number = 0; // of the node
    bool alone = false;  // nothing else touches the node: it is set at once
  };

  GraphInstance() = default;
  void make_base_patches();
  Status verify_kernel(const RunBinding &run, const LoadedCode &code, uint32_t node) const;
  Status verify_transfer(const RunBinding &run, uint32_t node) const;
  Status verify_arguments(const RunBinding &run, uint32_t node, void *const *read) const;
  Status verify_edges(const RunBinding &run) const;
  Status differs(const RunBinding &run, uint32_t node, const std::string &what,
                 const std::string &read, const std::string &planned) const;
  const plan::Step &step_of(const RunBinding &run, uint32_t node) const;
  /// `value`: the one of the class's values that the error is about.
  Status attribute(Status status, const RunBinding &run, uint32_t node, const char *what,
                   const TopologyClass::Shared *value = nullptr) const;
  Status setter_failure(CUresult result, const RunBinding &run, uint32_t node) const;
  std::string changes_text(const RunBinding &run, uint32_t node,
                           const TopologyClass::Shared *value) const;
  uint32_t input_of(const InputChange &change) const;
  Status evaluate(const RunBinding &run, const LoadedCode &code);
  Status evaluate_constant(const RunBinding &run);
  void point_to_arguments(const RunBinding &run);
  Result<uint64_t> value_of(const RunBinding &run, const TopologyClass::Shared &shared) const;
  Result<LaunchDims> dims_of(const RunBinding &run, const LoadedCode &code,
                             const TopologyClass::Shared &shared) const;
  Status add_nodes(const RunBinding &run, const LoadedCode &code);
  bool probes_bodies(const RunBinding &run, uint32_t node) const;
  Status probe_bodies(const RunBinding &run, const LoadedCode &code);
  Status instantiate(const RunBinding &run);
  /// Whether the node is as it will stay: enabled, or with what does nothing in its place.
  bool is_fixed(const RunBinding &run, uint32_t node) const;
  Status disable_nodes(const RunBinding &run, const LoadedCode &code);
  Status reevaluate(const RunBinding &run, const LoadedCode &code);
  void take_over();
  Status reevaluate_value(const RunBinding &run, uint32_t number);
  Status reevaluate_dims(const RunBinding &run, const LoadedCode &code, uint32_t number);
  uint64_t move_several(const InputChange &move);
  Status apply(const RunBinding &run);
  Status set_node(const RunBinding &run, uint32_t node);
  void touch(uint32_t node, uint8_t what) {
    if (!(marks_[node] & kListed))
      touched_[touched_count_++] = node;
    marks_[node] |= static_cast<uint8_t>(what | kListed);
  }
  driver::LaunchParams launch_params(const RunBinding &run, const LoadedCode &code, uint32_t node);

  const LoadedCode *code_ = nullptr;
  bool fixed_bodies_ = false; // setters do not reach bodies: nodes there are as they will stay
  std::shared_ptr<const TopologyClass> topology_;
  driver::Graph graph_;
  driver::GraphExec exec_;
  std::vector<driver::GraphNode> nodes_;
  std::vector<bool> early_;      // of each of the class's predecessors; empty: none
  std::vector<uint64_t> inputs_; // what each of the class's inputs was when the nodes were set
  std::vector<uint64_t> values_; // of all nodes' arguments
  std::vector<void *> pointers_; // into values_, which never moves: to each argument
  std::vector<LaunchDims> dims_;
  std::vector<driver::KernelNodeParams> params_; // as of values_ and dims_
  std::vector<BasePatch> base_patches_;          // of each base
  std::vector<uint8_t> marks_;                   // of each node: what apply() has to do
  std::vector<uint32_t> touched_;                // nodes to look at in apply(): the first ones
  size_t touched_count_ = 0;
  uint64_t rebind_ = 0;                          // number of this one
  std::vector<uint64_t> value_seen_, dims_seen_; // of the class's values and dims: the last one
  PatchCounts counts_;                           // of this rebind
  std::vector<InputChange> compared_;            // likewise: the inputs that differ
  // Likewise, by number: the class's values and dims that become others.
  std::vector<std::pair<uint32_t, uint64_t>> new_values_;
  std::vector<std::pair<uint32_t, LaunchDims>> new_dims_;
  /// What the patch that is on its way, or the last one, changes: `compared_` or the run's moves.
  std::span<const InputChange> changes_;
  bool can_patch_ = true, whole_ = true;
  bool timed_ = false;
  driver::Event origin_;                 // of a timed one: recorded before all nodes,
  std::vector<driver::Event> ended_;     // and behind each of the region's own graph
  bool verified_ = false;                // after each patch
  std::vector<driver::GraphRef> graphs_; // of each level; where it is verified
  std::vector<driver::GraphNode> ends_;  // what stands for each node where others wait; likewise
  uint64_t frame_serial_ = 0;
};

} // namespace cugrt::runtime
