// Nodes by their kind: how each is added to the template graph, in the order of the region's steps,
// and how it is set in an instance; see graph_instance.h.
//
//   step              added as              set by
//   kernel            a kernel node         its parameters; of none to launch: disabled
//   copy, fill        a kernel node of      likewise
//                     ours
//   copy, fill,       a copy or fill node   nothing: no field can change
//   fixed
//   condition, set    a kernel node         its parameters
//   conditional       two nodes or three    the parameters of the kernel
//   empty             an empty node; in     nothing
//                     bodies of older
//                     drivers a kernel
//
// A conditional's step is two nodes, or three: a kernel of ours sets the condition from device
// memory, and the conditional node follows it. Where the driver knows no else, a second node with
// the opposite condition follows the first. What comes after waits for the last.
//
//   ──▸ control_set ──▸ IF { then } ──▸ IF { else } ──▸
#include "device/code/loaded_code.h"
#include "device/graph/graph_instance.h"

#include <map>

namespace cugrt::runtime {

class NodeAdder {
public:
  NodeAdder(GraphInstance &instance, const RunBinding &run, const LoadedCode &code)
      : instance_(instance), topology_(*instance.topology_), run_(run), code_(code),
        empty_bodies_(code.device().library().capabilities().empty_bodies),
        graphs_(topology_.levels.levels.size()), has_work_(graphs_.size()),
        may_change_dims_(topology_.node_count()) {
    graphs_[0] = instance.graph_.ref();
    for (const TopologyClass::Input &input : topology_.inputs)
      for (uint32_t number : topology_.numbers(input.dims))
        for (const TopologyClass::Use &use : topology_.uses_of(topology_.dims[number]))
          may_change_dims_[use.node] = true;
    ends_.reserve(topology_.node_count());
    instance.nodes_.reserve(topology_.node_count());
  }

  Status run() {
    if (instance_.timed_)
      CUGRT_TRY(record(instance_.origin_, {}, "begin", origin_));
    for (uint32_t node = 0; node < topology_.node_count(); ++node) {
      if (topology_.left_out[node]) {
        instance_.nodes_.emplace_back();
        ends_.emplace_back();
        continue;
      }
      find_predecessors(node);
      if (Status added = add(node); !added.ok())
        return instance_.attribute(std::move(added), run_, node, "node");
      if (instance_.timed_ && level(node) == 0)
        CUGRT_TRY(record(instance_.ended_[node], std::span(&ends_.back(), 1), step(node).name,
                         ends_.back()));
    }
    CUGRT_TRY(fill_bodies());
    if (instance_.verified_) {
      instance_.graphs_ = graphs_;
      instance_.ends_ = ends_;
    }
    return {};
  }

private:
  struct Handles {
    CUgraphConditionalHandle first = 0, other = 0;
  };

  const StepVariant &variant_of(uint32_t node) const {
    return run_.program.variants[topology_.variants[node]];
  }
  const plan::Step &step(uint32_t node) const { return run_.function.steps[variant_of(node).step]; }
  static bool is_empty(const StepVariant &variant) {
    return variant.kind == VariantKind::empty || variant.kind == VariantKind::left_out;
  }
  /// Something else stands in the place of a kernel that is not to run and cannot be disabled.
  bool stays_idle(uint32_t node) const {
    return !instance_.dims_[node].enabled && instance_.is_fixed(run_, node);
  }
  /// A node that records an event of its own; others wait for it in the place of `after`.
  Status record(driver::Event &event, driver::Dependencies after, const std::string &name,
                driver::GraphNode &made) {
    CUGRT_ASSIGN(event, driver::Event::create(code_.device().context(), driver::Event::Timing::on));
    const std::vector<driver::GraphNode> behind(after.begin(), after.end());
    CUGRT_ASSIGN(made, graphs_[0].add_event_record(event, behind, name));
    return {};
  }
  uint32_t level(uint32_t node) const { return topology_.levels.level_of[node]; }

  /// Drivers before 12.8 hang in a body without work, and one may be left without by disabling.
  Status fill_bodies() {
    for (uint32_t l = 1; l < graphs_.size() && !empty_bodies_; ++l)
      if (graphs_[l].get() && !has_work_[l])
        if (auto added = graphs_[l].add_kernel(nothing_, {}, "nothing"); !added.ok())
          return added.take_status();
    return {};
  }

