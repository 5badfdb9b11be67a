// Instances: the snapshot of a graph, and launching it as tasks; see graph.h.
#include "emulator/driver/device_limits.h"
#include "emulator/graph/conditional.h"
#include "emulator/graph/node_params.h"
#include "emulator/graph/node_run.h"
#include "emulator/graph/stream.h"

#include <algorithm>

namespace cugrt::emulator::api {

namespace {

constexpr uint64_t kInstantiateFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

constexpr int kBodiesWithoutWork = 12080; // the driver version from which on there may be such

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

CUresult snapshot(Driver &driver, const Graph &graph, ExecGraph &out, InstantiateError *error);

CUresult snapshot_bodies(Driver &driver, ExecNode &node, InstantiateError *error) {
  auto *work = std::get_if<ConditionalWork>(&node.work);
  if (!work)
    return CUDA_SUCCESS;
  for (const auto &body : work->bodies) {
    node.branches.push_back(std::make_shared<ExecGraph>());
    CUGRT_EMU_TRY(snapshot(driver, *body, *node.branches.back(), error));
  }
  work->bodies.clear();
  return CUDA_SUCCESS;
}

CUresult snapshot(Driver &driver, const Graph &graph, ExecGraph &out, InstantiateError *error) {
  if (const GraphNode *node = find_cycle(graph)) {
    *error = {CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, node->handle};
    return CUDA_ERROR_INVALID_VALUE;
  }
  bool programmatic = driver.config.profile->capability() >= kProgrammaticCapability;
  std::unordered_map<const GraphNode *, uint32_t> index;
  for (const auto &node : graph.nodes)
    index.emplace(node.get(), uint32_t(index.size()));
  out.nodes.resize(graph.nodes.size());
  out.user_objects = graph.user_objects; // the caller of instantiate counts them
  for (const auto &node : graph.nodes) {
    uint32_t i = index[node.get()];
    ExecNode &exec = out.nodes[i];
    exec.source_id = node->id;
    exec.tools_id = exec.source_tools_id = tools_id_of(*node);
    exec.type = node->type();
    if (auto *child = std::get_if<ChildWork>(&node->work)) {
      exec.body = std::make_shared<ExecGraph>();
      CUGRT_EMU_TRY(snapshot(driver, *child->graph, *exec.body, error));
    } else {
      exec.work = node->work;
      CUGRT_EMU_TRY(snapshot_bodies(driver, exec, error));
    }
    for (const GraphEdge &edge : node->dependencies) {
      exec.dependencies.push_back(index[edge.node]);
      exec.edge_data.push_back(edge.data);
      exec.early.push_back(programmatic && edge.data.type);
    }
    out.by_source.emplace(node->id, i);
  }
  order_nodes(out, driver.findings.enabled(Check::nodes) ||
                       driver.findings.enabled(Check::programmatic));
  return CUDA_SUCCESS;
}

ExecNode copy_node(const ExecNode &node);

std::shared_ptr<ExecGraph> copy_graph(const ExecGraph &graph) {
  auto copy = std::make_shared<ExecGraph>();
  copy->order = graph.order;
  copy->nodes.reserve(graph.nodes.size());
  for (const ExecNode &node : graph.nodes)
    copy->nodes.push_back(copy_node(node));
  return copy;
}

ExecNode copy_node(const ExecNode &node) {
  ExecNode copy = node;
  if (copy.body)
    copy.body = copy_graph(*copy.body);
  for (auto &branch : copy.branches)
    branch = copy_graph(*branch);
  return copy;
}

/// A node's priority, for instances that use these: a kernel's own, a conditional's greatest.
int priority_of(const ExecNode &node) {
  int greatest = kLeastPriority;
  if (const auto *kernel = std::get_if<KernelWork>(&node.work))
    if (auto own = kernel->attributes.find(CU_LAUNCH_ATTRIBUTE_PRIORITY);
        own != kernel->attributes.end())
      greatest = std::clamp(own->second.priority, kGreatestPriority, kLeastPriority);
  for (const auto &branch : node.branches)
    for (const ExecNode &inner : branch->nodes)
      greatest = std::min(greatest, priority_of(inner));
  return greatest;
}

struct LaunchPlan {
  Driver &driver;
  TaskBatch batch;
  uint64_t seed;
  uint32_t launch;
  bool by_nodes; // each has a priority of its own

