// Graphs: creation, edges, enumeration, clones, user objects.
#include "base/on_throw.h"
#include "emulator/graph/graph_call.h"

#include <algorithm>
#include <climits>

namespace cugrt::emulator::api {

namespace {

// Fills caller arrays the way all list queries work: with no array only the count is returned; with
// one, up to *count entries, the rest set to NULL, and *count set to how many there are of them.
template <class Fill> CUresult give_list(bool wanted, size_t have, size_t *count, Fill &&fill) {
  if (!count)
    return CUDA_ERROR_INVALID_VALUE;
  if (wanted) {
    size_t room = *count;
    for (size_t i = 0; i < room; ++i)
      fill(i, i < have);
    *count = std::min(room, have);
  } else {
    *count = have;
  }
  return CUDA_SUCCESS;
}

CUresult give_nodes(const std::vector<CUgraphNode> &nodes, CUgraphNode *out, size_t *count) {
  return give_list(out != nullptr, nodes.size(), count,
                   [&](size_t i, bool real) { out[i] = real ? nodes[i] : nullptr; });
}

bool all_default(const std::vector<GraphEdge> &edges) {
  return std::all_of(edges.begin(), edges.end(),
                     [](const GraphEdge &edge) { return is_default(edge.data); });
}

CUresult give_edges(const std::vector<GraphEdge> &edges, CUgraphNode *out, CUgraphEdgeData *data,
                    size_t *count) {
  if (data && !out) // "If edgeData is non-NULL then dependencies must be as well."
    return CUDA_ERROR_INVALID_VALUE;
  // "if an edge has non-zero (non-default) edge data and edgeData is NULL, this API will return
  // CUDA_ERROR_LOSSY_QUERY."
  if (out && !data && !all_default(edges))
    return CUDA_ERROR_LOSSY_QUERY;
  return give_list(out != nullptr, edges.size(), count, [&](size_t i, bool real) {
    out[i] = real ? edges[i].node->handle : nullptr;
    if (data)
      data[i] = real ? edges[i].data : CUgraphEdgeData{};
  });
}

struct EdgeList {
  std::vector<std::pair<Ref<GraphNode>, Ref<GraphNode>>> edges;

  CUresult read(Driver &driver, Graph &graph, const CUgraphNode *from, const CUgraphNode *to,
                size_t count) {
    if (count && (!from || !to))
      return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      Ref<GraphNode> a = driver.nodes.find(from[i]), b = driver.nodes.find(to[i]);
      if (!a || !b || a->graph != &graph || b->graph != &graph)
        return CUDA_ERROR_INVALID_VALUE;
      edges.emplace_back(std::move(a), std::move(b));
    }
    return CUDA_SUCCESS;
  }
};

void erase_edge(std::vector<GraphEdge> &edges, const GraphNode *node) {
  std::erase_if(edges, [&](const GraphEdge &edge) { return edge.node == node; });
}

} // namespace

LOCKED_CALL(cuGraphCreate, out, flags) {
  if (!out || flags) // "flags - Graph creation flags, must be 0"
    return CUDA_ERROR_INVALID_VALUE;
  *out = make_graph(driver)->handle;
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuGraphDestroy, handle) {
  Ref<Graph> graph = driver.graphs.find(handle);
  if (!graph || graph->embedded) // an embedded graph is its node's
    return CUDA_ERROR_INVALID_VALUE;
  for (const Ref<Stream> &stream : driver.streams.all())
    if (stream->capture && stream->capture->graph == graph)
      return CUDA_ERROR_INVALID_VALUE;
  destroy_graph(driver, graph);
  return CUDA_SUCCESS;
}

GRAPH_CALL(cuGraphClone, out, handle) {
  // "Cloning is not supported for graphs which contain [...] conditional nodes."
  if (has_conditional(graph))
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  *out = clone_graph(driver, graph)->handle;
  return CUDA_SUCCESS;
}

