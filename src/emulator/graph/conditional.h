// Conditional nodes: their handles, the variables behind them, and their bodies.
//
// A handle is a number that kernels pass to cudaGraphSetConditional; it stands for a variable,
// which lives as long as the graph that it was made for or an instance that uses it. A conditional
// node runs its bodies on the device thread, one body node after the other: bodies hold nothing
// that needs the host, so a node is one task however often its body runs.
#pragma once

#include "emulator/graph/graph.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace cugrt::emulator::api {

/// The driver version from which on there are IF and WHILE nodes.
constexpr int kConditionalNodes = 12030;

/// Fields but the value and its state are guarded by Driver::mutex.
struct Conditional {
  CUgraphConditionalHandle handle = 0;
  std::shared_ptr<Context> context;
  uint64_t graph_id = 0;
  unsigned default_value = 0, flags = 0;
  bool used = false; // by a node
  std::atomic<uint32_t> value{0};
  std::atomic<bool> assigned{false}; // in this launch, by the default or by a kernel
};

/// Finds variables by handle, for kernels under way and so without Driver::mutex. Thread-safe.
class ConditionalTable {
public:
  void insert(const std::shared_ptr<Conditional> &conditional, uint64_t id);
  /// nullptr when the graph and its instances are gone, or there never was such a handle.
  std::shared_ptr<Conditional> find(CUgraphConditionalHandle handle) const;

private:
  mutable std::mutex mutex_;
  std::unordered_map<CUgraphConditionalHandle, std::weak_ptr<Conditional>> table_;
};

/// The node's parameters checked, and its bodies made: empty graphs, whose handles are handed out.
CUresult conditional_to_work(Driver &driver, Graph &graph, CUDA_CONDITIONAL_NODE_PARAMS &params,
                             Work *out);
bool has_conditional(const Graph &graph);
/// What cuda.h allows in a body, recursively: the first node that it does not, or nullptr.
const GraphNode *find_illegal_in_body(const Driver &driver, const Graph &body,
                                      const Context &context);
/// False when a handle that was made for the graph, or for a body at any depth, belongs to no node.
bool all_conditionals_used(const Graph &graph);
/// The variables of the instance's nodes at any depth.
void collect_conditionals(const ExecGraph &graph, std::vector<std::shared_ptr<Conditional>> &out);

/// "Default value is applied when graph is launched"; without the flag "the condition value is
/// undefined at the start of each graph execution": the seed decides.
void arm(const std::vector<std::shared_ptr<Conditional>> &conditionals, uint64_t seed);
/// Runs the node on the device thread, without the lock.
CUresult run_conditional(Driver &driver, const ExecNode &node, uint64_t seed);

/// A spread of the bits of its input: what the seed decides.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

} // namespace cugrt::emulator::api
