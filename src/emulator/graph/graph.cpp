// Building graphs: nodes, edges, clones; see graph.h.
#include "base/on_throw.h"
#include "emulator/driver/driver.h"
#include "emulator/graph/batch_copy.h"

#include <algorithm>

namespace cugrt::emulator::api {

CUgraphNodeType work_type(const Work &work) {
  constexpr CUgraphNodeType kTypes[] = {CU_GRAPH_NODE_TYPE_EMPTY,
                                        CU_GRAPH_NODE_TYPE_KERNEL,
                                        CU_GRAPH_NODE_TYPE_MEMCPY,
                                        CU_GRAPH_NODE_TYPE_MEMSET,
                                        CU_GRAPH_NODE_TYPE_HOST,
                                        CU_GRAPH_NODE_TYPE_GRAPH,
                                        CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                                        CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                                        CU_GRAPH_NODE_TYPE_CONDITIONAL,
                                        CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                        kBatchCopyNode};
  static_assert(std::size(kTypes) == std::variant_size_v<Work>);
  return kTypes[work.index()];
}

std::span<const std::shared_ptr<Graph>> embedded_graphs(const Work &work) {
  if (auto *child = std::get_if<ChildWork>(&work))
    return {&child->graph, 1};
  if (auto *conditional = std::get_if<ConditionalWork>(&work))
    return conditional->bodies;
  return {};
}

void drop_embedded(Driver &driver, const Work &work) {
  for (const auto &graph : embedded_graphs(work))
    destroy_graph(driver, graph);
}

void gather_references(const Graph &graph, UserReferences &out) {
  for (const auto &[object, count] : graph.user_objects)
    out[object] += count;
  for (const auto &node : graph.nodes)
    for (const auto &embedded : embedded_graphs(node->work))
      gather_references(*embedded, out);
}

void gather_references(const ExecGraph &graph, UserReferences &out) {
  for (const auto &[object, count] : graph.user_objects)
    out[object] += count;
  for (const ExecNode &node : graph.nodes) {
    if (node.body)
      gather_references(*node.body, out);
    for (const auto &branch : node.branches)
      gather_references(*branch, out);
  }
}

void count_references(const UserReferences &references) {
  for (const auto &[object, count] : references)
    object->references += count;
}

static void destroy_nodes(Driver &driver, Graph &graph);

// The node's handle may be given to another node.
static void destroy_embedded(Driver &driver, const Work &work) {
  if (auto *conditional = std::get_if<ConditionalWork>(&work))
    conditional->conditional->used = false;
  for (const auto &graph : embedded_graphs(work))
    destroy_nodes(driver, *graph);
}

static void destroy_nodes(Driver &driver, Graph &graph) {
  driver.graphs.erase(graph.handle);
  for (const auto &node : graph.nodes) {
    driver.nodes.erase(node->handle);
    destroy_embedded(driver, node->work);
    node->graph = nullptr;
  }
  graph.nodes.clear();
  graph.user_objects.clear();
  graph.parent = nullptr;
}

std::shared_ptr<Graph> make_graph(Driver &driver) {
  auto graph = std::make_shared<Graph>();
  graph->id = driver.next_id++;
  driver.graphs.insert(graph);
  return graph;
}

void destroy_graph(Driver &driver, const std::shared_ptr<Graph> &graph) {
  UserReferences references;
  gather_references(*graph, references);
  release_user_objects(driver, references, nullptr);
  destroy_nodes(driver, *graph);
}

// Makes sure that the next push_back cannot fail.
static void reserve_one(std::vector<GraphEdge> &edges) {
  if (edges.size() == edges.capacity())
    edges.reserve(std::max<size_t>(4, 2 * edges.size()));
}

static bool reserved_zero(const CUgraphEdgeData &data) {
  return std::all_of(std::begin(data.reserved), std::end(data.reserved),
                     [](unsigned char byte) { return byte == 0; });
}

static bool has_edge(const GraphNode &from, const GraphNode &to) {
  // The shorter list decides: both hold the edge.
  const auto &ahead = from.dependents;
  const auto &behind = to.dependencies;
  if (ahead.size() < behind.size())
    return std::any_of(ahead.begin(), ahead.end(), [&](auto &edge) { return edge.node == &to; });
  return std::any_of(behind.begin(), behind.end(), [&](auto &edge) { return edge.node == &from; });
}

bool is_default(const CUgraphEdgeData &data) {
  return !data.from_port && !data.to_port && !data.type && reserved_zero(data);
}

bool same_edge(const CUgraphEdgeData &a, const CUgraphEdgeData &b) {
  return a.from_port == b.from_port && a.to_port == b.to_port && a.type == b.type;
}

CUresult check_edge(const Driver &driver, const GraphNode &from, const GraphNode &to,
                    const CUgraphEdgeData &data) {
  if (from.graph != to.graph || &from == &to)
    return CUDA_ERROR_INVALID_VALUE;
  if (!is_default(data)) {
    // "It may only be used between kernel nodes, and must be used with either the [...]
    // PROGRAMMATIC or [...] LAUNCH_ORDER outgoing port."
    bool known = data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && !data.to_port &&
                 (data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
                  data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) &&
                 reserved_zero(data) && from.type() == CU_GRAPH_NODE_TYPE_KERNEL &&
                 to.type() == CU_GRAPH_NODE_TYPE_KERNEL;
    if (!known)
      return CUDA_ERROR_INVALID_VALUE;
    if (driver.config.driver_version < kEdgeData)
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  // "Specifying an existing dependency will return an error."
  return has_edge(from, to) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

void add_edge(GraphNode &from, GraphNode &to, const CUgraphEdgeData &data) {
  reserve_one(to.dependencies);
  reserve_one(from.dependents);
  to.dependencies.push_back({&from, data});
  from.dependents.push_back({&to, data});
}

CUresult add_node(Driver &driver, Graph &graph, const CUgraphNode *dependencies,
                  const CUgraphEdgeData *edge_data, size_t count, Work work, CUgraphNode *out) {
  if (!out || (count && !dependencies))
    return CUDA_ERROR_INVALID_VALUE;
  auto node = std::make_shared<GraphNode>();
  node->graph = &graph;
  node->work = std::move(work);
  auto data_of = [&](size_t i) {
    return edge_data ? edge_data[driver.config.first_edge_data ? 0 : i] : CUgraphEdgeData{};
  };
  std::vector<std::shared_ptr<GraphNode>> before;
  for (size_t i = 0; i < count; ++i) {
    auto dependency = driver.nodes.find(dependencies[i]);
    if (!dependency || dependency->graph != &graph)
      return CUDA_ERROR_INVALID_VALUE;
    CUGRT_EMU_TRY(check_edge(driver, *dependency, *node, data_of(i)));
    before.push_back(std::move(dependency));
  }
  // "dependencies may not have any duplicate entries."
  auto sorted = before;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return CUDA_ERROR_INVALID_VALUE;
  node->id = driver.next_id++;
  node->local_id = graph.next_local_id++;
  node->dependencies.reserve(before.size());
  for (const auto &dependency : before)
    reserve_one(dependency->dependents);
  *out = driver.nodes.insert(node, [&] { graph.nodes.push_back(node); });
  if (auto *conditional = std::get_if<ConditionalWork>(&node->work))
    conditional->conditional->used = true;
  for (size_t i = 0; i < before.size(); ++i)
    add_edge(*before[i], *node, data_of(i));
  return CUDA_SUCCESS;
}

void replace_work(GraphNode &node, Work work) {
  if (node.param_pointers)
    node.earlier.emplace_back(std::move(node.work), std::move(node.param_pointers));
  node.work = std::move(work);
  node.param_pointers = nullptr;
}

void destroy_node(Driver &driver, const std::shared_ptr<GraphNode> &node) {
  UserReferences references;
  for (const auto &embedded : embedded_graphs(node->work))
    gather_references(*embedded, references);
  release_user_objects(driver, references, nullptr);
  auto is_node = [&](const GraphEdge &edge) { return edge.node == node.get(); };
  for (const GraphEdge &edge : node->dependencies)
    std::erase_if(edge.node->dependents, is_node);
  for (const GraphEdge &edge : node->dependents)
    std::erase_if(edge.node->dependencies, is_node);
  destroy_embedded(driver, node->work);
  driver.nodes.erase(node->handle);
  Graph &graph = *node->graph;
  node->graph = nullptr;
  std::erase(graph.nodes, node);
}

static void clone_nodes(Driver &driver, const Graph &graph, const std::shared_ptr<Graph> &clone) {
  clone->clone_of = graph.id;
  clone->next_local_id = graph.next_local_id;
  clone->nodes.reserve(graph.nodes.size());
  std::unordered_map<const GraphNode *, GraphNode *> copies;
  for (const auto &node : graph.nodes) {
    auto copy = std::make_shared<GraphNode>();
    copy->id = driver.next_id++;
    copy->clone_of = node->id;
    copy->local_id = node->local_id;
    copy->graph = clone.get();
    copy->work = node->work;
    if (auto *child = std::get_if<ChildWork>(&copy->work)) {
      child->graph = clone_graph(driver, *child->graph);
      child->graph->embedded = true;
    }
    clone->nodes.push_back(copy);
    driver.nodes.insert(copy);
    copies[node.get()] = copy.get();
  }
  // Both lists keep their order: updates pair nodes by it.
  for (const auto &node : graph.nodes) {
    for (const GraphEdge &edge : node->dependencies)
      copies[node.get()]->dependencies.push_back({copies[edge.node], edge.data});
    for (const GraphEdge &edge : node->dependents)
      copies[node.get()]->dependents.push_back({copies[edge.node], edge.data});
  }
}

std::shared_ptr<Graph> clone_graph(Driver &driver, const Graph &graph) {
  auto clone = make_graph(driver);
  const OnThrow undo([&] { destroy_graph(driver, clone); });
  clone_nodes(driver, graph, clone);
  clone->user_objects = graph.user_objects;
  // "graph execution or cloning" takes its own references to the user objects.
  count_references(clone->user_objects);
  return clone;
}

// "Destructor callbacks [...] are executed by a shared internal thread": the host thread, after
// what is already queued there. They are queued before anything is given up, since that may fail.
void release_user_objects(Driver &driver, UserReferences &references, const TaskPtr &after) {
  if (references.empty())
    return;
  Submission destructors;
  for (auto &[object, count] : references) {
    if (object->references != count) {
      std::erase_if(object->launches, [&](auto &t) { return driver.scheduler->done(t); });
      if (after)
        object->launches.push_back(after);
      continue;
    }
    auto task = std::make_shared<Task>();
    task->kind = TaskKind::host;
    task->run_always = true;
    task->action = [destroy = object->destroy, pointer = object->pointer](CUresult) {
      destroy(pointer);
      return CUDA_SUCCESS;
    };
    destructors.depend(task, after);
    for (const TaskPtr &launch : object->launches)
      destructors.depend(task, launch);
    destructors.add(std::move(task));
  }
  driver.scheduler->submit(destructors);
  for (auto &[object, count] : references)
    if (!(object->references -= count))
      driver.user_objects.erase(object->handle);
  references.clear();
}

} // namespace cugrt::emulator::api
