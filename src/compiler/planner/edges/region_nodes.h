// The nodes of regions' graphs in the order in which they are added: program order or, where that
// takes fewer turns, longest path first. In a region with
// bodies each body is put in order by itself and stands behind its conditional. Branches on a
// symbol keep the order that they would have if both ran: tensors of the one may lie where those of
// the other do, and whoever reads the steps in their order must not find two of them alive.
#pragma once

#include "plan/edges/hazards.h"
#include "plan/edges/step_conditions.h"
#include "plan/format/plan.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace cugrt::plan {

// The order in which a region's nodes are added to its graph. Every order that the edges allow
// gives the same results in the same storage; the driver hands nodes out in the order in which they
// were added, so a chain that stands behind another starts late although nothing holds it back.
//
// The figure is `issue_turns`: nodes take one unit of time each and are issued in order, on so many
// lanes; a node is not issued before its predecessors have ended, nor do later nodes pass it.
//
//   program order  a1 a2 a3 b1 b2 b3      lanes  a1 a2 a3            longest path  a1 a2 a3
//   (a chain after the other)                          b1 b2 b3      first         b1 b2 b3
//                                         5 turns                    3 turns: a1 b1 a2 b2 a3 b3

inline constexpr uint32_t kIssueLanes = 32;

/// `edges` lead from lower to higher numbers and are sorted; nodes are issued as numbered.
uint32_t issue_turns(uint32_t nodes, std::span<const Edge> edges, uint32_t lanes = kIssueLanes);

/// Turn by turn, of the nodes whose predecessors have ended those with the longest path below them,
/// ties as numbered: the nodes' numbers in their new order. None where that takes no fewer turns
/// than the order as numbered.
std::optional<std::vector<uint32_t>> longest_path_first(uint32_t nodes, std::span<const Edge> edges,
                                                        uint32_t lanes = kIssueLanes);

struct GraphOptions {
  /// The most steps that may run side by side, up to 32; 0: no limit. A step beyond waits for one
  /// that it would not have to wait for.
  uint32_t max_lanes = 0;
  /// If two steps wait for the same nodes, this many or more, an empty node joins these; 0:
  /// never.
  uint32_t join_from = 4;
};

/// The graph of one region, from the byte ranges that its steps touch.
struct RegionGraph {
  /// Steps in program order, counted within those given, and kNone for empty nodes.
  std::vector<uint32_t> nodes;
  /// Between nodes, transitively reduced, sorted. Exact where 32 lanes hold the steps, and for up
  /// to 4096 steps in any case; beyond, some edges may be implied by others.
  std::vector<Edge> edges;
};

/// Sorts edges between `nodes` nodes, in time linear in both.
void sort_edges(std::vector<Edge> &edges, size_t nodes);

/// The graph of these steps, in their order; `ranges` and `conditions` are those of the function.
/// Steps that never run together have no edge between them, but where the limit of lanes asks for
/// one.
RegionGraph make_region_graph(const Function &function, std::span<const uint32_t> steps,
                              const ByteRanges &ranges, const StepConditions &conditions,
                              const GraphOptions &options);

struct NodeOptions {
  uint32_t max_lanes = 0; // as in PlannerOptions
  bool reorder = true;
};

/// Makes the graphs of a function's regions, one after the other. The function and `ranges`, which
/// are those of its buffers, must outlive it; its steps must be all there.
class RegionNodes {
public:
  RegionNodes(const ir::ExprPool &exprs, Function &function, const ByteRanges &ranges,
              const NodeOptions &options);
  ~RegionNodes();

  /// Empty nodes in bodies count in the function's conditionals from then on: put steps in the
  /// nodes' order before anything reads bodies again.
  RegionGraph make(const Region &region);
  /// Whether a graph so far has steps in another order than the program's.
  bool reordered() const { return reordered_; }

private:
  class TensorsApart;
  struct Levels;
  RegionGraph make_levels(const Region &region);
  RegionGraph make_graph(std::span<const uint32_t> steps, const StepConditions &conditions) const;
  template <class Allowed>
  void reorder(std::span<const uint32_t> steps, RegionGraph &graph, Allowed allowed);
  void put_in_order(RegionGraph &graph, std::span<const uint32_t> order);

  Function &function_;
  const ByteRanges &ranges_;
  const StepConditions conditions_;
  const NodeOptions options_;
  std::unique_ptr<TensorsApart> tensors_;
  bool reordered_ = false;
};

} // namespace cugrt::plan
