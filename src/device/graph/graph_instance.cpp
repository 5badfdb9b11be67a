// Building and patching of an instance; see graph_instance.h. How values are evaluated stands in
// graph_values.cpp, how nodes are added and set in graph_nodes.cpp.
#include "device/graph/graph_instance.h"

#include "device/code/loaded_code.h"

namespace cugrt::runtime {

GraphInstance::GraphInstance(const LoadedCode &code, std::shared_ptr<const TopologyClass> topology,
                             const InstanceOptions &options, bool fixed_bodies)
    : verified_(code.device().verifies_nodes()), values_(code, std::move(topology)),
      nodes_(values_, options, fixed_bodies) {}

Result<std::unique_ptr<GraphInstance>>
GraphInstance::build(const RunBinding &run, const LoadedCode &code,
                     std::shared_ptr<const TopologyClass> topology, driver::StreamRef stream,
                     const InstanceOptions &options) {
  /// Null: others are to be built with fixed bodies.
  auto make = [&](bool fixed_bodies) -> Result<std::unique_ptr<GraphInstance>> {
    std::unique_ptr<GraphInstance> instance(
        new GraphInstance(code, topology, options, fixed_bodies));
    CUGRT_TRY(instance->values_.evaluate(run));
    CUGRT_ASSIGN(const bool as_planned, instance->nodes_.build(run, stream));
    if (!as_planned)
      return std::unique_ptr<GraphInstance>();
    instance->make_base_patches();
    instance->frame_serial_ = run.serial;
    if (instance->verified_)
      CUGRT_TRY(instance->verify(run));
    return instance;
  };
  const auto reached = code.device().setters_reach_bodies();
  CUGRT_ASSIGN(std::unique_ptr<GraphInstance> instance, make(reached && !*reached));
  if (instance)
    return instance;
  // Until now nobody knew: a node in a body is disabled that is not to be, or the other way round.
  return make(true);
}

/// Call when everything that the patches point to has its final address.
void GraphInstance::make_base_patches() {
  for (const TopologyClass::BaseUse &use : topology().base_uses) {
    BasePatch &patch = base_patches_.emplace_back();
    patch.base = values_.place_of(use);
    if (!patch.base.value)
      continue;
    patch.node = nodes_.place_of(patch.base.node);
    patch.alone = use.alone;
  }
}

Result<PatchCounts> GraphInstance::rebind(const RunBinding &run, RunChanges &changes) {
  Result<PatchCounts> counts = patch(run, changes);
  values_.set_changes({});
  return counts;
}

Result<PatchCounts> GraphInstance::patch(const RunBinding &run, RunChanges &changes) {
  CUGRT_TRY(values_.compare(run, changes));
  if (!nodes_.can_take_over(changes, run)) [[unlikely]]
    return PatchCounts{.rebuild = true};
  const PatchCounts counts{nodes_.take_over(changes), changes.evaluated};
  Status status = nodes_.set(run);
  if (status.ok())
    frame_serial_ = run.serial;
  if (status.ok() && verified_) [[unlikely]]
    status = verify(run);
  whole_ = status.ok();
  if (!status.ok()) [[unlikely]]
    return status;
  return counts;
}

/// Addresses only: each dependent argument moves by as much as its base.
Result<PatchCounts> GraphInstance::move_bases(const RunBinding &run) {
  values_.set_changes(run.moved());
  driver::KernelSetter set = nodes_.setter();
  BasePatch *patches = base_patches_.data();
  uint64_t fields = run.move_count;
  for (const InputChange &move : run.moved()) {
    uint64_t by = move.by;
    BasePatch &patch = patches[move.input.index];
    if (!patch.base.value) [[unlikely]] {
      fields += values_.move(move, [&](uint32_t node) { nodes_.touch(node); }) - 1;
      continue;
    }
    *patch.base.value += by;
    *patch.base.bound += by;
    if (!patch.alone || !patch.node.is_clear()) {
      nodes_.touch(patch.node);
      continue;
    }
    CUresult result = set(patch.node.node, *patch.node.params);
    if (result != CUDA_SUCCESS) [[unlikely]]
      return nodes_.setter_failure(result, run, patch.node.number);
  }
  CUGRT_TRY(nodes_.set(run));
  if (verified_) [[unlikely]]
    CUGRT_TRY(verify(run));
  values_.set_changes({});
  frame_serial_ = run.serial;
  return PatchCounts{fields, fields};
}

} // namespace cugrt::runtime
