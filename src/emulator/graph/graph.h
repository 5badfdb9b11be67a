// Graphs as the program builds them, and their instances.
//
// Instantiation snapshots: an instance holds copies of all parameters, flattened by index, and
// remembers for each node the identity of the graph node that it was made from, which the setters
// take. Later edits of the graph do not show in the instance. All fields are guarded by
// Driver::mutex.
#pragma once

#include "emulator/driver/driver.h"

#include <unordered_map>

namespace cugrt::emulator::api {

class Driver;
struct Graph;

constexpr int kEdgeData = 12030; // the driver version that brought data of edges

/// References held to user objects.
using UserReferences = std::map<std::shared_ptr<UserObject>, uint64_t>;

struct GraphEdge {
  GraphNode *node = nullptr;
  CUgraphEdgeData data{}; // all zero: an ordinary dependency
};

struct GraphNode {
  CUgraphNode handle = nullptr;
  uint64_t id = 0;        // never used again
  uint64_t clone_of = 0;  // the id of the node that this one is a copy of
  uint32_t local_id = 0;  // by order of creation in its graph; copies have the original's
  Graph *graph = nullptr; // owns the node
  Work work;
  std::vector<GraphEdge> dependencies, dependents;
  // The parameters that GetParams returns, if not null, and earlier ones that it has returned:
  // "this memory remains valid until the node is destroyed."
  std::shared_ptr<std::vector<void *>> param_pointers;
  std::vector<std::pair<Work, std::shared_ptr<std::vector<void *>>>> earlier;

