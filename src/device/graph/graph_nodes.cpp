// Nodes by their kind: how each is added to the template graph, in the order of the region's steps,
// and how it is set in an instance; see graph_nodes.h.
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
#include "device/graph/graph_nodes.h"

#include "device/code/loaded_code.h"
#include "device/driver/driver_error.h"

#include <map>

namespace cugrt::runtime {

namespace {

/// NodeAdder adds the nodes of `owner` to its graph, and gives what it has made.
class NodeAdder {
public:
  NodeAdder(const GraphNodes &owner, GraphValues &values, const RunBinding &run)
      : owner_(owner), values_(values), topology_(values.topology()), run_(run),
        code_(values.code()), empty_bodies_(code_.device().library().capabilities().empty_bodies),
        graphs_(topology_.levels.levels.size()), has_work_(graphs_.size()),
        may_change_dims_(topology_.node_count()) {
    graphs_[0] = owner.graph();
    for (const TopologyClass::Input &input : topology_.inputs)
      for (uint32_t number : topology_.numbers(input.dims))
        for (const TopologyClass::Use &use : topology_.uses_of(topology_.dims[number]))
          may_change_dims_[use.node] = true;
    ends_.reserve(topology_.node_count());
    made_.nodes.reserve(topology_.node_count());
    made_.ended.resize(owner.is_timed() ? topology_.node_count() : 0);
  }

  Result<AddedNodes> run() {
    if (owner_.is_timed())
      CUGRT_TRY(record(made_.origin, {}, "begin", origin_));
    for (uint32_t node = 0; node < topology_.node_count(); ++node) {
      if (topology_.left_out[node]) {
        made_.nodes.emplace_back();
        ends_.emplace_back();
        continue;
      }
      find_predecessors(node);
      if (Status added = add(node); !added.ok())
        return values_.attribute(std::move(added), run_, node, "node");
      if (owner_.is_timed() && level(node) == 0)
        CUGRT_TRY(
            record(made_.ended[node], std::span(&ends_.back(), 1), step(node).name, ends_.back()));
    }
    CUGRT_TRY(fill_bodies());
    if (code_.device().verifies_nodes()) {
      made_.graphs = std::move(graphs_);
      made_.ends = std::move(ends_);
    }
    return std::move(made_);
  }

private:
  struct Handles {
    CUgraphConditionalHandle first = 0, other = 0;
  };

  const StepVariant &variant_of(uint32_t node) const { return values_.variant_of(run_, node); }
  const plan::Step &step(uint32_t node) const { return values_.step_of(run_, node); }
  static bool is_empty(const StepVariant &variant) {
    return variant.kind == VariantKind::empty || variant.kind == VariantKind::left_out;
  }
  /// Whether a node that does nothing replaces a kernel that is not to run and cannot be disabled.
  bool stays_idle(uint32_t node) const {
    return !values_.dims(node).enabled && owner_.is_fixed(run_, node);
  }
  /// Adds a node that records an event of its own; later nodes wait for it in place of `after`.
  Status record(driver::Event &event, driver::Dependencies after, const std::string &name,
                driver::GraphNode &made) {
    CUGRT_ASSIGN(event, driver::Event::create(code_.device().context(), driver::Event::Timing::on));
    const std::vector<driver::GraphNode> behind(after.begin(), after.end());
    CUGRT_ASSIGN(made, graphs_[0].add_event_record(event, behind, name));
    return {};
  }
  uint32_t level(uint32_t node) const { return topology_.levels.level_of[node]; }

  /// Drivers before 12.8 hang in a body without work, and disabling may leave one without.
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
      bool programmatic = topology_.programmatic[i] && !owner_.is_timed() &&
                          code_.begins_early(variant_of(from), variant_of(node)) &&
                          !stays_idle(from) && !stays_idle(node);
      (programmatic ? early_ : after_).push_back(ends_[from]);
      if (programmatic) {
        made_.early.resize(topology_.predecessors.size());
        made_.early[i] = true;
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
      const uint64_t *values = values_.arguments(node);
      const bool own_kind = program.fixed && program.kind != VariantKind::kernel;
      if (is_empty(program) && (level(node) == 0 || empty_bodies_))
        return graph.add_empty(after, name);
      if (stays_idle(node))
        return level(node) == 0 ? graph.add_empty(after, name)
                                : graph.add_kernel(nothing_, after, name);
      if (!own_kind)
        return graph.add_kernel(values_.launch_params(run_, node), after, name);
      if (program.kind == VariantKind::copy)
        return graph.add_memcpy(
            {.destination = values[0], .source = values[1], .size_bytes = values[2]}, after, name);
      return graph.add_memset(
          {.destination = values[0], .count = values[1], .value = static_cast<uint32_t>(values[2])},
          after, name);
    };
    CUGRT_ASSIGN(driver::GraphNode added, add_node());
    CUGRT_TRY(graph.add_programmatic_edges(early_, added));
    made_.nodes.push_back(added);
    ends_.push_back(added);
    if (values_.dims(node).enabled && !may_change_dims_[node])
      has_work_[level(node)] = true;
    return {};
  }

