// An instance of a region: the graph that was built for it, and the run that the graph is bound to.
//
// GraphInstance owns the values (graph_values.h) and the nodes that have them (graph_nodes.h), and
// brings both to what a run changes:
//
//                 what changed       evaluated            set
//   rebind        every input        what depends on it   nodes with other values
//   move_bases    the run's moves    nothing: arguments   the arguments' nodes
//                                    move with a base
#pragma once

#include "device/context/instance_cost.h"
#include "device/graph/graph_nodes.h"

namespace cugrt::runtime {

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
  /// was; after an error of a setter it is not whole. `changes` is as compare() wants it.
  Result<PatchCounts> rebind(const RunBinding &run, RunChanges &changes);
  /// False: the instance is in no known state and must be destroyed.
  bool is_whole() const { return whole_; }
  bool bound_to(const RunBinding &run) const { return frame_serial_ == run.serial; }

  /// Whether the run's moves are the only changes since the run that the instance is bound to.
  bool can_move_bases(const RunBinding &run) const {
    return frame_serial_ == run.moves_since && nodes_.can_patch();
  }
  /// Rebinds where can_move_bases(); after an error the instance must be destroyed.
  Result<PatchCounts> move_bases(const RunBinding &run);

  Status launch(driver::StreamRef stream, const std::string &name) const {
    return nodes_.launch(stream, name);
  }

  const GraphValues &values() const { return values_; }
  const GraphNodes &nodes() const { return nodes_; }
  const TopologyClass &topology() const { return values_.topology(); }
  /// Takes an equal class in place of its own copy.
  void share_topology(std::shared_ptr<const TopologyClass> same) {
    values_.share_topology(std::move(same));
  }

  /// When the instance was last launched, by its owner's count.
  uint64_t last_launch = 0;

private:
  /// The fields that a moved base changes, by their addresses; move_bases() reads them.
  struct alignas(64) BasePatch {
    GraphValues::BasePlace base;
    GraphNodes::Place node; // of its only argument
    bool alone = false;     // nothing else touches the node: it is set at once
  };

  GraphInstance(const LoadedCode &code, std::shared_ptr<const TopologyClass> topology,
                const InstanceOptions &options, bool fixed_bodies);
  void make_base_patches();
  Result<PatchCounts> patch(const RunBinding &run, RunChanges &changes);
  Status verify(const RunBinding &run) const { return verify_nodes(values_, nodes_, run); }

  uint64_t frame_serial_ = 0;
  bool whole_ = true;
  const bool verified_; // after each patch
  GraphValues values_;
  GraphNodes nodes_;
  std::vector<BasePatch> base_patches_; // of each base
};

} // namespace cugrt::runtime
