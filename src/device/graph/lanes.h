// Lanes of a graph: chains of nodes, each of which comes after the one before it.
//
// A driver spreads a graph over streams of its own. Where a node ends no chain that could go on,
// the driver opens another stream, also when one of its streams has long run dry: in a graph that
// forks and joins again and again streams, memory and the time of instantiation grow with every
// fork. An edge from the end of such a chain to the node says that it goes on there. The edge
// orders nothing that other edges do not order already. (Measured on an H100, driver 580: a
// thousand nodes in forks of eight take 3 kB of device memory a node instead of 82, a quarter of
// the time to instantiate, and run in 0.89 of the time.)
#pragma once

#include "device/graph/topology_class.h"

namespace cugrt::runtime {

/// Returns, for each node, the end of the lane that it continues, if it follows that node through
/// other edges only; kNone: it continues a predecessor's lane, or a new one. Ignores programmatic
/// edges, since such a node does not wait for its predecessor's end.
std::vector<uint32_t> find_idle_lanes(const TopologyClass &topology);

} // namespace cugrt::runtime
