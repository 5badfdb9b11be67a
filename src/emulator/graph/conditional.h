// Conditional nodes: their handles, the variables behind them, and their bodies.
//
// A handle is a number that kernels pass to cudaGraphSetConditional; it stands for a variable,
// which lives as long as the graph that it was made for or an instance that uses it. A conditional
// node runs its bodies on the device thread, one body node after the other: bodies hold nothing
// that needs the host, so a node is one task however often its body runs.
#pragma once

#include "emulator/graph/graph.h"

namespace cugrt::emulator::api {

/// The driver version from which on there are IF and WHILE nodes.
constexpr int kConditionalNodes = 12030;

class OrderCheck;

/// The node's parameters checked, and its bodies made: empty graphs, whose handles are handed out.
CUresult conditional_to_work(Driver &driver, Graph &graph, CUDA_CONDITIONAL_NODE_PARAMS &params,
                             Work *out);
bool has_conditional(const Graph &graph);
/// The first node in a body, recursively, that cuda.h does not allow there, or nullptr.
const GraphNode *find_illegal_in_body(const Driver &driver, const Graph &body,
                                      const Context &context);
/// False when a handle that was made for the graph, or for a body at any depth, belongs to no node.
bool all_conditionals_used(const Graph &graph);
/// The variables of the instance's nodes at any depth.
void collect_conditionals(const ExecGraph &graph, std::vector<std::shared_ptr<Conditional>> &out);

/// "Default value is applied when graph is launched"; without the flag "the condition value is
/// undefined at the start of each graph execution": the seed decides.
void arm(const std::vector<std::shared_ptr<Conditional>> &conditionals, uint64_t seed);
/// Runs the node, number `index` of the graph that `check` is of, on the device thread, without the
/// lock.
CUresult run_conditional(Driver &driver, const ExecNode &node, uint32_t index,
                         const std::shared_ptr<OrderCheck> &check, uint64_t seed, uint32_t launch);

} // namespace cugrt::emulator::api
