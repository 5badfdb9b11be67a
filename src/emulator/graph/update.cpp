// Changes instances by a setter or a whole update, and says why it may not.
//
// A whole update pairs the nodes of two graphs from their exit nodes backwards, by the order of
// edges, as cuda.h describes; nothing is changed unless everything may be.
#include "emulator/graph/batch_copy.h"
#include "emulator/graph/graph.h"

#include "base/on_throw.h"
#include "emulator/driver/memory/copy.h"
#include "emulator/graph/memory_ops.h"

namespace cugrt::emulator::api {

namespace {

// The kind of memory behind an address and the context that it belongs to.
struct Placement {
  int kind = 0; // 0: pageable host, 1: pinned or registered, 2: device
  Context *context = nullptr;
  bool operator==(const Placement &) const = default;
};

Placement placement(Driver &driver, uint64_t address) {
  std::optional<MemoryRange> range = driver.allocations->find(address);
  if (!range) // globals of modules are device memory too
    return {driver.memory->owns(address) ? 2 : 0, nullptr};
  bool host = range->kind == MemoryKind::pinned || range->kind == MemoryKind::registered;
  return {host ? 1 : 2, host ? nullptr : range->context};
}

// Stream-ordered allocations and globals belong to no context: they go with any device memory.
bool same_placement(Driver &driver, uint64_t a, uint64_t b) {
  Placement x = placement(driver, a), y = placement(driver, b);
  return x.kind == y.kind && (!x.context || !y.context || x.context == y.context);
}

int attribute_int(const KernelWork &work, int id) {
  auto found = work.attributes.find(id);
  if (found == work.attributes.end())
    return 0;
  return id == CU_LAUNCH_ATTRIBUTE_PRIORITY ? found->second.priority : found->second.cooperative;
}

using Reason = CUgraphExecUpdateResult;
constexpr Reason kParameters = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;

Reason check(Driver &, const GraphExec &exec, const KernelWork &from, const KernelWork &to) {
  // "The owning context of the function cannot change", nor, for caution, the green context.
  if (from.function->context != to.function->context || from.green != to.green)
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  // "A cooperative node cannot be updated to a non-cooperative node, and vice-versa."
  if (!attribute_int(from, CU_LAUNCH_ATTRIBUTE_COOPERATIVE) !=
      !attribute_int(to, CU_LAUNCH_ATTRIBUTE_COOPERATIVE))
    return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  // "If the graph was instantiated with CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, the priority
  // attribute cannot change."
  if ((exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) &&
      attribute_int(from, CU_LAUNCH_ATTRIBUTE_PRIORITY) !=
          attribute_int(to, CU_LAUNCH_ATTRIBUTE_PRIORITY))
    return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

Reason check(Driver &driver, const GraphExec &, const CopyWork &from, const CopyWork &to) {
  const CUDA_MEMCPY3D &a = from.copy, &b = to.copy;
  // "Changing either the source or destination memory type [...] is not supported."
  bool types = a.srcMemoryType == b.srcMemoryType && a.dstMemoryType == b.dstMemoryType;
  bool places = same_placement(driver, source_of(a), source_of(b)) &&
                same_placement(driver, destination_of(a), destination_of(b));
  return types && places ? CU_GRAPH_EXEC_UPDATE_SUCCESS : kParameters;
}

Reason check(Driver &driver, const GraphExec &, const FillWork &from, const FillWork &to) {
  const CUDA_MEMSET_NODE_PARAMS &a = from.fill, &b = to.fill;
  if (!b.width || !b.height || !same_placement(driver, a.dst, b.dst))
    return kParameters;
  // "For 2d memsets, all dimension changes are rejected. For 1d memsets, changes in height are
  // explicitly rejected and other changes are opportunistically allowed".
  if (a.height != b.height)
    return kParameters;
  bool two_dimensional = a.height > 1;
  bool same = a.width == b.width && a.elementSize == b.elementSize && a.pitch == b.pitch;
  return two_dimensional && !same ? kParameters : CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

Reason check(Driver &, const GraphExec &, const MemoryOpsWork &from, const MemoryOpsWork &to) {
  return same_but_values(from, to) ? CU_GRAPH_EXEC_UPDATE_SUCCESS : kParameters;
}

Reason check(Driver &, const GraphExec &, const BatchCopyWork &from, const BatchCopyWork &to) {
  return same_but_operands(from, to) ? CU_GRAPH_EXEC_UPDATE_SUCCESS : kParameters;
}

template <class W> Reason check(Driver &, const GraphExec &, const W &, const W &) {
  return CU_GRAPH_EXEC_UPDATE_SUCCESS; // host, event and empty nodes: "Unrestricted"
}

struct Pairing {
  std::unordered_map<const GraphNode *, uint32_t> to_exec;
  std::vector<const GraphNode *> to_node; // by index in the instance
};

void fail(CUgraphExecUpdateResultInfo *info, Reason reason, const GraphNode *node = nullptr,
          const GraphNode *from = nullptr) {
  info->result = reason;
  info->errorNode = node ? node->handle : nullptr;
  info->errorFromNode = from ? from->handle : nullptr;
}

// Pairs two nodes; false when either already has another partner.
bool pair_up(Pairing &pairing, const GraphNode *node, uint32_t index, bool *fresh) {
  auto known = pairing.to_exec.find(node);
  const GraphNode *partner = pairing.to_node[index];
  *fresh = known == pairing.to_exec.end() && !partner;
  if (!*fresh)
    return known != pairing.to_exec.end() && known->second == index;
  pairing.to_exec.emplace(node, index);
  pairing.to_node[index] = node;
  return true;
}

std::vector<uint32_t> exec_exits(const ExecGraph &exec) {
  std::vector<bool> has_dependent(exec.nodes.size());
  for (const ExecNode &node : exec.nodes)
    for (uint32_t before : node.dependencies)
      has_dependent[before] = true;
  std::vector<uint32_t> exits;
  for (uint32_t i = 0; i < exec.nodes.size(); ++i)
    if (!has_dependent[i])
      exits.push_back(i);
  return exits;
}

bool pair_graphs(const ExecGraph &exec, const Graph &graph, Pairing &pairing,
                 CUgraphExecUpdateResultInfo *info) {
  constexpr Reason kTopology = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (exec.nodes.size() != graph.nodes.size())
    return fail(info, kTopology), false;
  pairing.to_node.assign(exec.nodes.size(), nullptr);
  std::vector<uint32_t> exits = exec_exits(exec);
  std::vector<const GraphNode *> work;
  size_t next = 0;
  bool fresh;
  for (const auto &node : graph.nodes) {
    if (!node->dependents.empty())
      continue;
    if (next == exits.size())
      return fail(info, kTopology, node.get()), false;
    pair_up(pairing, node.get(), exits[next++], &fresh);
    work.push_back(node.get());
  }
  if (next != exits.size())
    return fail(info, kTopology), false;
  while (!work.empty()) {
    const GraphNode *node = work.back();
    work.pop_back();
    const ExecNode &partner = exec.nodes[pairing.to_exec[node]];
    if (partner.dependencies.size() != node->dependencies.size())
      return fail(info, kTopology, node), false;
    for (size_t i = 0; i < node->dependencies.size(); ++i) {
      const GraphNode *before = node->dependencies[i].node;
      if (!pair_up(pairing, before, partner.dependencies[i], &fresh) ||
          !same_edge(node->dependencies[i].data, partner.edge_data[i]))
        return fail(info, kTopology, node, before), false;
      if (fresh)
        work.push_back(before);
    }
  }
  return true;
}

/// One change of an update. All are collected before anything is changed.
struct Change {
  ExecNode *target;
  Work work;
  uint64_t source_tools_id;
};
struct Changes {
  std::vector<Change> works;
  std::vector<std::pair<ExecGraph *, UserReferences>> references;
};

bool plan_update(Driver &driver, const GraphExec &whole, ExecGraph &exec, const Graph &graph,
                 Changes &changes, CUgraphExecUpdateResultInfo *info);

// "Changing node parameters is not supported. Changing parameters of nodes within the conditional
// body graph is subject to the rules above. Conditional handle flags and default values are updated
// as part of the graph update": the instance goes over to the handle that the updated kernels set.
bool plan_conditional(Driver &driver, const GraphExec &whole, ExecNode &target,
                      const GraphNode &source, Changes &changes,
                      CUgraphExecUpdateResultInfo *info) {
  const auto &from = std::get<ConditionalWork>(target.work);
  const auto &to = std::get<ConditionalWork>(source.work);
  if (from.type != to.type || target.branches.size() != to.bodies.size() ||
      from.conditional->context != to.conditional->context)
    return fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, &source), false;
  for (size_t i = 0; i < to.bodies.size(); ++i)
    if (!plan_update(driver, whole, *target.branches[i], *to.bodies[i], changes, info))
      return false;
  ConditionalWork work = to;
  work.bodies.clear();
  changes.works.push_back({&target, std::move(work), tools_id_of(source)});
  return true;
}

// Collects the changes of one level and of the graphs in it, or says why there are none.
bool plan_update(Driver &driver, const GraphExec &whole, ExecGraph &exec, const Graph &graph,
                 Changes &changes, CUgraphExecUpdateResultInfo *info) {
  Pairing pairing;
  if (!pair_graphs(exec, graph, pairing, info))
    return false;
  changes.references.push_back({&exec, graph.user_objects});
  for (uint32_t i = 0; i < exec.nodes.size(); ++i) {
    ExecNode &target = exec.nodes[i];
    const GraphNode *source = pairing.to_node[i];
    if (!source) // only on a cycle, which the graph to be read may have
      return fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED), false;
    if (source->type() != target.type)
      return fail(info, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, source), false;
    if (target.body) {
      const Graph &child = *std::get<ChildWork>(source->work).graph;
      if (!plan_update(driver, whole, *target.body, child, changes, info))
        return false;
      continue;
    }
    if (!target.branches.empty()) {
      if (!plan_conditional(driver, whole, target, *source, changes, info))
        return false;
      continue;
    }
    Reason reason = check_change(driver, whole, target.work, source->work);
    if (reason != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      return fail(info, reason, source), false;
    changes.works.push_back({&target, source->work, tools_id_of(*source)});
  }
  return true;
}

} // namespace

CUgraphExecUpdateResult check_change(Driver &driver, const GraphExec &exec, const Work &from,
                                     const Work &to) {
  return std::visit(
      [&](const auto &a) -> Reason {
        auto *b = std::get_if<std::decay_t<decltype(a)>>(&to);
        return b ? check(driver, exec, a, *b) : CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
      },
      from);
}

// "The references in the new source graph are cloned and replace the references in the target
// graph [...] any references which would be released are held until the launches have finished."
static void take_references(Driver &driver, const ExecGraph &exec, const Graph &graph,
                            const TaskPtr &last_launch) {
  UserReferences old, fresh;
  gather_references(exec, old);
  gather_references(graph, fresh);
  count_references(fresh); // first: what both hold is not destroyed between
  const OnThrow undo([&] {
    for (auto &[object, count] : fresh)
      object->references -= count;
  });
  release_user_objects(driver, old, last_launch);
}

CUresult update_graph(Driver &driver, const GraphExec &whole, ExecGraph &exec, const Graph &graph,
                      CUgraphExecUpdateResultInfo *info) {
  Changes changes;
  fail(info, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  if (!plan_update(driver, whole, exec, graph, changes, info))
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  take_references(driver, exec, graph, whole.last_launch);
  // Parameters only: whether a node is enabled is the instance's.
  for (Change &change : changes.works) {
    change.target->work = std::move(change.work);
    change.target->source_tools_id = change.source_tools_id;
  }
  for (auto &[target, references] : changes.references)
    target->user_objects = std::move(references);
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
