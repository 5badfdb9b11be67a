// Level scheduling (T. C. Hu, Parallel sequencing and assembly line problems, 1961), in time linear
// in edges and n log n in nodes.
#include "compiler/planner/edges/region_nodes.h"

#include <algorithm>
#include <queue>

namespace cugrt::plan {

uint32_t issue_turns(uint32_t nodes, std::span<const Edge> edges, uint32_t lanes) {
  std::vector<uint32_t> first(nodes, 0); // the earliest turn, as far as is known
  uint32_t turn = 0, used = 0;
  size_t next = 0;
  for (uint32_t node = 0; node < nodes; ++node) {
    if (first[node] > turn) {
      turn = first[node];
      used = 0;
    } else if (used == lanes) {
      ++turn;
      used = 0;
    }
    ++used;
    for (; next < edges.size() && edges[next].from == node; ++next)
      first[edges[next].to] = std::max(first[edges[next].to], turn + 1);
  }
  return nodes ? turn + 1 : 0;
}

std::optional<std::vector<uint32_t>> longest_path_first(uint32_t nodes, std::span<const Edge> edges,
                                                        uint32_t lanes) {
  const uint32_t as_numbered = issue_turns(nodes, edges, lanes);
  std::vector<uint32_t> below(nodes, 1); // nodes on the longest path down, itself included
  std::vector<uint32_t> waits(nodes, 0), begin(size_t(nodes) + 1, 0);
  for (size_t e = edges.size(); e-- > 0;) { // sorted by their begins: what is below is known
    below[edges[e].from] = std::max(below[edges[e].from], below[edges[e].to] + 1);
    ++waits[edges[e].to];
    ++begin[edges[e].from + 1];
  }
  const uint32_t longest = nodes ? *std::max_element(below.begin(), below.end()) : 0;
  if (as_numbered <= std::max(longest, nodes / lanes + (nodes % lanes != 0)))
    return std::nullopt; // no order takes fewer
  for (uint32_t node = 0; node < nodes; ++node)
    begin[node + 1] += begin[node];
  auto later = [&](uint32_t a, uint32_t b) {
    return below[a] != below[b] ? below[a] < below[b] : a > b;
  };
  std::priority_queue<uint32_t, std::vector<uint32_t>, decltype(later)> ready(later);
  for (uint32_t node = 0; node < nodes; ++node)
    if (waits[node] == 0)
      ready.push(node);
  std::vector<uint32_t> order;
  order.reserve(nodes);
  uint32_t turns = 0;
  for (; !ready.empty(); ++turns) {
    const size_t turn_begin = order.size();
    for (uint32_t lane = 0; lane < lanes && !ready.empty(); ++lane) {
      order.push_back(ready.top());
      ready.pop();
    }
    for (size_t i = turn_begin, end = order.size(); i < end; ++i)
      for (uint32_t e = begin[order[i]]; e < begin[order[i] + 1]; ++e)
        if (--waits[edges[e].to] == 0)
          ready.push(edges[e].to);
  }
  if (turns >= as_numbered)
    return std::nullopt;
  return order;
}

} // namespace cugrt::plan
