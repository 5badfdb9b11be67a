// Tells which changes an instance takes. The runtime asks before any call of the driver, since a
// driver's refusal does not say which field it refused, and some refusals end an update half
// way.
//
// The table is legality.def. What a region's nodes may meet is known when its class is made, from
// the symbols, slots and scalars that their fields depend on; so nothing is asked during a run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace cugrt::runtime {

enum class NodeKind : uint8_t { kernel, copy, fill, graph };

enum class Change : uint8_t {
  argument,
  grid,
  block,
  shared_bytes,
  function,
  cluster,
  priority,
  cooperative,
  context, // kernels
  address,
  value,
  size,
  memory_kind,                 // copies and fills
  becomes_empty,               // no threads, no bytes
  large_cluster_becomes_empty, // likewise, of a cluster that is not portable
  nodes,
  edges,
  node_kind, // of the graph
};

enum class Verdict : uint8_t {
  node_patch,   // the node's setter
  disable,      // cuGraphNodeSetEnabled; other changes wait until the node is enabled again
  whole_update, // cuGraphExecUpdate with a graph that has the change
  try_update,   // likewise, and a rebuild when it is refused
  rebuild,
};

struct Legality {
  NodeKind node;
  Change change;
  Verdict verdict;
  const char *why;
};

/// All rows.
std::span<const Legality> legality_table();
/// The row of a change; nullptr where that kind of node has no such change.
const Legality *legality(NodeKind node, Change change);
/// Whether setters and enabling of nodes suffice for all of these changes.
bool can_patch(NodeKind node, std::span<const Change> changes);

} // namespace cugrt::runtime
