// The order of a graph's nodes: which may run at the same time, and whether those touch the same
// bytes.
//
// A node X precedes a phase of a node Y when X has ended before the phase begins:
//
//     ordinary edge       X ──▶ │ Y before its wait │ Y after its wait │
//     programmatic edge   X ───────────────────────▶ │ Y after its wait │
//
// so an edge of the second kind orders nothing that Y does before its griddepcontrol.wait. Two
// nodes of which neither precedes the other's phase, and which then touch the same bytes, one of
// them writing, are a finding. The relation is made once for an instance; each launch records the
// bytes of the nodes that have an unordered partner, and of no others. A child graph or conditional
// node has touched what the nodes in it have.
#pragma once

#include "emulator/driver/schedule/stream_order.h"
#include "emulator/graph/graph.h"

#include <mutex>
#include <set>

namespace cugrt::emulator::api {

/// Immutable. Bit i of a row: node i precedes.
class NodeOrder {
public:
  explicit NodeOrder(const ExecGraph &graph);

  bool precedes_start(uint32_t i, uint32_t node) const { return bit(start_, i, node); }
  bool precedes_wait(uint32_t i, uint32_t node) const { return bit(wait_, i, node); }
  bool ordered(uint32_t a, uint32_t b) const {
    return precedes_start(a, b) || precedes_start(b, a);
  }
  /// Whether there is a node that this one is not wholly ordered with.
  bool has_partner(uint32_t node) const { return partner_[node]; }

private:
  bool bit(const std::vector<uint64_t> &rows, uint32_t i, uint32_t node) const {
    return rows[node * words_ + i / 64] >> (i % 64) & 1;
  }
  size_t words_;
  std::vector<uint64_t> start_, wait_;
  std::vector<bool> partner_;
};

/// Larger graphs are not checked: the relation grows with the square.
constexpr size_t kMaxCheckedNodes = 4096;
/// Fills start_after of the nodes and, where `checked`, the graph's order.
void order_nodes(ExecGraph &graph, bool checked);

/// One run of one graph. Thread-safe. Outlives its launch's tasks, which share it.
class OrderCheck {
public:
  /// `stream_work`: of the whole launch, or nullptr.
  OrderCheck(Driver &driver, std::shared_ptr<const NodeOrder> order,
             std::shared_ptr<StreamWork> stream_work)
      : driver_(driver), order_(std::move(order)), stream_work_(std::move(stream_work)) {}
  /// Checks a graph within node `node` of the graph that `parent` checks.
  OrderCheck(const std::shared_ptr<OrderCheck> &parent, uint32_t node,
             std::shared_ptr<const NodeOrder> order)
      : driver_(parent->driver_), order_(std::move(order)), parent_(parent), node_(node) {}

  /// Whether the node's accesses are wanted.
  bool watches(uint32_t node) const;
  /// `name` says which node it is, to people.
  void touched(uint32_t node, const std::string &name, const LaunchAccesses &accesses);

private:
  struct Part {
    uint32_t node;
    std::string name;
    LaunchAccesses accesses;
  };
  void compare(Part &a, Part &b);

  Driver &driver_;
  const std::shared_ptr<const NodeOrder> order_;
  const std::shared_ptr<OrderCheck> parent_;
  const std::shared_ptr<StreamWork> stream_work_;
  const uint32_t node_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Part>> parts_; // of nodes that have ended, or nodes within them
  std::set<std::pair<std::string, std::string>> reported_;
};

/// "kernel 'affine'"
std::string work_text(const Work &work);
/// "kernel 'affine' (node 3)"
std::string node_name(const ExecNode &node, uint32_t index);

} // namespace cugrt::emulator::api
