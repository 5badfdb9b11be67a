// runtime: lanes of a graph that forks and joins go on; see device/graph/lanes.h.
#include "device/graph/lanes.h"

#include "tests/support/catch.h"

#include <random>
#include <set>

using namespace cugrt::runtime;

namespace {

using Predecessors = std::vector<std::vector<uint32_t>>;

TopologyClass topology(const Predecessors &of, bool programmatic = false) {
  TopologyClass made;
  made.variants.resize(of.size());
  made.left_out.resize(of.size());
  for (const std::vector<uint32_t> &predecessors : of) {
    made.first_predecessor.push_back(static_cast<uint32_t>(made.predecessors.size()));
    for (uint32_t from : predecessors) {
      made.predecessors.push_back(from);
      made.programmatic.push_back(programmatic);
    }
  }
  made.first_predecessor.push_back(static_cast<uint32_t>(made.predecessors.size()));
  return made;
}

/// Of each node, the nodes that have ended when it begins.
std::vector<std::set<uint32_t>> ended_before(const TopologyClass &topology) {
  std::vector<std::set<uint32_t>> before(topology.node_count());
  for (uint32_t node = 0; node < before.size(); ++node)
    for (uint32_t p = topology.first_predecessor[node]; p < topology.first_predecessor[node + 1];
         ++p) {
      const uint32_t from = topology.predecessors[p];
      before[node].insert(before[from].begin(), before[from].end());
      if (!topology.programmatic[p])
        before[node].insert(from);
    }
  return before;
}

} // namespace

TEST_CASE("a second fork goes on with the lanes of the first one") {
  //    1       5
  //  0 2 4=join 6 8
  //    3       7
  const Predecessors of = {{}, {0}, {0}, {0}, {1, 2, 3}, {4}, {4}, {4}, {5, 6, 7}};
  CHECK(find_idle_lanes(topology(of)) ==
        std::vector<uint32_t>{kNone, kNone, kNone, kNone, kNone, kNone, 2, 3, kNone});
  // Nothing of the first fork has certainly ended where each node may begin early.
  CHECK(find_idle_lanes(topology(of, true)) == std::vector<uint32_t>(of.size(), kNone));
}

TEST_CASE("chains that never meet, and lanes still in use, are left alone") {
  const Predecessors apart = {{}, {}, {0}, {1}, {2}, {3}};
  CHECK(find_idle_lanes(topology(apart)) == std::vector<uint32_t>(apart.size(), kNone));
  const Predecessors in_use = {{}, {0}, {0}, {1}, {1}, {2, 3, 4}}; // 2 runs beside 3 and 4
  CHECK(find_idle_lanes(topology(in_use)) == std::vector<uint32_t>(in_use.size(), kNone));
}

TEST_CASE("nodes that a graph does not have are in no lane") {
  TopologyClass made = topology({{}, {0}, {0}, {0}, {1, 2}, {4}, {4}});
  made.left_out[3] = true; // nothing waits for it
  CHECK(find_idle_lanes(made) ==
        std::vector<uint32_t>{kNone, kNone, kNone, kNone, kNone, kNone, 2});
}

TEST_CASE("lanes that go on order nothing that was not ordered, and go on once") {
  std::mt19937 random(20);
  size_t found = 0;
  for (int graph = 0; graph < 300; ++graph) {
    Predecessors of(random() % 90 + 1);
    for (uint32_t node = 1; node < of.size(); ++node)
      for (uint32_t i = random() % 4; i > 0; --i) {
        const auto from = static_cast<uint32_t>(node - 1 - random() % std::min(node, 12u));
        if (std::find(of[node].begin(), of[node].end(), from) == of[node].end())
          of[node].push_back(from);
      }
    TopologyClass made = topology(of);
    for (size_t p = 0; p < made.programmatic.size(); ++p)
      made.programmatic[p] = random() % 4 == 0;
    const std::vector<std::set<uint32_t>> before = ended_before(made);
    const std::vector<uint32_t> lanes = find_idle_lanes(made);
    std::set<uint32_t> taken;
    for (uint32_t node = 0; node < lanes.size(); ++node)
      if (lanes[node] != kNone) {
        ++found;
        CHECK(before[node].contains(lanes[node]));
        CHECK(std::find(of[node].begin(), of[node].end(), lanes[node]) == of[node].end());
        CHECK(taken.insert(lanes[node]).second);
      }
  }
  CHECK(found > 100);
}
