// The nodes of regions' graphs in the order in which they are added: program order or, where that
// takes fewer slots, longest path first (plan/node_order.h).
#pragma once

#include "plan/region_graph.h"

#include <memory>

namespace cugrt::plan {

struct NodeOptions {
  uint32_t max_lanes = 0; // as in PlannerOptions
  bool reorder = true;
};

/// Makes the graphs of a function's regions, one after the other. The function and `ranges`, which
/// are those of its buffers, must outlive it.
class RegionNodes {
public:
  RegionNodes(Function &function, std::span<const ByteRange> ranges, const NodeOptions &options);
  ~RegionNodes();

  RegionGraph make(const Region &region);
  /// Whether a graph so far has steps in another order than the program's.
  bool reordered() const { return reordered_; }

private:
  class TensorsApart;
  RegionGraph make_levels(const Region &region) const;
  bool reorder(const Region &region, RegionGraph &graph);

  Function &function_;
  const std::span<const ByteRange> ranges_;
  const NodeOptions options_;
  std::unique_ptr<TensorsApart> tensors_;
  bool reordered_ = false;
};

} // namespace cugrt::plan
