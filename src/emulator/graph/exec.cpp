// Instances: the snapshot of a graph, and launching it as tasks; see graph.h.
#include "emulator/driver/stream.h"

#include <algorithm>

namespace cugrt::emulator::api {

namespace {

constexpr uint64_t kFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

// Kahn's algorithm; a node that is left over lies on or behind a cycle.
const GraphNode *find_cycle(const Graph &graph) {
  std::unordered_map<const GraphNode *, size_t> pending;
  std::vector<const GraphNode *> ready;
  for (const auto &node : graph.nodes)
    if (!(pending[node.get()] = node->dependencies.size()))
      ready.push_back(node.get());
  size_t seen = 0;
  while (!ready.empty()) {
    const GraphNode *node = ready.back();
    ready.pop_back();
    ++seen;
    for (const GraphEdge &edge : node->dependents)
      if (--pending[edge.node] == 0)
        ready.push_back(edge.node);
  }
  if (seen == graph.nodes.size())
    return nullptr;
  for (const auto &node : graph.nodes)
    if (pending[node.get()])
      return node.get();
  return nullptr;
}

CUresult snapshot(const Graph &graph, ExecGraph &out, InstantiateError *error) {
  if (const GraphNode *node = find_cycle(graph)) {
    *error = {CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, node->handle};
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::unordered_map<const GraphNode *, uint32_t> index;
  for (const auto &node : graph.nodes)
    index.emplace(node.get(), uint32_t(index.size()));
  out.nodes.resize(graph.nodes.size());
  for (const auto &node : graph.nodes) {
    uint32_t i = index[node.get()];
    ExecNode &exec = out.nodes[i];
    exec.source_id = node->id;
    exec.type = node->type();
    if (auto *child = std::get_if<ChildWork>(&node->work)) {
      exec.body = std::make_shared<ExecGraph>();
      CUGRT_EMU_TRY(snapshot(*child->graph, *exec.body, error));
    } else {
      exec.work = node->work;
    }
    for (const GraphEdge &edge : node->dependencies)
      exec.dependencies.push_back(index[edge.node]);
    out.by_source.emplace(node->id, i);
  }
  return CUDA_SUCCESS;
}

// A spread of the bits of its input: which of several ready nodes runs first.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

struct LaunchPlan {
  TaskBatch batch;
  uint64_t seed;

  TaskPtr shuffle(TaskPtr task) {
    task->order_minor = mix(seed++);
    return task;
  }
  TaskPtr add_marker() {
    auto task = std::make_shared<Task>();
    batch.add(task);
    return task;
  }

  // A node is a task, or for a child graph the span between two markers: what depends on the node
  // depends on `end`, what the node depends on precedes `begin`.
  void expand(const ExecGraph &graph, const TaskPtr &begin, const TaskPtr &end) {
    std::vector<std::pair<TaskPtr, TaskPtr>> spans;
    spans.reserve(graph.nodes.size());
    for (const ExecNode &node : graph.nodes) {
      if (node.body) {
        TaskPtr inner_begin = add_marker(), inner_end = add_marker();
        expand(*node.body, inner_begin, inner_end);
        spans.emplace_back(inner_begin, inner_end);
      } else {
        // "Disabled nodes are functionally equivalent to empty nodes until they are reenabled."
        TaskPtr task = node.enabled ? shuffle(batch.add(node.work)) : add_marker();
        spans.emplace_back(task, task);
      }
    }
    for (size_t i = 0; i < spans.size(); ++i) {
      batch.depend(spans[i].first, begin);
      for (uint32_t before : graph.nodes[i].dependencies)
        batch.depend(spans[i].first, spans[before].second);
      batch.depend(end, spans[i].second);
    }
    batch.depend(end, begin);
  }
};

} // namespace

CUresult instantiate(Driver &driver, const Graph &graph, uint64_t flags, GraphExec &exec,
                     InstantiateError *error) {
  error->result = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (flags & ~kFlags)
    return CUDA_ERROR_INVALID_VALUE;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
    // "This flag cannot be used in conjunction with [...] AUTO_FREE_ON_LAUNCH."
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
      return CUDA_ERROR_INVALID_VALUE;
    driver.set_message("launching graphs from the device is not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUGRT_EMU_TRY(current_context(driver, &exec.context));
  CUGRT_EMU_TRY(snapshot(graph, exec.body, error));
  exec.flags = flags;
  exec.graph_id = graph.id;
  exec.user_objects = graph.user_objects; // the caller counts the references
  error->result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}

ExecNode *find_exec_node(GraphExec &exec, const GraphNode &node) {
  auto found = exec.body.by_source.find(node.id);
  return found == exec.body.by_source.end() ? nullptr : &exec.body.nodes[found->second];
}

CUresult launch_exec(Driver &driver, const std::shared_ptr<GraphExec> &exec,
                     const std::shared_ptr<Stream> &stream) {
  LaunchPlan plan{TaskBatch(driver), mix(driver.config.seed) ^ mix(exec->launches)};
  TaskPtr begin = plan.add_marker(), end = plan.add_marker();
  plan.batch.order_in_stream(*stream, begin);
  // "For each instance of a graph, only one launch may be executing at a time": in order.
  plan.batch.depend(begin, exec->last_launch);
  plan.expand(exec->body, begin, end);
  plan.batch.submit();
  ++exec->launches;
  stream->tail = exec->last_launch = end;
  driver.counters.graph_launches.fetch_add(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
