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
#pragma once

#include "plan/format/plan.h"

#include <optional>
#include <span>
#include <vector>

namespace cugrt::plan {

inline constexpr uint32_t kIssueLanes = 32;

/// `edges` lead from lower to higher numbers and are sorted; nodes are issued as numbered.
uint32_t issue_turns(uint32_t nodes, std::span<const Edge> edges, uint32_t lanes = kIssueLanes);

/// Turn by turn, of the nodes whose predecessors have ended those with the longest path below them,
/// ties as numbered: the nodes' numbers in their new order. None where that takes no fewer turns
/// than the order as numbered.
std::optional<std::vector<uint32_t>> longest_path_first(uint32_t nodes, std::span<const Edge> edges,
                                                        uint32_t lanes = kIssueLanes);

} // namespace cugrt::plan
