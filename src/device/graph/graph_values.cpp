// Evaluation of an instance's values, and what a run makes of them; see graph_values.h.
#include "device/graph/graph_values.h"

#include "device/code/loaded_code.h"
#include "device/program/symbol_binding.h"

#include <algorithm>
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

void RunChanges::reserve(const TopologyClass &topology) {
  inputs.reserve(topology.inputs.size());
  values.reserve(topology.values.size());
  dims.reserve(topology.dims.size());
  value_seen.resize(std::max(value_seen.size(), topology.values.size()));
  dims_seen.resize(std::max(dims_seen.size(), topology.dims.size()));
}

Status GraphValues::evaluate(const RunBinding &run) {
  const TopologyClass &topology = *topology_;
  for (const TopologyClass::Input &input : topology.inputs) {
    CUGRT_ASSIGN(uint64_t value, run.value(input));
    inputs_.push_back(value);
  }
  CUGRT_TRY(evaluate_constant(run));
  for (const TopologyClass::Shared &shared : topology.values) {
    CUGRT_ASSIGN(uint64_t value, value_of(run, shared));
    for (const TopologyClass::Use &use : topology.uses_of(shared))
      arguments_[use.argument] = value;
  }
  dims_.resize(topology.node_count());
  for (const TopologyClass::Shared &shared : topology.dims) {
    CUGRT_ASSIGN(LaunchDims dims, dims_of(run, shared));
    for (const TopologyClass::Use &use : topology.uses_of(shared))
      dims_[use.node] = dims;
  }
  point_to_arguments(run);
  return {};
}

/// A node's pointers stand where its values do; fewer, where an argument has several of these.
void GraphValues::point_to_arguments(const RunBinding &run) {
  const TopologyClass &topology = *topology_;
  pointers_.resize(arguments_.size());
  for (uint32_t node = 0; node < topology.node_count(); ++node) {
    const StepVariant &variant = variant_of(run, node);
    const uint32_t first = topology.first_argument[node];
    uint32_t next = first;
    for (uint32_t i = 0; i < variant.sources.count; ++i)
      if (!run.program.sources[variant.sources.begin + i].joined)
        pointers_[next++] = &arguments_[first + i];
  }
}

/// Arguments that nothing changes; the others' places are left.
Status GraphValues::evaluate_constant(const RunBinding &run) {
  const TopologyClass &topology = *topology_;
  arguments_.resize(topology.argument_count());
  std::vector<bool> changes(arguments_.size());
  for (const TopologyClass::Shared &shared : topology.values)
    for (const TopologyClass::Use &use : topology.uses_of(shared))
      changes[use.argument] = true;
  for (uint32_t node = 0; node < topology.node_count(); ++node) {
    const StepVariant &variant = variant_of(run, node);
    for (uint32_t i = 0; i < variant.sources.count; ++i) {
      const uint32_t argument = topology.first_argument[node] + i;
      if (changes[argument])
        continue;
      auto value = run.value(run.program.sources[variant.sources.begin + i]);
      if (!value.ok())
        return attribute(value.take_status(), run, node, "arguments");
      arguments_[argument] = *value;
    }
  }
  return {};
}

Result<uint64_t> GraphValues::value_of(const RunBinding &run,
                                       const TopologyClass::Shared &shared) const {
  auto value = run.value(run.program.sources[shared.from]);
  if (!value.ok()) [[unlikely]]
    return attribute(value.take_status(), run, topology_->uses_of(shared)[0].node, "arguments",
                     &shared);
  return value;
}

Result<LaunchDims> GraphValues::dims_of(const RunBinding &run,
                                        const TopologyClass::Shared &shared) const {
  const StepVariant &variant = run.program.variants[shared.from];
  auto dims = launch_dims(run, variant, code_.limits(variant));
  if (!dims.ok()) [[unlikely]]
    return attribute(dims.take_status(), run, topology_->uses_of(shared)[0].node,
                     "launch dimensions");
  return dims;
}

Status GraphValues::attribute(Status status, const RunBinding &run, uint32_t node, const char *what,
                              const TopologyClass::Shared *value) const {
  const plan::Step &step = step_of(run, node);
  std::string changes = changes_text(run, node, value);
  return std::move(status)
      .in(std::string(what) + " of step '" + step.name + "'" +
          (changes.empty() ? "" : " (" + changes + ")"))
      .at(code_.executable().location(step.location));
}