  CUgraphNodeType type() const { return work_type(work); }
};

struct Graph {
  CUgraph handle = nullptr;
  uint64_t id = 0, clone_of = 0;
  uint32_t next_local_id = 0;
  bool embedded = false;   // in a child graph or conditional node, which destroys it
  bool is_body = false;    // of a conditional node
  Graph *parent = nullptr; // of a body: the graph of its node
  std::vector<std::shared_ptr<Conditional>> conditionals; // whose handles were made for it
  std::vector<std::shared_ptr<GraphNode>> nodes;          // in the order of creation
  UserReferences user_objects;
};

/// The number of a node for tools, made in no documented way. PyTorch takes the graph's number from
/// its upper half, and puts an instance's there (torch/cuda/_graph_annotations.py of 2.12).
inline uint64_t tools_id_of(uint64_t graph_id, uint32_t local_id) {
  return graph_id << 32 | local_id;
}
inline uint64_t tools_id_of(const GraphNode &node) {
  return tools_id_of(node.graph->id, node.local_id);
}

struct ExecGraph;

struct ExecNode {
  uint64_t source_id = 0;
  // Numbers for tools (node_ids.cpp): of the instance's node, and of the graph's that it was last
  // made of.
  uint64_t tools_id = 0, source_tools_id = 0;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Work work; // of a child graph: body instead
  std::shared_ptr<ExecGraph> body;
  std::vector<std::shared_ptr<ExecGraph>> branches; // of a conditional: its bodies
  std::vector<uint32_t> dependencies;               // indices within the same ExecGraph
  std::vector<CUgraphEdgeData> edge_data;           // by dependency
  std::vector<uint8_t> early; // by dependency: a programmatic edge, and the device knows such
  std::vector<uint32_t> start_after; // what must have ended before the node may begin
  bool enabled = true;
};

class NodeOrder;

struct ExecGraph {
  std::vector<ExecNode> nodes; // in the order of the graph's
  std::unordered_map<uint64_t, uint32_t> by_source;
  std::shared_ptr<const NodeOrder> order; // for the check of it; nullptr when not wanted
  UserReferences
      user_objects; // of this level alone; launches have none, the instance outlives them
};

struct GraphExec {
  CUgraphExec handle = nullptr;
  uint64_t id = 0, flags = 0, graph_id = 0, launches = 0;
  ExecGraph body;
  std::shared_ptr<Context> context;
  TaskPtr last_launch; // the end of the newest launch
};

// --- Building (graph.cpp). All need the lock; nothing changes on error.

std::shared_ptr<Graph> make_graph(Driver &driver);
/// Nodes, edges and what embedded graphs hold die with it. Throws as release_user_objects does.
void destroy_graph(Driver &driver, const std::shared_ptr<Graph> &graph);
/// Adds a node that depends on `dependencies`, which must be distinct nodes of the graph.
CUresult add_node(Driver &driver, Graph &graph, const CUgraphNode *dependencies,
                  const CUgraphEdgeData *edge_data, size_t count, Work work, CUgraphNode *out);
/// Replaces the node's parameters by others of the same type; returned ones stay.
void replace_work(GraphNode &node, Work work);
/// An edge that exists, and data that its nodes cannot have, are INVALID_VALUE. Cycles show when
/// the graph is instantiated.
CUresult check_edge(const Driver &driver, const GraphNode &from, const GraphNode &to,
                    const CUgraphEdgeData &data);
bool is_default(const CUgraphEdgeData &data);
bool same_edge(const CUgraphEdgeData &a, const CUgraphEdgeData &b);
void add_edge(GraphNode &from, GraphNode &to, const CUgraphEdgeData &data);
void destroy_node(Driver &driver, const std::shared_ptr<GraphNode> &node);
/// Destroys objects in a node that was not added.
void drop_embedded(Driver &driver, const Work &work);
/// Returns the answer of `take`, which takes the work over on success; else drops the work.
template <class Take> CUresult hand_over(Driver &driver, const Work &work, Take &&take) {
  try {
    CUresult result = take();
    if (result != CUDA_SUCCESS)
      drop_embedded(driver, work);
    return result;
  } catch (...) {
    drop_embedded(driver, work);
    throw;
  }
}
/// A deep copy, of a graph without conditional nodes. It remembers what its nodes are copies of,
/// for cuGraphNodeFindInClone.
std::shared_ptr<Graph> clone_graph(Driver &driver, const Graph &graph);

// --- Instances (exec.cpp).

struct InstantiateError {
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  CUgraphNode node = nullptr;
};
CUresult instantiate(Driver &driver, const Graph &graph, uint64_t flags, GraphExec &exec,
                     InstantiateError *error);
/// Submits one task for each node between two markers to the stream. Launches of one instance run
/// one after the other, whatever streams they are in.
CUresult launch_exec(Driver &driver, const std::shared_ptr<GraphExec> &exec,
                     const std::shared_ptr<Stream> &stream);
/// The instance's node that was made from `node`, which may stand in the body of a conditional
/// node; nullptr when there is none.
ExecNode *find_exec_node(GraphExec &exec, const GraphNode &node);

/// Drops references, which the launch that ends with `after` holds until then; it may be nullptr.
/// Destructors of objects that nobody refers to any more are called on the host thread. Throws as
/// Scheduler::submit does; then no reference has been dropped.
void release_user_objects(Driver &driver, UserReferences &references, const TaskPtr &after);
/// References of the graph and of the graphs in its nodes.
void gather_references(const Graph &graph, UserReferences &out);
void gather_references(const ExecGraph &graph, UserReferences &out);
void count_references(const UserReferences &references);

// Checks changes of an instance (update.cpp).

/// Whether the parameters of one node may be replaced by others, by the rules that setters and
/// whole updates share.
CUgraphExecUpdateResult check_change(Driver &driver, const GraphExec &exec, const Work &from,
                                     const Work &to);
/// Updates `exec`, which is `whole`'s body or that of one of its child graph nodes: all or nothing.
CUresult update_graph(Driver &driver, const GraphExec &whole, ExecGraph &exec, const Graph &graph,
                      CUgraphExecUpdateResultInfo *info);

} // namespace cugrt::emulator::api
