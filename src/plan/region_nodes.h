// The nodes of regions' graphs in the order in which they are added: program order or, where that
// takes fewer slots, longest path first (plan/node_order.h). In a region with bodies each body is
// put in order by itself and stands behind its conditional.
#pragma once

#include "plan/region_graph.h"

#include <memory>
#include <optional>

namespace cugrt::plan {

struct NodeOptions {
  uint32_t max_lanes = 0; // as in PlannerOptions
  bool reorder = true;
};

/// Makes the graphs of a function's regions, one after the other. The function and `ranges`, which
/// are those of its buffers, must outlive it.
class RegionNodes {
public:
  RegionNodes(Function &function, const ByteRanges &ranges, const NodeOptions &options);
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
  std::optional<std::vector<uint32_t>> better_order(const RegionGraph &graph) const;
  void put_in_order(RegionGraph &graph, std::span<const uint32_t> order);

  Function &function_;
  const ByteRanges &ranges_;
  const NodeOptions options_;
  std::unique_ptr<TensorsApart> tensors_;
  bool reordered_ = false;
};

} // namespace cugrt::plan
