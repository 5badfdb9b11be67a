// Which node of a session's graphs a node is that a profiler tells of.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tool {

/// A node of a report of graphs, in the graph's order.
struct KnownNode {
  std::optional<uint64_t> id; // as the driver gives it (CUDA 13.1)
  std::string kernel;         // its entry; empty: a copy or a fill
};
/// A node of a profiler's.
struct ToldNode {
  uint64_t id = 0; // its graph's number in the upper half
  std::string kernel;
};
struct NodeMatch {
  uint32_t graph = 0, node = 0; // indices of the report's
  bool by_id = false;           // or by the order of the graph's kernels
};

/// For each told node, which are in the order of ids, the known one: that of the same id and
/// kernel. Where a told graph has no node like that (the driver gives no ids, or profiler and
/// driver count differently), it is the one known graph whose nodes, but for those that ids tell
/// (of bodies of conditionals), have the same kernels in the same order, if just one is so.
std::vector<std::optional<NodeMatch>> match_nodes(std::span<const ToldNode> told,
                                                  std::span<const std::vector<KnownNode>> graphs);

} // namespace tool