  void set_handles(uint32_t node, const Handles &handles) {
    uint64_t *values = values_.arguments(node);
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
                 graph.add_kernel(values_.launch_params(run_, node), after_, name));
    made_.nodes.push_back(setter);
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

  /// `made` has the conditional's bodies from `first` on.
  void take_bodies(uint32_t node, uint32_t first, const driver::ConditionalNode &made) {
    for (uint32_t l = 1; l < graphs_.size(); ++l) {
      const plan::RegionLevel &level = topology_.levels.levels[l];
      if (level.step == node && level.body >= first && level.body - first < made.bodies.size())
        graphs_[l] = made.bodies[level.body - first];
    }
  }

  const GraphNodes &owner_;
  GraphValues &values_;
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
  AddedNodes made_;
  // Predecessors of the node that is being added: whole ones, and those up to a trigger.
  std::vector<driver::GraphNode> after_, early_;
};

} // namespace

Result<bool> GraphNodes::build(const RunBinding &run, driver::StreamRef stream) {
  const Device &device = values_.code().device();
  const size_t count = topology().node_count();
  params_.reserve(count);
  marks_.resize(count);
  touched_.resize(count);
  for (uint32_t node = 0; node < count; ++node) {
    params_.emplace_back(values_.launch_params(run, node));
    marks_[node] = values_.dims(node).enabled ? 0 : kDisabled;
  }
  CUGRT_ASSIGN(graph_, driver::Graph::create(device.context(), options_.priority));
  CUGRT_ASSIGN(added_, NodeAdder(*this, values_, run).run());
  CUGRT_TRY(instantiate(run));
  if (device.verifies_nodes())
    CUGRT_TRY(exec_.mirror_setters());
  // Setters that come before the first upload make every replay slower.
  CUGRT_TRY(exec_.upload(stream));
  CUGRT_ASSIGN(const bool enabled, probe_bodies(run));
  CUGRT_ASSIGN(const bool disabled, disable_nodes(run));
  return enabled && disabled;
}

Status GraphNodes::instantiate(const RunBinding &run) {
  const std::string &region = run.function.regions[topology().region].name;
  driver::InstantiateFailure failure;
  auto exec = driver::GraphExec::instantiate(graph_.ref(), region, &failure);
  if (!exec.ok()) {
    for (uint32_t node = 0; failure.node && node < added_.nodes.size(); ++node)
      if (added_.nodes[node] == failure.node)
        return values_.attribute(exec.take_status(), run, node, "instantiation");
    return exec.take_status();
  }
  exec_ = std::move(*exec);
  return {};
}

std::optional<GraphNodes::Time> GraphNodes::time(uint32_t node) const {
  auto end_us = [&](uint32_t of) -> std::optional<double> {
    if (!added_.ended[of])
      return std::nullopt;
    auto time = added_.ended[of].milliseconds_since(added_.origin);
    return time.ok() ? std::optional(double(*time) * 1000) : std::nullopt;
  };
  if (!options_.timed)
    return std::nullopt;
  const std::optional<double> end = end_us(node);
  if (!end)
    return std::nullopt;
  Time time{0, *end};
  for (uint32_t i = topology().first_predecessor[node]; i < topology().first_predecessor[node + 1];
       ++i)
    time.begin_us = std::max(time.begin_us, end_us(topology().predecessors[i]).value_or(0));
  if (const uint32_t lane = topology().idle_lanes[node]; lane != kNone)
    time.begin_us = std::max(time.begin_us, end_us(lane).value_or(0));
  return time;
}

std::optional<uint64_t> GraphNodes::tools_id(uint32_t node) const {
  const driver::DriverApi &api = graph_.ref().api();
  unsigned long long id = 0;
  if (!api.GraphNodeGetToolsId || !added_.nodes[node] ||
      api.GraphNodeGetToolsId(added_.nodes[node], &id) != CUDA_SUCCESS)
    return std::nullopt;
  return id;
}

/// It says nothing about setters and may be gone the next time.
static bool is_transient(CUresult result) {
  return result == CUDA_ERROR_OUT_OF_MEMORY || driver::is_sticky(result);
}

