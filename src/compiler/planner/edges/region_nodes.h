// The nodes of regions' graphs in the order in which they are added: program order or, where that
// takes fewer turns, longest path first (compiler/planner/edges/node_order.h). In a region with
// bodies each body is put in order by itself and stands behind its conditional. Branches on a
// symbol keep the order that they would have if both ran: tensors of the one may lie where those of
// the other do, and whoever reads the steps in their order must not find two of them alive.
#pragma once

#include "compiler/planner/edges/region_graph.h"

#include <memory>
#include <optional>

namespace cugrt::plan {

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

  /// Where empty nodes come into bodies, their conditionals in the function count them from then
  /// on: steps have to be put in the nodes' order before anybody looks at bodies again.
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
