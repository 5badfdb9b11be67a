// Finds idle lanes; see lanes.h. In the nodes' order, each node continues the lane of a
// predecessor that no other node continues, else a lane whose end comes before the node, else it
// begins a lane.
#include "device/graph/lanes.h"

namespace cugrt::runtime {

namespace {

constexpr uint32_t kMostLanes = 32; // that are looked at; more streams than that run side by side

class LaneFinder {
public:
  explicit LaneFinder(const TopologyClass &topology)
      : topology_(topology), lane_of_(topology.node_count(), kNone),
        goes_on_(topology.node_count()), behind_(topology.node_count() * kMostLanes, kNone) {}

  std::vector<uint32_t> find() {
    std::vector<uint32_t> found(topology_.node_count(), kNone);
    for (uint32_t node = 0; node < topology_.node_count(); ++node) {
      if (topology_.left_out[node])
        continue;
      collect_behind(node);
      uint32_t before = predecessor_with_lane(node);
      if (before == kNone)
        before = found[node] = idle_end(node);
      if (before != kNone) {
        goes_on_[before] = true;
        lane_of_[node] = lane_of_[before];
      } else if (ends_.size() < kMostLanes) {
        lane_of_[node] = static_cast<uint32_t>(ends_.size());
        ends_.push_back(kNone);
      }
      if (lane_of_[node] != kNone)
        ends_[lane_of_[node]] = node;
    }
    return found;
  }

private:
  uint32_t *behind(uint32_t node) { return behind_.data() + size_t{node} * kMostLanes; }

  /// Finds, for each lane, the last node that has ended before this one begins.
  void collect_behind(uint32_t node) {
    auto take = [](uint32_t &last, uint32_t other) {
      if (other != kNone && (last == kNone || last < other))
        last = other;
    };
    uint32_t *last = behind(node);
    for (uint32_t p = topology_.first_predecessor[node]; p < topology_.first_predecessor[node + 1];
         ++p) {
      const uint32_t from = topology_.predecessors[p];
      const uint32_t *others = behind(from);
      for (uint32_t lane = 0; lane < ends_.size(); ++lane)
        take(last[lane], others[lane]);
      if (!topology_.programmatic[p] && lane_of_[from] != kNone)
        take(last[lane_of_[from]], from);
    }
  }

  uint32_t predecessor_with_lane(uint32_t node) const {
    for (uint32_t p = topology_.first_predecessor[node]; p < topology_.first_predecessor[node + 1];
         ++p)
      if (!goes_on_[topology_.predecessors[p]])
        return topology_.predecessors[p];
    return kNone;
  }

  uint32_t idle_end(uint32_t node) {
    const uint32_t *last = behind(node);
    for (uint32_t lane = 0; lane < ends_.size(); ++lane)
      if (last[lane] != kNone && last[lane] == ends_[lane])
        return last[lane];
    return kNone;
  }

  const TopologyClass &topology_;
  std::vector<uint32_t> lane_of_; // of each node; kNone: of none that is looked at
  std::vector<bool> goes_on_;     // of each node: another one has its lane now
  std::vector<uint32_t> behind_;  // of each node, of each lane
  std::vector<uint32_t> ends_;    // of each lane
};

} // namespace

std::vector<uint32_t> find_idle_lanes(const TopologyClass &topology) {
  return LaneFinder(topology).find();
}

} // namespace cugrt::runtime
