// Which nodes of an instance a run changes; see graph_instance.h. How a node is set stands in
// graph_nodes.cpp, how an instance is built in graph_build.cpp.
#include "device/graph/graph_instance.h"

#include "device/code/loaded_code.h"
#include "device/program/symbol_binding.h"

#include <bit>
#include <optional>

namespace cugrt::runtime {

/// "n from 5 to 40", "%x from 0x7f00 to 0x8000"; without `before`: "n = 5".
static std::string input_change_text(const RunBinding &run, RunInput input,
                                     std::optional<uint64_t> before, uint64_t after) {
  using Kind = RunInput::Kind;
  const plan::Function &function = run.function;
  auto number = [](uint64_t bits) { return std::to_string(static_cast<int64_t>(bits)); };
  auto text = [&](const std::string &name, auto &&value) {
    return before ? name + " from " + value(*before) + " to " + value(after)
                  : name + " = " + value(after);
  };
  if (input.kind == Kind::symbol)
    return text(function.symbols[input.index].name, number);
  if (input.kind == Kind::base) {
    if (input.index >= function.slots.size())
      return text("base " + std::to_string(input.index), hex_text);
    return text(function.slot_text(input.index), hex_text);
  }
  const plan::HostValue &value = function.host_values[input.index];
  std::string name = value.kind == plan::HostValueKind::param
                         ? "%" + function.params[value.index].name
                         : "host value " + std::to_string(input.index);
  if (value.scalar != ir::ScalarKind::floating)
    return text(name, number);
  return text(name, [](uint64_t bits) { return std::to_string(std::bit_cast<double>(bits)); });
}

/// A change to what the input is in the run; every value that changes has been evaluated.
static std::string change_text(const RunBinding &run, const InputChange &change) {
  const uint64_t now = *run.value(change.input);
  return input_change_text(run, change.input, now - change.by, now);
}

const plan::Step &GraphInstance::step_of(const RunBinding &run, uint32_t node) const {
  return run.function.steps[run.program.variants[topology_->variants[node]].step];
}

Status GraphInstance::evaluate(const RunBinding &run, const LoadedCode &code) {
  const TopologyClass &topology = *topology_;
  for (const TopologyClass::Input &input : topology.inputs) {
    CUGRT_ASSIGN(uint64_t value, run.value(input));
    inputs_.push_back(value);
  }
  CUGRT_TRY(evaluate_constant(run));
  for (const TopologyClass::Shared &shared : topology.values) {
    CUGRT_ASSIGN(uint64_t value, value_of(run, shared));
    for (const TopologyClass::Use &use : topology.uses_of(shared))
      values_[use.argument] = value;
  }
  dims_.resize(topology.node_count());
  for (const TopologyClass::Shared &shared : topology.dims) {
    CUGRT_ASSIGN(LaunchDims dims, dims_of(run, code, shared));
    for (const TopologyClass::Use &use : topology.uses_of(shared))
      dims_[use.node] = dims;
  }
  value_seen_.resize(topology.values.size());
  dims_seen_.resize(topology.dims.size());
  new_values_.reserve(topology.values.size());
  new_dims_.reserve(topology.dims.size());
  point_to_arguments(run);
  for (uint32_t node = 0; node < topology.node_count(); ++node)
    params_.emplace_back(launch_params(run, code, node));
  marks_.resize(topology.node_count());
  touched_.resize(topology.node_count());
  for (uint32_t node = 0; node < topology.node_count(); ++node)
    marks_[node] = dims_[node].enabled ? 0 : kDisabled;
  return {};
}

/// A node's pointers stand where its values do; fewer, where an argument has several of these.
void GraphInstance::point_to_arguments(const RunBinding &run) {
  const TopologyClass &topology = *topology_;
  pointers_.resize(values_.size());
  for (uint32_t node = 0; node < topology.node_count(); ++node) {
    const StepVariant &variant = run.program.variants[topology.variants[node]];
    const uint32_t first = topology.first_argument[node];
    uint32_t next = first;
    for (uint32_t i = 0; i < variant.sources.count; ++i)
      if (!run.program.sources[variant.sources.begin + i].joined)
        pointers_[next++] = &values_[first + i];
  }
}

/// Arguments that nothing changes; the others' places are left.
Status GraphInstance::evaluate_constant(const RunBinding &run) {
  const TopologyClass &topology = *topology_;
  values_.resize(topology.argument_count());
  std::vector<bool> changes(values_.size());
  for (const TopologyClass::Shared &shared : topology.values)
    for (const TopologyClass::Use &use : topology.uses_of(shared))
      changes[use.argument] = true;
  for (uint32_t node = 0; node < topology.node_count(); ++node) {
    const StepVariant &variant = run.program.variants[topology.variants[node]];
    for (uint32_t i = 0; i < variant.sources.count; ++i) {
      const uint32_t argument = topology.first_argument[node] + i;
      if (changes[argument])
        continue;
      auto value = run.value(run.program.sources[variant.sources.begin + i]);
      if (!value.ok())
        return attribute(value.take_status(), run, node, "arguments");
      values_[argument] = *value;
    }
  }
  return {};
}

Result<uint64_t> GraphInstance::value_of(const RunBinding &run,
                                         const TopologyClass::Shared &shared) const {
  auto value = run.value(run.program.sources[shared.from]);
  if (!value.ok()) [[unlikely]]
    return attribute(value.take_status(), run, topology_->uses_of(shared)[0].node, "arguments",
                     &shared);
  return value;
}

Result<LaunchDims> GraphInstance::dims_of(const RunBinding &run, const LoadedCode &code,
                                          const TopologyClass::Shared &shared) const {
  const StepVariant &variant = run.program.variants[shared.from];
  auto dims = launch_dims(run, variant, code.limits(variant));
  if (!dims.ok()) [[unlikely]]
    return attribute(dims.take_status(), run, topology_->uses_of(shared)[0].node,
                     "launch dimensions");
  return dims;
}

/// An error about one node, with its step's place in the module, the symbols that its fields depend
/// on and, while a change is on its way, their old and new values; about a value, with what that
/// one depends on.
Status GraphInstance::attribute(Status status, const RunBinding &run, uint32_t node,
                                const char *what, const TopologyClass::Shared *value) const {
  const plan::Step &step = step_of(run, node);
  std::string changes = changes_text(run, node, value);
  return std::move(status)
      .in(std::string(what) + " of step '" + step.name + "'" +
          (changes.empty() ? "" : " (" + changes + ")"))
      .at(code_->executable().location(step.location));
}

std::string GraphInstance::changes_text(const RunBinding &run, uint32_t node,
                                        const TopologyClass::Shared *value) const {
  auto depends = [&](const TopologyClass::Input &input) {
    bool found = false;
    if (value)
      for (uint32_t number : topology_->numbers(input.values))
        found = found || &topology_->values[number] == value;
    else
      topology_->for_each_use(
          input, [&](const TopologyClass::Use &use) { found = found || use.node == node; });
    return found;
  };
  std::string text;
  auto add = [&](const std::string &part) { text += (text.empty() ? "" : ", ") + part; };
  for (const InputChange &change : changes_)
    if (const uint32_t input = input_of(change);
        input != kNone && depends(topology_->inputs[input]))
      add(change_text(run, change));
  const size_t shown = value ? topology_->inputs.size() : topology_->key_size;
  for (uint32_t i = 0; changes_.empty() && i < shown; ++i)
    if (depends(topology_->inputs[i]))
      add(input_change_text(run, topology_->inputs[i], std::nullopt, inputs_[i]));
  return text;
}

/// The class's input; kNone: a base that moved, and nothing depends on it.
uint32_t GraphInstance::input_of(const InputChange &change) const {
  if (change.input.kind == RunInput::Kind::base)
    return topology_->base_uses[change.input.index].input;
  uint32_t i = 0;
  while (topology_->inputs[i].kind != change.input.kind ||
         topology_->inputs[i].index != change.input.index)
    ++i;
  return i;
}

Status GraphInstance::after_patch(Status status, const RunBinding &run) const {
  std::string text;
  for (const InputChange &change : changes_)
    if (input_of(change) != kNone)
      text += (text.empty() ? "" : ", ") + change_text(run, change);
  return text.empty() ? std::move(status)
                      : std::move(status).in("launch after a patch (" + text + ")");
}

Status GraphInstance::instead(Status status, const RunBinding &run) const {
  std::string text;
  for (uint32_t i = 0; i < topology_->inputs.size(); ++i)
    if (auto now = run.value(topology_->inputs[i]); now.ok() && *now != inputs_[i])
      text += (text.empty() ? "" : ", ") +
              input_change_text(run, topology_->inputs[i], inputs_[i], *now);
  return std::move(status).in("instance built anew (" + text + ")");
}

Result<PatchCounts> GraphInstance::rebind(const RunBinding &run, const LoadedCode &code) {
  CUGRT_TRY(reevaluate(run, code));
  if (counts_.rebuild) [[unlikely]]
    return PatchCounts{.rebuild = true};
  take_over();
  if (Status status = apply(run); !status.ok()) [[unlikely]] {
    whole_ = false;
    return status;
  }
  frame_serial_ = run.serial;
  if (verified_) [[unlikely]]
    if (Status status = verify(run, code); !status.ok()) {
      whole_ = false;
      return status;
    }
  return counts_;
}

/// Everything that depends on what has changed. The instance keeps what it has until take_over().
Status GraphInstance::reevaluate(const RunBinding &run, const LoadedCode &code) {
  counts_ = {};
  compared_.clear();
  new_values_.clear();
  new_dims_.clear();
  changes_ = {};
  ++rebind_;
  for (uint32_t i = 0; i < topology_->inputs.size(); ++i) {
    const TopologyClass::Input &input = topology_->inputs[i];
    CUGRT_ASSIGN(uint64_t value, run.value(input));
    if (value == inputs_[i])
      continue;
    compared_.push_back({input, value - inputs_[i]});
    changes_ = compared_;
    for (uint32_t number : topology_->numbers(input.values))
      CUGRT_TRY(reevaluate_value(run, number));
    for (uint32_t number : topology_->numbers(input.dims))
      CUGRT_TRY(reevaluate_dims(run, code, number));
  }
  return {};
}

/// What reevaluate() has found becomes what the instance has, and is noted for apply().
void GraphInstance::take_over() {
  for (const InputChange &change : compared_)
    inputs_[input_of(change)] += change.by;
  for (const auto &[number, value] : new_values_) {
    const std::span<const TopologyClass::Use> uses = topology_->uses_of(topology_->values[number]);
    for (const TopologyClass::Use &use : uses) {
      values_[use.argument] = value;
      touch(use.node, kParams);
    }
    counts_.fields += uses.size();
  }
  for (const auto &[number, dims] : new_dims_) {
    const std::span<const TopologyClass::Use> uses = topology_->uses_of(topology_->dims[number]);
    const bool switched = dims.enabled != dims_[uses[0].node].enabled;
    for (const TopologyClass::Use &use : uses) {
      if (switched) {
        touch(use.node, kEnabled);
        marks_[use.node] ^= kDisabled;
      }
      if (dims.enabled)
        touch(use.node, kParams);
      dims_[use.node] = dims;
      params_[use.node].set_dims(dims.grid, dims.block, dims.shared_bytes);
    }
    counts_.fields += uses.size() * (size_t(switched) + size_t(dims.enabled));
  }
}

/// After everything it points to is in its place for good.
void GraphInstance::make_base_patches() {
  for (const TopologyClass::BaseUse &use : topology_->base_uses) {
    BasePatch &patch = base_patches_.emplace_back();
    if (use.input == kNone)
      continue;
    std::span<const uint32_t> values = topology_->numbers(topology_->inputs[use.input].values);
    patch.bound = &inputs_[use.input];
    if (values.size() != 1 || topology_->values[values[0]].uses.count != 1)
      continue;
    auto [argument, node] = topology_->uses_of(topology_->values[values[0]])[0];
    patch.value = &values_[argument];
    patch.mark = &marks_[node];
    patch.node = nodes_[node];
    patch.params = &params_[node];
    patch.number = node;
    patch.alone = use.alone;
  }
}

/// Evaluated once in a rebind, whatever it depends on; all arguments that take it have one value.
Status GraphInstance::reevaluate_value(const RunBinding &run, uint32_t number) {
  if (std::exchange(value_seen_[number], rebind_) == rebind_)
    return {};
  const TopologyClass::Shared &shared = topology_->values[number];
  ++counts_.evaluated;
  CUGRT_ASSIGN(uint64_t value, value_of(run, shared));
  if (value != values_[topology_->uses_of(shared)[0].argument])
    new_values_.push_back({number, value});
  return {};
}

Status GraphInstance::reevaluate_dims(const RunBinding &run, const LoadedCode &code,
                                      uint32_t number) {
  if (std::exchange(dims_seen_[number], rebind_) == rebind_)
    return {};
  const TopologyClass::Shared &shared = topology_->dims[number];
  const std::span<const TopologyClass::Use> uses = topology_->uses_of(shared);
  ++counts_.evaluated;
  CUGRT_ASSIGN(LaunchDims dims, dims_of(run, code, shared));
  const LaunchDims &before = dims_[uses[0].node];
  if (dims == before)
    return {};
  if (dims.enabled != before.enabled)
    for (const TopologyClass::Use &use : uses)
      counts_.rebuild |= is_fixed(run, use.node);
  new_dims_.push_back({number, dims});
  return {};
}

} // namespace cugrt::runtime