  TaskPtr shuffle(TaskPtr task) {
    task->order_minor = mix(seed++);
    return task;
  }
  TaskPtr add_marker() {
    auto task = std::make_shared<Task>();
    batch.add(task);
    return task;
  }

  // The task has its own copy of the bodies: setters change those of the instance.
  TaskPtr add_conditional(const ExecNode &node, uint32_t index,
                          const std::shared_ptr<OrderCheck> &check) {
    auto copy = std::make_shared<ExecNode>(copy_node(node));
    return add_device(
        [&driver = driver, copy, index, check, node_seed = mix(seed++), launch = launch](CUresult) {
          return run_conditional(driver, *copy, index, check, node_seed, launch);
        });
  }
  TaskPtr add_run(const std::shared_ptr<NodeRun> &run) {
    return add_device([run](CUresult) { return run->run(); });
  }
  TaskPtr add_device(std::function<CUresult(CUresult)> action) {
    auto task = std::make_shared<Task>();
    task->kind = TaskKind::device;
    task->action = std::move(action);
    batch.add(task);
    return task;
  }
  // Variables get their values once the launch before has ended.
  TaskPtr add_begin(const GraphExec &exec) {
    TaskPtr task = add_marker();
    std::vector<std::shared_ptr<Conditional>> conditionals;
    collect_conditionals(exec.body, conditionals);
    if (conditionals.empty())
      return task;
    task->kind = TaskKind::device;
    task->action = [conditionals = std::move(conditionals), value_seed = mix(seed++)](CUresult) {
      arm(conditionals, value_seed);
      return CUDA_SUCCESS;
    };
    return task;
  }

  // A node is a task, or for a child graph the span between two markers: successors of the node
  // wait for `end`, its predecessors precede `begin`.
  void expand(const ExecGraph &graph, const std::shared_ptr<OrderCheck> &check,
              const TaskPtr &begin, const TaskPtr &end) {
    std::vector<std::shared_ptr<NodeRun>> runs = make_runs(driver, graph, check, launch);
    std::vector<std::pair<TaskPtr, TaskPtr>> spans;
    spans.reserve(graph.nodes.size());
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const ExecNode &node = graph.nodes[i];
      if (node.body) {
        TaskPtr inner_begin = add_marker(), inner_end = add_marker();
        expand(*node.body, make_check(check, i, *node.body), inner_begin, inner_end);
        spans.emplace_back(inner_begin, inner_end);
      } else {
        // "Disabled nodes are functionally equivalent to empty nodes until they are reenabled."
        TaskPtr task = !node.enabled            ? add_marker()
                       : !node.branches.empty() ? shuffle(add_conditional(node, i, check))
                       : runs[i]                ? shuffle(add_run(runs[i]))
                                                : shuffle(batch.add(node.work));
        if (by_nodes)
          task->own_priority = priority_of(node);
        spans.emplace_back(task, task);
      }
    }
    // A kernel that begins before another has ended is over when both are.
    for (size_t i = 0; i < spans.size(); ++i) {
      const ExecNode &node = graph.nodes[i];
      if (std::find(node.early.begin(), node.early.end(), 1) == node.early.end())
        continue;
      spans[i].first->alone = true;
      for (size_t d = 0; d < node.dependencies.size(); ++d)
        if (node.early[d])
          spans[node.dependencies[d]].first->alone = true;
      TaskPtr over = add_marker();
      batch.depend(over, spans[i].first);
      spans[i].second = over;
    }
    for (size_t i = 0; i < spans.size(); ++i) {
      batch.depend(spans[i].first, begin);
      const ExecNode &node = graph.nodes[i];
      for (uint32_t before : node.start_after)
        batch.depend(spans[i].first, spans[before].second);
      for (size_t d = 0; d < node.dependencies.size(); ++d)
        if (node.early[d])
          batch.depend(spans[i].second, spans[node.dependencies[d]].second);
      batch.depend(end, spans[i].second);
    }
    batch.depend(end, begin);
  }
};

// A body of which no node does anything hangs on drivers before 12.8.
bool does_work(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto &node) {
    if (auto *child = std::get_if<ChildWork>(&node->work))
      return does_work(*child->graph);
    return !std::holds_alternative<EmptyWork>(node->work);
  });
}

