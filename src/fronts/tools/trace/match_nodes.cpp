// Nodes by ids, else by order; see match_nodes.h.
#include "match_nodes.h"

#include <algorithm>
#include <map>

namespace tool {

namespace {

/// The index of the graph with these kernels; none where no graph has them, or several have.
std::optional<uint32_t> same_kernels(std::span<const ToldNode> told,
                                     std::span<const std::vector<KnownNode>> graphs) {
  std::optional<uint32_t> found;
  for (uint32_t g = 0; g < graphs.size(); ++g) {
    if (!std::equal(told.begin(), told.end(), graphs[g].begin(), graphs[g].end(),
                    [](const ToldNode &a, const KnownNode &b) { return a.kernel == b.kernel; }))
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
  for (size_t i = 0; i < told.size(); ++i)
    if (const auto found = by_id.find(told[i].id);
        found != by_id.end() &&
        graphs[found->second.graph][found->second.node].kernel == told[i].kernel)
      matches[i] = found->second;

  for (size_t begin = 0, end = 0; begin < told.size(); begin = end) {
    bool known = false;
    for (end = begin; end < told.size() && told[end].id >> 32 == told[begin].id >> 32; ++end)
      known |= matches[end].has_value();
    if (known)
      continue;
    if (const auto graph = same_kernels(told.subspan(begin, end - begin), graphs))
      for (size_t i = begin; i < end; ++i)
        matches[i] = NodeMatch{*graph, static_cast<uint32_t>(i - begin), false};
  }
  return matches;
}

} // namespace tool
