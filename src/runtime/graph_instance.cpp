// Building and patching of instances; see graph_instance.h.
#include "runtime/graph_instance.h"

#include "runtime/loaded_code.h"

namespace cugrt::runtime {

namespace {

enum Mark : uint8_t {
  kParams = 1,  // parameters differ from the node's
  kEnabled = 2, // the node is to be enabled or disabled
};

/// The value of a class's input in a frame, as 64 bits.
Result<uint64_t> input_value(const Frame &frame, const RegionClass::Input &input) {
  switch (input.kind) {
  case RegionClass::Input::Kind::symbol:
    return static_cast<uint64_t>(frame.symbols[input.index]);
  case RegionClass::Input::Kind::base:
    return frame.bases[input.index];
  default:
    return frame.host_value(input.index);
  }
}

const plan::Step &step_of(const Frame &frame, const RegionClass &topology, uint32_t node) {
  return frame.function.steps[frame.program.launches[topology.launches[node]].step];
}

} // namespace

Result<std::unique_ptr<GraphInstance>>
GraphInstance::build(const Frame &frame, const LoadedCode &code,
                     std::shared_ptr<const RegionClass> topology, driver::StreamRef stream) {
  std::unique_ptr<GraphInstance> instance(new GraphInstance);
  instance->topology_ = std::move(topology);
  CUGRT_TRY(instance->evaluate(frame, code));
  CUGRT_ASSIGN(instance->graph_, driver::Graph::create(code.device().context()));
  CUGRT_TRY(instance->add_nodes(frame, code));
  CUGRT_TRY(instance->instantiate(frame));
  CUGRT_TRY(instance->exec_.upload(stream));
  instance->frame_serial_ = frame.serial;
  return instance;
}

Status GraphInstance::evaluate(const Frame &frame, const LoadedCode &code) {
  const RegionClass &topology = *topology_;
  for (const RegionClass::Input &input : topology.inputs) {
    CUGRT_ASSIGN(uint64_t value, input_value(frame, input));
    inputs_.push_back(value);
  }
  values_.reserve(topology.node_of_value.size());
  for (uint32_t node = 0; node < topology.node_count(); ++node) {
    const LaunchProgram &launch = frame.program.launches[topology.launches[node]];
    auto dims = launch_dims(frame, launch, code.limits());
    if (!dims.ok())
      return dims.take_status();
    dims_.push_back(*dims);
    for (uint32_t i = launch.sources.begin; i < launch.sources.end(); ++i) {
      auto value = frame.value(frame.program.sources[i]);
      if (!value.ok())
        return value.take_status().in("step '" + step_of(frame, topology, node).name + "'");
      values_.push_back(*value);
    }
  }
  for (uint64_t &value : values_)
    pointers_.push_back(&value);
  marks_.resize(topology.node_count());
  touched_.reserve(topology.node_count());
  return {};
}

driver::LaunchParams GraphInstance::launch_params(const Frame &frame, const LoadedCode &code,
                                                  uint32_t node) {
  const LaunchProgram &launch = frame.program.launches[topology_->launches[node]];
  driver::LaunchParams params;
  params.function = code.function(launch);
  params.grid = dims_[node].grid;
  params.block = dims_[node].block;
  params.dynamic_shared_bytes = dims_[node].shared_bytes;
  params.arguments = pointers_.data() + topology_->first_value[node];
  params.attributes = code.attributes(launch);
  return params;
}

Status GraphInstance::add_nodes(const Frame &frame, const LoadedCode &code) {
  const RegionClass &topology = *topology_;
  driver::GraphRef graph = graph_.ref();
  std::vector<driver::GraphNode> after;
  nodes_.reserve(topology.node_count());
  for (uint32_t node = 0; node < topology.node_count(); ++node) {
    after.clear();
    for (uint32_t i = topology.first_predecessor[node]; i < topology.first_predecessor[node + 1];
         ++i)
      after.push_back(nodes_[topology.predecessors[i]]);
    const LaunchProgram &launch = frame.program.launches[topology.launches[node]];
    const std::string &name = step_of(frame, topology, node).name;
    const uint64_t *values = values_.data() + topology.first_value[node];
    if (launch.kind == LaunchKind::empty) {
      CUGRT_ASSIGN(driver::GraphNode added, graph.add_empty(after, name));
      nodes_.push_back(added);
    } else if (launch.kind == LaunchKind::kernel || !launch.fixed) {
      CUGRT_ASSIGN(driver::GraphNode added,
                   graph.add_kernel(launch_params(frame, code, node), after, name));
      nodes_.push_back(added);
    } else if (launch.kind == LaunchKind::copy) {
      driver::CopyParams copy{
          .destination = values[0], .source = values[1], .size_bytes = values[2]};
      CUGRT_ASSIGN(driver::GraphNode added, graph.add_memcpy(copy, after, name));
      nodes_.push_back(added);
    } else {
      driver::FillParams fill{
          .destination = values[0], .count = values[1], .value = static_cast<uint32_t>(values[2])};
      CUGRT_ASSIGN(driver::GraphNode added, graph.add_memset(fill, after, name));
      nodes_.push_back(added);
    }
  }
  return {};
}

Status GraphInstance::instantiate(const Frame &frame) {
  const std::string &region = frame.function.regions[topology_->region].name;
  driver::InstantiateFailure failure;
  auto exec = driver::GraphExec::instantiate(graph_.ref(), region, &failure);
  if (!exec.ok()) {
    for (uint32_t node = 0; failure.node && node < nodes_.size(); ++node)
      if (nodes_[node] == failure.node)
        return exec.take_status().in("step '" + step_of(frame, *topology_, node).name + "'");
    return exec.take_status();
  }
  exec_ = std::move(*exec);
  for (uint32_t node = 0; node < nodes_.size(); ++node)
    if (!dims_[node].enabled)
      CUGRT_TRY(exec_.set_enabled(nodes_[node], false, step_of(frame, *topology_, node).name));
  return {};
}

Result<uint64_t> GraphInstance::rebind(const Frame &frame, const LoadedCode &code) {
  fields_ = 0;
  for (size_t i = 0; i < topology_->inputs.size(); ++i) {
    CUGRT_ASSIGN(uint64_t value, input_value(frame, topology_->inputs[i]));
    if (value == inputs_[i])
      continue;
    inputs_[i] = value;
    CUGRT_TRY(renew(frame, code, topology_->inputs[i]));
  }
  CUGRT_TRY(apply(frame, code));
  frame_serial_ = frame.serial;
  return fields_;
}

void GraphInstance::touch(uint32_t node, uint8_t what) {
  ++fields_;
  // A node that is disabled may carry marks from earlier, but is not in the list then.
  touched_.push_back(node);
  marks_[node] |= what;
}

Status GraphInstance::renew(const Frame &frame, const LoadedCode &code,
                            const RegionClass::Input &input) {
  for (uint32_t i = input.values.begin; i < input.values.end(); ++i) {
    uint32_t number = topology_->dependents[i], node = topology_->node_of_value[number];
    const LaunchProgram &launch = frame.program.launches[topology_->launches[node]];
    uint32_t source = launch.sources.begin + number - topology_->first_value[node];
    auto value = frame.value(frame.program.sources[source]);
    if (!value.ok())
      return value.take_status().in("step '" + step_of(frame, *topology_, node).name + "'");
    if (*value != values_[number]) {
      values_[number] = *value;
      touch(node, kParams);
    }
  }
  for (uint32_t i = input.dims.begin; i < input.dims.end(); ++i) {
    uint32_t node = topology_->dependents[i];
    const LaunchProgram &launch = frame.program.launches[topology_->launches[node]];
    CUGRT_ASSIGN(LaunchDims dims, launch_dims(frame, launch, code.limits()));
    if (dims == dims_[node])
      continue;
    if (dims.enabled != dims_[node].enabled)
      touch(node, kEnabled);
    if (dims.enabled)
      touch(node, kParams);
    dims_[node] = dims;
  }
  return {};
}

/// One setter for each touched node. A disabled node's parameters wait until it is enabled again:
/// its launch dimensions are not the ones that it will have.
Status GraphInstance::apply(const Frame &frame, const LoadedCode &code) {
  for (uint32_t node : touched_)
    if (marks_[node])
      CUGRT_TRY(set_node(frame, code, node));
  touched_.clear();
  return {};
}

Status GraphInstance::set_node(const Frame &frame, const LoadedCode &code, uint32_t node) {
  const std::string &name = step_of(frame, *topology_, node).name;
  bool enabled = dims_[node].enabled;
  if (enabled && (marks_[node] & kParams)) {
    CUGRT_TRY(exec_.set_kernel(nodes_[node], launch_params(frame, code, node), name));
    marks_[node] &= static_cast<uint8_t>(~kParams);
  }
  if (marks_[node] & kEnabled) {
    CUGRT_TRY(exec_.set_enabled(nodes_[node], enabled, name));
    marks_[node] &= static_cast<uint8_t>(~kEnabled);
  }
  return {};
}

} // namespace cugrt::runtime