std::string GraphValues::changes_text(const RunBinding &run, uint32_t node,
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
uint32_t GraphValues::input_of(const InputChange &change) const {
  if (change.input.kind == RunInput::Kind::base)
    return topology_->base_uses[change.input.index].input;
  uint32_t i = 0;
  while (topology_->inputs[i].kind != change.input.kind ||
         topology_->inputs[i].index != change.input.index)
    ++i;
  return i;
}

GraphValues::BasePlace GraphValues::place_of(const TopologyClass::BaseUse &base) {
  if (base.input == kNone)
    return {};
  BasePlace place{nullptr, &inputs_[base.input], 0};
  const std::span<const uint32_t> values = topology_->numbers(topology_->inputs[base.input].values);
  if (values.size() != 1 || topology_->values[values[0]].uses.count != 1)
    return place;
  const auto [argument, node] = topology_->uses_of(topology_->values[values[0]])[0];
  place.value = &arguments_[argument];
  place.node = node;
  return place;
}

driver::LaunchParams GraphValues::launch_params(const RunBinding &run, uint32_t node) {
  const StepVariant &variant = variant_of(run, node);
  driver::LaunchParams params;
  params.function = code_.function(variant);
  params.grid = dims_[node].grid;
  params.block = dims_[node].block;
  params.dynamic_shared_bytes = dims_[node].shared_bytes;
  params.arguments = pointers_.data() + topology_->first_argument[node];
  params.attributes = code_.attributes(variant);
  params.green = code_.green();
  return params;
}

Status GraphValues::after_patch(Status status, const RunBinding &run,
                                std::span<const InputChange> changes) const {
  std::string text;
  for (const InputChange &change : changes)
    if (input_of(change) != kNone)
      text += (text.empty() ? "" : ", ") + change_text(run, change);
  return text.empty() ? std::move(status)
                      : std::move(status).in("launch after a patch (" + text + ")");
}

Status GraphValues::instead(Status status, const RunBinding &run) const {
  std::string text;
  for (uint32_t i = 0; i < topology_->inputs.size(); ++i)
    if (auto now = run.value(topology_->inputs[i]); now.ok() && *now != inputs_[i])
      text += (text.empty() ? "" : ", ") +
              input_change_text(run, topology_->inputs[i], inputs_[i], *now);
  return std::move(status).in("instance built anew (" + text + ")");
}

Status GraphValues::compare(const RunBinding &run, RunChanges &changes) {
  changes.inputs.clear();
  changes.values.clear();
  changes.dims.clear();
  changes.evaluated = 0;
  ++changes.comparison;
  changes_ = {};
  for (uint32_t i = 0; i < topology_->inputs.size(); ++i) {
    const TopologyClass::Input &input = topology_->inputs[i];
    CUGRT_ASSIGN(uint64_t value, run.value(input));
    if (value == inputs_[i])
      continue;
    changes.inputs.push_back({input, value - inputs_[i]});
    changes_ = changes.inputs;
    for (uint32_t number : topology_->numbers(input.values))
      CUGRT_TRY(compare_value(run, number, changes));
    for (uint32_t number : topology_->numbers(input.dims))
      CUGRT_TRY(compare_dims(run, number, changes));
  }
  return {};
}

/// Evaluated once in a rebind, whatever it depends on; all arguments that take it have one value.
Status GraphValues::compare_value(const RunBinding &run, uint32_t number,
                                  RunChanges &changes) const {
  if (std::exchange(changes.value_seen[number], changes.comparison) == changes.comparison)
    return {};
  const TopologyClass::Shared &shared = topology_->values[number];
  ++changes.evaluated;
  CUGRT_ASSIGN(uint64_t value, value_of(run, shared));
  if (value != arguments_[topology_->uses_of(shared)[0].argument])
    changes.values.push_back({number, value});
  return {};
}

Status GraphValues::compare_dims(const RunBinding &run, uint32_t number,
                                 RunChanges &changes) const {
  if (std::exchange(changes.dims_seen[number], changes.comparison) == changes.comparison)
    return {};
  const TopologyClass::Shared &shared = topology_->dims[number];
  ++changes.evaluated;
  CUGRT_ASSIGN(LaunchDims dims, dims_of(run, shared));
  if (dims != dims_[topology_->uses_of(shared)[0].node])
    changes.dims.push_back({number, dims});
  return {};
}

} // namespace cugrt::runtime