  void find_predecessors(uint32_t node) {
    after_.clear();
    early_.clear();
    for (uint32_t i = topology_.first_predecessor[node]; i < topology_.first_predecessor[node + 1];
         ++i) {
      uint32_t from = topology_.predecessors[i];
      bool programmatic = topology_.programmatic[i] && !instance_.timed_ &&
                          code_.begins_early(variant_of(from), variant_of(node)) &&
                          !stays_idle(from) && !stays_idle(node);
      (programmatic ? early_ : after_).push_back(ends_[from]);
      if (programmatic) {
        instance_.early_.resize(topology_.predecessors.size());
        instance_.early_[i] = true;
      }
    }
    if (const uint32_t before = topology_.idle_lanes[node]; before != kNone)
      after_.push_back(ends_[before]);
    if (origin_ && level(node) == 0 && after_.empty())
      after_.push_back(origin_);
  }

  Status add(uint32_t node) {
    const std::string &name = step(node).name;
    const StepVariant &program = variant_of(node);
    const driver::GraphRef graph = graphs_[level(node)];
    if (program.kind == VariantKind::conditional)
      return add_conditional(node);
    if (program.kind == VariantKind::set_condition)
      set_handles(node, handles_.at(step(node).conditional));
    auto add_node = [&]() -> Result<driver::GraphNode> {
      const driver::Dependencies after = after_;
      const uint64_t *values = instance_.values_.data() + topology_.first_argument[node];
      const bool own_kind = program.fixed && program.kind != VariantKind::kernel;
      if (is_empty(program) && (level(node) == 0 || empty_bodies_))
        return graph.add_empty(after, name);
      if (stays_idle(node))
        return level(node) == 0 ? graph.add_empty(after, name)
                                : graph.add_kernel(nothing_, after, name);
      if (!own_kind)
        return graph.add_kernel(instance_.launch_params(run_, code_, node), after, name);
      if (program.kind == VariantKind::copy)
        return graph.add_memcpy(
            {.destination = values[0], .source = values[1], .size_bytes = values[2]}, after, name);
      return graph.add_memset(
          {.destination = values[0], .count = values[1], .value = static_cast<uint32_t>(values[2])},
          after, name);
    };
    CUGRT_ASSIGN(driver::GraphNode added, add_node());
    CUGRT_TRY(graph.add_programmatic_edges(early_, added));
    instance_.nodes_.push_back(added);
    ends_.push_back(added);
    if (instance_.dims_[node].enabled && !may_change_dims_[node])
      has_work_[level(node)] = true;
    return {};
  }

  void set_handles(uint32_t node, const Handles &handles) {
    uint64_t *values = instance_.values_.data() + topology_.first_argument[node];
    values[2] = handles.first;
    values[3] = handles.other;
  }

  Status add_conditional(uint32_t node) {
    const std::string &name = step(node).name;
    const driver::GraphRef graph = graphs_[level(node)];
    const plan::Conditional &conditional = run_.function.conditionals[step(node).conditional];
    const auto bodies = static_cast<uint32_t>(conditional.bodies.size());
    const bool split =
        bodies > 1 && !code_.device().library().capabilities().conditional_else_switch;
    Handles handles; // of the outermost graph: then they may be used at any depth
    CUGRT_ASSIGN(handles.first, graphs_[0].create_condition(0));
    if (split) {
      CUGRT_ASSIGN(handles.other, graphs_[0].create_condition(0));
    }
    handles_[step(node).conditional] = handles;
    set_handles(node, handles);
    CUGRT_ASSIGN(driver::GraphNode setter,
                 graph.add_kernel(instance_.launch_params(run_, code_, node), after_, name));
    instance_.nodes_.push_back(setter);
    has_work_[level(node)] = true;
    const auto type = conditional.kind == plan::ConditionalKind::while_ ? CU_GRAPH_COND_TYPE_WHILE
                                                                        : CU_GRAPH_COND_TYPE_IF;
    CUGRT_ASSIGN(driver::ConditionalNode first,
                 graph.add_conditional(handles.first, type, split ? 1 : bodies,
                                       std::span<const driver::GraphNode>(&setter, 1), name));
    ends_.push_back(first.node);
    take_bodies(node, 0, first);
    if (!split)
      return {};
    CUGRT_ASSIGN(driver::ConditionalNode other,
                 graph.add_conditional(handles.other, type, 1,
                                       std::span<const driver::GraphNode>(&first.node, 1), name));
    ends_.back() = other.node;
    take_bodies(node, 1, other);
    return {};
  }

  /// The bodies of `made` are those from `first` on of the conditional's.
  void take_bodies(uint32_t node, uint32_t first, const driver::ConditionalNode &made) {
    for (uint32_t l = 1; l < graphs_.size(); ++l) {
      const plan::RegionLevel &level = topology_.levels.levels[l];
      if (level.step == node && level.body >= first && level.body - first < made.bodies.size())
        graphs_[l] = made.bodies[level.body - first];
    }
  }

