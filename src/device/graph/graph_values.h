// The values of an instance: what its nodes are to have, by the run that it is bound to.
//
// GraphValues owns the value of each of the class's inputs, of each argument of a node, and the
// launch dimensions of each node. compare() finds what a run makes of them, as a list of its own;
// take_over() puts that in their place.
#pragma once

#include "device/graph/step_launch.h"
#include "device/graph/topology_class.h"

#include <memory>

namespace cugrt::runtime {

/// The outcome of a rebind.
struct PatchCounts {
  uint64_t fields = 0;    // node parameters that changed
  uint64_t evaluated = 0; // expressions and addresses that had to be computed for that
  bool rebuild = false;   // nothing is set: the run needs an instance of its own
};

/// The changes that a run makes to an instance: the inputs that differ, and by number the class's
/// values and dims that differ with them. Whoever patches instances keeps one for all of them, so
/// that a patch takes no memory.
struct RunChanges {
  struct NewValue {
    uint32_t number;
    uint64_t value;
  };
  struct NewDims {
    uint32_t number;
    LaunchDims dims;
  };
  std::vector<InputChange> inputs;
  std::vector<NewValue> values;
  std::vector<NewDims> dims;
  uint64_t evaluated = 0; // expressions and addresses
  // Which comparison evaluated each value and dims last, since several inputs may change them.
  uint64_t comparison = 0;
  std::vector<uint64_t> value_seen, dims_seen;

  /// Has room for changes of the class's instances.
  void reserve(const TopologyClass &topology);
};

class GraphValues {
public:
  GraphValues(const LoadedCode &code, std::shared_ptr<const TopologyClass> topology)
      : code_(code), topology_(std::move(topology)) {}
  GraphValues(const GraphValues &) = delete; // pointers lead into it

  /// All of them, once; the other functions come after it. Errors name the step.
  Status evaluate(const RunBinding &run);
  /// Evaluates what depends on inputs that differ in the run. The values stay as they are.
  /// `changes` has room for the class, and becomes what the patch on its way changes.
  Status compare(const RunBinding &run, RunChanges &changes);
  /// Puts the values that compare() found into place. Returns the number of fields. Calls
  /// `argument` with each node that has another value, a node possibly several times, and `dims`
  /// with each node, its dimensions and whether these enable or disable it.
  template <class Argument, class Dims>
  uint64_t take_over(const RunChanges &changes, Argument argument, Dims dims) {
    for (const InputChange &change : changes.inputs)
      inputs_[input_of(change)] += change.by;
    uint64_t fields = 0;
    for (const RunChanges::NewValue &now : changes.values) {
      const std::span<const TopologyClass::Use> uses =
          topology_->uses_of(topology_->values[now.number]);
      for (const TopologyClass::Use &use : uses) {
        arguments_[use.argument] = now.value;
        argument(use.node);
      }
      fields += uses.size();
    }
    for (const RunChanges::NewDims &now : changes.dims) {
      const std::span<const TopologyClass::Use> uses =
          topology_->uses_of(topology_->dims[now.number]);
      const bool switched = now.dims.enabled != dims_[uses[0].node].enabled;
      for (const TopologyClass::Use &use : uses) {
        dims_[use.node] = now.dims;
        dims(use.node, now.dims, switched);
      }
      fields += uses.size() * (size_t(switched) + size_t(now.dims.enabled));
    }
    return fields;
  }

  /// Where a base's address is, and the argument that moves with it; valid as long as the values.
  struct BasePlace {
    uint64_t *value = nullptr; // its only argument; null: there are none or several
    uint64_t *bound = nullptr; // the input
    uint32_t node = 0;         // that has the argument
  };
  BasePlace place_of(const TopologyClass::BaseUse &base);
  /// Arguments move by as much as the base does, and `argument` is called with their nodes. Returns
  /// the number of fields.
  template <class Argument> uint64_t move(const InputChange &change, Argument argument) {
    const uint32_t input = input_of(change);
    if (input == kNone)
      return 0;
    inputs_[input] += change.by;
    uint64_t fields = 0;
    for (uint32_t number : topology_->numbers(topology_->inputs[input].values))
      for (const TopologyClass::Use &use : topology_->uses_of(topology_->values[number])) {
        arguments_[use.argument] += change.by;
        argument(use.node);
        ++fields;
      }
    return fields;
  }
  /// The changes of the patch on its way, for errors; empty: there is none.
  void set_changes(std::span<const InputChange> changes) { changes_ = changes; }

  const LoadedCode &code() const { return code_; }
  const TopologyClass &topology() const { return *topology_; }
  const std::shared_ptr<const TopologyClass> &shared_topology() const { return topology_; }
  /// Takes an equal class in place of its own copy.
  void share_topology(std::shared_ptr<const TopologyClass> same) { topology_ = std::move(same); }
  /// The values of the key's symbols.
  std::span<const uint64_t> key() const { return {inputs_.data(), topology_->key_size}; }
  const LaunchDims &dims(size_t node) const { return dims_[node]; }
  /// A node's arguments, in the order of its variant's sources.
  uint64_t *arguments(uint32_t node) { return &arguments_[topology_->first_argument[node]]; }
  const uint64_t *arguments(uint32_t node) const {
    return arguments_.data() + topology_->first_argument[node];
  }
  /// The parameters in the form that a launch takes.
  driver::LaunchParams launch_params(const RunBinding &run, uint32_t node);
  const StepVariant &variant_of(const RunBinding &run, uint32_t node) const {
    return run.program.variants[topology_->variants[node]];
  }
  const plan::Step &step_of(const RunBinding &run, uint32_t node) const {
    return run.function.steps[variant_of(run, node).step];
  }

  /// An error about one node, with its step's place in the module, the symbols that its fields
  /// depend on and, while a change is on its way, their old and new values; about `value`, one of
  /// the class's, with what that one depends on.
  Status attribute(Status status, const RunBinding &run, uint32_t node, const char *what,
                   const TopologyClass::Shared *value = nullptr) const;
  /// An error of the launch right after a patch, with the changes of that.
  Status after_patch(Status status, const RunBinding &run,
                     std::span<const InputChange> changes) const;
  /// Adds to the error of a failed rebuild which inputs differ between this instance and the run.
  Status instead(Status status, const RunBinding &run) const;

private:
  Status evaluate_constant(const RunBinding &run);
  void point_to_arguments(const RunBinding &run);
  Result<uint64_t> value_of(const RunBinding &run, const TopologyClass::Shared &shared) const;
  Result<LaunchDims> dims_of(const RunBinding &run, const TopologyClass::Shared &shared) const;
  Status compare_value(const RunBinding &run, uint32_t number, RunChanges &changes) const;
  Status compare_dims(const RunBinding &run, uint32_t number, RunChanges &changes) const;
  std::string changes_text(const RunBinding &run, uint32_t node,
                           const TopologyClass::Shared *value) const;
  uint32_t input_of(const InputChange &change) const;

  const LoadedCode &code_;
  std::shared_ptr<const TopologyClass> topology_;
  std::vector<uint64_t> inputs_;    // what each of the class's inputs was when the nodes were set
  std::vector<uint64_t> arguments_; // of all nodes
  std::vector<void *> pointers_;    // into arguments_, which never moves: to each argument
  std::vector<LaunchDims> dims_;    // of each node
  /// The changes of the patch that is on its way; else empty.
  std::span<const InputChange> changes_;
};

} // namespace cugrt::runtime
