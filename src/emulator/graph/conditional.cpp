// Conditional nodes: checks when they are added and instantiated, and running them; see
// conditional.h.
#include "emulator/graph/conditional.h"

#include "base/on_throw.h"
#include "emulator/driver/code/launch.h"
#include "emulator/driver/driver.h"
#include "emulator/graph/node_run.h"

#include <algorithm>

namespace cugrt::emulator::api {

// Driver versions.
constexpr int kElseAndSwitch = 12080, kCooperativeInBodies = 12060, kEmptyInBodies = 12040;
constexpr unsigned kMaxBodies = 1 << 16;

static CUresult context_or_current(Driver &driver, CUcontext handle, Ref<Context> *out) {
  if (!handle)
    return current_context(driver, out);
  *out = driver.contexts.find(handle);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_shape(const Driver &driver, const CUDA_CONDITIONAL_NODE_PARAMS &params) {
  bool newer = driver.config.driver_version >= kElseAndSwitch;
  switch (params.type) {
  case CU_GRAPH_COND_TYPE_IF:
    return params.size == 1 || (params.size == 2 && newer) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
  case CU_GRAPH_COND_TYPE_WHILE:
    return params.size == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  case CU_GRAPH_COND_TYPE_SWITCH:
    if (params.size > kMaxBodies)
      return CUDA_ERROR_OUT_OF_MEMORY;
    return params.size && newer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

// "The conditional handle must be associated with a conditional node in this graph or one of its
// children."
static bool belongs_to(const Conditional &conditional, const Graph &graph) {
  for (const Graph *g = &graph; g; g = g->parent)
    if (g->id == conditional.graph_id)
      return true;
  return false;
}

CUresult conditional_to_work(Driver &driver, Graph &graph, CUDA_CONDITIONAL_NODE_PARAMS &params,
                             Work *out) {
  CUGRT_EMU_TRY(check_shape(driver, params));
  Ref<Conditional> conditional = driver.conditionals.find(params.handle);
  if (!conditional || conditional->used || !belongs_to(*conditional, graph))
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_FIND(Context, context, context_or_current, driver, params.ctx);
  // "Context on which to run the node. Must match context used to create the handle"
  if (context != conditional->context)
    return CUDA_ERROR_INVALID_VALUE;
  ConditionalWork work;
  work.conditional = conditional;
  work.type = params.type;
  work.body_handles = std::make_shared<std::vector<CUgraph>>();
  work.body_handles->reserve(params.size);
  work.bodies.reserve(params.size);
  const OnThrow undo([&] {
    for (const auto &body : work.bodies)
      destroy_graph(driver, body);
  });
  while (work.bodies.size() < params.size) {
    work.bodies.push_back(make_graph(driver));
    work.bodies.back()->embedded = work.bodies.back()->is_body = true;
    work.bodies.back()->parent = &graph;
    work.body_handles->push_back(work.bodies.back()->handle);
  }
  *out = std::move(work);
  return CUDA_SUCCESS;
}

bool has_conditional(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto &node) {
    return std::holds_alternative<ConditionalWork>(node->work);
  });
}

const GraphNode *find_illegal_in_body(const Driver &driver, const Graph &body,
                                      const Context &context) {
  for (const auto &node : body.nodes) {
    const Work &work = node->work;
    const Context *own = &context;
    bool allowed = true;
    if (auto *kernel = std::get_if<KernelWork>(&work)) {
      own = kernel->function->context.get();
      allowed = !is_cooperative(*kernel) || driver.config.driver_version >= kCooperativeInBodies;
    } else if (auto *copy = std::get_if<CopyWork>(&work))
      own = copy->context.get();
    else if (auto *fill = std::get_if<FillWork>(&work))
      own = fill->context.get();
    else if (auto *conditional = std::get_if<ConditionalWork>(&work))
      own = conditional->conditional->context.get();
    else if (std::holds_alternative<EmptyWork>(work))
      allowed = driver.config.driver_version >= kEmptyInBodies;
    else
      allowed = std::holds_alternative<ChildWork>(work);
    if (!allowed || own != &context)
      return node.get();
    for (const auto &inner : embedded_graphs(work))
      if (const GraphNode *illegal = find_illegal_in_body(driver, *inner, context))
        return illegal;
  }
  return nullptr;
}

bool all_conditionals_used(const Graph &graph) {
  bool used = std::all_of(graph.conditionals.begin(), graph.conditionals.end(),
                          [](const auto &conditional) { return conditional->used; });
  for (const auto &node : graph.nodes)
    for (const auto &inner : embedded_graphs(node->work))
      used = used && all_conditionals_used(*inner);
  return used;
}

void collect_conditionals(const ExecGraph &graph, std::vector<Ref<Conditional>> &out) {
  for (const ExecNode &node : graph.nodes) {
    if (auto *work = std::get_if<ConditionalWork>(&node.work))
      out.push_back(work->conditional);
    for (const auto &branch : node.branches)
      collect_conditionals(*branch, out);
    if (node.body)
      collect_conditionals(*node.body, out);
  }
}

void arm(const std::vector<Ref<Conditional>> &conditionals, uint64_t seed) {
  for (const auto &conditional : conditionals) {
    bool assign = conditional->flags & CU_GRAPH_COND_ASSIGN_DEFAULT;
    conditional->value = assign ? conditional->default_value : uint32_t(mix(seed++) & 1);
    conditional->assigned = assign;
  }
}

// All nodes, one after the other, each drawn by the seed from those that are ready.
static CUresult run_body(Driver &driver, const ExecGraph &graph,
                         const std::shared_ptr<OrderCheck> &check, uint64_t seed, uint32_t launch) {
  std::vector<std::shared_ptr<NodeRun>> runs = make_runs(driver, graph, check, launch);
  std::vector<uint32_t> ready, pending(graph.nodes.size());
  std::vector<std::vector<uint32_t>> dependents(graph.nodes.size());
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    pending[i] = uint32_t(graph.nodes[i].start_after.size());
    for (uint32_t before : graph.nodes[i].start_after)
      dependents[before].push_back(i);
    if (!pending[i])
      ready.push_back(i);
  }
  while (!ready.empty()) {
    seed = mix(seed);
    std::swap(ready[seed % ready.size()], ready.back());
    uint32_t index = ready.back();
    ready.pop_back();
    const ExecNode &node = graph.nodes[index];
    if (node.body)
      CUGRT_EMU_TRY(
          run_body(driver, *node.body, make_check(check, index, *node.body), seed, launch));
    else if (!node.branches.empty())
      CUGRT_EMU_TRY(run_conditional(driver, node, index, check, seed, launch));
    else if (runs[index])
      CUGRT_EMU_TRY(runs[index]->run());
    for (uint32_t next : dependents[index])
      if (--pending[next] == 0)
        ready.push_back(next);
  }
  return CUDA_SUCCESS;
}

static bool does_work(const ExecGraph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const ExecNode &node) {
    if (node.body)
      return does_work(*node.body);
    return node.enabled && !std::holds_alternative<EmptyWork>(node.work);
  });
}