// Fails if a graph with conditional nodes has a property or node that it may not have.
CUresult check_conditionals(Driver &driver, const Graph &graph, InstantiateError *error) {
  if (graph.is_body) {
    driver.set_message("the body of a conditional node is instantiated with its node's graph only");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!all_conditionals_used(graph)) {
    error->result = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto &node : graph.nodes) {
    auto *conditional = std::get_if<ConditionalWork>(&node->work);
    if (!conditional)
      continue;
    if (driver.config.driver_version < kBodiesWithoutWork)
      for (const auto &body : conditional->bodies)
        if (!does_work(*body)) {
          error->node = node->handle;
          driver.set_message(
              "a body of a conditional node holds nothing to execute, which hangs on "
              "drivers before 12.8");
          return CUDA_ERROR_NOT_SUPPORTED;
        }
    for (const auto &body : conditional->bodies)
      if (const GraphNode *illegal =
              find_illegal_in_body(driver, *body, *conditional->conditional->context)) {
        error->node = illegal->handle;
        driver.set_message("the body of a conditional node holds a node of a type or context that "
                           "is not allowed there");
        return CUDA_ERROR_NOT_SUPPORTED;
      }
  }
  // "Only one instantiation of the graph may exist at any point in time."
  bool instantiated = false;
  if (has_conditional(graph))
    driver.execs.for_each([&](const auto &other) { instantiated |= other->graph_id == graph.id; });
  if (instantiated)
    driver.set_message("a graph with conditional nodes has one instance at a time: destroy it "
                       "first");
  return instantiated ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

} // namespace

CUresult instantiate(Driver &driver, const Graph &graph, uint64_t flags, GraphExec &exec,
                     InstantiateError *error) {
  error->result = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (flags & ~kInstantiateFlags)
    return CUDA_ERROR_INVALID_VALUE;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
    // "This flag cannot be used in conjunction with [...] AUTO_FREE_ON_LAUNCH."
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
      return CUDA_ERROR_INVALID_VALUE;
    driver.set_message("launching graphs from the device is not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUGRT_EMU_TRY(current_context(driver, &exec.context));
  CUGRT_EMU_TRY(check_conditionals(driver, graph, error));
  CUGRT_EMU_TRY(snapshot(driver, graph, exec.body, error));
  exec.flags = flags;
  exec.graph_id = graph.id;
  exec.id = driver.next_id++;
  for (ExecNode &node : exec.body.nodes)
    node.tools_id = tools_id_of(exec.id, uint32_t(node.source_tools_id));
  error->result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}

static ExecNode *find_in(ExecGraph &graph, uint64_t source_id) {
  auto found = graph.by_source.find(source_id);
  if (found != graph.by_source.end())
    return &graph.nodes[found->second];
  for (ExecNode &node : graph.nodes)
    for (const auto &branch : node.branches)
      if (ExecNode *inner = find_in(*branch, source_id))
        return inner;
  return nullptr;
}

ExecNode *find_exec_node(GraphExec &exec, const GraphNode &node) {
  return find_in(exec.body, node.id);
}

static bool any_enabled(const ExecGraph &graph, bool (*is)(const Work &)) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [is](const ExecNode &node) {
    const auto inner = [is](const auto &body) { return any_enabled(*body, is); };
    return (node.enabled && is(node.work)) || (node.body && inner(node.body)) ||
           std::any_of(node.branches.begin(), node.branches.end(), inner);
  });
}

CUresult launch_exec(Driver &driver, const std::shared_ptr<GraphExec> &exec,
                     const std::shared_ptr<Stream> &stream) {
  if (any_enabled(exec->body, has_empty_grid)) {
    driver.set_message("the graph has a kernel node with a grid dimension of 0");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (any_enabled(exec->body, lost_green_context)) {
    driver.set_message("the graph has a kernel node whose green context was destroyed");
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  LaunchPlan plan{driver, TaskBatch(driver), mix(driver.config.seed) ^ mix(exec->launches),
                  driver.activities.next_launch(),
                  (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0};
  TaskPtr begin = plan.add_begin(*exec), end = plan.add_marker();
  plan.batch.order_in_stream(*stream, begin);
  // "For each instance of a graph, only one launch may be executing at a time": in order.
  plan.batch.depend(begin, exec->last_launch);
  plan.expand(exec->body, make_check(driver, exec->body, plan.batch.stream_work()), begin, end);
  plan.batch.submit();
  ++exec->launches;
  stream->tail = exec->last_launch = end;
  stream->last_kernel = nullptr;
  driver.counters.graph_launches.fetch_add(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
