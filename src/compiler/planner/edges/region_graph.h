// The graph of one region: its nodes and edges, from the byte ranges that its steps touch.
#pragma once

#include "plan/edges/hazards.h"
#include "plan/edges/step_conditions.h"

namespace cugrt::plan {

struct GraphOptions {
  /// The most steps that may run side by side, up to 32; 0: no limit. A step beyond waits for one
  /// that it would not have to wait for.
  uint32_t max_lanes = 0;
  /// Where two steps wait for the same nodes, this many or more, an empty node joins these; 0:
  /// never.
  uint32_t join_from = 4;
};

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

} // namespace cugrt::plan