CUresult run_conditional(Driver &driver, const ExecNode &node, uint32_t index,
                         const std::shared_ptr<OrderCheck> &check, uint64_t seed, uint32_t launch) {
  const auto &work = std::get<ConditionalWork>(node.work);
  auto run_branch = [&](size_t i) -> CUresult {
    const ExecGraph &body = *node.branches[i];
    if (driver.config.empty_bodies_hang && !does_work(body)) {
      driver.report(Check::fault, "body " + std::to_string(i) + " of conditional node " +
                                      std::to_string(index) +
                                      " has nothing to execute: drivers before 12.8 hang");
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    }
    return run_body(driver, body, make_check(check, index, body), seed = mix(seed), launch);
  };
  uint32_t value = work.conditional->value;
  if (!work.conditional->assigned)
    driver.findings.report(Check::condition,
                           "the condition of node " + std::to_string(index) +
                               " has neither a default nor been set in this launch of its graph");
  switch (work.type) {
  case CU_GRAPH_COND_TYPE_WHILE:
    // A failure elsewhere ends a loop that would not end by itself.
    for (; value; value = work.conditional->value) {
      CUGRT_EMU_TRY(run_branch(0));
      CUGRT_EMU_TRY(driver.scheduler->poison());
    }
    return CUDA_SUCCESS;
  case CU_GRAPH_COND_TYPE_IF:
    value = value ? 0 : 1;
    [[fallthrough]];
  default: // "If the condition does not match a body index, no body is launched."
    return value < node.branches.size() ? run_branch(value) : CUDA_SUCCESS;
  }
}

LOCKED_CALL(cuGraphConditionalHandleCreate, out, graph_handle, context_handle, default_value,
            flags) {
  // "Currently must be CU_GRAPH_COND_ASSIGN_DEFAULT or 0."
  if (!out || (flags & ~unsigned(CU_GRAPH_COND_ASSIGN_DEFAULT)))
    return CUDA_ERROR_INVALID_VALUE;
  if (driver.config.driver_version < kConditionalNodes)
    return CUDA_ERROR_NOT_SUPPORTED;
  CUGRT_EMU_NEED(Graph, graph, driver.graphs.find(graph_handle), CUDA_ERROR_INVALID_VALUE);
  CUGRT_EMU_FIND(Context, context, context_or_current, driver, context_handle);
  auto conditional = std::make_shared<Conditional>();
  conditional->context = context;
  conditional->graph_id = graph->id;
  conditional->default_value = default_value;
  conditional->flags = flags;
  graph->conditionals.push_back(conditional);
  const OnThrow undo([&] { graph->conditionals.pop_back(); });
  driver.conditionals.insert(conditional, driver.next_id++);
  *out = conditional->handle;
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
