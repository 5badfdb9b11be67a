// Adding of an instance's nodes to its template graph, node by node in the order of the region's
// steps; see graph_instance.h.
//
// A conditional's step is two nodes, or three: a kernel of ours sets the condition from device
// memory, and the conditional node follows it. Where the driver knows no else, a second node with
// the opposite condition follows the first. Setters are for the kernel; what comes after waits for
// the last.
//
//   ──▸ control_set ──▸ IF { then } ──▸ IF { else } ──▸
#include "driver/driver_error.h"
#include "runtime/graph_instance.h"
#include "runtime/loaded_code.h"
#include "support/check.h"

#include <map>

namespace cugrt::runtime {

class NodeAdder {
public:
  NodeAdder(GraphInstance &instance, const Frame &frame, const LoadedCode &code)
      : instance_(instance), topology_(*instance.topology_), frame_(frame), code_(code),
        empty_bodies_(code.device().library().capabilities().empty_bodies),
        graphs_(topology_.levels.levels.size()) {
    graphs_[0] = instance.graph_.ref();
    ends_.reserve(topology_.node_count());
    instance.nodes_.reserve(topology_.node_count());
  }

  Status run() {
    for (uint32_t node = 0; node < topology_.node_count(); ++node) {
      if (topology_.left_out[node]) {
        instance_.nodes_.emplace_back();
        ends_.emplace_back();
        continue;
      }
      find_predecessors(node);
      if (Status added = add(node); !added.ok())
        return instance_.attribute(std::move(added), frame_, node, "node");
    }
    return {};
  }

private:
  struct Handles {
    CUgraphConditionalHandle first = 0, other = 0;
  };

  const LaunchProgram &launch(uint32_t node) const {
    return frame_.program.launches[topology_.launches[node]];
  }
  const plan::Step &step(uint32_t node) const { return frame_.function.steps[launch(node).step]; }
  static bool is_empty(const LaunchProgram &launch) {
    return launch.kind == LaunchKind::empty || launch.kind == LaunchKind::left_out;
  }
  uint32_t level(uint32_t node) const { return topology_.levels.level_of[node]; }

  void find_predecessors(uint32_t node) {
    after_.clear();
    data_.clear();
    bool early = false;
    for (uint32_t i = topology_.first_predecessor[node]; i < topology_.first_predecessor[node + 1];
         ++i) {
      uint32_t from = topology_.predecessors[i];
      bool programmatic =
          topology_.programmatic[i] && code_.begins_early(launch(from), launch(node));
      after_.push_back(ends_[from]);
      data_.push_back(programmatic ? driver::programmatic_edge() : driver::full_edge());
      if (programmatic) {
        early = true;
        instance_.early_.resize(topology_.predecessors.size());
        instance_.early_[i] = true;
      }
    }
    if (!early)
      data_.clear(); // older drivers take no data
  }

  Status add(uint32_t node) {
    const std::string &name = step(node).name;
    const LaunchProgram &program = launch(node);
    const driver::GraphRef graph = graphs_[level(node)];
    if (program.kind == LaunchKind::conditional)
      return add_conditional(node);
    if (program.kind == LaunchKind::set_condition)
      set_handles(node, handles_.at(step(node).conditional));
    auto add_node = [&]() -> Result<driver::GraphNode> {
      driver::Dependencies after{after_, data_};
      const uint64_t *values = instance_.values_.data() + topology_.first_argument[node];
      const bool own_kind = program.fixed && program.kind != LaunchKind::kernel;
      if (is_empty(program) && (level(node) == 0 || empty_bodies_))
        return graph.add_empty(after, name);
      if (!own_kind)
        return graph.add_kernel(instance_.launch_params(frame_, code_, node), after, name);
      if (program.kind == LaunchKind::copy)
        return graph.add_memcpy(
            {.destination = values[0], .source = values[1], .size_bytes = values[2]}, after, name);
      return graph.add_memset(
          {.destination = values[0], .count = values[1], .value = static_cast<uint32_t>(values[2])},
          after, name);
    };
    CUGRT_ASSIGN(driver::GraphNode added, add_node());
    instance_.nodes_.push_back(added);
    ends_.push_back(added);
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
    const plan::Conditional &conditional = frame_.function.conditionals[step(node).conditional];
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
                 graph.add_kernel(instance_.launch_params(frame_, code_, node),
                                  driver::Dependencies(after_), name));
    instance_.nodes_.push_back(setter);
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
  const RegionClass &topology_;
  const Frame &frame_;
  const LoadedCode &code_;
  const bool empty_bodies_;              // else a kernel that does nothing stands there
  std::vector<driver::GraphRef> graphs_; // of each level
  std::vector<driver::GraphNode> ends_;  // what stands for a node where others wait for it
  std::map<uint32_t, Handles> handles_;  // by conditional
  std::vector<driver::GraphNode> after_; // of the node that is being added
  std::vector<CUgraphEdgeData> data_;    // likewise
};

Status GraphInstance::add_nodes(const Frame &frame, const LoadedCode &code) {
  return NodeAdder(*this, frame, code).run();
}

} // namespace cugrt::runtime