  GraphInstance &instance_;
  const TopologyClass &topology_;
  const RunBinding &run_;
  const LoadedCode &code_;
  const bool empty_bodies_;              // else a kernel that does nothing stands there
  std::vector<driver::GraphRef> graphs_; // of each level
  std::vector<bool> has_work_;           // of each level, whatever is disabled
  std::vector<bool> may_change_dims_;    // of each node
  const driver::LaunchParams nothing_{code_.nothing(), {}, {}, 0, nullptr, {}, code_.green()};
  driver::GraphNode origin_ = nullptr;  // what all nodes wait for, where they are timed
  std::vector<driver::GraphNode> ends_; // what stands for a node where others wait for it
  std::map<uint32_t, Handles> handles_; // by conditional
  // What the node that is being added waits for: whole, and up to a trigger.
  std::vector<driver::GraphNode> after_, early_;
};

driver::LaunchParams GraphInstance::launch_params(const RunBinding &run, const LoadedCode &code,
                                                  uint32_t node) {
  const StepVariant &variant = run.program.variants[topology_->variants[node]];
  driver::LaunchParams params;
  params.function = code.function(variant);
  params.grid = dims_[node].grid;
  params.block = dims_[node].block;
  params.dynamic_shared_bytes = dims_[node].shared_bytes;
  params.arguments = pointers_.data() + topology_->first_argument[node];
  params.attributes = code.attributes(variant);
  params.green = code.green();
  return params;
}

Status GraphInstance::add_nodes(const RunBinding &run, const LoadedCode &code) {
  return NodeAdder(*this, run, code).run();
}

// --- Setting ------------------------------------------------------------------------------------

/// Addresses only: each dependent argument moves by as much as its base.
Result<PatchCounts> GraphInstance::move_bases(const RunBinding &run) {
  changes_ = {run.moves.data(), run.move_count};
  driver::KernelSetter set = exec_.kernel_setter();
  BasePatch *patches = base_patches_.data();
  uint64_t fields = run.move_count;
  for (const InputChange *move = run.moves.data(), *end = move + run.move_count; move != end;
       ++move) {
    uint64_t by = move->by;
    BasePatch &patch = patches[move->input.index];
    if (!patch.value) [[unlikely]] {
      fields += move_several(*move) - 1;
      continue;
    }
    *patch.value += by;
    *patch.bound += by;
    if (!patch.alone || *patch.mark != 0) {
      if (*patch.mark != (kParams | kListed))
        touch(patch.number, kParams);
      continue;
    }
    CUresult result = set(patch.node, *patch.params);
    if (result != CUDA_SUCCESS) [[unlikely]]
      return setter_failure(result, run, patch.number);
  }
  CUGRT_TRY(apply(run));
  frame_serial_ = run.serial;
  return PatchCounts{fields, fields};
}

/// Returns the number of fields.
uint64_t GraphInstance::move_several(const InputChange &move) {
  const uint32_t input = input_of(move);
  if (input == kNone)
    return 0;
  inputs_[input] += move.by;
  uint64_t fields = 0;
  for (uint32_t number : topology_->numbers(topology_->inputs[input].values))
    for (const TopologyClass::Use &use : topology_->uses_of(topology_->values[number])) {
      values_[use.argument] += move.by;
      touch(use.node, kParams);
      ++fields;
    }
  return fields;
}

/// One setter for each touched node. A disabled node's parameters wait until it is enabled again:
/// its launch dimensions are not the ones that it will have.
Status GraphInstance::apply(const RunBinding &run) {
  driver::KernelSetter set = exec_.kernel_setter();
  const driver::GraphNode *nodes = nodes_.data();
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

/// Of a node that is, was or will be disabled.
Status GraphInstance::set_node(const RunBinding &run, uint32_t node) {
  const std::string &name = step_of(run, node).name;
  uint8_t marks = marks_[node];
  bool enabled = !(marks & kDisabled);
  if (enabled && (marks & kParams))
    if (CUresult result = exec_.kernel_setter()(nodes_[node], params_[node]);
        result != CUDA_SUCCESS)
      return setter_failure(result, run, node);
  if (marks & kEnabled)
    if (Status status = exec_.set_enabled(nodes_[node], enabled, name); !status.ok())
      return attribute(std::move(status), run, node, "patch");
  marks_[node] = enabled ? 0 : static_cast<uint8_t>(marks & (kParams | kDisabled));
  return {};
}

Status GraphInstance::setter_failure(CUresult result, const RunBinding &run, uint32_t node) const {
  const std::string &name = step_of(run, node).name;
  return attribute(exec_.setter_failure(result, name), run, node, "patch");
}

} // namespace cugrt::runtime
