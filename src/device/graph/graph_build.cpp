// Building of instances: the template graph, its executable form, and what setters can do in it;
// see graph_instance.h.
#include "device/graph/graph_instance.h"

#include "device/code/loaded_code.h"
#include "device/driver/driver_error.h"

namespace cugrt::runtime {

static const std::string &name_of(const RunBinding &run, const TopologyClass &topology,
                                  uint32_t node) {
  return run.function.steps[run.program.variants[topology.variants[node]].step].name;
}

Result<std::unique_ptr<GraphInstance>>
GraphInstance::build(const RunBinding &run, const LoadedCode &code,
                     std::shared_ptr<const TopologyClass> topology, driver::StreamRef stream,
                     const InstanceOptions &options) {
  auto make = [&](bool fixed_bodies) -> Result<std::unique_ptr<GraphInstance>> {
    std::unique_ptr<GraphInstance> instance(new GraphInstance);
    instance->topology_ = topology;
    instance->code_ = &code;
    instance->fixed_bodies_ = fixed_bodies;
    instance->timed_ = options.timed;
    instance->ended_.resize(options.timed ? topology->node_count() : 0);
    instance->verified_ = code.device().verifies_nodes();
    instance->compared_.reserve(topology->inputs.size());
    CUGRT_TRY(instance->evaluate(run, code));
    CUGRT_ASSIGN(instance->graph_,
                 driver::Graph::create(code.device().context(), options.priority));
    CUGRT_TRY(instance->add_nodes(run, code));
    CUGRT_TRY(instance->instantiate(run));
    if (instance->verified_)
      CUGRT_TRY(instance->exec_.mirror_setters());
    // Setters that come before the first upload make every replay slower.
    CUGRT_TRY(instance->exec_.upload(stream));
    CUGRT_TRY(instance->probe_bodies(run, code));
    CUGRT_TRY(instance->disable_nodes(run, code));
    instance->make_base_patches();
    instance->frame_serial_ = run.serial;
    if (instance->verified_ && instance->is_whole())
      CUGRT_TRY(instance->verify(run, code));
    return instance;
  };
  const auto reached = code.device().setters_reach_bodies();
  CUGRT_ASSIGN(std::unique_ptr<GraphInstance> instance, make(reached && !*reached));
  if (instance->is_whole())
    return instance;
  // Until now nobody knew: a node in a body is disabled that is not to be, or the other way round.
  return make(true);
}

Status GraphInstance::instantiate(const RunBinding &run) {
  const std::string &region = run.function.regions[topology_->region].name;
  driver::InstantiateFailure failure;
  auto exec = driver::GraphExec::instantiate(graph_.ref(), region, &failure);
  if (!exec.ok()) {
    for (uint32_t node = 0; failure.node && node < nodes_.size(); ++node)
      if (nodes_[node] == failure.node)
        return attribute(exec.take_status(), run, node, "instantiation");
    return exec.take_status();
  }
  exec_ = std::move(*exec);
  return {};
}

std::optional<GraphInstance::NodeTime> GraphInstance::node_time(uint32_t node) const {
  auto end_us = [&](uint32_t of) -> std::optional<double> {
    if (!ended_[of])
      return std::nullopt;
    auto time = ended_[of].milliseconds_since(origin_);
    return time.ok() ? std::optional(double(*time) * 1000) : std::nullopt;
  };
  if (!timed_)
    return std::nullopt;
  const std::optional<double> end = end_us(node);
  if (!end)
    return std::nullopt;
  NodeTime time{0, *end};
  for (uint32_t i = topology_->first_predecessor[node]; i < topology_->first_predecessor[node + 1];
       ++i)
    time.begin_us = std::max(time.begin_us, end_us(topology_->predecessors[i]).value_or(0));
  if (const uint32_t lane = topology_->idle_lanes[node]; lane != kNone)
    time.begin_us = std::max(time.begin_us, end_us(lane).value_or(0));
  return time;
}

std::optional<uint64_t> GraphInstance::tools_id(uint32_t node) const {
  const driver::DriverApi &api = graph_.ref().api();
  unsigned long long id = 0;
  if (!api.GraphNodeGetToolsId || !nodes_[node] ||
      api.GraphNodeGetToolsId(nodes_[node], &id) != CUDA_SUCCESS)
    return std::nullopt;
  return id;
}

/// It says nothing about setters and may be gone the next time.
static bool is_transient(CUresult result) {
  return result == CUDA_ERROR_OUT_OF_MEMORY || driver::is_sticky(result);
}

bool GraphInstance::probes_bodies(const RunBinding &run, uint32_t node) const {
  const StepVariant &variant = run.program.variants[topology_->variants[node]];
  const bool is_kernel = variant.kind != VariantKind::empty &&
                         variant.kind != VariantKind::left_out &&
                         (variant.kind == VariantKind::kernel || !variant.fixed);
  return is_kernel && can_disable(run, variant) && topology_->levels.level_of[node] != 0 &&
         !topology_->left_out[node] && dims_[node].enabled && params_[node];
}

bool GraphInstance::is_fixed(const RunBinding &run, uint32_t node) const {
  return (fixed_bodies_ && topology_->levels.level_of[node] != 0) ||
         !can_disable(run, run.program.variants[topology_->variants[node]]);
}

/// Not whole afterwards: the driver does not disable nodes in bodies, and some are to be disabled.
Status GraphInstance::disable_nodes(const RunBinding &run, const LoadedCode &code) {
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    const bool in_body = topology_->levels.level_of[node] != 0;
    if (dims_[node].enabled || is_fixed(run, node))
      continue;
    CUresult result = exec_.try_enabled(nodes_[node], false);
    if (result == CUDA_SUCCESS)
      continue;
    if (!in_body || is_transient(result))
      return attribute(exec_.enabled_failure(result, name_of(run, *topology_, node)), run, node,
                       "node");
    code.device().set_setters_reach_bodies(false);
    whole_ = false;
    return {};
  }
  return {};
}

/// Whether setters reach nodes in bodies is not documented: it is tried on the first instance that
/// has some, once for each device, with the parameters that the node has. A driver that fails for
/// another reason is asked again with the next instance.
Status GraphInstance::probe_bodies(const RunBinding &run, const LoadedCode &code) {
  const TopologyClass &topology = *topology_;
  if (!topology.changes_bodies)
    return {};
  if (!code.device().setters_reach_bodies())
    for (uint32_t node = 0; node < topology.node_count(); ++node)
      if (probes_bodies(run, node)) {
        CUresult result = exec_.kernel_setter()(nodes_[node], params_[node]);
        if (is_transient(result))
          return setter_failure(result, run, node);
        if (result == CUDA_SUCCESS)
          result = exec_.try_enabled(nodes_[node], false);
        if (result == CUDA_SUCCESS) {
          result = exec_.try_enabled(nodes_[node], true);
          whole_ = result == CUDA_SUCCESS; // else it stays disabled
        }
        if (is_transient(result))
          return attribute(exec_.enabled_failure(result, name_of(run, *topology_, node)), run, node,
                           "node");
        code.device().set_setters_reach_bodies(result == CUDA_SUCCESS);
        break;
      }
  can_patch_ = code.device().setters_reach_bodies().value_or(false);
  return {};
}

} // namespace cugrt::runtime
