// Nodes by ids, else by order; see device_times.h.
#include "device_times.h"

#include <algorithm>
#include <map>
#include <set>

namespace tool {

namespace {

/// For each graph, the nodes without a match by id.
using Untold = std::vector<std::vector<uint32_t>>;

/// The index of the graph whose untold nodes have these kernels; none where no graph has them, or
/// several have.
std::optional<uint32_t> same_kernels(std::span<const ToldNode> told,
                                     std::span<const std::vector<KnownNode>> graphs,
                                     const Untold &untold) {
  std::optional<uint32_t> found;
  for (uint32_t g = 0; g < graphs.size(); ++g) {
    if (!std::equal(
            told.begin(), told.end(), untold[g].begin(), untold[g].end(),
            [&](const ToldNode &a, uint32_t node) { return a.kernel == graphs[g][node].kernel; }))
      continue;
    if (found)
      return std::nullopt;
    found = g;
  }
  return found;
}

} // namespace

std::vector<std::optional<NodeMatch>> match_nodes(std::span<const ToldNode> told,
                                                  std::span<const std::vector<KnownNode>> graphs) {
  std::map<uint64_t, NodeMatch> by_id;
  for (uint32_t g = 0; g < graphs.size(); ++g)
    for (uint32_t n = 0; n < graphs[g].size(); ++n)
      if (graphs[g][n].id)
        by_id.emplace(*graphs[g][n].id, NodeMatch{g, n, true});

  std::vector<std::optional<NodeMatch>> matches(told.size());
  std::set<std::pair<uint32_t, uint32_t>> by_told_id; // graph and node
  for (size_t i = 0; i < told.size(); ++i)
    if (const auto found = by_id.find(told[i].id);
        found != by_id.end() &&
        graphs[found->second.graph][found->second.node].kernel == told[i].kernel) {
      matches[i] = found->second;
      by_told_id.emplace(found->second.graph, found->second.node);
    }

  Untold untold(graphs.size());
  for (uint32_t g = 0; g < graphs.size(); ++g)
    for (uint32_t n = 0; n < graphs[g].size(); ++n)
      if (!by_told_id.contains({g, n}))
        untold[g].push_back(n);
  for (size_t begin = 0, end = 0; begin < told.size(); begin = end) {
    std::optional<uint32_t> known;
    for (end = begin; end < told.size() && told[end].id >> 32 == told[begin].id >> 32; ++end)
      if (matches[end])
        known = matches[end]->graph;
    if (!known) {
      if (const auto graph = same_kernels(told.subspan(begin, end - begin), graphs, untold))
        for (size_t i = begin; i < end; ++i)
          matches[i] = NodeMatch{*graph, untold[*graph][i - begin], false};
      continue;
    }
    // Nodes without ids stand beside the others.
    for (size_t i = begin; i < end; ++i)
      for (uint32_t n = 0; !matches[i] && n < graphs[*known].size(); ++n)
        if (const KnownNode &node = graphs[*known][n];
            !node.id && node.kernel == told[i].kernel && by_told_id.emplace(*known, n).second)
          matches[i] = NodeMatch{*known, n, false};
  }
  return matches;
}

} // namespace tool