bool GraphNodes::probes_bodies(const RunBinding &run, uint32_t node) const {
  const StepVariant &variant = values_.variant_of(run, node);
  const bool is_kernel = variant.kind != VariantKind::empty &&
                         variant.kind != VariantKind::left_out &&
                         (variant.kind == VariantKind::kernel || !variant.fixed);
  return is_kernel && can_disable(run, variant) && topology().levels.level_of[node] != 0 &&
         !topology().left_out[node] && values_.dims(node).enabled && params_[node];
}

bool GraphNodes::is_fixed(const RunBinding &run, uint32_t node) const {
  return (fixed_bodies_ && topology().levels.level_of[node] != 0) ||
         !can_disable(run, values_.variant_of(run, node));
}

/// False: the driver does not disable nodes in bodies, and some are to be disabled.
Result<bool> GraphNodes::disable_nodes(const RunBinding &run) {
  for (uint32_t node = 0; node < added_.nodes.size(); ++node) {
    const bool in_body = topology().levels.level_of[node] != 0;
    if (values_.dims(node).enabled || is_fixed(run, node))
      continue;
    CUresult result = exec_.try_enabled(added_.nodes[node], false);
    if (result == CUDA_SUCCESS)
      continue;
    if (!in_body || is_transient(result))
      return values_.attribute(exec_.enabled_failure(result, values_.step_of(run, node).name), run,
                               node, "node");
    values_.code().device().set_setters_reach_bodies(false);
    return false;
  }
  return true;
}

/// Whether setters reach nodes in bodies is not documented: it is tried on the first instance that
/// has some, once for each device, with the parameters that the node has. A driver that fails for
/// another reason is asked again with the next instance. False: a node stays disabled.
Result<bool> GraphNodes::probe_bodies(const RunBinding &run) {
  if (!topology().changes_bodies)
    return true;
  bool enabled = true;
  if (!values_.code().device().setters_reach_bodies())
    for (uint32_t node = 0; node < topology().node_count(); ++node)
      if (probes_bodies(run, node)) {
        CUresult result = exec_.kernel_setter()(added_.nodes[node], params_[node]);
        if (is_transient(result))
          return setter_failure(result, run, node);
        if (result == CUDA_SUCCESS)
          result = exec_.try_enabled(added_.nodes[node], false);
        if (result == CUDA_SUCCESS) {
          result = exec_.try_enabled(added_.nodes[node], true);
          enabled = result == CUDA_SUCCESS;
        }
        if (is_transient(result))
          return values_.attribute(exec_.enabled_failure(result, values_.step_of(run, node).name),
                                   run, node, "node");
        values_.code().device().set_setters_reach_bodies(result == CUDA_SUCCESS);
        break;
      }
  can_patch_ = values_.code().device().setters_reach_bodies().value_or(false);
  return enabled;
}

// --- Setting ------------------------------------------------------------------------------------

bool GraphNodes::can_take_over(const RunChanges &changes, const RunBinding &run) const {
  for (const RunChanges::NewDims &now : changes.dims) {
    const auto uses = topology().uses_of(topology().dims[now.number]);
    if (now.dims.enabled != values_.dims(uses[0].node).enabled)
      for (const TopologyClass::Use &use : uses)
        if (is_fixed(run, use.node))
          return false;
  }
  return true;
}

uint64_t GraphNodes::take_over(const RunChanges &changes) {
  return values_.take_over(
      changes, [&](uint32_t node) { touch(node, kParams); },
      [&](uint32_t node, const LaunchDims &dims, bool switched) {
        if (switched) {
          touch(node, kEnabled);
          marks_[node] ^= kDisabled;
        }
        if (dims.enabled)
          touch(node, kParams);
        params_[node].set_dims(dims.grid, dims.block, dims.shared_bytes);
      });
}

/// Sets a node that is, was or will be disabled.
Status GraphNodes::set_node(const RunBinding &run, uint32_t node) {
  const std::string &name = values_.step_of(run, node).name;
  uint8_t marks = marks_[node];
  bool enabled = !(marks & kDisabled);
  if (enabled && (marks & kParams))
    if (CUresult result = exec_.kernel_setter()(added_.nodes[node], params_[node]);
        result != CUDA_SUCCESS)
      return setter_failure(result, run, node);
  if (marks & kEnabled)
    if (Status status = exec_.set_enabled(added_.nodes[node], enabled, name); !status.ok())
      return values_.attribute(std::move(status), run, node, "patch");
  marks_[node] = enabled ? 0 : static_cast<uint8_t>(marks & (kParams | kDisabled));
  return {};
}

Status GraphNodes::setter_failure(CUresult result, const RunBinding &run, uint32_t node) const {
  const std::string &name = values_.step_of(run, node).name;
  return values_.attribute(exec_.setter_failure(result, name), run, node, "patch");
}

} // namespace cugrt::runtime
