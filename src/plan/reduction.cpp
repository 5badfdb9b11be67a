// Transitive reduction of a region's edges. Program order is a topological order, so each node's
// edges can be decided when it is met: its predecessors are taken latest first, and one that an
// edge already kept has reached is implied by it.
//
// Which nodes reach a node is kept in one of two forms. Lanes: nodes are laid on lanes such that
// each node is reached by the one before it on its lane; then "the last position on each lane" says
// it all, 32 numbers a node, and a chain costs one lane. Where 32 lanes do not suffice (more than
// 32 steps side by side), a bit for each earlier node: exact too, quadratic in memory, bounded by
// kMaxRegionNodes.
#include "plan/hazards.h"

#include <algorithm>
#include <array>

namespace cugrt::plan {
namespace {

constexpr uint32_t kLanes = 32;

/// For each lane the highest position that reaches the node, plus one.
using Reach = std::array<uint32_t, kLanes>;

class LaneReduction {
public:
  explicit LaneReduction(uint32_t node_count) : nodes_(node_count) {}

  bool reaches(uint32_t from, uint32_t to) const {
    return nodes_[to].reach[nodes_[from].lane] > nodes_[from].position;
  }
  void join(uint32_t from, uint32_t to) {
    for (uint32_t lane = 0; lane < used_; ++lane)
      nodes_[to].reach[lane] = std::max(nodes_[to].reach[lane], nodes_[from].reach[lane]);
    uint32_t &own = nodes_[to].reach[nodes_[from].lane];
    own = std::max(own, nodes_[from].position + 1);
  }
  /// Lays a node, whose predecessors are joined, on a lane; false when none is left.
  bool close(uint32_t node) {
    for (uint32_t lane = 0; lane < used_; ++lane)
      if (nodes_[node].reach[lane] == length_[lane])
        return put(node, lane);
    return used_ < kLanes && put(node, used_++);
  }

private:
  bool put(uint32_t node, uint32_t lane) {
    nodes_[node].lane = lane;
    nodes_[node].position = length_[lane]++;
    return true;
  }
  struct Node {
    uint32_t lane = 0, position = 0;
    Reach reach{};
  };
  std::vector<Node> nodes_;
  std::array<uint32_t, kLanes> length_{};
  uint32_t used_ = 0;
};

class BitReduction {
public:
  explicit BitReduction(uint32_t node_count)
      : words_((node_count + 63) / 64), bits_(size_t(node_count) * words_, 0) {}

  bool reaches(uint32_t from, uint32_t to) const {
    return (bits_[to * words_ + from / 64] >> (from % 64)) & 1;
  }
  void join(uint32_t from, uint32_t to) {
    for (size_t w = 0; w <= from / 64; ++w)
      bits_[to * words_ + w] |= bits_[from * words_ + w];
    bits_[to * words_ + from / 64] |= uint64_t(1) << (from % 64);
  }
  bool close(uint32_t) { return true; }

private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

/// `edges` are sorted by target, then by descending source, without duplicates.
template <class Reduction>
bool reduce(uint32_t node_count, std::span<const Edge> edges, std::vector<Edge> &kept) {
  Reduction reduction(node_count);
  kept.clear();
  size_t next = 0;
  for (uint32_t node = 0; node < node_count; ++node) {
    for (; next < edges.size() && edges[next].to == node; ++next) {
      uint32_t from = edges[next].from;
      if (reduction.reaches(from, node))
        continue;
      kept.push_back({from, node});
      reduction.join(from, node);
    }
    if (!reduction.close(node))
      return false;
  }
  return true;
}

} // namespace

std::vector<Edge> transitive_reduction(uint32_t node_count, std::vector<Edge> edges) {
  std::sort(edges.begin(), edges.end(), [](const Edge &a, const Edge &b) {
    return a.to != b.to ? a.to < b.to : a.from > b.from;
  });
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::vector<Edge> kept;
  if (!reduce<LaneReduction>(node_count, edges, kept))
    reduce<BitReduction>(node_count, edges, kept);
  std::sort(kept.begin(), kept.end());
  return kept;
}

} // namespace cugrt::plan