GRAPH_CALL(cuGraphNodeFindInClone, out, original, handle) {
  Ref<GraphNode> node = driver.nodes.find(original);
  if (!out || !node || graph.clone_of != node->graph->id)
    return CUDA_ERROR_INVALID_VALUE;
  for (const auto &candidate : graph.nodes)
    if (candidate->clone_of == node->id) {
      *out = candidate->handle;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

GRAPH_CALL(cuGraphGetNodes, handle, nodes, count) {
  std::vector<CUgraphNode> all;
  for (const auto &node : graph.nodes)
    all.push_back(node->handle);
  return give_nodes(all, nodes, count);
}

GRAPH_CALL(cuGraphGetRootNodes, handle, nodes, count) {
  std::vector<CUgraphNode> roots;
  for (const auto &node : graph.nodes)
    if (node->dependencies.empty())
      roots.push_back(node->handle);
  return give_nodes(roots, nodes, count);
}

GRAPH_CALL(cuGraphGetEdges_v2, handle, from, to, data, count) {
  if (!from != !to || (data && !from))
    return CUDA_ERROR_INVALID_VALUE;
  struct Row {
    CUgraphNode from, to;
    CUgraphEdgeData data;
  };
  std::vector<Row> rows;
  // "Attempting a lossy query via NULL edgeData will result in CUDA_ERROR_LOSSY_QUERY."
  if (from && !data)
    for (const auto &node : graph.nodes)
      if (!all_default(node->dependents))
        return CUDA_ERROR_LOSSY_QUERY;
  for (const auto &node : graph.nodes)
    for (const GraphEdge &edge : node->dependents)
      rows.push_back({node->handle, edge.node->handle, edge.data});
  return give_list(from != nullptr, rows.size(), count, [&](size_t i, bool real) {
    from[i] = real ? rows[i].from : nullptr;
    to[i] = real ? rows[i].to : nullptr;
    if (data)
      data[i] = real ? rows[i].data : CUgraphEdgeData{};
  });
}

NODE_CALL(cuGraphNodeGetDependencies_v2, handle, nodes, data, count) {
  return give_edges(node.dependencies, nodes, data, count);
}

NODE_CALL(cuGraphNodeGetDependentNodes_v2, handle, nodes, data, count) {
  return give_edges(node.dependents, nodes, data, count);
}

GRAPH_CALL(cuGraphAddDependencies_v2, handle, from, to, data, count) {
  EdgeList list;
  CUGRT_EMU_TRY(list.read(driver, graph, from, to, count));
  // All or nothing: an edge that fails, or is listed twice, takes back the earlier ones.
  size_t added = 0;
  auto take_back = [&] {
    while (added--) {
      list.edges[added].first->dependents.pop_back();
      list.edges[added].second->dependencies.pop_back();
    }
  };
  const OnThrow undo([&] { take_back(); });
  for (; added < count; ++added) {
    auto &[a, b] = list.edges[added];
    CUgraphEdgeData edge =
        data ? data[driver.config.first_edge_data ? 0 : added] : CUgraphEdgeData{};
    CUresult result = check_edge(driver, *a, *b, edge);
    if (result != CUDA_SUCCESS) {
      take_back();
      return result;
    }
    add_edge(*a, *b, edge);
  }
  return CUDA_SUCCESS;
}

GRAPH_CALL(cuGraphRemoveDependencies_v2, handle, from, to, data, count) {
  EdgeList list;
  CUGRT_EMU_TRY(list.read(driver, graph, from, to, count));
  // "Specifying an edge that does not exist in the graph, with data matching edgeData, results in
  // an error."
  for (size_t i = 0; i < list.edges.size(); ++i) {
    const auto &ahead = list.edges[i].first->dependents;
    const GraphNode *node = list.edges[i].second.get();
    CUgraphEdgeData wanted = data ? data[i] : CUgraphEdgeData{};
    if (std::none_of(ahead.begin(), ahead.end(), [&](const GraphEdge &e) {
          return e.node == node && same_edge(e.data, wanted);
        }))
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto &[a, b] : list.edges) {
    erase_edge(a->dependents, b.get());
    erase_edge(b->dependencies, a.get());
  }
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuGraphDestroyNode, handle) {
  CUGRT_EMU_NEED(GraphNode, node, driver.nodes.find(handle), CUDA_ERROR_INVALID_VALUE);
  destroy_node(driver, node);
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuUserObjectCreate, out, pointer, destroy, references, flags) {
  // "Currently it is required to pass CU_USER_OBJECT_NO_DESTRUCTOR_SYNC".
  if (!out || !destroy || !references || references > INT_MAX ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<UserObject>();
  object->pointer = pointer;
  object->destroy = destroy;
  object->references = object->of_program = references;
  *out = driver.user_objects.insert(object);
  return CUDA_SUCCESS;
}

template <class Body>
static CUresult user_object_call(CUuserObject handle, unsigned count, Body &&body) {
  return locked_call([&](Driver &driver) -> CUresult {
    Ref<UserObject> object = driver.user_objects.find(handle);
    if (!object || !count || count > INT_MAX) // "Must be nonzero and not larger than INT_MAX."
      return CUDA_ERROR_INVALID_VALUE;
    return body(driver, object);
  });
}
#define USER_OBJECT_CALL(...)                                                                      \
  GUARDED(user_object_call(handle, count, body), (Driver & driver, const Ref<UserObject> &object), \
          __VA_ARGS__)

USER_OBJECT_CALL(cuUserObjectRetain, handle, count) {
  object->references += count;
  object->of_program += count;
  return CUDA_SUCCESS;
}

USER_OBJECT_CALL(cuUserObjectRelease, handle, count) {
  if (count > object->of_program)
    return CUDA_ERROR_INVALID_VALUE;
  UserReferences references{{object, count}};
  release_user_objects(driver, references, nullptr);
  object->of_program -= count;
  return CUDA_SUCCESS;
}

USER_OBJECT_CALL(cuGraphRetainUserObject, graph_handle, handle, count, flags) {
  Ref<Graph> graph = driver.graphs.find(graph_handle);
  bool move = flags & CU_GRAPH_USER_OBJECT_MOVE;
  if (!graph || (flags & ~unsigned(CU_GRAPH_USER_OBJECT_MOVE)) ||
      (move && count > object->of_program))
    return CUDA_ERROR_INVALID_VALUE;
  graph->user_objects[object] += count;
  (move ? object->of_program -= count : object->references += count);
  return CUDA_SUCCESS;
}

USER_OBJECT_CALL(cuGraphReleaseUserObject, graph_handle, handle, count) {
  Ref<Graph> graph = driver.graphs.find(graph_handle);
  if (!graph)
    return CUDA_ERROR_INVALID_VALUE;
  auto held = graph->user_objects.find(object);
  if (held == graph->user_objects.end() || held->second < count)
    return CUDA_ERROR_INVALID_VALUE;
  UserReferences references{{object, count}};
  release_user_objects(driver, references, nullptr);
  if (!(held->second -= count))
    graph->user_objects.erase(held);
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
