// The nodes of an instance: the template graph, its executable form, and what each node is set to.
//
// GraphNodes owns both, since setters name the template's nodes. It adds each node once, as the
// instance's values are, and sets those whose values have changed. Graph objects are used by one
// thread at a time: the session's.
#pragma once

#include "device/driver/graph.h"
#include "device/graph/graph_values.h"

#include <optional>

namespace cugrt::runtime {

struct InstanceOptions {
  bool timed = false; // with events between the nodes
  int priority = 0; // of the kernels, as the driver counts; 0: of the stream that it is launched on
};

/// A template graph's nodes by number, and what was made beside them.
struct AddedNodes {
  std::vector<driver::GraphNode> nodes; // null: left out
  std::vector<bool> early;              // of each of the class's predecessors; empty: none
  std::vector<driver::GraphNode> ends;  // what stands for each node where others wait for it
  std::vector<driver::GraphRef> graphs; // of each level
  driver::Event origin;                 // of timed ones: recorded before all nodes,
  std::vector<driver::Event> ended;     // and behind each of the region's own graph
};

class GraphNodes {
public:
  /// The nodes' arguments lie in `values`, which outlive them. `fixed_bodies`: setters do not reach
  /// nodes in bodies, which are added as they will stay.
  GraphNodes(GraphValues &values, const InstanceOptions &options, bool fixed_bodies)
      : values_(values), options_(options), fixed_bodies_(fixed_bodies) {}

  /// Adds the nodes to a graph, instantiates it, and uploads it in stream order. Errors name the
  /// step. False: the driver was thought to set nodes in bodies and does not, which the device
  /// knows now; build others with fixed bodies.
  Result<bool> build(const RunBinding &run, driver::StreamRef stream);

  /// False where the driver's setters do not reach nodes in bodies, and these depend on what a run
  /// can change: such nodes stay as they were built.
  bool can_patch() const { return can_patch_; }
  /// Whether each node whose new dimensions enable or disable it can be enabled and disabled.
  bool can_take_over(const RunChanges &changes, const RunBinding &run) const;
  /// The values become the new ones, which the nodes are to have. Returns the number of fields.
  uint64_t take_over(const RunChanges &changes);
  /// One setter for each node that was touched. A disabled node's parameters wait until it is
  /// enabled again: its launch dimensions are not the ones that it will have. After an error the
  /// nodes are in no known state. Inlined into every run that changes something.
  [[gnu::always_inline]] Status set(const RunBinding &run) {
    driver::KernelSetter set = exec_.kernel_setter();
    const driver::GraphNode *nodes = added_.nodes.data();
    const driver::KernelNodeParams *params = params_.data();
    uint8_t *marks = marks_.data();
    const uint32_t *end = touched_.data() + std::exchange(touched_count_, 0);
    for (const uint32_t *node = touched_.data(); node != end; ++node) {
      if (marks[*node] != (kParams | kListed)) [[unlikely]] {
        CUGRT_TRY(set_node(run, *node));
        continue;
      }
      marks[*node] = 0;
      CUresult result = set(nodes[*node], params[*node]);
      if (result != CUDA_SUCCESS) [[unlikely]]
        return setter_failure(result, run, *node);
    }
    return {};
  }
  Status launch(driver::StreamRef stream, const std::string &name) const {
    return exec_.launch(stream, name);
  }

  /// The place of what a setter takes of a node; valid as long as the nodes.
  struct Place {
    const uint8_t *mark = nullptr;
    driver::GraphNode node = nullptr;
    const driver::KernelNodeParams *params = nullptr;
    uint32_t number = 0;
    /// Nothing has touched the node, which is enabled: a setter() may set it past set().
    bool is_clear() const { return *mark == 0; }
  };
  Place place_of(uint32_t node) const {
    return {&marks_[node], added_.nodes[node], &params_[node], node};
  }
  driver::KernelSetter setter() const { return exec_.kernel_setter(); }
  /// An argument of the node has changed, and set() is to come.
  void touch(const Place &place) {
    if (*place.mark != (kParams | kListed))
      touch(place.number);
  }
  void touch(uint32_t node) { touch(node, kParams); }
  Status setter_failure(CUresult result, const RunBinding &run, uint32_t node) const;

  /// Whether the node is as it will stay: enabled, or with what does nothing in its place.
  bool is_fixed(const RunBinding &run, uint32_t node) const;
  bool is_timed() const { return options_.timed; }
  driver::GraphRef graph() const { return graph_.ref(); }
  driver::GraphNode node(uint32_t number) const { return added_.nodes[number]; }
  /// For verifying nodes: the graph of each level, and the node that others wait for in the place
  /// of each one.
  std::span<const driver::GraphRef> graphs() const { return added_.graphs; }
  std::span<const driver::GraphNode> ends() const { return added_.ends; }
  /// Whether the class's predecessor number `edge` is joined by a programmatic edge.
  bool is_programmatic(size_t edge) const { return !added_.early.empty() && added_.early[edge]; }
  /// When a node of the region's own graph ended in the last launch, and when the last of what it
  /// waits for had, in microseconds from the graph's begin. Of timed ones whose launch has ended.
  struct Time {
    double begin_us = 0, end_us = 0;
  };
  std::optional<Time> time(uint32_t node) const;
  /// The node's id for profilers, as drivers of CUDA 13.1 and later give them.
  std::optional<uint64_t> tools_id(uint32_t node) const;

private:
  const TopologyClass &topology() const { return values_.topology(); }
  enum Mark : uint8_t {
    kParams = 1,   // parameters differ from the node's
    kEnabled = 2,  // the node is to be enabled or disabled
    kListed = 4,   // in touched_
    kDisabled = 8, // by its dimensions
  };
  void touch(uint32_t node, uint8_t what) {
    if (!(marks_[node] & kListed))
      touched_[touched_count_++] = node;
    marks_[node] |= static_cast<uint8_t>(what | kListed);
  }
  Status instantiate(const RunBinding &run);
  Result<bool> probe_bodies(const RunBinding &run);
  bool probes_bodies(const RunBinding &run, uint32_t node) const;
  Result<bool> disable_nodes(const RunBinding &run);
  Status set_node(const RunBinding &run, uint32_t node);

  GraphValues &values_;
  const InstanceOptions options_;
  const bool fixed_bodies_;
  bool can_patch_ = true;
  driver::Graph graph_;
  driver::GraphExec exec_;
  AddedNodes added_;
  std::vector<driver::KernelNodeParams> params_; // of each node, as the values are
  std::vector<uint8_t> marks_;                   // of each node: what set() has to do
  std::vector<uint32_t> touched_;                // nodes to look at in set(): the first ones
  size_t touched_count_ = 0;
};

/// Reads every node back from the driver, and compares it with what the plan says for the run: the
/// kernel, its launch dimensions and arguments, and the edges. The first difference is an error
/// that names step and field. Where Device::verifies_nodes() alone (graph_verify.cpp).
Status verify_nodes(const GraphValues &values, const GraphNodes &nodes, const RunBinding &run);

} // namespace cugrt::runtime
